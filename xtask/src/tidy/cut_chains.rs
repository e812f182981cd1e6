//! Rule that a chain of methods is one expression, and not cut into lets that hide each other.
//!
//! `let found = a.find(b); let found = found.map(c);` has two values of one name, of which only the second one counts.
//! A chain is written as a chain; where the first value is borrowed from, it has a name of its own.
//!
//! What is no chain may take its name again: a `match` or an `if` whose answer is gone on with, a function that
//! converts (`let file = File::from(file)`), a handle that a closure takes (`let agent = Arc::clone(&agent)`), and
//! anything with other statements in between. So may what locks, since a chain would hold the lock to its end, and
//! what has its type written, which a chain might not have.

use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Violation;
use crate::tree::Tree;

const RULE: &str = "cut-chain";
/// Words in front of what is no chain.
const KEYWORDS: &[&str] = &[
    "as", "async", "for", "if", "let", "loop", "match", "move", "return", "unsafe", "while",
];
/// Methods whose answer lets others wait until it is dropped.
const GUARDS: &[&str] = &["borrow", "borrow_mut", "lock", "read", "write"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust_files() {
        // What is not Rust is told by the rules that count its lines.
        let Ok(stream) = TokenStream::from_str(&file.text) else {
            continue;
        };
        let mut found = Vec::new();
        search(stream, &mut found);
        violations.extend(found.into_iter().map(|cut| {
            let message = format!(
                "`{0}` hides `{0}`, of which it is the next stage: write one chain, or name the first",
                cut.name
            );
            Violation::new(RULE, format!("{}:{}", file.path, cut.line), message)
        }));
    }
    violations
}

/// A let that only goes on with the one before it.
struct Cut {
    line: usize,
    name: String,
}

/// One `let name = value;`.
struct Let<'a> {
    line: usize,
    name: String,
    has_type: bool,
    /// True if no block stands in front of it that needs no semicolon.
    is_next: bool,
    value: &'a [TokenTree],
}

/// Looks for cuts in every block.
fn search(stream: TokenStream, found: &mut Vec<Cut>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut before: Option<Let<'_>> = None;
    for statement in trees.split_inclusive(|tree| is_punct(Some(tree), ';')) {
        let read = read_let(statement);
        if let (Some(first), Some(second)) = (&before, &read)
            && goes_on(first, second)
        {
            found.push(Cut {
                line: second.line,
                name: second.name.clone(),
            });
        }
        before = read;
    }
    for tree in trees {
        if let TokenTree::Group(group) = tree {
            search(group.stream(), found);
        }
    }
}

fn read_let(statement: &[TokenTree]) -> Option<Let<'_>> {
    let (TokenTree::Punct(_), statement) = statement.split_last()? else {
        return None;
    };
    // An item or a block in front of a statement ends without a semicolon.
    let start = statement.iter().rposition(|tree| is_word(tree, "let"))?;
    let is_statement = match statement[..start].last() {
        None => true,
        Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
        Some(_) => false,
    };
    let binding = &statement[start + 1..];
    let binding = match binding {
        [first, rest @ ..] if is_word(first, "mut") => rest,
        binding => binding,
    };
    let [TokenTree::Ident(name), next, ..] = binding else {
        return None;
    };
    let has_type = is_punct(Some(next), ':');
    let equals = (binding.iter()).position(|tree| is_punct(Some(tree), '='))?;
    let is_plain = has_type || equals == 1;
    (is_statement && is_plain).then(|| Let {
        line: name.span().start().line,
        name: name.to_string(),
        has_type,
        is_next: start == 0,
        value: &binding[equals + 1..],
    })
}

/// Returns true if both lets could be one.
fn goes_on(first: &Let<'_>, second: &Let<'_>) -> bool {
    let [TokenTree::Ident(head), rest @ ..] = second.value else {
        return false;
    };
    *head == first.name
        && first.name == second.name
        && second.is_next
        && !first.has_type
        && (is_punct(rest.first(), '.') || is_punct(rest.first(), '?'))
        && is_chain(first.value)
        && is_chain(rest)
        && !names(rest, &first.name)
}

/// Returns true for a path or a call with methods behind it, none of which is a guard.
fn is_chain(value: &[TokenTree]) -> bool {
    value.iter().enumerate().all(|(at, tree)| match tree {
        TokenTree::Ident(word) if at > 0 && is_punct(value.get(at - 1), '.') => {
            !is_one_of(word, GUARDS)
        }
        TokenTree::Ident(word) => !is_one_of(word, KEYWORDS),
        // The body of a `match`, or the fields of a struct.
        TokenTree::Group(group) => group.delimiter() != Delimiter::Brace,
        TokenTree::Literal(_) => at == 0 || is_punct(value.get(at - 1), '.'),
        TokenTree::Punct(punct) => match punct.as_char() {
            '.' | '?' | ':' | '>' | ',' => true,
            '!' => at > 0,
            '<' => at == 0 || is_punct(value.get(at - 1), ':') || is_in_turbofish(&value[..at]),
            _ => false,
        },
    })
}

/// Returns true if a `::<` is open at the end.
fn is_in_turbofish(before: &[TokenTree]) -> bool {
    let count = |sign| {
        before
            .iter()
            .filter(|tree| is_punct(Some(tree), sign))
            .count()
    };
    count('<') > count('>')
}

/// Returns true if `name` stands for a value in `trees` that is not the parameter of a closure.
fn names(trees: &[TokenTree], name: &str) -> bool {
    let is_name = |tree: &TokenTree| is_word(tree, name);
    let mut bars = (0..trees.len()).filter(|at| is_punct(trees.get(*at), '|'));
    let of_closure = match (bars.next(), bars.next()) {
        (Some(open), Some(close)) if trees[open..close].iter().any(is_name) => open,
        _ => trees.len(),
    };
    trees[..of_closure]
        .iter()
        .enumerate()
        .any(|(at, tree)| match tree {
            TokenTree::Group(group) => names(&group.stream().into_iter().collect::<Vec<_>>(), name),
            TokenTree::Ident(_) => is_name(tree) && !(at > 0 && is_punct(trees.get(at - 1), '.')),
            TokenTree::Literal(text) => text.to_string().contains(&format!("{{{name}")),
            TokenTree::Punct(_) => false,
        })
}

fn is_one_of(word: &proc_macro2::Ident, list: &[&str]) -> bool {
    list.iter().any(|listed| *word == *listed)
}

fn is_word(tree: &TokenTree, word: &str) -> bool {
    matches!(tree, TokenTree::Ident(found) if *found == word)
}

fn is_punct(tree: Option<&TokenTree>, sign: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_lines(body: &str, expected: &[usize]) {
        let source = format!("fn f() {{\n{body}\n}}\n");
        let places = expected.iter().map(|line| format!("a.rs:{}", line + 1));
        let found: Vec<_> = check(&Tree::of(&[("a.rs", &source)]))
            .into_iter()
            .map(|violation| violation.place)
            .collect();
        assert_eq!(found, places.collect::<Vec<_>>(), "{body}");
    }

    #[test]
    fn a_let_that_goes_on_with_the_one_before_it_cuts_a_chain() {
        let first = "let names = text.lines();\n";
        check_lines(&format!("{first}let names = names.map(str::trim);"), &[2]);
        check_lines(
            &format!("{first}let names: Vec<_> = names.collect();"),
            &[2],
        );
        check_lines(
            "let a = ask(1);\nlet a = a?;\nlet mut a = a.await.unwrap();",
            &[2, 3],
        );
        check_lines(
            "let tag = tags.next();\nlet tag = tag.map(|tag| tag.trim());",
            &[2],
        );
        check_lines("loop {}\nlet a = ask::<u8>(1);\nlet a = a.max(2);", &[3]);
    }

    #[test]
    fn what_is_needed_twice_or_is_no_chain_may_take_its_name_again() {
        let first = "let a = ask();\n";
        check_lines(&format!("{first}let a = File::from(a);"), &[]);
        check_lines(&format!("{first}let a = a.max(a.len());"), &[]);
        check_lines(
            &format!("{first}let a = a.map_or_else(|| format!(\"{{a}}\"), id);"),
            &[],
        );
        check_lines(&format!("{first}let a = a.is_done() && b;"), &[]);
        check_lines(&format!("{first}let b = a.max(1);"), &[]);
        check_lines("let a = match b { c => d };\nlet a = a.max(1);", &[]);
        check_lines("let a = b + c;\nlet a = a.max(1);", &[]);
        check_lines("let a: u8 = b.into();\nlet a = a.max(1);", &[]);
    }

    #[test]
    fn a_lock_is_not_held_for_a_chain() {
        check_lines("let a = b.lock().pop();\nlet a = a.map(work);", &[]);
    }

    #[test]
    fn other_statements_and_blocks_stand_in_between() {
        check_lines("let a = ask();\nwork();\nlet a = a.max(1);", &[]);
        check_lines("let a = ask();\nif b { work() }\nlet a = a.max(1);", &[]);
        check_lines("let a = ask();\nwork(move || { let a = a.clone(); });", &[]);
    }
}
