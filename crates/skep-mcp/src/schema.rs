//! Schemas as clients of every kind read them.
//!
//! Derived ones are right, but name formats that are Rust's own, of which validators warn on the terminal of whoever
//! uses them, and have lists of types ("string or null"), which some providers of models refuse.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// Treatment of a value that may be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// It is left out instead, as arguments are.
    LeftOut,
    /// It is one of two alternatives.
    Alternative,
}

/// Makes a schema portable.
pub(crate) fn portable(schema: &JsonObject, nulls: Nulls) -> JsonObject {
    let parts = schema.iter();
    let mut made: JsonObject = parts
        .filter(|(key, value)| !(*key == "format" && is_of_rust(value)))
        .map(|(key, value)| (key.clone(), portable_value(value, nulls)))
        .collect();
    let Some(kind) = made.get("type").and_then(nullable) else {
        return made;
    };
    made.insert("type".to_owned(), kind);
    made.retain(|key, value| !(key == "default" && value.is_null()));
    if nulls == Nulls::LeftOut {
        return made;
    }
    let description = made.remove("description");
    let alternatives = json!([made, { "type": "null" }]);
    let described = description.map(|text| ("description".to_owned(), text));
    let alternatives = [("anyOf".to_owned(), alternatives)];
    described.into_iter().chain(alternatives).collect()
}

fn portable_value(value: &Value, nulls: Nulls) -> Value {
    match value {
        Value::Object(schema) => portable(schema, nulls).into(),
        Value::Array(items) => {
            let items = items.iter().map(|item| portable_value(item, nulls));
            items.collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Returns true for `uint64` and its like.
fn is_of_rust(format: &Value) -> bool {
    let format = format.as_str().unwrap_or_default();
    let bits = format.trim_start_matches('u').strip_prefix("int");
    bits.is_some_and(|bits| bits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The type that a value has if it is not null; `None` if it is never null.
fn nullable(kinds: &Value) -> Option<Value> {
    match kinds.as_array()?.as_slice() {
        [kind, null] if null == "null" => Some(kind.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(nulls: Nulls, schema: &Value, expected: &Value) {
        let made = portable(schema.as_object().unwrap(), nulls);
        assert_eq!(&Value::Object(made), expected);
    }

    #[test]
    fn a_value_that_may_be_null_has_one_type() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": ["integer", "null"], "format": "uint64", "minimum": 0, "default": null, "description": "A."},
            "type": {"type": "string", "format": "date-time"},
        }});
        let date = json!({"type": "string", "format": "date-time"});
        let left_out = json!({"type": "integer", "minimum": 0, "description": "A."});
        check(
            Nulls::LeftOut,
            &schema,
            &json!({"type": "object", "properties": {"a": left_out, "type": date}}),
        );
        let number = json!({"type": "integer", "minimum": 0});
        let alternative = json!({"description": "A.", "anyOf": [number, {"type": "null"}]});
        check(
            Nulls::Alternative,
            &schema,
            &json!({"type": "object", "properties": {"a": alternative, "type": date}}),
        );
    }
}
