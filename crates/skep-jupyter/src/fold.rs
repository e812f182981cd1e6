//! Translation of the messages of one execution into its outputs.

use crate::{Bundle, InputRequest, JsonText, Message, Nature, Reply, Stream};

/// Output of one execution, in order. The last is [`Output::Ended`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// The code was accepted under this number.
    Accepted {
        /// Number of executions that the kernel has seen, this one included.
        count: u64,
    },
    /// Text was printed.
    Text {
        /// Standard output or standard error.
        stream: Stream,
        /// The text, as a JSON string.
        text: JsonText,
    },
    /// A value was displayed, or is the value of the cell.
    Rich {
        /// Representations by media type.
        bundle: Bundle,
        /// True if it is the value of the cell.
        is_main: bool,
    },
    /// A value takes the place of what was displayed under the same id. The contract has no line
    /// for it.
    Updated(Bundle),
    /// A request to remove the output shown until now. The contract has no line for it.
    Cleared {
        /// True if that waits until there is something to show instead.
        wait: bool,
    },
    /// The code waits for a line of input.
    InputRequested(InputRequest),
    /// The exception that ended the cell.
    Raised(Raised),
    /// A message was too large to be carried.
    TooLarge {
        /// Size of the message.
        bytes: u64,
    },
    /// There is nothing more.
    Ended {
        /// True if the code asked the kernel to exit.
        exiting: bool,
    },
}

/// The exception that ended a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// Its class in the language.
    pub name: String,
    /// Text of the exception.
    pub value: String,
    /// The lines of its traceback.
    pub traceback: Vec<String>,
    /// Kind of the exception, whatever its name in the language.
    pub nature: Nature,
}

/// The state of one execution.
///
/// ```text
/// sent ──input──► accepted ──idle──► ended
///   └──────────── aborted ───────────┘
/// ```
#[derive(Debug, Default)]
pub struct Fold {
    accepted: bool,
    raised: bool,
    exiting: bool,
    ended: bool,
}

impl Fold {
    /// Says what a message means for this execution.
    pub fn on(&mut self, message: Message) -> Option<Output> {
        if self.ended {
            return None;
        }
        match message {
            Message::Input { count } => {
                self.accepted = true;
                Some(Output::Accepted { count })
            }
            Message::Text { stream, text } => Some(Output::Text { stream, text }),
            Message::Display(bundle) => Some(Output::Rich {
                bundle,
                is_main: false,
            }),
            Message::Value(bundle) => Some(Output::Rich {
                bundle,
                is_main: true,
            }),
            Message::Update(bundle) => Some(Output::Updated(bundle)),
            Message::Clear { wait } => Some(Output::Cleared { wait }),
            Message::Error {
                name,
                value,
                traceback,
                nature,
            } => self.raise(Raised {
                name,
                value,
                traceback,
                nature,
            }),
            Message::InputRequest(request) => Some(Output::InputRequested(request)),
            Message::Reply(reply) => self.reply(reply),
            Message::TooLarge { bytes } => Some(Output::TooLarge { bytes }),
            // Some kernels are idle once before they look at the code.
            Message::Idle if self.accepted => self.end(),
            Message::Restarting => {
                self.raise(Raised {
                    name: "ContextRestarting".to_owned(),
                    value: "Context was restarted".to_owned(),
                    traceback: Vec::new(),
                    nature: Nature::Runtime,
                })
                // Whoever owns the kernel ends the execution.
            }
            Message::Hello { .. }
            | Message::Busy
            | Message::Idle
            | Message::Answer(_)
            | Message::Unused => None,
        }
    }

    fn reply(&mut self, reply: Reply) -> Option<Output> {
        match reply {
            Reply::Done { exiting } => {
                self.exiting = exiting;
                None
            }
            Reply::Failed {
                name,
                value,
                exiting,
            } => {
                self.exiting = exiting;
                self.raise(Raised {
                    name,
                    value,
                    traceback: Vec::new(),
                    nature: Nature::Runtime,
                })
            }
            // An aborted request is never idle, and never accepted.
            Reply::Aborted => {
                self.accepted = true;
                self.raise(Raised {
                    name: "ExecutionAborted".to_owned(),
                    value: "Execution was aborted".to_owned(),
                    traceback: Vec::new(),
                    nature: Nature::Interrupted,
                })
            }
        }
    }

    /// Reports an exception, but only the first of an execution.
    fn raise(&mut self, raised: Raised) -> Option<Output> {
        let first = !std::mem::replace(&mut self.raised, true);
        first.then_some(Output::Raised(raised))
    }

    fn end(&mut self) -> Option<Output> {
        self.ended = true;
        Some(Output::Ended {
            exiting: self.exiting,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str) -> Message {
        Message::Error {
            name: name.to_owned(),
            value: "v".to_owned(),
            traceback: vec!["-".to_owned(), "x".to_owned()],
            nature: Nature::Runtime,
        }
    }

    fn done() -> Message {
        Message::Reply(Reply::Done { exiting: false })
    }

    #[track_caller]
    fn check(messages: Vec<Message>, expected: &[&str]) {
        let mut fold = Fold::default();
        let outputs: Vec<String> = messages
            .into_iter()
            .filter_map(|message| fold.on(message))
            .map(|output| match output {
                Output::Accepted { count } => format!("accepted {count}"),
                Output::Text { text, .. } => format!("text {}", text.as_str()),
                Output::Rich { is_main, .. } => format!("rich {is_main}"),
                Output::Updated(_) => "updated".to_owned(),
                Output::Cleared { wait } => format!("cleared {wait}"),
                Output::InputRequested(request) => format!("asked {}", request.prompt),
                Output::Raised(raised) => {
                    format!("raised {} {}", raised.name, raised.traceback.concat())
                }
                Output::TooLarge { bytes } => format!("too large {bytes}"),
                Output::Ended { exiting } => format!("ended {exiting}"),
            })
            .collect();
        assert_eq!(outputs, expected);
    }

    #[test]
    fn a_cell_is_accepted_and_ends_when_the_kernel_is_idle() {
        check(
            vec![
                Message::Busy,
                Message::Input { count: 3 },
                Message::Text {
                    stream: Stream::Stdout,
                    text: JsonText::string("a"),
                },
                Message::Display(Bundle::default()),
                Message::Unused,
                Message::Clear { wait: true },
                Message::Update(Bundle::default()),
                Message::InputRequest(InputRequest {
                    id: "i1".to_owned(),
                    prompt: "name?".to_owned(),
                    is_password: false,
                }),
                Message::Value(Bundle::default()),
                done(),
                Message::Idle,
            ],
            &[
                "accepted 3",
                "text \"a\"",
                "rich false",
                "cleared true",
                "updated",
                "asked name?",
                "rich true",
                "ended false",
            ],
        );
    }

    #[test]
    fn only_the_first_exception_is_reported() {
        let failed = Message::Reply(Reply::Failed {
            name: "B".to_owned(),
            value: String::new(),
            exiting: false,
        });
        let input = Message::Input { count: 1 };
        check(
            vec![
                input.clone(),
                error("A"),
                error("B"),
                failed.clone(),
                Message::Idle,
            ],
            &["accepted 1", "raised A -x", "ended false"],
        );
        check(
            vec![input, failed, Message::Idle],
            &["accepted 1", "raised B ", "ended false"],
        );
    }

    #[test]
    fn a_kernel_that_is_idle_before_it_accepts_has_not_finished() {
        check(
            vec![Message::Idle, Message::Input { count: 1 }, Message::Idle],
            &["accepted 1", "ended false"],
        );
    }

    #[test]
    fn javascript_reports_a_syntax_error_before_it_accepts() {
        check(
            vec![
                error("SyntaxError"),
                Message::Input { count: 2 },
                Message::Idle,
            ],
            &["raised SyntaxError -x", "accepted 2", "ended false"],
        );
    }

    #[test]
    fn ipykernel_aborts_without_accepting() {
        check(
            vec![Message::Reply(Reply::Aborted), Message::Idle],
            &["raised ExecutionAborted ", "ended false"],
        );
    }

    #[test]
    fn nothing_follows_the_end() {
        check(
            vec![
                Message::Input { count: 1 },
                Message::Reply(Reply::Done { exiting: true }),
                Message::Idle,
                Message::Value(Bundle::default()),
                Message::Idle,
            ],
            &["accepted 1", "ended true"],
        );
    }
}
