//! Small pieces of Python for kernels that take nothing but code.
//!
//! Each is a file of its own (`python/*.py`) that runs among names of its own, so none of the
//! user's change. Values travel as base64 of JSON: none can end a literal or be taken for code.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Sets variables, and remembers what they were.
pub fn set_variables(variables: &BTreeMap<String, String>) -> String {
    piece(include_str!("python/set_variables.py"), &json!(variables))
}

/// Gives the variables of [`set_variables`] back what they were. Doing it twice is no harm.
pub fn restore_variables() -> String {
    piece(include_str!("python/restore_variables.py"), &Value::Null)
}

/// Replaces the variables that were set by the last call of this, for good. One that is not
/// among them any more gets back what it was; one whose value is the same is not touched, so
/// that what user code assigned stays.
pub fn keep_variables(variables: &BTreeMap<String, String>) -> String {
    piece(include_str!("python/keep_variables.py"), &json!(variables))
}

/// Changes the working directory.
pub fn change_directory(path: &str) -> String {
    piece(include_str!("python/change_directory.py"), &json!(path))
}

/// Makes `ipykernel` what callers expect: it waits for its reader, where it would drop output
/// when more than a thousand messages wait; tracebacks have no colours, and values are whole.
pub fn prepare_ipykernel() -> String {
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    type Variables = BTreeMap<String, String>;

    /// Runs pieces in one Python, and shows what the variables are after each.
    fn after_each(pieces: &[String], names: &[&str]) -> Vec<Vec<Option<String>>> {
        let mut script =
            "import json, os, sys\nnames = json.load(sys.stdin)\nseen = []\n".to_owned();
        for piece in pieces {
            script += piece;
            script += "\nseen.append([os.environ.get(name) for name in names])\n";
        }
        script += "json.dump(seen, sys.stdout)\nassert 'argument' not in globals()";
        let mut child = Command::new("python3")
            .args(["-c", &script])
            .env("BEFORE_SKEP", "before")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        serde_json::to_writer(child.stdin.take().unwrap(), names).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn variables(entries: &[(&str, &str)]) -> Variables {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        entries.iter().map(owned).collect()
    }

    fn some(values: [Option<&str>; 2]) -> Vec<Option<String>> {
        values.map(|value| value.map(str::to_owned)).to_vec()
    }

    #[test]
    fn an_interrupted_restoration_is_made_up_for_by_the_next() {
        let pieces = [
            set_variables(&variables(&[("BEFORE_SKEP", "1"), ("NEW_SKEP", "1")])),
            // Nobody restored these, and yet they are known.
            set_variables(&variables(&[("BEFORE_SKEP", "2")])),
            restore_variables(),
            restore_variables(),
        ];
        assert_eq!(
            after_each(&pieces, &["BEFORE_SKEP", "NEW_SKEP"]),
            [
                some([Some("1"), Some("1")]),
                some([Some("2"), Some("1")]),
                some([Some("before"), None]),
                some([Some("before"), None]),
            ]
        );
    }

    #[test]
    fn kept_variables_are_replaced_and_what_the_user_assigned_stays() {
        let pieces = [
            keep_variables(&variables(&[("BEFORE_SKEP", "1"), ("NEW_SKEP", "1")])),
            "os.environ['NEW_SKEP'] = 'mine'".to_owned(),
            keep_variables(&variables(&[("NEW_SKEP", "1")])),
            keep_variables(&variables(&[("NEW_SKEP", "2")])),
            keep_variables(&Variables::new()),
        ];
        assert_eq!(
            after_each(&pieces, &["BEFORE_SKEP", "NEW_SKEP"]),
            [
                some([Some("1"), Some("1")]),
                some([Some("1"), Some("mine")]),
                some([Some("before"), Some("mine")]),
                some([Some("before"), Some("2")]),
                some([Some("before"), None]),
            ]
        );
    }

    proptest! {
        // Each case starts an interpreter.
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_value_arrives_and_is_gone_afterwards(
            variables in proptest::collection::btree_map("[A-Z'\"\\\\ ]{1,8}_SKEP", "[^\0]{0,40}|['\"\\\\\n{}]{0,20}", 1..4)
        ) {
            let names: Vec<&str> = variables.keys().map(String::as_str).collect();
            let during = variables.values().cloned().map(Some).collect();
            let pieces = [set_variables(&variables), restore_variables()];
            let expected = vec![during, vec![None; names.len()]];
            prop_assert_eq!(after_each(&pieces, &names), expected);
        }

        #[test]
        fn every_path_arrives(name in "[^\0/]{1,60}") {
            prop_assume!(name.len() <= 255 && name != "." && name != "..");
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(&name);
            std::fs::create_dir(&path).unwrap();
            let path = path.to_str().unwrap();
            let pieces = [
                change_directory(path),
                "os.environ['HERE_SKEP'] = os.getcwd()".to_owned(),
            ];
            let seen = after_each(&pieces, &["HERE_SKEP"]);
            prop_assert_eq!(seen[1][0].as_deref(), Some(path));
        }
    }
}
