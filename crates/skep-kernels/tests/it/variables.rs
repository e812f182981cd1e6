//! Variables through kernels of ours, which take them as data: whatever is legal arrives.
//!
//! Kernels that take nothing but code are told variables by an encoder, which `skep-jupyter`
//! checks in the same way against the languages themselves.

use std::collections::BTreeMap;

use proptest::collection::btree_map;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use skep_kernels::{Contexts, ExecuteRequest};

use crate::talk::{all, request};
use crate::{bash, javascript};

/// Each case is one execution, and is as good as its characters.
const CASES: usize = 40;

/// Legal values, many of them such as would end a literal or begin something in it.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[^\0]{0,40}",
        "['\"`\\\\\n\r\t${}()#%;&|<>*?!~ ]{0,20}",
        "(\\$\\(touch x\\)|`id`|\\$\\{HOME\\}|%s%n|'''|😀|\u{2028}|\n){1,4}",
        "y{4000}",
    ]
}

/// Variables under names such as `V3`, which code can find.
fn variables() -> impl Strategy<Value = BTreeMap<u8, String>> {
    btree_map(0_u8..8, value(), 1..6)
}

/// Checks the output of `code`: eight words between commas, `-` or `x` and the bytes in
/// hexadecimal.
async fn check(contexts: &Contexts, context: &str, code: &str) {
    let mut runner = TestRunner::deterministic();
    for _ in 0..CASES {
        let values = variables().new_tree(&mut runner).unwrap().current();
        let named = values
            .iter()
            .map(|(number, value)| (format!("V{number}"), value.clone()));
        let with_variables = ExecuteRequest {
            variables: named.collect(),
            ..request(code)
        };
        let shown: Vec<String> = (0..8)
            .map(|number| match values.get(&number) {
                Some(value) => {
                    let digits: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
                    format!("x{digits}")
                }
                None => "-".to_owned(),
            })
            .collect();
        let seen = printed(contexts, context, with_variables).await;
        assert_eq!(seen, shown.join(","), "{values:?}");
    }
    let seen = printed(contexts, context, request(code)).await;
    assert_eq!(seen, "-,-,-,-,-,-,-,-");
}

/// Returns the whole output of an execution that must succeed.
async fn printed(contexts: &Contexts, context: &str, request: ExecuteRequest) -> String {
    let words = all(contexts.execute(context, request).unwrap()).await;
    assert_eq!(words.last().unwrap(), "ended Ok", "{words:?}");
    words[1..words.len() - 1].concat()
}

#[tokio::test]
async fn whatever_a_variable_holds_arrives_in_bash() {
    let world = bash::world();
    let code = "for ((i = 0; i < 8; i++)); do n=V$i; if [[ -v $n ]]; then printf x; printf %s \"${!n}\" | od -An -v -tx1 | tr -d ' \\n'; else printf -- -; fi; if ((i < 7)); then printf ,; fi; done; echo";
    check(&world.contexts, &world.bash, code).await;
}

#[tokio::test]
async fn whatever_a_variable_holds_arrives_in_javascript() {
    let world = javascript::world();
    let code = "console.log(Array.from({ length: 8 }, (_, i) => process.env['V' + i]).map((v) => v === undefined ? '-' : 'x' + Buffer.from(v).toString('hex')).join())";
    check(&world.contexts, &world.javascript, code).await;
}
