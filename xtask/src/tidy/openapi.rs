//! The OpenAPI file has every route with its methods and every error code, and no other.
//!
//! What bodies look like is compared by the tests of `skep-api`, which look at real answers.

use std::collections::BTreeSet;
use std::str::FromStr as _;

use proc_macro2::{Group, TokenStream, TokenTree};
use serde_json::Value;

use super::Violation;
use super::rest_page::promised_codes;
use crate::tree::Tree;

const RULE: &str = "openapi";
const ROUTER: &str = "crates/skep-api/src/router.rs";
const FILE: &str = "docs/reference/openapi.json";

const METHODS: &[&str] = &["get", "post", "put", "patch", "delete"];
/// Codes of answers where there is no route or no such method, so that no operation has them.
const OF_NO_ROUTE: &[&str] = &["not_found", "method_not_allowed"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(router) = tree.find(ROUTER) else {
        return Vec::new();
    };
    let text = tree.find(FILE).map_or("", |file| file.text.as_str());
    let file: Value = match serde_json::from_str(text) {
        Ok(file) => file,
        Err(error) => return vec![Violation::new(RULE, FILE, format!("is not JSON: {error}"))],
    };
    let mut promised = routes(&router.text);
    let codes = promised_codes(tree).into_iter();
    promised.extend(codes.filter(|code| !OF_NO_ROUTE.contains(&code.as_str())));
    let mut listed = operations(&file);
    listed.extend(codes_in(&file));
    let missing = promised
        .difference(&listed)
        .map(|name| format!("does not have `{name}`"));
    let stale = listed
        .difference(&promised)
        .map(|name| format!("has `{name}`, which is not there"));
    missing
        .chain(stale)
        .map(|message| Violation::new(RULE, FILE, message))
        .collect()
}

/// Every route of a router as `get /path`.
fn routes(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if let Ok(stream) = TokenStream::from_str(source) {
        collect_routes(stream, &mut found);
    }
    found
}

fn collect_routes(stream: TokenStream, found: &mut BTreeSet<String>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    for (name, arguments) in calls(&trees) {
        if name == "route" {
            let inner: Vec<TokenTree> = arguments.stream().into_iter().collect();
            let Some(TokenTree::Literal(path)) = inner.first() else {
                continue;
            };
            let quoted = path.to_string();
            let path = quoted.trim_matches('"');
            // `post(create).get(list)`; what they call is in brackets of its own.
            let routes = calls(&inner)
                .map(|(name, _)| name)
                .filter(|name| METHODS.contains(&name.as_str()))
                .map(|method| format!("{method} {path}"));
            found.extend(routes);
        }
    }
    for tree in trees {
        if let TokenTree::Group(group) = tree {
            collect_routes(group.stream(), found);
        }
    }
}

/// Each word with the brackets behind it.
fn calls(trees: &[TokenTree]) -> impl Iterator<Item = (String, &Group)> {
    trees.windows(2).filter_map(|pair| match pair {
        [TokenTree::Ident(word), TokenTree::Group(group)] => Some((word.to_string(), group)),
        _ => None,
    })
}

fn operations(file: &Value) -> BTreeSet<String> {
    let paths = file["paths"].as_object().into_iter().flatten();
    paths
        .flat_map(|(path, item)| {
            let keys = item.as_object().into_iter().flat_map(|item| item.keys());
            let methods = keys.filter(|key| METHODS.contains(&key.as_str()));
            methods.map(move |method| format!("{method} {path}"))
        })
        .collect()
}

/// The error codes that descriptions of answers name, between backquotes.
fn codes_in(value: &Value) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    match value {
        Value::Object(fields) => {
            if let Some(answers) = fields.get("responses").and_then(Value::as_object) {
                for answer in answers.values() {
                    let text = answer["description"].as_str().unwrap_or_default();
                    codes.extend(quoted(text));
                }
            }
            codes.extend(fields.values().flat_map(codes_in));
        }
        Value::Array(items) => codes.extend(items.iter().flat_map(codes_in)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    codes
}

/// Names between backquotes. Words in capitals are the codes of files of volumes, which no
/// `error_code` has; the tests of `skep-api` compare them with real answers.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    let names = text.split('`').skip(1).step_by(2);
    let is_word = |name: &&str| {
        name.bytes()
            .any(|byte| !byte.is_ascii_uppercase() && byte != b'_')
    };
    names.filter(is_word).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        fn routes() {
            Router::new()
                .route("/a/{id}", post(a::create).get(a::delete))
                .route("/b", axum::routing::put(b))
        }
        fn fail() { Self::new(StatusCode::NOT_FOUND, "a_missing", "no a"); Self::not_found("not_found", "") }
    "#;
    const GOOD: &str = r#"{
        "paths": {
            "/a/{id}": {"parameters": [], "get": {"responses": {"404": {"description": "`a_missing`"}}}, "post": {}},
            "/b": {"put": {}}
        }
    }"#;

    fn messages(file: &str) -> Vec<String> {
        let violations = check(&Tree::of(&[(ROUTER, SOURCE), (FILE, file)]));
        violations
            .into_iter()
            .map(|violation| violation.message)
            .collect()
    }

    #[test]
    fn a_file_with_every_method_and_code_passes() {
        assert_eq!(messages(GOOD), [""; 0]);
    }

    #[test]
    fn what_is_missing_and_what_is_gone_is_named() {
        assert_eq!(
            messages(&GOOD.replace("put", "patch")),
            [
                "does not have `put /b`",
                "has `patch /b`, which is not there"
            ]
        );
        assert_eq!(
            messages(&GOOD.replace("a_missing", "a_gone")),
            [
                "does not have `a_missing`",
                "has `a_gone`, which is not there"
            ]
        );
        assert_eq!(messages(&GOOD.replace("/b", "/c")).len(), 2);
        assert_eq!(messages("{").len(), 1);
    }
}
