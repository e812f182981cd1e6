//! The `metadata` filter of lists.

#[path = "../../../crates/skep-api/src/metadata_filter.rs"]
mod metadata_filter;

use metadata_filter::decode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

pub(super) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(pairs) = decode(text) else {
        return;
    };
    // What was understood is understood again when a client writes it.
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let form = pairs
        .iter()
        .map(|(key, value)| format!("{}={}", encode(&encode(key)), encode(&encode(value))))
        .collect::<Vec<_>>();
    assert_eq!(decode(&form.join("&")), Ok(pairs));
}
