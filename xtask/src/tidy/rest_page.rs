//! The REST page lists every route and every error code, and no other.

use std::collections::BTreeSet;

use super::Violation;
use super::page_rows::Listing;
use super::rust_tokens::{Kind, Token, tokens};
use crate::tree::Tree;

const RULE: &str = "rest-page";
const EDGE: &str = "crates/skep-api/src/";
const ROUTER: &str = "crates/skep-api/src/router.rs";
const PAGE: &str = "docs/reference/rest.md";

/// Functions of the error type that take a code as a literal.
const ERROR_MAKERS: &[&str] = &["new", "bad_request", "not_found", "unavailable"];
/// Names of the error type at the calls of its constructors.
const ERROR_TYPE: &[&str] = &["ApiError", "Self"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(router) = tree.find(ROUTER) else {
        return Vec::new();
    };
    let mut promised = routes(&router.text);
    promised.extend(promised_codes(tree));
    let listing = Listing {
        rule: RULE,
        page: PAGE,
        kind: "route or code",
        headings: &["error_code"],
    };
    listing.compare(tree, &promised)
}

/// The codes of all errors that callers can get.
pub(super) fn promised_codes(tree: &Tree) -> BTreeSet<String> {
    let edge = tree.rust_files().filter(|file| file.path.starts_with(EDGE));
    edge.flat_map(|file| error_codes(&file.text)).collect()
}

fn routes(source: &str) -> BTreeSet<String> {
    let tokens = tokens(source).unwrap_or_default();
    let calls = (0..tokens.len()).filter(|index| is_word(&tokens, *index, &["route"]));
    let texts = calls.filter_map(|index| first_text(&tokens[index + 1..]));
    texts.filter(|text| text.starts_with('/')).collect()
}

fn error_codes(source: &str) -> BTreeSet<String> {
    // What is below is tests, which say what they expect and promise nothing.
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let tokens = tokens(code).unwrap_or_default();
    // `ApiError::new(`: the two halves of `::` are tokens of their own.
    let calls = (3..tokens.len()).filter(|index| {
        is_word(&tokens, *index, ERROR_MAKERS) && is_word(&tokens, *index - 3, ERROR_TYPE)
    });
    let texts = calls.filter_map(|index| first_text(&tokens[index + 1..]));
    let is_code = |text: &String| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    texts.filter(is_code).collect()
}

fn is_word(tokens: &[Token], index: usize, words: &[&str]) -> bool {
    matches!(&tokens[index].kind, Kind::Word(word) if words.contains(&word.as_str()))
}

/// The first text among arguments that begin here. It is at most a path and a comma away, as in
/// `new(StatusCode::FORBIDDEN, "code", …)`.
fn first_text(tokens: &[Token]) -> Option<String> {
    tokens.iter().take(8).find_map(|token| match &token.kind {
        Kind::Literal(text) => Some(text.trim_matches('"').to_owned()),
        Kind::Word(_) | Kind::Other => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        fn routes() { Router::new().route("/a/{id}", get(a)) }
        fn fail() { Self::new(StatusCode::NOT_FOUND, "a_missing", format!("no a")) }
        #[cfg(test)]
        fn test() { Self::bad_request("only_in_tests", "") }
    "#;
    const ROWS: &str = "| `error_code` | |\n| `/a/{id}` | x |\n| `a_missing` | 404 |\n";

    fn messages(page: &str) -> Vec<String> {
        let violations = check(&Tree::of(&[(ROUTER, SOURCE), (PAGE, page)]));
        violations
            .into_iter()
            .map(|violation| violation.message)
            .collect()
    }

    #[test]
    fn a_page_with_every_route_and_code_passes() {
        assert_eq!(messages(ROWS), [""; 0]);
    }

    #[test]
    fn what_is_missing_and_what_is_gone_is_named() {
        assert_eq!(
            messages(&ROWS.replace("a_missing", "a_gone")),
            [
                "has no row for `a_missing`",
                "has a row for `a_gone`, which is no route or code"
            ]
        );
        assert_eq!(messages(&ROWS.replace("/a/{id}", "/b")).len(), 2);
    }
}
