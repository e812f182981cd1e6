//! Values that must not be shown.
//!
//! Callers mark values as secret; wherever one of them, or a usual way to write it, occurs in
//! what code produces, [`MASK`] is shown instead. This protects against accidents: a printed
//! configuration, a traceback with a URL in it. It is no defence against code that wants to tell
//! a secret, which can write it in a way that nobody has thought of.

mod forms;
mod json;
mod masker;

use std::collections::BTreeSet;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use skep_types::Secrets;

pub(crate) use masker::Masker;

/// Text shown in place of a secret.
pub(crate) const MASK: &str = "***";

/// All ways to write some secrets, ready to be looked for.
pub(crate) struct Patterns {
    automaton: AhoCorasick,
    /// The same, in their order.
    sorted: Vec<Vec<u8>>,
    longest: usize,
    /// Table of the bytes with which some pattern starts.
    starts: [bool; 256],
}

impl std::fmt::Debug for Patterns {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} patterns", self.sorted.len())
    }
}

impl Patterns {
    /// `None` if there is nothing to look for.
    pub(crate) fn new(secrets: &[Secrets]) -> Option<Arc<Self>> {
        let values = secrets.iter().flat_map(Secrets::reveal);
        let forms: BTreeSet<Vec<u8>> = values.flat_map(forms::of).collect();
        (!forms.is_empty()).then(|| Arc::new(Self::of(forms.into_iter().collect())))
    }

    fn of(sorted: Vec<Vec<u8>>) -> Self {
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            // The faster kind takes several times the memory.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&sorted)
            .expect("what secrets may take is far below what an automaton can hold");
        let mut starts = [false; 256];
        for pattern in &sorted {
            starts[usize::from(pattern[0])] = true;
        }
        Self {
            longest: sorted.iter().map(Vec::len).max().unwrap_or(0),
            automaton,
            sorted,
            starts,
        }
    }

    /// Returns the length of the longest end of `text` that may be the beginning of a secret.
    fn unfinished(&self, text: &[u8]) -> usize {
        let first = text.len().saturating_sub(self.longest.saturating_sub(1));
        let begins_pattern = |start: &usize| {
            let tail = &text[*start..];
            self.starts[usize::from(tail[0])] && {
                // All that begin with `tail` stand together, and it stands before them.
                let place = self
                    .sorted
                    .partition_point(|pattern| pattern.as_slice() <= tail);
                let next = self.sorted.get(place);
                next.is_some_and(|pattern| pattern.starts_with(tail))
            }
        };
        let start = (first..text.len()).find(begins_pattern);
        start.map_or(0, |start| text.len() - start)
    }

    /// The same text without secrets.
    pub(crate) fn mask(self: &Arc<Self>, text: &str) -> String {
        let mut masker = Masker::new(Arc::clone(self));
        let mut masked = Vec::with_capacity(text.len());
        masker.push(text.as_bytes(), &mut masked);
        masker.finish(&mut masked);
        String::from_utf8(masked).unwrap_or_else(|error| {
            // Patterns begin and end with characters, so this does not happen; and if it did,
            // nothing would be shown that was masked.
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    use super::*;

    fn patterns(values: &[&str]) -> Arc<Patterns> {
        let values = values.iter().map(|value| (*value).to_owned());
        Patterns::new(&[Secrets::new(values).unwrap()]).unwrap()
    }

    #[test]
    fn patterns_are_not_printed() {
        let patterns = patterns(&["hunter2hunter2"]);
        assert!(!format!("{patterns:?}").contains("hunter"));
    }

    #[test]
    fn a_secret_is_masked_however_it_is_written() {
        let secret = "pä ss/wörd+\"1\"";
        let patterns = patterns(&[secret]);
        for shown in [
            secret,
            "p%C3%A4%20ss%2Fw%C3%B6rd%2B%221%22",
            "p%c3%a4+ss%2fw%c3%b6rd%2b%221%22",
            "p%C3%A4%20ss/w%C3%B6rd%2B%221%22",
            "p\\u00e4 ss/w\\u00f6rd+\\\"1\\\"",
            "pä ss/wörd+\\\"1\\\"",
            "pä ss\\/wörd+\\\"1\\\"",
            "p\\\\u00e4 ss/w\\\\u00f6rd+\\\\\\\"1\\\\\\\"",
        ] {
            let text = format!("<{shown}>");
            let masked = patterns.mask(&text);
            assert_eq!(masked, "<***>", "{text}");
        }
        for before in ["", "x", "xx", "user:"] {
            // What other bytes share in, at both ends, is too little to matter.
            let encoded = STANDARD.encode(format!("{before}{secret}"));
            let masked = patterns.mask(&encoded);
            let shown = masked.replace(MASK, "");
            assert!(
                shown.len() <= before.len() * 4 / 3 + 4,
                "{encoded} became {masked}"
            );
            let encoded = URL_SAFE.encode(format!("{before}{secret}"));
            assert!(patterns.mask(&encoded).contains(MASK));
        }
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(patterns.mask(&hex), MASK);
        assert_eq!(patterns.mask(&hex.to_uppercase()), MASK);
        assert_eq!(patterns.mask("nothing here"), "nothing here");
    }

    #[test]
    fn a_secret_of_several_lines_is_masked_in_the_representation_of_python() {
        let patterns = patterns(&["first line\nsecond\tit's\\"]);
        for shown in [
            "first line\nsecond\tit's\\",
            "first line\\nsecond\\tit's\\\\",
            "first line\\nsecond\\tit\\'s\\\\",
        ] {
            assert_eq!(patterns.mask(&format!("({shown})")), "(***)");
        }
    }
}
