//! Names used in a source file, by full names as far as its imports tell them.

use std::collections::HashMap;
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Something that is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Use {
    /// The line, from 1.
    pub(super) line: usize,
    /// `std::fs::read`, or the bare name of a method.
    pub(super) name: String,
    /// True if it is called on a value, behind a dot.
    pub(super) is_method: bool,
}

/// Everything that `source` names outside of its tests.
///
/// # Errors
///
/// Where and why the text is not Rust.
pub(super) fn uses(source: &str) -> Result<Vec<Use>, String> {
    let stream = TokenStream::from_str(source)
        .map_err(|error| format!("line {}: {error}", error.span().start().line))?;
    let mut reader = Reader::default();
    reader.read(stream);
    let imports: HashMap<&str, &str> = reader
        .imports
        .iter()
        .map(|import| (import.known_as.as_str(), import.found.name.as_str()))
        .collect();
    let expanded = reader.named.iter().map(|found| Use {
        name: expand(&found.name, &imports),
        ..found.clone()
    });
    let imported = reader.imports.iter().map(|import| import.found.clone());
    let mut all: Vec<Use> = imported.chain(expanded).collect();
    all.sort_by_key(|found| found.line);
    // An import that is used is one thing, told once; what is below it is another.
    let imported: Vec<String> = reader
        .imports
        .iter()
        .map(|import| import.found.name.clone())
        .collect();
    let mut seen = Vec::new();
    all.retain(|found| {
        let is_repeated = imported.contains(&found.name) && seen.contains(&found.name);
        seen.push(found.name.clone());
        !is_repeated
    });
    Ok(all)
}

/// Puts what an import stands for in front of a name.
fn expand(name: &str, imports: &HashMap<&str, &str>) -> String {
    let (first, rest) = name.split_once("::").unwrap_or((name, ""));
    match imports.get(first) {
        Some(full) if rest.is_empty() => (*full).to_owned(),
        Some(full) => format!("{full}::{rest}"),
        None => name.to_owned(),
    }
}

struct Import {
    known_as: String,
    found: Use,
}

#[derive(Default)]
struct Reader {
    imports: Vec<Import>,
    named: Vec<Use>,
}

impl Reader {
    fn read(&mut self, stream: TokenStream) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut rest = trees.as_slice();
        while let Some((tree, tail)) = rest.split_first() {
            if let Some(after) = skip_test(rest) {
                rest = after;
                continue;
            }
            rest = match tree {
                TokenTree::Ident(word) if word == "use" => {
                    let end = tail.iter().position(|tree| is_punct(tree, ';'));
                    let (import, after) = tail.split_at(end.unwrap_or(tail.len()));
                    self.import(import, "");
                    after
                }
                TokenTree::Ident(_) => self.name(rest, false),
                TokenTree::Punct(dot) if dot.as_char() == '.' => match tail.first() {
                    Some(TokenTree::Ident(_)) => self.name(tail, true),
                    _ => tail,
                },
                TokenTree::Group(group) => {
                    self.read(group.stream());
                    tail
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => tail,
            };
        }
    }

    /// Reads `a::b::c` at the beginning of `trees`; answers what is behind it.
    fn name<'a>(&mut self, trees: &'a [TokenTree], is_method: bool) -> &'a [TokenTree] {
        let (name, line, rest) = path(trees);
        self.named.push(Use {
            line,
            name,
            is_method,
        });
        rest
    }

    /// Reads the tree of an import, which may branch.
    fn import(&mut self, trees: &[TokenTree], prefix: &str) {
        let trees = match trees {
            [first, second, rest @ ..] if is_punct(first, ':') && is_punct(second, ':') => rest,
            trees => trees,
        };
        let join = |name: &str| match prefix {
            "" => name.to_owned(),
            prefix => format!("{prefix}::{name}"),
        };
        match trees.first() {
            Some(TokenTree::Ident(_)) => {
                let (name, line, rest) = path(trees);
                let full = match name
                    .strip_suffix("self")
                    .map(|head| head.trim_end_matches(':'))
                {
                    Some("") => prefix.to_owned(),
                    Some(head) => join(head),
                    None => join(&name),
                };
                match rest {
                    [TokenTree::Group(branches)] => self.branches(branches, &full),
                    [TokenTree::Punct(star)] if star.as_char() == '*' => {
                        self.imported(format!("{full}::*"), "*".to_owned(), line);
                    }
                    [TokenTree::Ident(_), TokenTree::Ident(known_as)] => {
                        self.imported(full, known_as.to_string(), line);
                    }
                    _ => {
                        let known_as = full.rsplit("::").next().unwrap_or(&full).to_owned();
                        self.imported(full, known_as, line);
                    }
                }
            }
            Some(TokenTree::Group(branches)) => self.branches(branches, prefix),
            Some(TokenTree::Punct(star)) if star.as_char() == '*' => {
                let line = star.span().start().line;
                self.imported(join("*"), "*".to_owned(), line);
            }
            Some(TokenTree::Punct(_) | TokenTree::Literal(_)) | None => {}
        }
    }

    fn branches(&mut self, branches: &Group, prefix: &str) {
        let trees: Vec<TokenTree> = branches.stream().into_iter().collect();
        for branch in trees.split(|tree| is_punct(tree, ',')) {
            self.import(branch, prefix);
        }
    }

    fn imported(&mut self, name: String, known_as: String, line: usize) {
        self.imports.push(Import {
            known_as,
            found: Use {
                line,
                name,
                is_method: false,
            },
        });
    }
}

/// `a::b::c` at the beginning of `trees`: its text, its line, and what is behind it.
fn path(trees: &[TokenTree]) -> (String, usize, &[TokenTree]) {
    let mut name = String::new();
    let mut line = 0;
    let mut rest = trees;
    while let [TokenTree::Ident(word), tail @ ..] = rest {
        if line == 0 {
            line = word.span().start().line;
        } else {
            name.push_str("::");
        }
        name.push_str(&word.to_string());
        rest = match tail {
            [first, second, after @ ..] if is_punct(first, ':') && is_punct(second, ':') => after,
            _ => return (name, line, tail),
        };
    }
    (name, line, rest)
}

fn is_punct(tree: &TokenTree, wanted: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

/// Tokens behind `#[cfg(test)] mod name { … }` or `#[cfg(test)] mod name;`, if that is next.
fn skip_test(trees: &[TokenTree]) -> Option<&[TokenTree]> {
    let [
        hash,
        TokenTree::Group(attribute),
        TokenTree::Ident(word),
        _name,
        rest @ ..,
    ] = trees
    else {
        return None;
    };
    let is_test = is_punct(hash, '#')
        && attribute.delimiter() == Delimiter::Bracket
        && attribute.stream().to_string().replace(' ', "") == "cfg(test)"
        && word == "mod";
    is_test.then(|| rest.get(1..)).flatten()
}
