//! Clients that refuse answers with fields they do not know.

use connectrpc::RequestContext;
use http::header::USER_AGENT;
use skep_wire::rpc::filesystem::EntryInfo;

/// Name of Python's SDK 1.0 to 1.6. Those before 1.5.2 fail on a field that they do not know, and
/// none of them knows more of an entry than its name, type and path.
const FIRST_PYTHON: &str = "connect-python";

/// Returns the part of an entry that the caller can read.
pub(super) fn readable(entry: EntryInfo, context: &RequestContext) -> EntryInfo {
    let client = context.headers().get(USER_AGENT);
    if client.is_none_or(|name| name != FIRST_PYTHON) {
        return entry;
    }
    EntryInfo {
        name: entry.name,
        r#type: entry.r#type,
        path: entry.path,
        ..EntryInfo::default()
    }
}
