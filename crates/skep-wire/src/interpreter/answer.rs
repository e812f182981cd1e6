//! The lines of an execution's answer, as a caller reads them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Outcome, Usage};

/// One line. What is not known is [`AnswerLine::Unknown`]: newer servers may say more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<String>,
    },
    /// The code wrote to its standard error.
    Stderr {
        /// The text, as it was written.
        text: String,
        /// Time, as ISO 8601 in UTC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<String>,
    },
    /// The value of the code, or something it displayed.
    Result(Box<ResultLine>),
    /// The code, or the platform, failed.
    Error(RaisedError),
    /// Output of the code, or its failure, in Jupyter's form.
    Output {
        /// The content of Jupyter's message, with its type as `output_type`.
        output: Value,
        /// Classification of an error, the same in every language.
        #[serde(default)]
        kind: Option<Outcome>,
    },
    /// The code asks for a line of input, and waits for it.
    InputRequest {
        /// Text to show to whoever answers.
        prompt: String,
        /// True if the answer must not be shown while it is typed.
        #[serde(default)]
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
    #[serde(other)]
    Unknown,
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
    pub json: Option<Value>,
    /// Value of media type `application/javascript`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub javascript: Option<String>,
    /// `e2b/data`: the columns of a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// `e2b/chart`: what a plot shows, as numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<Value>,
    /// All others, by their MIME types.
    #[serde(default)]
    pub extra: Map<String, Value>,
    /// True if it is the value of the code, false if the code displayed it.
    #[serde(default)]
    pub is_main_result: bool,
}

impl ResultLine {
    /// All representations by their MIME types, as the kernel sent them.
    ///
    /// Only the quotes of a string in `text/plain` are lost on the wire.
    pub fn into_bundle(self) -> Map<String, Value> {
        let mut bundle = self.extra;
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
        let texts = texts.map(|(mime, text)| (mime, text.map(Value::String)));
        for (mime, value) in texts.into_iter().chain(values) {
            bundle.extend(value.map(|value| (mime.to_owned(), value)));
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

    #[test]
    fn a_result_gives_its_bundle_back() {
        let line = r#"{"type":"result","text":"it","json":[1,null],"extra":{"image/gif":"R0"},"is_main_result":true}"#;
        let AnswerLine::Result(result) = read(line) else {
            panic!("{line}");
        };
        assert!(result.is_main_result);
        assert_eq!(
            Value::Object(result.into_bundle()),
            json!({"text/plain": "it", "application/json": [1, null], "image/gif": "R0"})
        );
    }
}
