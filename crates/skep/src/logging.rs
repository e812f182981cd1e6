//! Set-up of the log.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Sends log lines to standard error, as text on a terminal and as JSON elsewhere.
pub(crate) fn start(directives: Option<&str>) {
    let filter = directives
        .and_then(|directives| EnvFilter::try_new(directives).ok())
        .unwrap_or_else(|| EnvFilter::new("info"));
    let terminal = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if terminal {
        lines.with_target(false).compact().init();
    } else {
        lines.json().flatten_event(true).init();
    }
}
