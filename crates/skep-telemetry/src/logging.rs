//! Set-up of logs and traces.

use std::io::{self, IsTerminal as _};

use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

/// Reader of the log, who decides how it looks and how much it says when nobody asks for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// An operator who may look at it later, by means of what collects logs.
    Operator,
    /// Somebody who is told in words what happens, at a terminal or in a file.
    Person,
}

/// Form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: an object a line.
    Json,
}

impl Format {
    /// The form that a word names.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// The form for a reader who has not said any.
    fn of(reader: Reader, is_terminal: bool) -> Self {
        match (reader, is_terminal) {
            (Reader::Person, _) | (Reader::Operator, true) => Self::Text,
            (Reader::Operator, false) => Self::Json,
        }
    }
}

/// Sends log lines to standard error. Spans go to a collector once traces are started.
pub fn start(directives: Option<&str>, format: Option<Format>, reader: Reader) {
    let is_terminal = io::stderr().is_terminal();
    let usual = match reader {
        Reader::Person if is_terminal => "warn",
        Reader::Person | Reader::Operator => "info",
    };
    let filter = directives
        .and_then(|directives| EnvFilter::try_new(directives).ok())
        .unwrap_or_else(|| EnvFilter::new(usual));
    let format = format.unwrap_or(Format::of(reader, is_terminal));
    tracing_subscriber::registry()
        .with(lines(format, is_terminal, io::stderr).with_filter(filter))
        .with(crate::trace::layer())
        .init();
}

fn lines<S, W>(format: Format, is_terminal: bool, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        Format::Json => lines.json().flatten_event(true).boxed(),
        // Left as it is on a terminal: `NO_COLOR` is heeded there.
        Format::Text if is_terminal => lines.with_target(false).compact().boxed(),
        Format::Text => lines.with_target(false).with_ansi(false).compact().boxed(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// A file that is written to.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Contents of a file that a reader has redirected standard error to.
    fn logged(reader: Reader) -> String {
        let log = Log::default();
        let target = log.clone();
        let layer = lines(Format::of(reader, false), false, move || target.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(count = 3, "swept");
        });
        let bytes = log.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_person_reads_words_also_in_a_file_and_a_service_logs_json() {
        let text = logged(Reader::Person);
        assert!(text.ends_with(" INFO swept count=3\n"), "{text}");
        assert!(!text.contains('\x1b'), "{text:?}");
        let line: serde_json::Value = serde_json::from_str(&logged(Reader::Operator)).unwrap();
        assert_eq!(
            (&line["message"], &line["count"]),
            (&"swept".into(), &3.into())
        );
    }

    #[test]
    fn at_a_terminal_everybody_reads_words() {
        for reader in [Reader::Operator, Reader::Person] {
            assert_eq!(Format::of(reader, true), Format::Text);
        }
    }

    #[test]
    fn a_form_is_named_by_its_word_alone() {
        assert_eq!(Format::named("json"), Some(Format::Json));
        assert_eq!(Format::named("text"), Some(Format::Text));
        assert_eq!(Format::named("JSON"), None);
    }
}
