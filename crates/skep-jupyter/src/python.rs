//! Small pieces of Python for kernels that take nothing but code. Values travel as base64 of
//! JSON, so none can end a literal or be taken for code.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Sets variables, and remembers what they were.
pub fn set_variables(variables: &BTreeMap<String, String>) -> String {
    format!(
        "(lambda os, new: (setattr(os, '_skep_saved', {{name: os.environ.get(name) for name in new}}), os.environ.update(new)))(__import__('os'), {})",
        value(&serde_json::json!(variables))
    )
}

/// Gives the variables of the last [`set_variables`] back what they were.
pub fn restore_variables() -> &'static str {
    "(lambda os: [os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value) for name, value in os.__dict__.pop('_skep_saved', {}).items()])(__import__('os'))"
}

/// Sets variables for good.
pub fn keep_variables(variables: &BTreeMap<String, String>) -> String {
    format!(
        "__import__('os').environ.update({})",
        value(&serde_json::json!(variables))
    )
}

/// Changes the working directory.
pub fn change_directory(path: &str) -> String {
    format!(
        "__import__('os').chdir({})",
        value(&serde_json::json!(path))
    )
}

fn value(value: &serde_json::Value) -> String {
    let encoded = STANDARD.encode(value.to_string());
    format!("__import__('json').loads(__import__('base64').b64decode('{encoded}'))")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// What Python makes of these variables: while they are set, and after.
    fn through_python(variables: &BTreeMap<String, String>) -> serde_json::Value {
        let names = serde_json::to_string(&variables.keys().collect::<Vec<_>>()).unwrap();
        let script = format!(
            "import json, os\n{}\nduring = dict(os.environ)\n{}\nprint(json.dumps([[during[n], os.environ.get(n)] for n in json.loads(input())]))",
            set_variables(variables),
            restore_variables()
        );
        let mut child = Command::new("python3")
            .args(["-c", &script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), names.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    proptest! {
        // Each case starts an interpreter.
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_value_arrives_and_is_gone_afterwards(
            variables in proptest::collection::btree_map("[A-Z'\"\\\\ ]{1,8}_SKEP", "[^\0]{0,40}|['\"\\\\\n{}]{0,20}", 1..4)
        ) {
            let expected: Vec<_> = variables.values().map(|value| serde_json::json!([value, null])).collect();
            prop_assert_eq!(through_python(&variables), serde_json::json!(expected));
        }
    }
}
