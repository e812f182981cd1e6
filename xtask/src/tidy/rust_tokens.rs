//! Rust source as tokens: what is left when comments and layout are taken away.

use std::collections::BTreeSet;
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One token of a file, out of its brackets.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    /// The line it starts on, from 1.
    pub(crate) line: usize,
    /// The line it ends on.
    pub(crate) last_line: usize,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier or a keyword.
    Word(String),
    /// A literal as written, quotes included.
    Literal(String),
    /// Punctuation and brackets.
    Other,
}

/// The tokens of `source` in their order. Comments are gone; so are doc comments, which the
/// compiler turns into attributes.
///
/// # Errors
///
/// Where and why the text is not Rust.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token>, String> {
    // The lexer has no notion of the first line of a script.
    let stream = TokenStream::from_str(source)
        .map_err(|error| format!("line {}: {error}", error.span().start().line))?;
    let mut found = Vec::new();
    collect(stream, &mut found);
    Ok(found)
}

/// The lines of `source` that hold code.
pub(crate) fn code_lines(source: &str) -> Result<usize, String> {
    let lines: BTreeSet<usize> = tokens(source)?
        .iter()
        .flat_map(|token| token.line..=token.last_line)
        .collect();
    Ok(lines.len())
}

/// The words of `source` that can name a crate: those before `::`, and those right after `use`.
pub(crate) fn path_heads(source: &str) -> BTreeSet<String> {
    let mut heads = BTreeSet::new();
    if let Ok(stream) = TokenStream::from_str(source) {
        collect_path_heads(stream, &mut heads);
    }
    heads
}

fn collect_path_heads(stream: TokenStream, heads: &mut BTreeSet<String>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let is_colon = |at: usize| matches!(trees.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    let is_use = |at: Option<usize>| {
        let before = at.and_then(|at| trees.get(at));
        matches!(before, Some(TokenTree::Ident(word)) if *word == "use")
    };
    for (at, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Ident(word) => {
                if (is_colon(at + 1) && is_colon(at + 2)) || is_use(at.checked_sub(1)) {
                    heads.insert(word.to_string());
                }
            }
            TokenTree::Group(group) => collect_path_heads(group.stream(), heads),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn collect(stream: TokenStream, found: &mut Vec<Token>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut rest = trees.as_slice();
    while let Some((tree, tail)) = rest.split_first() {
        if let Some(after) = skip_doc_comment(rest) {
            rest = after;
            continue;
        }
        collect_tree(tree, found);
        rest = tail;
    }
}

/// `/// text` arrives as `#[doc = "text"]`, and `//! text` with a `!` behind the `#`. All three
/// parts span the comment. An attribute somebody wrote spans its own words and stays.
fn skip_doc_comment(trees: &[TokenTree]) -> Option<&[TokenTree]> {
    let TokenTree::Punct(hash) = trees.first()? else {
        return None;
    };
    let bang = matches!(trees.get(1)?, TokenTree::Punct(punct) if punct.as_char() == '!');
    let TokenTree::Group(group) = trees.get(1 + usize::from(bang))? else {
        return None;
    };
    let is_comment = hash.as_char() == '#'
        && group.delimiter() == Delimiter::Bracket
        && hash.span().end() == group.span().end()
        && hash.span().start() == group.span().start();
    is_comment.then(|| &trees[2 + usize::from(bang)..])
}

fn collect_tree(tree: &TokenTree, found: &mut Vec<Token>) {
    let span = tree.span();
    let mut push = |line, last_line, kind| {
        found.push(Token {
            line,
            last_line,
            kind,
        });
    };
    match tree {
        TokenTree::Group(group) => {
            let (open, close) = (group.span_open(), group.span_close());
            push(open.start().line, open.end().line, Kind::Other);
            collect(group.stream(), found);
            found.push(Token {
                line: close.start().line,
                last_line: close.end().line,
                kind: Kind::Other,
            });
        }
        TokenTree::Ident(ident) => push(
            span.start().line,
            span.end().line,
            Kind::Word(ident.to_string()),
        ),
        TokenTree::Literal(literal) => push(
            span.start().line,
            span.end().line,
            Kind::Literal(literal.to_string()),
        ),
        TokenTree::Punct(_) => push(span.start().line, span.end().line, Kind::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_doc_comments_are_no_code() {
        let source =
            "//! Module.\n\n/// Doc.\n// note\nfn main() {\n    /* a\n b */\n    run();\n}\n";
        assert_eq!(code_lines(source), Ok(3));
    }

    #[test]
    fn a_text_over_several_lines_counts_them_all() {
        assert_eq!(code_lines("const A: &str = \"one\ntwo\nthree\";\n"), Ok(3));
    }

    #[test]
    fn a_written_attribute_is_code() {
        assert_eq!(code_lines("#[doc = \"x\"]\n#[inline]\nfn f() {}\n"), Ok(3));
    }

    #[test]
    fn only_the_heads_of_paths_and_imports_can_be_crates() {
        let source = "use hex; fn f() { let bytes = http::Uri::new(); bytes.len(); log::info!(\"a::b\") } // toml::x";
        let heads: Vec<_> = path_heads(source).into_iter().collect();
        assert_eq!(heads, ["Uri", "hex", "http", "log"]);
    }

    #[test]
    fn what_is_not_rust_is_named_with_its_line() {
        let error = tokens("fn f() {}\n}\n").unwrap_err();
        assert!(error.starts_with("line 2:"), "{error}");
    }
}
