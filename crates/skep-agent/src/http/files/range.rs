//! Parts of a file. Pure.

/// Part of a file that a `Range` header asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The whole file: no range, several ranges, or something we do not understand.
    Whole,
    /// The bytes from `start` to before `end`.
    Part { start: u64, end: u64 },
    /// No byte of the range is in the file.
    Unsatisfiable,
}

pub(super) fn wanted(header: Option<&str>, size: u64) -> Wanted {
    let Some((first, last)) = header
        .and_then(|value| value.trim().strip_prefix("bytes="))
        .and_then(|range| range.split_once('-'))
    else {
        return Wanted::Whole;
    };
    let number = |text: &str| text.trim().parse::<u64>();
    let (start, end) = match (first.trim(), last.trim()) {
        ("", suffix) => match number(suffix) {
            Ok(length) => (size.saturating_sub(length), size),
            Err(_) => return Wanted::Whole,
        },
        (first, "") => match number(first) {
            Ok(first) => (first, size),
            Err(_) => return Wanted::Whole,
        },
        (first, last) => match (number(first), number(last)) {
            (Ok(first), Ok(last)) if first <= last => (first, last.saturating_add(1).min(size)),
            _ => return Wanted::Whole,
        },
    };
    if start >= end {
        Wanted::Unsatisfiable
    } else {
        Wanted::Part { start, end }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Wanted::{Part, Unsatisfiable, Whole};
    use super::*;

    #[test]
    fn a_single_range_is_cut_to_the_file() {
        for (header, expected) in [
            ("bytes=0-3", Part { start: 0, end: 4 }),
            ("bytes=5-", Part { start: 5, end: 10 }),
            ("bytes=-3", Part { start: 7, end: 10 }),
            ("bytes=-30", Part { start: 0, end: 10 }),
            ("bytes=8-99", Part { start: 8, end: 10 }),
            ("bytes=10-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=0-1,3-4", Whole),
            ("bytes=4-2", Whole),
            ("lines=1-2", Whole),
            ("bytes=x-y", Whole),
        ] {
            assert_eq!(wanted(Some(header), 10), expected, "{header}");
        }
        assert_eq!(wanted(None, 10), Whole);
        assert_eq!(wanted(Some("bytes=0-0"), 0), Unsatisfiable);
    }

    proptest! {
        #[test]
        fn a_part_lies_within_the_file(header in "bytes=[0-9]{0,20}-[0-9]{0,20}", size: u64) {
            if let Part { start, end } = wanted(Some(&header), size) {
                prop_assert!(start < end && end <= size);
            }
        }
    }
}
