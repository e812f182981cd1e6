//! Set-up of logs and traces.

use std::io::IsTerminal as _;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// Sends log lines to standard error, as text on a terminal and as JSON elsewhere. Spans go to a
/// collector once traces are started.
pub(crate) fn start(directives: Option<&str>) {
    let filter = directives
        .and_then(|directives| EnvFilter::try_new(directives).ok())
        .unwrap_or_else(|| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = if std::io::stderr().is_terminal() {
        lines.with_target(false).compact().boxed()
    } else {
        lines.json().flatten_event(true).boxed()
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(skep_telemetry::trace::layer())
        .init();
}
