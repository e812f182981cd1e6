//! The lines of an execution's answer, as a caller reads them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Outcome, RawJson, Usage};

/// One line. What is not known is [`AnswerLine::Unknown`]: newer servers may say more.
///
/// Reading one takes about as much memory as its text has, whoever wrote it: what is not known is
/// skipped, and values of any shape stay text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AnswerLine {
    /// The code was accepted.
    NumberOfExecutions {
        /// Number of executions that the kernel has seen.
        execution_count: u64,
    },
    /// The code wrote to its standard output.
    Stdout {
        /// The text, as it was written.
        text: String,
        /// Time, as ISO 8601 in UTC.
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<String>,
    },
    /// The code wrote to its standard error.
    Stderr {
        /// The text, as it was written.
        text: String,
        /// Time, as ISO 8601 in UTC.
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<String>,
    },
    /// The value of the code, or something it displayed.
    Result(Box<ResultLine>),
    /// The code, or the platform, failed.
    Error(RaisedError),
    /// Output of the code, or its failure, in Jupyter's form.
    Output {
        /// The content of Jupyter's message, with its type as `output_type`.
        output: RawJson,
        /// Classification of an error, the same in every language.
        kind: Option<Outcome>,
    },
    /// The code asks for a line of input, and waits for it.
    InputRequest {
        /// Text to show to whoever answers.
        prompt: String,
        /// True if the answer must not be shown while it is typed.
        password: bool,
    },
    /// Nothing happened for a while.
    Keepalive,
    /// The variables of earlier executions are gone.
    ContextRestarted {
        /// Reason, as a word for programs.
        reason: String,
    },
    /// Output was neither delivered nor kept while there was no connection to the caller.
    OutputLost {
        /// Size of the lost output.
        bytes: u64,
    },
    /// A line was longer than its reader takes, and was left out. No server sends it.
    TooLarge {
        /// Size of the line.
        bytes: u64,
    },
    /// Account of the resources that the execution used.
    Receipt {
        /// [`Outcome::Ok`], or the `kind` of the error.
        outcome: Outcome,
        /// Resources used from beginning to end.
        #[serde(flatten)]
        usage: Usage,
    },
    /// There is nothing more.
    EndOfExecution,
    /// A line of a type that this client does not know.
    Unknown,
}

#[derive(Deserialize)]
struct Tagged<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Counted {
    execution_count: u64,
}

#[derive(Deserialize)]
struct Printed {
    text: String,
    #[serde(default)]
    timestamp: Option<String>,
}

#[derive(Deserialize)]
struct Shown {
    output: RawJson,
    #[serde(default)]
    kind: Option<Outcome>,
}

#[derive(Deserialize)]
struct Asked {
    prompt: String,
    #[serde(default)]
    password: bool,
}

#[derive(Deserialize)]
struct Restarted {
    reason: String,
}

#[derive(Deserialize)]
struct Lost {
    bytes: u64,
}

#[derive(Deserialize)]
struct Concluded {
    outcome: Outcome,
}

impl AnswerLine {
    /// The line of this text.
    ///
    /// # Errors
    ///
    /// [`serde_json::Error`] if it is none.
    pub fn read(line: &[u8]) -> Result<Self, serde_json::Error> {
        // By hand: a derived reader of tagged values builds a tree of the whole line first.
        let Tagged { kind } = serde_json::from_slice(line)?;
        Ok(match kind.as_ref() {
            "number_of_executions" => {
                let Counted { execution_count } = serde_json::from_slice(line)?;
                Self::NumberOfExecutions { execution_count }
            }
            "stdout" => {
                let Printed { text, timestamp } = serde_json::from_slice(line)?;
                Self::Stdout { text, timestamp }
            }
            "stderr" => {
                let Printed { text, timestamp } = serde_json::from_slice(line)?;
                Self::Stderr { text, timestamp }
            }
            "result" => Self::Result(serde_json::from_slice(line)?),
            "error" => Self::Error(serde_json::from_slice(line)?),
            "output" => {
                let Shown { output, kind } = serde_json::from_slice(line)?;
                Self::Output { output, kind }
            }
            "input_request" => {
                let Asked { prompt, password } = serde_json::from_slice(line)?;
                Self::InputRequest { prompt, password }
            }
            "keepalive" => Self::Keepalive,
            "context_restarted" => {
                let Restarted { reason } = serde_json::from_slice(line)?;
                Self::ContextRestarted { reason }
            }
            "output_lost" => {
                let Lost { bytes } = serde_json::from_slice(line)?;
                Self::OutputLost { bytes }
            }
            "receipt" => {
                let Concluded { outcome } = serde_json::from_slice(line)?;
                let usage = serde_json::from_slice(line)?;
                Self::Receipt { outcome, usage }
            }
            "end_of_execution" => Self::EndOfExecution,
            _ => Self::Unknown,
        })
    }
}

impl<'de> Deserialize<'de> for AnswerLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let line = Box::<RawValue>::deserialize(deserializer)?;
        Self::read(line.get().as_bytes()).map_err(D::Error::custom)
    }
}

/// A value that the code returned or displayed, in all representations that it has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultLine {
    /// `text/plain`, without the quotes of a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Value of media type `text/html`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// Value of media type `text/markdown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    /// Value of media type `image/svg+xml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub svg: Option<String>,
    /// Value of media type `image/png`, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub png: Option<String>,
    /// Value of media type `image/jpeg`, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jpeg: Option<String>,
    /// Value of media type `application/pdf`, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdf: Option<String>,
    /// Value of media type `text/latex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latex: Option<String>,
    /// Value of media type `application/json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<RawJson>,
    /// Value of media type `application/javascript`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub javascript: Option<String>,
    /// `e2b/data`: the columns of a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<RawJson>,
    /// `e2b/chart`: what a plot shows, as numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<RawJson>,
    /// All others, by their MIME types.
    #[serde(default)]
    pub extra: BTreeMap<String, RawJson>,
    /// True if it is the value of the code, false if the code displayed it.
    #[serde(default)]
    pub is_main_result: bool,
}

impl ResultLine {
    /// Size of all representations together, in bytes.
    pub fn size(&self) -> usize {
        let known = [
            &self.text,
            &self.html,
            &self.markdown,
            &self.svg,
            &self.png,
            &self.jpeg,
            &self.pdf,
            &self.latex,
            &self.javascript,
        ];
        let values = [&self.json, &self.data, &self.chart].into_iter().flatten();
        let extra = self.extra.iter();
        let texts = known.into_iter().flatten();
        texts
            .map(String::len)
            .chain(values.map(|json| json.get().len()))
            .chain(extra.map(|(mime, json)| mime.len() + json.get().len()))
            .sum()
    }

    /// All representations by their MIME types, as the kernel sent them.
    ///
    /// Only the quotes of a string in `text/plain` are lost on the wire. A value that is longer than
    /// `most` bytes is `None`, and so is one that is too deep to be read.
    pub fn into_bundle(self, most: usize) -> BTreeMap<String, Option<Value>> {
        let read = |json: RawJson| (json.get().len() <= most).then(|| json.read().ok())?;
        let extra = self.extra.into_iter();
        let mut bundle: BTreeMap<_, _> = extra.map(|(mime, json)| (mime, read(json))).collect();
        let texts = [
            ("text/plain", self.text),
            ("text/html", self.html),
            ("text/markdown", self.markdown),
            ("image/svg+xml", self.svg),
            ("image/png", self.png),
            ("image/jpeg", self.jpeg),
            ("application/pdf", self.pdf),
            ("text/latex", self.latex),
            ("application/javascript", self.javascript),
        ];
        let values = [
            ("application/json", self.json),
            ("e2b/data", self.data),
            ("e2b/chart", self.chart),
        ];
        for (mime, text) in texts {
            bundle.extend(text.map(|text| (mime.to_owned(), Some(Value::String(text)))));
        }
        for (mime, json) in values {
            bundle.extend(json.map(|json| (mime.to_owned(), read(json))));
        }
        bundle
    }
}

/// Error of an execution: an exception of the code, or a failure of the platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaisedError {
    /// The class of the exception.
    pub name: String,
    /// Text of the exception.
    pub value: String,
    /// Its traceback, as the language writes it.
    pub traceback: String,
    /// Classification that is the same in every language. Other servers than ours do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Outcome>,
    /// The exit status of its kernel, if the code ended that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::interpreter::{Line, Receipt};

    fn read(line: &str) -> AnswerLine {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn what_a_server_writes_is_read() {
        let written = |line: &Line<'_>| read(&serde_json::to_string(line).unwrap());
        let usage = Usage {
            wall_us: 5,
            cpu_us: Some(3),
            ..Usage::default()
        };
        assert_eq!(
            written(&Line::Receipt(Receipt {
                outcome: Outcome::Ok,
                usage: usage.clone(),
            })),
            AnswerLine::Receipt {
                outcome: Outcome::Ok,
                usage,
            }
        );
        assert_eq!(
            written(&Line::Error {
                name: "NameError",
                value: "x",
                traceback: "",
                kind: Outcome::Runtime,
                exit_status: None,
            }),
            AnswerLine::Error(RaisedError {
                name: "NameError".to_owned(),
                value: "x".to_owned(),
                traceback: String::new(),
                kind: Some(Outcome::Runtime),
                exit_status: None,
            })
        );
        assert_eq!(written(&Line::EndOfExecution), AnswerLine::EndOfExecution);
    }

    #[test]
    fn a_line_of_another_server_is_read_too() {
        let error = r#"{"type": "error", "name": "A", "value": "b", "traceback": ""}"#;
        assert!(matches!(read(error), AnswerLine::Error(error) if error.kind.is_none()));
        assert_eq!(read(r#"{"type": "news", "x": 1}"#), AnswerLine::Unknown);
    }

    /// A tree of it would take gigabytes, and overflow the stack of its reader.
    #[test]
    fn what_no_tree_can_hold_is_read_as_text() {
        let deep = "[".repeat(5000) + &"]".repeat(5000);
        let exact = format!("1{}", "0".repeat(400));
        for value in [deep, exact] {
            let line = format!(
                r#"{{"type":"output","output":{{"data":{value}}},"x":{value},"kind":"runtime"}}"#
            );
            let AnswerLine::Output { output, kind } = read(&line) else {
                panic!("{line}");
            };
            assert_eq!(output.get(), format!(r#"{{"data":{value}}}"#));
            assert_eq!(kind, Some(Outcome::Runtime));
            let line = format!(r#"{{"type":"result","json":{value},"text":"it"}}"#);
            let AnswerLine::Result(result) = read(&line) else {
                panic!("{line}");
            };
            assert_eq!(result.json.as_ref().map(RawJson::get), Some(value.as_str()));
            assert_eq!(result.into_bundle(usize::MAX)["application/json"], None);
        }
    }

    #[test]
    fn a_result_gives_its_bundle_back() {
        let line = r#"{"type":"result","text":"it","json":[1,null],"extra":{"image/gif":"R0"},"is_main_result":true}"#;
        let AnswerLine::Result(result) = read(line) else {
            panic!("{line}");
        };
        assert!(result.is_main_result);
        assert_eq!(
            json!(result.clone().into_bundle(1000)),
            json!({"text/plain": "it", "application/json": [1, null], "image/gif": "R0"})
        );
        assert_eq!(result.size(), "it[1,null]image/gif\"R0\"".len());
    }
}
