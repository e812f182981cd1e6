//! Parsing of request bodies, and refusals of those that are wrong.
//!
//! Refusals have the shape that the contract's own server gives them, because some callers show
//! it to a person: `{"detail":[{"type":…,"loc":["body","code"],"msg":…,"input":…}]}`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use skep_kernels::ExecuteRequest;
use skep_types::Secrets;
use skep_wire::interpreter as wire;

use crate::options;

/// Code to run, and where.
#[derive(Debug)]
pub(crate) struct Execute {
    pub(crate) target: Target,
    /// The code and what belongs to it. What its connection has to do with it is for the route
    /// to add.
    pub(crate) request: ExecuteRequest,
    pub(crate) form: wire::OutputForm,
}

/// Context or language in which code is to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The context with this id.
    Context(String),
    /// The default context of this language.
    Language(String),
}

/// A context to make.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewContext {
    pub(crate) language: String,
    pub(crate) directory: Option<String>,
    pub(crate) secrets: Secrets,
}

/// Reasons to refuse a body.
#[derive(Debug, PartialEq)]
pub(crate) enum Refusal {
    /// A field is missing or has the wrong type.
    Invalid(Value),
    /// A context and a language were given.
    Both,
}

impl Execute {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let mut fields = object(body)?;
        // First, so that no refusal shows what is in it.
        let options: wire::ExecuteOptions = options::parse(fields.remove(options::FIELD))?;
        let code = match fields.remove("code") {
            Some(Value::String(code)) => code,
            Some(other) => return Err(wrong(&["code"], STRING, other)),
            None => return Err(missing(&["body", "code"], Value::Object(fields))),
        };
        let context = text(&mut fields, "context_id")?;
        let language = text(&mut fields, "language")?;
        let target = match (context, language) {
            (Some(_), Some(_)) => return Err(Refusal::Both),
            (Some(context), None) => Target::Context(context),
            (None, language) => Target::Language(normalised(language)),
        };
        let variables = variables(&mut fields)?;
        Ok(Self {
            target,
            request: ExecuteRequest {
                limits: options::limits(&options.limits)?,
                secrets: options::secrets(options.secrets, &options.secret_envs, &variables)?,
                variables,
                allows_input: options.allow_stdin,
                ..ExecuteRequest::new(code)
            },
            form: options.outputs,
        })
    }
}

impl NewContext {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let mut fields = object(body)?;
        let options: wire::ContextOptions = options::parse(fields.remove(options::FIELD))?;
        let directory = text(&mut fields, "cwd")?;
        let language = text(&mut fields, "language")?;
        Ok(Self {
            language: normalised(language),
            directory,
            secrets: options::secrets(options.secrets, &[], &BTreeMap::new())?,
        })
    }
}

/// Reads the answer to a request for input.
pub(crate) fn input_reply(body: &[u8]) -> Result<wire::InputReply, Refusal> {
    let mut fields = object(body)?;
    match fields.remove("value") {
        Some(Value::Null) => Ok(wire::InputReply { value: None }),
        Some(Value::String(value)) => Ok(wire::InputReply { value: Some(value) }),
        // What was sent may be a password, and is not shown.
        Some(_) => Err(wrong(&["value"], STRING, Value::Null)),
        None => Err(missing(&["body", "value"], Value::Null)),
    }
}

/// Returns the canonical name of a language, from the names that callers use.
fn normalised(language: Option<String>) -> String {
    let language = language.unwrap_or_default().trim().to_lowercase();
    match language.as_str() {
        "" => "python".to_owned(),
        "js" => "javascript".to_owned(),
        "ts" => "typescript".to_owned(),
        _ => language,
    }
}

const STRING: (&str, &str) = ("string_type", "Input should be a valid string");
const VARIABLE: (&str, &str) = (
    "value_error",
    "A variable has a name without '=' and no zero byte",
);
const DICTIONARY: (&str, &str) = ("dict_type", "Input should be a valid dictionary");

fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if body.is_empty() {
        return Err(missing(&["body"], Value::Null));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(Refusal::Invalid(json!([{
            "type": "model_attributes_type",
            "loc": ["body"],
            "msg": "Input should be a valid dictionary or object to extract fields from",
            "input": other,
        }]))),
        Err(error) => Err(Refusal::Invalid(json!([{
            "type": "json_invalid",
            "loc": ["body", error.column().saturating_sub(1)],
            "msg": "JSON decode error",
            "input": {},
            "ctx": {"error": error.to_string()},
        }]))),
    }
}

/// An optional string. Nothing, null and an empty one are the same.
fn text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Refusal> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok((!text.is_empty()).then_some(text)),
        Some(other) => Err(wrong(&[name], STRING, other)),
    }
}

fn variables(fields: &mut Map<String, Value>) -> Result<BTreeMap<String, String>, Refusal> {
    match fields.remove("env_vars") {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Object(entries)) => entries
            .into_iter()
            .map(|(name, value)| {
                let Value::String(value) = value else {
                    return Err(wrong(&["env_vars", &name], STRING, value));
                };
                if is_possible(&name, &value) {
                    Ok((name, value))
                } else {
                    Err(wrong(&["env_vars", &name], VARIABLE, Value::String(value)))
                }
            })
            .collect(),
        Some(other) => Err(wrong(&["env_vars"], DICTIONARY, other)),
    }
}

/// No process can have another variable. Told here, since a kernel could only tell it as a failure
/// of the code.
fn is_possible(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

fn wrong(path: &[&str], (kind, message): (&str, &str), input: Value) -> Refusal {
    let location: Vec<&str> = ["body"].iter().chain(path).copied().collect();
    Refusal::Invalid(json!([{
        "type": kind,
        "loc": location,
        "msg": message,
        "input": input,
    }]))
}

fn missing(location: &[&str], input: Value) -> Refusal {
    Refusal::Invalid(json!([{
        "type": "missing",
        "loc": location,
        "msg": "Field required",
        "input": input,
    }]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(body: &Value) -> Target {
        Execute::parse(body.to_string().as_bytes()).unwrap().target
    }

    #[track_caller]
    fn refused(body: &str, kind: &str, location: &Value) {
        match Execute::parse(body.as_bytes()) {
            Err(Refusal::Invalid(detail)) => {
                assert_eq!(detail[0]["type"], kind, "{detail}");
                assert_eq!(&detail[0]["loc"], location, "{detail}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_null_and_empty_mean_the_default() {
        let python = || Target::Language("python".to_owned());
        assert_eq!(target(&json!({"code": ""})), python());
        let nulls = json!({"code": "", "context_id": null, "language": null, "env_vars": null});
        assert_eq!(target(&nulls), python());
        assert_eq!(
            target(&json!({"code": "", "context_id": "", "language": ""})),
            python()
        );
    }

    #[test]
    fn languages_have_short_names() {
        for (given, meant) in [
            ("js", "javascript"),
            (" TS ", "typescript"),
            ("Python", "python"),
            ("ruby", "ruby"),
        ] {
            let found = target(&json!({"code": "", "language": given}));
            assert_eq!(found, Target::Language(meant.to_owned()));
        }
    }

    #[test]
    fn a_context_and_a_language_exclude_each_other() {
        let body = json!({"code": "", "context_id": "a", "language": "python"});
        let refused = Execute::parse(body.to_string().as_bytes()).unwrap_err();
        assert_eq!(refused, Refusal::Both);
    }

    #[test]
    fn what_is_wrong_is_named() {
        refused("", "missing", &json!(["body"]));
        refused("{", "json_invalid", &json!(["body", 0]));
        refused("[]", "model_attributes_type", &json!(["body"]));
        refused("{}", "missing", &json!(["body", "code"]));
        refused(r#"{"code":5}"#, "string_type", &json!(["body", "code"]));
        refused(
            r#"{"code":"","env_vars":[]}"#,
            "dict_type",
            &json!(["body", "env_vars"]),
        );
        refused(
            r#"{"code":"","env_vars":{"A":1}}"#,
            "string_type",
            &json!(["body", "env_vars", "A"]),
        );
        for (variables, name) in [
            (r#"{"":"1"}"#, ""),
            (r#"{"A=B":"1"}"#, "A=B"),
            (r#"{"A\u0000":"1"}"#, "A\0"),
            (r#"{"A":"1\u0000"}"#, "A"),
        ] {
            let body = format!(r#"{{"code":"","env_vars":{variables}}}"#);
            refused(&body, "value_error", &json!(["body", "env_vars", name]));
        }
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let body = json!({"code": "1", "unheard_of": {"a": 1}});
        assert_eq!(
            Execute::parse(body.to_string().as_bytes())
                .unwrap()
                .request
                .code,
            "1"
        );
    }
}
