//! Headers for the collector of traces.

use serde::Deserialize;

/// Headers as a list `name=value,…`. They open the collector, so they are never printed.
#[derive(Clone, PartialEq, Default, Deserialize)]
#[serde(transparent)]
pub struct TraceHeaders(pub String);

impl std::fmt::Debug for TraceHeaders {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("TraceHeaders(…)")
    }
}
