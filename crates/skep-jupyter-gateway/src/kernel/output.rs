//! Outputs of code, as a sandbox sends them and as clients get them.
//!
//! A sandbox may send anything. What is passed on as it is stays text; what is looked into has a
//! fixed form.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Representations of ours, which say again what is in others.
const OURS: [&str; 2] = ["e2b/data", "e2b/chart"];
/// Number of representations of one output.
const MOST_KINDS: usize = 256;
/// Length of the name and the text of an error.
const LONGEST_VALUE: usize = 64 << 10;
/// Length of the traceback of an error.
const LONGEST_TRACEBACK: usize = 1 << 20;

/// Types of outputs. There are no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Stream,
    DisplayData,
    UpdateDisplayData,
    ExecuteResult,
    Error,
    ClearOutput,
}

/// An output, with the parts of every type.
#[derive(Debug, Deserialize)]
pub(super) struct Output<'a> {
    #[serde(rename = "output_type")]
    pub(super) kind: Kind,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) wait: bool,
    #[serde(default, borrow)]
    data: Bundle<'a>,
    #[serde(default, borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(default, borrow)]
    transient: Option<&'a RawValue>,
    #[serde(default)]
    ename: String,
    #[serde(default)]
    evalue: String,
    #[serde(default, borrow)]
    traceback: Option<&'a RawValue>,
}

/// Content of a display, or of a value with the number of its execution.
#[derive(Debug, Serialize)]
pub(super) struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_count: Option<u64>,
    data: &'a Bundle<'a>,
    metadata: Raw<'a>,
    transient: Raw<'a>,
}

/// An error, as short as replies have to be.
#[derive(Debug, Serialize)]
pub(super) struct Raised {
    ename: String,
    evalue: String,
    traceback: Vec<String>,
}

/// The representations of an output, by their MIME types.
#[derive(Debug, Default)]
struct Bundle<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// An object, or an empty one in place of what is none.
#[derive(Debug)]
struct Raw<'a>(Option<&'a RawValue>);

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::DisplayData => "display_data",
            Self::UpdateDisplayData => "update_display_data",
            Self::ExecuteResult => "execute_result",
            Self::Error => "error",
            Self::ClearOutput => "clear_output",
        }
    }
}

impl Output<'_> {
    /// Content of a message that shows it; a value has the number of its execution.
    pub(super) fn shown(&self, execution_count: Option<u64>) -> Shown<'_> {
        Shown {
            execution_count,
            data: &self.data,
            metadata: Raw(self.metadata),
            transient: Raw(self.transient),
        }
    }

    pub(super) fn raised(&self) -> Raised {
        let traceback = self.traceback.map_or("", RawValue::get);
        let traceback = if traceback.len() > LONGEST_TRACEBACK {
            let size = traceback.len();
            vec![format!("a traceback of {size} bytes was left out")]
        } else {
            serde_json::from_str(traceback).unwrap_or_default()
        };
        Raised {
            ename: shortened(&self.ename),
            evalue: shortened(&self.evalue),
            traceback,
        }
    }
}

impl Raised {
    /// An error that code did not raise.
    pub(super) fn by_gateway(name: &str, message: &str) -> Self {
        let message = shortened(message);
        Self {
            ename: name.to_owned(),
            evalue: message.clone(),
            traceback: vec![message],
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Bundle<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Bundle<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("representations by their MIME types")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bundle<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    let value = map.next_value()?;
                    if OURS.contains(&key.0.as_ref()) {
                        continue;
                    }
                    if entries.len() >= MOST_KINDS {
                        let message = format!("more than {MOST_KINDS} representations");
                        return Err(A::Error::custom(message));
                    }
                    entries.push((key.0, value));
                }
                Ok(Bundle(entries))
            }
        }

        #[derive(Deserialize)]
        struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

        deserializer.deserialize_map(Entries)
    }
}

impl Serialize for Bundle<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.filter(|value| value.get().starts_with('{')) {
            Some(value) => value.serialize(serializer),
            None => serializer.collect_map::<(), (), _>([]),
        }
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= LONGEST_VALUE {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(LONGEST_VALUE);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(value: &impl Serialize) -> Value {
        serde_json::to_value(value).unwrap()
    }

    #[test]
    fn a_bundle_has_what_the_protocol_demands() {
        let text = r#"{"output_type": "display_data", "metadata": 1,
            "data": {"text/plain": "1", "e2b/chart": {"type": "line"}}}"#;
        let output: Output<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(
            written(&output.shown(None)),
            json!({"data": {"text/plain": "1"}, "metadata": {}, "transient": {}})
        );
    }

    #[test]
    fn only_the_outputs_that_there_are_become_messages() {
        for kind in ["status", "shutdown_reply", "comm_open", ""] {
            let text = json!({"output_type": kind}).to_string();
            assert!(serde_json::from_str::<Output<'_>>(&text).is_err(), "{kind}");
        }
        // A missing part of one is empty: a sandbox may send what no kernel does.
        let stream: Output<'_> = serde_json::from_str(r#"{"output_type": "stream"}"#).unwrap();
        assert_eq!((stream.kind, stream.name.as_str()), (Kind::Stream, ""));
    }

    #[test]
    fn what_no_tree_can_hold_is_passed_on() {
        let deep = "[".repeat(5000) + &"]".repeat(5000);
        let text = format!(r#"{{"output_type":"display_data","data":{{"a/b":{deep}}}}}"#);
        let output: Output<'_> = serde_json::from_str(&text).unwrap();
        let shown = serde_json::to_string(&output.shown(None)).unwrap();
        assert!(shown.contains(&deep), "{shown}");
    }

    #[test]
    fn representations_are_counted() {
        let data: serde_json::Map<_, _> = (0..=MOST_KINDS)
            .map(|number| (format!("a/{number}"), Value::Null))
            .collect();
        let text = json!({"output_type": "display_data", "data": data}).to_string();
        let error = serde_json::from_str::<Output<'_>>(&text).unwrap_err();
        assert!(error.to_string().contains("more than 256"), "{error}");
    }

    #[test]
    fn an_error_is_short_enough_for_a_reply() {
        let long = "ü".repeat(LONGEST_TRACEBACK);
        let sent =
            json!({"output_type": "error", "ename": "E", "evalue": long, "traceback": [long]});
        let text = sent.to_string();
        let output: Output<'_> = serde_json::from_str(&text).unwrap();
        let raised = serde_json::to_string(&output.raised()).unwrap();
        assert!(raised.len() < 2 * LONGEST_VALUE, "{}", raised.len());
        let bare: Output<'_> = serde_json::from_str(r#"{"output_type": "error"}"#).unwrap();
        assert_eq!(
            written(&bare.raised()),
            json!({"ename": "", "evalue": "", "traceback": []})
        );
    }
}
