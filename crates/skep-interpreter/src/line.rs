//! The lines of an answer: ASCII, one JSON object each, no blank ones.

mod jupyter;

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use skep_jupyter::{Bundle, InputRequest, JsonText, Output, Raised, Stream};
use skep_kernels::{Exit, Failure, Outcome, Receipt, Spent, Update};
use skep_wire::interpreter::{self as wire, Line, OutputForm};

use crate::failure::{Sentence, reason};
use crate::outcome::outcome;
use crate::timestamp;

/// A value from this size on is sent from where it lies instead of being copied into a line.
const LARGE: usize = 16 << 10;

/// Bytes on their way to the caller.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    form: OutputForm,
    finished: Vec<Bytes>,
    current: BytesMut,
}

impl Lines {
    /// Lines that say what code produced in this form.
    pub(crate) fn new(form: OutputForm) -> Self {
        Self {
            form,
            ..Self::default()
        }
    }

    /// The lines of one update.
    pub(crate) fn push(&mut self, update: &Update) {
        match update {
            Update::Output { time, output } => match self.form {
                OutputForm::Contract => self.push_output(*time, output),
                OutputForm::Jupyter => self.push_jupyter(output),
            },
            Update::StateLost(loss) => self.push_small(&Line::ContextRestarted {
                reason: reason(*loss),
            }),
            Update::OutputLost { bytes } => self.push_small(&Line::OutputLost { bytes: *bytes }),
            Update::Failed(failure) => match self.form {
                OutputForm::Contract => self.push_failure(failure),
                OutputForm::Jupyter => self.push_jupyter_failure(failure),
            },
            Update::Ended(receipt) => {
                self.push_small(&Line::Receipt(shown(receipt)));
                self.push_small(&Line::EndOfExecution);
            }
        }
    }

    /// A sign of life.
    pub(crate) fn push_keepalive(&mut self) {
        self.push_small(&Line::Keepalive);
    }

    /// The bytes, in pieces.
    pub(crate) fn into_pieces(mut self) -> Vec<Bytes> {
        self.close_piece();
        self.finished
    }

    fn push_output(&mut self, time: Option<i64>, output: &Output) {
        match output {
            Output::Accepted { count } => self.push_small(&Line::NumberOfExecutions {
                execution_count: *count,
            }),
            Output::Text { stream, text } => self.push_text(*stream, text, time),
            Output::Rich { bundle, is_main } => self.push_result(bundle, *is_main),
            Output::InputRequested(request) => self.push_request(request),
            Output::Raised(raised) => self.push_raised(raised),
            Output::TooLarge { bytes } => {
                let text = format!("an output of {bytes} bytes is too large and was left out\n");
                self.push_text(Stream::Stderr, &JsonText::string(&text), time);
            }
            // The end has a line of its own, and the contract none for the others.
            Output::Ended { .. } | Output::Updated(_) | Output::Cleared { .. } => {}
        }
    }

    fn push_request(&mut self, request: &InputRequest) {
        self.push_small(&Line::InputRequest {
            prompt: &request.prompt,
            password: request.is_password,
        });
    }

    fn push_text(&mut self, stream: Stream, text: &JsonText, time: Option<i64>) {
        self.current.put_slice(match stream {
            Stream::Stdout => b"{\"type\":\"stdout\",\"text\":",
            Stream::Stderr => b"{\"type\":\"stderr\",\"text\":",
        });
        self.put(text);
        self.current.put_slice(b",\"timestamp\":\"");
        self.current.put_slice(timestamp::written(time).as_bytes());
        self.current.put_slice(b"\"}\n");
    }

    fn push_result(&mut self, bundle: &Bundle, is_main: bool) {
        self.current.put_slice(b"{\"type\":\"result\"");
        let is_null = |value: &JsonText| value.as_str() == "null";
        for (mime, value) in &bundle.entries {
            let Some(field) = field(mime).filter(|_| !is_null(value)) else {
                continue;
            };
            self.current.put_slice(b",\"");
            self.current.put_slice(field.as_bytes());
            self.current.put_slice(b"\":");
            match value.within_quotes().filter(|_| field == "text") {
                Some(content) => {
                    self.current.put_slice(b"\"");
                    self.put_bytes(content);
                    self.current.put_slice(b"\"");
                }
                None => self.put(value),
            }
        }
        self.current.put_slice(b",\"extra\":{");
        let mut separator: &[u8] = b"";
        let others = bundle.entries.iter();
        for (mime, value) in others.filter(|(mime, _)| field(mime).is_none()) {
            self.current.put_slice(separator);
            self.put(&JsonText::string(mime));
            self.current.put_slice(b":");
            self.put(value);
            separator = b",";
        }
        self.current.put_slice(if is_main {
            b"},\"is_main_result\":true}\n"
        } else {
            b"},\"is_main_result\":false}\n"
        });
    }

    fn push_raised(&mut self, raised: &Raised) {
        self.push_small(&Line::Error {
            name: &raised.name,
            value: &raised.value,
            // As the contract wants it: the lines without anything between them.
            traceback: &raised.traceback.concat(),
            kind: outcome(Outcome::of_exception(raised)),
            exit_status: None,
        });
    }

    fn push_failure(&mut self, failure: &Failure) {
        let kind = outcome(Outcome::of_failure(failure));
        let exit_status = if let Failure::Died(Exit::Code(code)) = failure {
            Some(*code)
        } else {
            None
        };
        let Sentence {
            name,
            value,
            traceback,
        } = Sentence::about(failure);
        self.push_small(&Line::Error {
            name,
            value: &value,
            traceback: &traceback,
            kind,
            exit_status,
        });
    }

    fn push_small(&mut self, line: &Line<'_>) {
        let text = JsonText::of(line).expect("lines are strings and numbers");
        self.current.put_slice(text.as_str().as_bytes());
        self.current.put_slice(b"\n");
    }

    fn put(&mut self, value: &JsonText) {
        self.put_bytes(value.clone().into_bytes());
    }

    fn put_bytes(&mut self, bytes: Bytes) {
        if bytes.len() < LARGE {
            self.current.put_slice(&bytes);
        } else {
            self.close_piece();
            self.finished.push(bytes);
        }
    }

    fn close_piece(&mut self) {
        if !self.current.is_empty() {
            self.finished.push(self.current.split().freeze());
        }
    }
}

/// The field of a result that shows this representation; `None` for those in `extra`.
fn field(mime: &str) -> Option<&'static str> {
    Some(match mime {
        "text/plain" => "text",
        "text/html" => "html",
        "text/markdown" => "markdown",
        "image/svg+xml" => "svg",
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "application/pdf" => "pdf",
        "text/latex" => "latex",
        "application/json" => "json",
        "application/javascript" => "javascript",
        "e2b/data" => "data",
        "e2b/chart" => "chart",
        _ => return None,
    })
}

fn shown(receipt: &Receipt) -> wire::Receipt {
    wire::Receipt {
        outcome: outcome(receipt.outcome),
        usage: wire::Usage {
            // What is left in memory after the end says nothing about the execution.
            memory_bytes: None,
            ..usage(receipt.wall, receipt.queued, receipt.spent)
        },
    }
}

/// Renders the resources that were used.
pub(crate) fn usage(wall: Duration, queued: Duration, spent: Option<Spent>) -> wire::Usage {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let moved = spent.and_then(|spent| spent.moved);
    wire::Usage {
        wall_us: micros(wall),
        queued_us: micros(queued),
        cpu_us: spent.map(|spent| micros(spent.processor)),
        memory_bytes: spent.and_then(|spent| spent.memory),
        peak_memory_bytes: spent.and_then(|spent| spent.peak_memory),
        read_bytes: moved.map(|moved| moved.read),
        written_bytes: moved.map(|moved| moved.written),
        out_of_memory_kills: spent
            .and_then(|spent| spent.out_of_memory_kills)
            .filter(|kills| *kills > 0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(update: Update, expected: &str) {
        let mut lines = Lines::default();
        lines.push(&update);
        let bytes = lines.into_pieces().concat();
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    fn output(output: Output) -> Update {
        Update::Output {
            time: Some(1_000_000),
            output,
        }
    }

    fn bundle(entries: &[(&str, serde_json::Value)]) -> Bundle {
        let entry = |(mime, value): &(&str, serde_json::Value)| {
            ((*mime).to_owned(), JsonText::of(value).unwrap())
        };
        Bundle::from(entries.iter().map(entry).collect::<Vec<_>>())
    }

    #[test]
    fn text_is_ascii_with_its_time() {
        let text = JsonText::string("ü\u{2028}\n");
        check(
            output(Output::Text {
                stream: Stream::Stdout,
                text,
            }),
            "{\"type\":\"stdout\",\"text\":\"\\u00fc\\u2028\\n\",\"timestamp\":\"1970-01-01T00:00:01+00:00\"}\n",
        );
    }

    #[test]
    fn a_request_for_input_says_what_to_show_and_not_how_the_kernel_calls_it() {
        let request = InputRequest {
            id: "i1".to_owned(),
            prompt: "Größe? ".to_owned(),
            is_password: false,
        };
        check(
            output(Output::InputRequested(request)),
            "{\"type\":\"input_request\",\"prompt\":\"Gr\\u00f6\\u00dfe? \",\"password\":false}\n",
        );
    }

    #[test]
    fn representations_go_to_their_fields_and_the_rest_to_extra() {
        check(
            output(Output::Rich {
                bundle: bundle(&[
                    ("text/plain", json!("'it'")),
                    ("application/x-foo", json!({"a": null})),
                    ("application/json", json!([1, null])),
                    ("image/gif", json!("R0")),
                    ("text/html", json!(null)),
                ]),
                is_main: true,
            }),
            "{\"type\":\"result\",\"text\":\"it\",\"json\":[1,null],\"extra\":{\"application/x-foo\":{\"a\":null},\"image/gif\":\"R0\"},\"is_main_result\":true}\n",
        );
        check(
            output(Output::Rich {
                bundle: bundle(&[]),
                is_main: false,
            }),
            "{\"type\":\"result\",\"extra\":{},\"is_main_result\":false}\n",
        );
    }

    #[test]
    fn a_large_value_is_sent_from_where_it_lies() {
        let large = JsonText::string(&"x".repeat(LARGE));
        let place = large.as_str().as_ptr();
        let mut lines = Lines::default();
        lines.push(&output(Output::Rich {
            bundle: Bundle::from(vec![("text/html".to_owned(), large)]),
            is_main: false,
        }));
        let pieces = lines.into_pieces();
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces[1].as_ptr(), place);
        let line = String::from_utf8(pieces.concat()).unwrap();
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["html"].as_str().map(str::len), Some(LARGE));
    }

    #[test]
    fn a_kernel_that_had_no_memory_left_is_told_by_name() {
        check(
            Update::Failed(Failure::Died(Exit::OutOfMemory)),
            "{\"type\":\"error\",\"name\":\"OutOfMemory\",\"value\":\"There was no memory left for the code, so its kernel was killed. Context was restarted: its variables are lost. Use less memory, or a template that has more\",\"traceback\":\"The kernel was killed because there was no memory left for it. Its variables are lost.\",\"kind\":\"out_of_memory\"}\n",
        );
    }

    #[test]
    fn the_death_of_a_kernel_has_the_name_of_the_contract_and_an_exit_status() {
        check(
            Update::Failed(Failure::Died(Exit::Code(3))),
            "{\"type\":\"error\",\"name\":\"ContextRestarting\",\"value\":\"Context was restarted\",\"traceback\":\"The kernel ended with exit status 3. Its variables are lost.\",\"kind\":\"kernel_died\",\"exit_status\":3}\n",
        );
    }

    #[test]
    fn the_end_comes_after_the_receipt() {
        let receipt = Receipt {
            outcome: Outcome::Ok,
            wall: std::time::Duration::from_millis(2),
            queued: std::time::Duration::ZERO,
            spent: None,
        };
        check(
            Update::Ended(receipt),
            "{\"type\":\"receipt\",\"outcome\":\"ok\",\"wall_us\":2000,\"queued_us\":0}\n{\"type\":\"end_of_execution\"}\n",
        );
    }
}
