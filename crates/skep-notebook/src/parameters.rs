//! Values that are given to a notebook from outside, as code of its language.

use std::str::FromStr;

use serde_json::Number;

use crate::language::Language;

/// A value for a variable of the notebook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    name: String,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Nothing,
    Truth(bool),
    /// A number as it was written, which is how JSON writes one.
    Number(String),
    Text(String),
}

/// Errors of setting a parameter.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParameterError {
    /// It is not `NAME=VALUE`.
    #[error("`{text}` is not `NAME=VALUE` with a name of letters, digits and underscores")]
    Form {
        /// The text that was given.
        text: String,
    },
    /// There is no way to write it in the language.
    #[error("parameters cannot be given to a {language} notebook")]
    Language {
        /// Language of the notebook.
        language: String,
    },
    /// The language has no such value.
    #[error("the parameter `{name}` has a value that {language} cannot have")]
    Value {
        /// Name of the parameter.
        name: String,
        /// Language of the notebook.
        language: String,
    },
}

impl FromStr for Parameter {
    type Err = ParameterError;

    /// Reads `NAME=VALUE`: numbers, `true`, `false` and `null` (also as Python writes them) are
    /// what they look like, all else is text.
    fn from_str(text: &str) -> Result<Self, ParameterError> {
        let wrong = || ParameterError::Form {
            text: text.to_owned(),
        };
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let begins_well = name.bytes().next().is_some_and(is_letter);
        let goes_on_well = name
            .bytes()
            .all(|byte| is_letter(byte) || byte.is_ascii_digit());
        if !begins_well || !goes_on_well {
            return Err(wrong());
        }
        let value = match value {
            "true" | "True" => Value::Truth(true),
            "false" | "False" => Value::Truth(false),
            "null" | "None" => Value::Nothing,
            text => match serde_json::from_str::<Number>(text) {
                Ok(_number) => Value::Number(text.trim().to_owned()),
                Err(_no_number) => Value::Text(text.to_owned()),
            },
        };
        Ok(Self {
            name: name.to_owned(),
            value,
        })
    }
}

/// The code that sets them.
pub(crate) fn code(
    parameters: &[Parameter],
    language: &Language,
) -> Result<String, ParameterError> {
    let comment = match language.name() {
        "javascript" | "typescript" => "//",
        _ => "#",
    };
    let mut code = format!("{comment} Parameters\n");
    for parameter in parameters {
        code.push_str(&assignment(parameter, language)?);
        code.push('\n');
    }
    code.pop();
    Ok(code)
}

fn assignment(parameter: &Parameter, language: &Language) -> Result<String, ParameterError> {
    let name = &parameter.name;
    let impossible = || ParameterError::Value {
        name: name.clone(),
        language: language.name().to_owned(),
    };
    Ok(match language.name() {
        "python" => format!("{name} = {}", in_python(&parameter.value)),
        "javascript" | "typescript" => format!("var {name} = {}", in_javascript(&parameter.value)),
        "r" => format!(
            "{name} <- {}",
            in_r(&parameter.value).ok_or_else(impossible)?
        ),
        "bash" => format!(
            "{name}={}",
            in_bash(&parameter.value).ok_or_else(impossible)?
        ),
        other => {
            return Err(ParameterError::Language {
                language: other.to_owned(),
            });
        }
    })
}

/// Every escape that JSON has is one of Python's too, and what JSON leaves as it is, Python does.
fn in_python(value: &Value) -> String {
    match value {
        Value::Truth(true) => "True".to_owned(),
        Value::Truth(false) => "False".to_owned(),
        Value::Nothing => "None".to_owned(),
        Value::Number(number) => number.clone(),
        Value::Text(text) => quoted(text),
    }
}

/// Writes a value in JavaScript, of which JSON is a part.
fn in_javascript(value: &Value) -> String {
    match value {
        Value::Truth(truth) => truth.to_string(),
        Value::Nothing => "null".to_owned(),
        Value::Number(number) => number.clone(),
        Value::Text(text) => quoted(text),
    }
}

/// R has JSON's escapes and no character 0.
fn in_r(value: &Value) -> Option<String> {
    Some(match value {
        Value::Truth(true) => "TRUE".to_owned(),
        Value::Truth(false) => "FALSE".to_owned(),
        Value::Nothing => "NULL".to_owned(),
        Value::Number(number) => number.clone(),
        Value::Text(text) if text.contains('\0') => return None,
        Value::Text(text) => quoted(text),
    })
}

/// Between single quotes only the single quote means something. There is no character 0.
fn in_bash(value: &Value) -> Option<String> {
    Some(match value {
        Value::Truth(truth) => truth.to_string(),
        Value::Nothing => "''".to_owned(),
        Value::Number(number) => number.clone(),
        Value::Text(text) if text.contains('\0') => return None,
        Value::Text(text) => format!("'{}'", text.replace('\'', "'\\''")),
    })
}

/// A JSON string.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always JSON")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn set(text: &str, language: &str) -> Result<String, ParameterError> {
        code(&[text.parse()?], &Language::named(language))
    }

    #[test]
    fn values_are_what_they_look_like() {
        for (text, python) in [
            ("a=5", "a = 5"),
            ("a=-1.5e3", "a = -1.5e3"),
            ("a=True", "a = True"),
            ("a=null", "a = None"),
            ("a=", "a = \"\""),
            ("a=b=c", "a = \"b=c\""),
            ("_x1=it's \"ü\"\n", "_x1 = \"it's \\\"ü\\\"\\n\""),
            ("a=007", "a = \"007\""),
        ] {
            let expected = format!("# Parameters\n{python}");
            assert_eq!(set(text, "python").as_ref(), Ok(&expected), "{text}");
        }
        assert_eq!(set("a=false", "r").unwrap(), "# Parameters\na <- FALSE");
        assert_eq!(set("a=x", "ts").unwrap(), "// Parameters\nvar a = \"x\"");
        assert_eq!(set("a=it's", "bash").unwrap(), "# Parameters\na='it'\\''s'");
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        for text in ["a", "=5", "1a=5", "a b=5", "a;b=5", "ü=5"] {
            assert!(
                matches!(set(text, "python"), Err(ParameterError::Form { .. })),
                "{text}"
            );
        }
        assert!(matches!(
            set("a=1", "java"),
            Err(ParameterError::Language { .. })
        ));
        assert!(matches!(
            set("a=\0", "bash"),
            Err(ParameterError::Value { .. })
        ));
    }

    /// Returns the value that a program of the language prints.
    fn heard(program: &str, script: &str) -> String {
        let said = Command::new(program).args(["-c", script]).output().unwrap();
        assert!(said.status.success(), "{script}: {said:?}");
        String::from_utf8(said.stdout).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4))]
        #[test]
        fn every_text_arrives_as_it_is(texts in proptest::collection::vec("[^\\x00]{0,12}|['\"\\\\$`!\\n\\r\u{2028}#]{0,8}", 24)) {
            let parameters: Vec<Parameter> = texts.iter().enumerate().map(|(index, text)| Parameter {
                name: format!("p{index}"),
                value: Value::Text(text.clone()),
            }).collect();
            let names: Vec<String> = (0..texts.len()).map(|index| format!("p{index}")).collect();
            let expected = texts.iter().fold(String::new(), |all, text| all + text + "\u{1}");

            let python = code(&parameters, &Language::named("python")).unwrap();
            let show = format!("import sys\nsys.stdout.buffer.write(''.join(p + chr(1) for p in [{}]).encode())", names.join(","));
            prop_assert_eq!(&heard("python3", &format!("{python}\n{show}")), &expected);

            let bash = code(&parameters, &Language::named("bash")).unwrap();
            let show: String = names.iter().map(|name| format!("printf '%s\\001' \"${name}\"\n")).collect();
            prop_assert_eq!(&heard("bash", &format!("{bash}\n{show}")), &expected);
        }
    }
}
