//! Questions about code that is not run, and a kernel's answers to them.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::frame::{RawBundle, Request};
use crate::{Bundle, Message, Reply};

/// Most completions that are read of an answer. User code can write to the kernel's socket itself.
const MOST_MATCHES: usize = 10_000;

/// A question about code that is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The texts that could stand at the cursor.
    Complete {
        /// Source text in the language of the kernel.
        code: String,
        /// Number of characters before the cursor; the end if missing.
        cursor: Option<u64>,
    },
    /// The documentation of the name at the cursor.
    Inspect {
        /// Source text in the language of the kernel.
        code: String,
        /// Number of characters before the cursor; the end if missing.
        cursor: Option<u64>,
        /// True if the source is asked for too.
        with_source: bool,
    },
    /// The decision of a prompt: to run the code, or to ask for another line.
    IsComplete {
        /// Source text in the language of the kernel.
        code: String,
    },
    /// The language and the kernel.
    Info,
}

impl Question {
    /// The request to a kernel of ours, under an id.
    pub fn request<'a>(&'a self, id: &'a str) -> Request<'a> {
        match self {
            Self::Complete { code, cursor } => Request::Complete {
                id,
                code,
                cursor: *cursor,
            },
            Self::Inspect {
                code,
                cursor,
                with_source,
            } => Request::Inspect {
                id,
                code,
                cursor: *cursor,
                detail: u8::from(*with_source),
            },
            Self::IsComplete { code } => Request::IsComplete { id, code },
            Self::Info => Request::Info { id },
        }
    }
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Texts that could stand at the cursor.
    Completions {
        /// The texts, the likeliest first.
        matches: Vec<String>,
        /// Number of characters before the text that they replace.
        start: u64,
        /// Number of characters up to its end.
        end: u64,
    },
    /// Documentation of the name at the cursor; `None` if there is no such name.
    Inspection(Option<Bundle>),
    /// State of a piece of code at a prompt.
    Completeness {
        /// State of the code.
        state: Completeness,
        /// Indentation of the next line, if one is to follow.
        indent: String,
    },
    /// The language and the kernel.
    Info(LanguageInfo),
}

/// State of a piece of code at a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// It can be run.
    Complete,
    /// Another line must follow.
    Incomplete,
    /// No line that follows makes it valid.
    Invalid,
    /// The kernel does not know.
    Unknown,
}

/// A language and who speaks it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LanguageInfo {
    /// Name of the language, in lower case.
    pub language: String,
    /// Its version.
    pub version: String,
    /// Media type of source text.
    pub mimetype: String,
    /// Extension of a source file, with the dot.
    pub file_extension: String,
    /// The kernel and its version.
    pub kernel: String,
}

/// The fields of all answers together, of our kernels and of Jupyter's.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(default, borrow)]
    status: Cow<'a, str>,
    #[serde(default, borrow)]
    ename: Cow<'a, str>,
    #[serde(default, borrow)]
    evalue: Cow<'a, str>,
    #[serde(default, deserialize_with = "matches")]
    matches: Option<Vec<String>>,
    #[serde(default)]
    cursor_start: u64,
    #[serde(default)]
    cursor_end: u64,
    #[serde(default)]
    found: Option<bool>,
    #[serde(default, borrow)]
    data: Option<RawBundle<'a>>,
    #[serde(default, borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(default, borrow)]
    completeness: Option<Cow<'a, str>>,
    #[serde(default)]
    indent: String,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    version: String,
    #[serde(default)]
    mimetype: String,
    #[serde(default)]
    file_extension: String,
    #[serde(default)]
    kernel: String,
    #[serde(default)]
    implementation: String,
    #[serde(default)]
    implementation_version: String,
    #[serde(default)]
    language_info: Option<JupyterLanguage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JupyterLanguage {
    name: String,
    version: String,
    mimetype: String,
    file_extension: String,
}

/// The answer in a `reply` of one of our kernels; `None` if it answers no question.
pub(crate) fn in_reply(frame: &Bytes) -> Option<Answer> {
    let fields: Fields<'_> = serde_json::from_slice(frame).ok()?;
    if fields.status != "ok" {
        return None;
    }
    if let Some(found) = fields.found {
        return Some(inspection(frame, found, fields));
    }
    if let Some(state) = &fields.completeness {
        let state = completeness(state);
        let indent = fields.indent;
        return Some(Answer::Completeness { state, indent });
    }
    if let Some(language) = fields.language {
        return Some(Answer::Info(LanguageInfo {
            language,
            version: fields.version,
            mimetype: fields.mimetype,
            file_extension: fields.file_extension,
            kernel: fields.kernel,
        }));
    }
    Some(Answer::Completions {
        matches: fields.matches?,
        start: fields.cursor_start,
        end: fields.cursor_end,
    })
}

/// The message that a reply of Jupyter's kernels means, by its type; `None` if it is of no such
/// type.
pub(crate) fn jupyter_reply(
    kind: &str,
    content: &Bytes,
) -> Option<Result<Message, serde_json::Error>> {
    let is_answer = matches!(
        kind,
        "complete_reply" | "inspect_reply" | "is_complete_reply" | "kernel_info_reply"
    );
    is_answer.then(|| {
        let fields: Fields<'_> = serde_json::from_slice(content)?;
        if matches!(fields.status.as_ref(), "error" | "aborted" | "abort") {
            return Ok(Message::Reply(Reply::Failed {
                name: fields.ename.into_owned(),
                value: fields.evalue.into_owned(),
                exiting: false,
            }));
        }
        Ok(Message::Answer(match kind {
            "complete_reply" => Answer::Completions {
                matches: fields.matches.unwrap_or_default(),
                start: fields.cursor_start,
                end: fields.cursor_end,
            },
            "inspect_reply" => inspection(content, fields.found.unwrap_or_default(), fields),
            "is_complete_reply" => Answer::Completeness {
                state: completeness(&fields.status),
                indent: fields.indent,
            },
            _ => jupyter_info(fields),
        }))
    })
}

fn inspection(frame: &Bytes, found: bool, fields: Fields<'_>) -> Answer {
    let data = fields.data.filter(|_| found);
    Answer::Inspection(data.map(|data| data.in_frame(frame, fields.metadata, None)))
}

fn jupyter_info(fields: Fields<'_>) -> Answer {
    let language = fields.language_info.unwrap_or_default();
    Answer::Info(LanguageInfo {
        language: language.name.to_lowercase(),
        version: language.version,
        mimetype: language.mimetype,
        file_extension: language.file_extension,
        kernel: format!(
            "{} {}",
            fields.implementation, fields.implementation_version
        ),
    })
}

fn completeness(word: &str) -> Completeness {
    match word {
        "complete" => Completeness::Complete,
        "incomplete" => Completeness::Incomplete,
        "invalid" => Completeness::Invalid,
        _ => Completeness::Unknown,
    }
}

fn matches<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    struct Texts;
    impl<'de> Visitor<'de> for Texts {
        type Value = Option<Vec<String>>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("a list of texts")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(text) = texts.next_element()? {
                if all.len() < MOST_MATCHES {
                    all.push(text);
                }
            }
            Ok(Some(all))
        }
    }
    deserializer.deserialize_seq(Texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(text: &'static str) -> Option<Answer> {
        in_reply(&Bytes::from_static(text.as_bytes()))
    }

    fn theirs(kind: &str, text: &'static str) -> Message {
        let content = Bytes::from_static(text.as_bytes());
        jupyter_reply(kind, &content).unwrap().unwrap()
    }

    #[test]
    fn an_answer_is_known_by_what_is_in_it() {
        assert_eq!(
            ours(
                r#"{"type":"reply","status":"ok","matches":["print"],"cursor_start":0,"cursor_end":3}"#
            ),
            Some(Answer::Completions {
                matches: vec!["print".to_owned()],
                start: 0,
                end: 3
            })
        );
        assert_eq!(
            ours(r#"{"type":"reply","status":"ok","found":false,"data":{}}"#),
            Some(Answer::Inspection(None))
        );
        assert_eq!(
            ours(r#"{"type":"reply","status":"ok","completeness":"incomplete","indent":"  "}"#),
            Some(Answer::Completeness {
                state: Completeness::Incomplete,
                indent: "  ".to_owned()
            })
        );
        assert_eq!(
            ours(r#"{"type":"reply","status":"ok","execution_count":1}"#),
            None
        );
        let refused = r#"{"type":"reply","status":"error","ename":"KeyError","evalue":"'code'"}"#;
        assert_eq!(ours(refused), None);
    }

    #[test]
    fn documentation_is_passed_on_as_it_is_written() {
        let found = ours(r#"{"status":"ok","found":true,"data":{"text/plain":"a\u2028"}}"#);
        let Some(Answer::Inspection(Some(bundle))) = found else {
            panic!("{found:?}");
        };
        assert_eq!(bundle.entries[0].0, "text/plain");
        assert_eq!(bundle.entries[0].1.as_str(), r#""a\u2028""#);
    }

    #[test]
    fn jupyters_answers_are_known_by_their_type() {
        assert_eq!(
            theirs(
                "is_complete_reply",
                r#"{"status":"incomplete","indent":"\t"}"#
            ),
            Message::Answer(Answer::Completeness {
                state: Completeness::Incomplete,
                indent: "\t".to_owned()
            })
        );
        let info = theirs(
            "kernel_info_reply",
            r#"{"status":"ok","implementation":"ipython","implementation_version":"9.1","language_info":{"name":"Python","version":"3.13","mimetype":"text/x-python","file_extension":".py"}}"#,
        );
        assert_eq!(
            info,
            Message::Answer(Answer::Info(LanguageInfo {
                language: "python".to_owned(),
                version: "3.13".to_owned(),
                mimetype: "text/x-python".to_owned(),
                file_extension: ".py".to_owned(),
                kernel: "ipython 9.1".to_owned(),
            }))
        );
        let failed = theirs(
            "complete_reply",
            r#"{"status":"error","ename":"E","evalue":"v"}"#,
        );
        assert!(matches!(failed, Message::Reply(Reply::Failed { .. })));
        assert!(jupyter_reply("execute_reply", &Bytes::new()).is_none());
    }

    #[test]
    fn countless_completions_are_cut() {
        let texts = vec!["\"\""; MOST_MATCHES + 5].join(",");
        let text = format!(r#"{{"status":"ok","matches":[{texts}]}}"#);
        let Some(Answer::Completions { matches, .. }) = in_reply(&Bytes::from(text)) else {
            panic!("it is an answer");
        };
        assert_eq!(matches.len(), MOST_MATCHES);
    }
}
