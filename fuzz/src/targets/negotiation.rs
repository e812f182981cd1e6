//! Negotiation of a download: `Accept-Encoding`, `Range`, a file's name and first bytes, one per
//! line.

use http::HeaderValue;
use skep_agent::fuzzing::{Part, chooses_gzip, disposition, media_type, wanted};

use crate::pieces::texts;

pub(super) fn check(data: &[u8]) {
    let [accept, range, name, head] = texts(data);
    let free = chooses_gzip(Some(&accept), false);
    let identity_only = chooses_gzip(Some(&accept), true);
    assert_ne!(identity_only, Some(true), "only identity was possible");
    assert!(
        identity_only.is_none() || free.is_some(),
        "what a range may have, the whole may have too"
    );
    let names = |coding: &str| accept.to_ascii_lowercase().contains(coding);
    if free == Some(true) {
        assert!(names("gzip") || names("*"), "nobody asked for gzip");
    }
    if free.is_none() {
        assert!(
            names("identity") || names("*"),
            "nobody refused the file as it is"
        );
    }

    for size in [0, 1, 10, head.len() as u64, u64::MAX] {
        match wanted(Some(&range), size) {
            Part::Whole => {}
            Part::Between(start, end) => {
                assert!(start < end && end <= size, "{start}..{end} of {size}");
                assert!(range.trim().starts_with("bytes="));
            }
            Part::Nothing => assert!(range.contains(|letter: char| letter.is_ascii_digit())),
        }
    }
    for header in [disposition(&name), media_type(&name, head.as_bytes())] {
        HeaderValue::from_str(&header).expect("what we write into a header can stand there");
    }
}
