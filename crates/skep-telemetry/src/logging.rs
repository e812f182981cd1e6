//! Set-up of logs and traces.

use std::io::IsTerminal as _;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// Reader of the log, who decides how much it says when nobody asks for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// An operator who may look at it later.
    Operator,
    /// Somebody at a terminal, who is told in words what happens and needs only the odd.
    Person,
}

/// Sends log lines to standard error, as text on a terminal and as JSON elsewhere. Spans go to a
/// collector once traces are started.
pub fn start(directives: Option<&str>, reader: Reader) {
    let usual = match reader {
        Reader::Person if std::io::stderr().is_terminal() => "warn",
        Reader::Person | Reader::Operator => "info",
    };
    let filter = directives
        .and_then(|directives| EnvFilter::try_new(directives).ok())
        .unwrap_or_else(|| EnvFilter::new(usual));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = if std::io::stderr().is_terminal() {
        lines.with_target(false).compact().boxed()
    } else {
        lines.json().flatten_event(true).boxed()
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(crate::trace::layer())
        .init();
}
