//! A place in a list, which clients carry around.

#[path = "../../../crates/skep-control/src/list/cursor.rs"]
mod cursor;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cursor::Cursor;

/// The order of a list, as the file of the cursor knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SortOrder {
    NewestFirst,
    OldestFirst,
}

pub(super) fn check(data: &[u8]) {
    // As it comes, and as the inside of a text that is encoded well.
    if let Ok(text) = std::str::from_utf8(data) {
        read(text);
    }
    read(&URL_SAFE_NO_PAD.encode(data));
}

fn read(text: &str) {
    let newest = Cursor::decode(text, SortOrder::NewestFirst);
    let oldest = Cursor::decode(text, SortOrder::OldestFirst);
    assert!(
        newest.is_err() || oldest.is_err(),
        "a cursor belongs to one order"
    );
    for (read, order) in [
        (newest, SortOrder::NewestFirst),
        (oldest, SortOrder::OldestFirst),
    ] {
        if let Ok(cursor) = read {
            assert_eq!(Cursor::decode(&cursor.encode(order), order), Ok(cursor));
        }
    }
}
