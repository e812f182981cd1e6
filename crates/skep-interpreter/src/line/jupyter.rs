//! Lines that say what code produced as Jupyter's kernels do: for whoever writes a notebook.

use bytes::BufMut;
use skep_jupyter::{Bundle, JsonText, Output, Raised, Stream};
use skep_kernels::{Failure, Outcome};
use skep_wire::interpreter::Line;

use super::Lines;
use crate::failure::Sentence;
use crate::outcome::outcome;

const BEGIN: &[u8] = b"{\"type\":\"output\",\"output\":{\"output_type\":\"";

impl Lines {
    pub(super) fn push_jupyter(&mut self, output: &Output) {
        match output {
            Output::Accepted { count } => self.push_small(&Line::NumberOfExecutions {
                execution_count: *count,
            }),
            Output::Text { stream, text } => self.push_jupyter_text(*stream, text),
            Output::TooLarge { bytes } => {
                let text = format!("an output of {bytes} bytes is too large and was left out\n");
                self.push_jupyter_text(Stream::Stderr, &JsonText::string(&text));
            }
            Output::Rich {
                bundle,
                is_main: true,
            } => self.push_bundle("execute_result", bundle),
            Output::Rich {
                bundle,
                is_main: false,
            } => self.push_bundle("display_data", bundle),
            Output::Updated(bundle) => self.push_bundle("update_display_data", bundle),
            Output::Cleared { wait } => {
                self.begin("clear_output");
                let wait = format!(",\"wait\":{wait}}}}}\n");
                self.current.put_slice(wait.as_bytes());
            }
            Output::InputRequested(request) => self.push_request(request),
            Output::Raised(raised) => self.push_error(raised, Outcome::of_exception(raised)),
            // The end has a line of its own.
            Output::Ended { .. } => {}
        }
    }

    pub(super) fn push_jupyter_failure(&mut self, failure: &Failure) {
        let raised = Sentence::about(failure).into_raised();
        self.push_error(&raised, Outcome::of_failure(failure));
    }

    fn begin(&mut self, kind: &str) {
        self.current.put_slice(BEGIN);
        self.current.put_slice(kind.as_bytes());
        self.current.put_slice(b"\"");
    }

    fn push_jupyter_text(&mut self, stream: Stream, text: &JsonText) {
        self.begin("stream");
        self.current.put_slice(match stream {
            Stream::Stdout => b",\"name\":\"stdout\",\"text\":",
            Stream::Stderr => b",\"name\":\"stderr\",\"text\":",
        });
        self.put(text);
        self.current.put_slice(b"}}\n");
    }

    fn push_bundle(&mut self, kind: &str, bundle: &Bundle) {
        self.begin(kind);
        self.current.put_slice(b",\"data\":{");
        let mut separator: &[u8] = b"";
        for (mime, value) in &bundle.entries {
            self.current.put_slice(separator);
            self.put(&JsonText::string(mime));
            self.current.put_slice(b":");
            self.put(value);
            separator = b",";
        }
        self.current.put_slice(b"}");
        if let Some(metadata) = &bundle.metadata {
            self.current.put_slice(b",\"metadata\":");
            self.put(metadata);
        }
        if let Some(id) = &bundle.display_id {
            self.current.put_slice(b",\"transient\":{\"display_id\":");
            self.put(&JsonText::string(id));
            self.current.put_slice(b"}");
        }
        self.current.put_slice(b"}}\n");
    }

    fn push_error(&mut self, raised: &Raised, outcome: Outcome) {
        self.begin("error");
        let traceback = JsonText::of(&raised.traceback).expect("a list of strings is JSON");
        for (name, value) in [
            ("ename", JsonText::string(&raised.name)),
            ("evalue", JsonText::string(&raised.value)),
            ("traceback", traceback),
        ] {
            self.current.put_slice(format!(",\"{name}\":").as_bytes());
            self.put(&value);
        }
        let kind = format!("}},\"kind\":\"{}\"}}\n", self::outcome(outcome).name());
        self.current.put_slice(kind.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use skep_jupyter::Nature;
    use skep_kernels::Update;
    use skep_wire::interpreter::OutputForm;

    use super::*;

    #[track_caller]
    fn check(update: Update, expected: &str) {
        let mut lines = Lines::new(OutputForm::Jupyter);
        lines.push(&update);
        let bytes = lines.into_pieces().concat();
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    fn output(output: Output) -> Update {
        Update::Output { time: None, output }
    }

    fn bundle() -> Bundle {
        Bundle {
            metadata: Some(JsonText::written("{\"a\":1}".to_owned())),
            display_id: Some("d".to_owned()),
            ..Bundle::from(vec![
                ("text/plain".to_owned(), JsonText::string("'it'")),
                ("image/gif".to_owned(), JsonText::string("R0")),
            ])
        }
    }

    #[test]
    fn nothing_that_a_notebook_knows_is_lost() {
        check(
            output(Output::Text {
                stream: Stream::Stderr,
                text: JsonText::string("ü\n"),
            }),
            "{\"type\":\"output\",\"output\":{\"output_type\":\"stream\",\"name\":\"stderr\",\"text\":\"\\u00fc\\n\"}}\n",
        );
        check(
            output(Output::Updated(bundle())),
            "{\"type\":\"output\",\"output\":{\"output_type\":\"update_display_data\",\"data\":{\"text/plain\":\"'it'\",\"image/gif\":\"R0\"},\"metadata\":{\"a\":1},\"transient\":{\"display_id\":\"d\"}}}\n",
        );
        check(
            output(Output::Rich {
                bundle: Bundle::default(),
                is_main: true,
            }),
            "{\"type\":\"output\",\"output\":{\"output_type\":\"execute_result\",\"data\":{}}}\n",
        );
        check(
            output(Output::Cleared { wait: true }),
            "{\"type\":\"output\",\"output\":{\"output_type\":\"clear_output\",\"wait\":true}}\n",
        );
        check(
            output(Output::Raised(Raised {
                name: "E".to_owned(),
                value: "\"".to_owned(),
                traceback: vec!["a".to_owned(), "b\n".to_owned()],
                nature: Nature::Syntax,
            })),
            "{\"type\":\"output\",\"output\":{\"output_type\":\"error\",\"ename\":\"E\",\"evalue\":\"\\\"\",\"traceback\":[\"a\",\"b\\n\"]},\"kind\":\"syntax\"}\n",
        );
    }

    #[test]
    fn a_failure_of_the_platform_is_an_error_too() {
        check(
            Update::Failed(Failure::Removed),
            "{\"type\":\"output\",\"output\":{\"output_type\":\"error\",\"ename\":\"UnexpectedEndOfExecution\",\"evalue\":\"Connection to the execution was closed before the execution was finished\",\"traceback\":[]},\"kind\":\"killed\"}\n",
        );
    }
}
