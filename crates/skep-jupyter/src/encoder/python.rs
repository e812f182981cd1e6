//! Small pieces of Python for kernels that take nothing but code.
//!
//! Each is a file of its own (`python/*.py`) that runs among names of its own, so none of the
//! user's change. Values travel as base64 of JSON: none can end a literal or be taken for code.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub(super) fn set_variables(variables: &BTreeMap<String, String>) -> String {
    piece(include_str!("python/set_variables.py"), &json!(variables))
}

pub(super) fn restore_variables() -> String {
    piece(include_str!("python/restore_variables.py"), &Value::Null)
}

pub(super) fn keep_variables(variables: &BTreeMap<String, String>) -> String {
    piece(include_str!("python/keep_variables.py"), &json!(variables))
}

pub(super) fn change_directory(path: &str) -> String {
    piece(include_str!("python/change_directory.py"), &json!(path))
}

/// Makes `ipykernel` what callers expect: it waits for its reader, where it would drop output
/// when more than a thousand messages wait; tracebacks have no colours, and values are whole.
pub(super) fn prepare_ipykernel() -> String {
    piece(include_str!("python/prepare_ipykernel.py"), &Value::Null)
}

fn piece(source: &str, argument: &Value) -> String {
    let source = value(&json!(source));
    let argument = value(argument);
    format!("exec({source}, {{'argument': {argument}}})")
}

fn value(value: &Value) -> String {
    let encoded = STANDARD.encode(value.to_string());
    format!("__import__('json').loads(__import__('base64').b64decode('{encoded}'))")
}
