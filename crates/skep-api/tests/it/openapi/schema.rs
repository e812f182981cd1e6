//! A validator for as much of JSON Schema as the OpenAPI file uses. A keyword that is not known
//! here fails, so nothing is passed over.
//!
//! It is stricter than the standard: a field that the schema does not name is wrong. The file is
//! to tell clients everything, and still lets them ignore what a later server adds.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

/// Compares values with the schemas of a file.
pub(super) struct Comparison<'a> {
    file: &'a Value,
    /// `Schema.field` for each field that a value had.
    pub(super) seen: BTreeSet<String>,
    /// Disagreements between answers and schema, with their places.
    pub(super) wrong: Vec<String>,
}

impl<'a> Comparison<'a> {
    pub(super) fn with(file: &'a Value) -> Self {
        Self {
            file,
            seen: BTreeSet::new(),
            wrong: Vec::new(),
        }
    }

    /// Compares `value`, which is at `place`, with `schema`.
    pub(super) fn compare(&mut self, value: &Value, schema: &Value, place: &str) {
        if let Some(name) = referred(schema) {
            let schema = &self.file["components"]["schemas"][name];
            assert!(schema.is_object(), "no schema `{name}`");
            self.compare_fields(value, schema, name);
            self.compare_keywords(value, schema, name);
        } else {
            self.compare_keywords(value, schema, place);
        }
    }

    fn compare_keywords(&mut self, value: &Value, schema: &Value, place: &str) {
        for (keyword, wanted) in schema.as_object().unwrap() {
            let agrees = match keyword.as_str() {
                "description" | "default" | "examples" | "required" | "properties" => true,
                "type" => types(wanted).contains(&type_of(value)) || is_whole(value, wanted),
                "enum" => wanted.as_array().unwrap().contains(value),
                "format" => {
                    assert_eq!(wanted, "date-time", "{place}");
                    let text = value.as_str();
                    text.is_none_or(|text| text.parse::<Timestamp>().is_ok())
                }
                "minimum" => value.as_f64() >= wanted.as_f64(),
                "maximum" => value.as_f64() <= wanted.as_f64(),
                "minLength" => length(value) >= wanted.as_u64(),
                "maxLength" => length(value) <= wanted.as_u64(),
                "items" => {
                    for item in value.as_array().into_iter().flatten() {
                        self.compare(item, wanted, place);
                    }
                    true
                }
                "additionalProperties" => {
                    for item in value.as_object().into_iter().flat_map(|it| it.values()) {
                        self.compare(item, wanted, place);
                    }
                    true
                }
                other => panic!("{place}: the keyword `{other}` is not compared yet"),
            };
            if !agrees {
                self.wrong
                    .push(format!("{place}: `{value}` against `{keyword}: {wanted}`"));
            }
        }
    }

    /// Compares the fields of an object with those that schema `name` has.
    fn compare_fields(&mut self, value: &Value, schema: &Value, name: &str) {
        let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object())
        else {
            return;
        };
        for (field, value) in fields {
            let place = format!("{name}.{field}");
            match known.get(field) {
                Some(schema) => self.compare(value, schema, &place),
                None => self.wrong.push(format!("{place} is not in the file")),
            }
            self.seen.insert(place);
        }
        for field in schema["required"].as_array().into_iter().flatten() {
            let field = field.as_str().unwrap();
            if !fields.contains_key(field) {
                self.wrong.push(format!("{name}.{field} is required"));
            }
        }
    }
}

/// The name of the schema that is referred to.
fn referred(schema: &Value) -> Option<&str> {
    let target = schema.get("$ref")?.as_str().unwrap();
    Some(target.strip_prefix("#/components/schemas/").unwrap())
}

fn types(wanted: &Value) -> Vec<&str> {
    let several = wanted.as_array().map(Vec::as_slice);
    let names = several.unwrap_or(std::slice::from_ref(wanted)).iter();
    names.map(|name| name.as_str().unwrap()).collect()
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_whole(value: &Value, wanted: &Value) -> bool {
    types(wanted).contains(&"integer") && (value.is_i64() || value.is_u64())
}

fn length(value: &Value) -> Option<u64> {
    let text = value.as_str()?;
    u64::try_from(text.chars().count()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(value: &Value) -> Vec<String> {
        let file = json!({"components": {"schemas": {"Thing": {
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": {"type": "string"},
                "at": {"type": ["string", "null"], "format": "date-time"},
                "kind": {"enum": ["a", "b"]},
                "count": {"type": "integer", "minimum": 1},
                "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}},
                "pairs": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }}}});
        let mut comparison = Comparison::with(&file);
        let thing = json!({"$ref": "#/components/schemas/Thing"});
        comparison.compare(value, &thing, "body");
        comparison.wrong
    }

    #[test]
    fn what_agrees_is_not_wrong() {
        let time = "2026-01-01T00:00:00Z";
        let part = json!({"id": "y", "at": null, "pairs": {"k": "v"}});
        let value = json!({"id": "x", "at": time, "kind": "a", "count": 1, "parts": [part]});
        assert_eq!(wrong(&value), [""; 0]);
    }

    #[test]
    fn whatever_does_not_agree_is_wrong() {
        for value in [
            json!([]),
            json!({}),
            json!({"id": 1}),
            json!({"id": "x", "novelty": 1}),
            json!({"id": "x", "at": "yesterday"}),
            json!({"id": "x", "kind": "c"}),
            json!({"id": "x", "count": 0}),
            json!({"id": "x", "count": 1.5}),
            json!({"id": "x", "parts": [{}]}),
            json!({"id": "x", "pairs": {"k": 1}}),
        ] {
            assert_eq!(wrong(&value).len(), 1, "{value}");
        }
    }
}
