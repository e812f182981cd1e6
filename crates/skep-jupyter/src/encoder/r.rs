//! Small pieces of R for kernels that take nothing but code.
//!
//! Each is a file of its own (`r/*.R`) that runs among names of its own, on top of those of
//! `base`, so none of the user's change or are used. Values travel as hexadecimal bytes: none can
//! end a literal or be taken for code, and none is converted to the encoding of a locale.

use std::collections::BTreeMap;

pub(super) fn set_variables(variables: &BTreeMap<String, String>) -> String {
    piece(include_str!("r/set_variables.R"), &entries(variables))
}

pub(super) fn restore_variables() -> String {
    piece(include_str!("r/restore_variables.R"), "NULL")
}

pub(super) fn keep_variables(variables: &BTreeMap<String, String>) -> String {
    piece(include_str!("r/keep_variables.R"), &entries(variables))
}

pub(super) fn change_directory(path: &str) -> String {
    piece(include_str!("r/change_directory.R"), &texts([path]))
}

/// Makes `IRkernel` what callers expect; the file says how.
pub(super) fn prepare_irkernel() -> String {
    piece(include_str!("r/prepare_irkernel.R"), "NULL")
}

fn entries(variables: &BTreeMap<String, String>) -> String {
    let names = texts(variables.keys().map(String::as_str));
    let values = texts(variables.values().map(String::as_str));
    format!("list(names = {names}, values = {values})")
}

/// The argument is evaluated among names of `base` too.
fn piece(source: &str, argument: &str) -> String {
    let decode = include_str!("r/decode.R");
    format!(
        "base::local({{\n{decode}\nargument <- {argument}\n{source}\n}}, base::new.env(parent = base::baseenv()))"
    )
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = texts
        .into_iter()
        .map(|text| format!("\"{}\"", hex(text)))
        .collect();
    format!("decode(c({}))", quoted.join(", "))
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
