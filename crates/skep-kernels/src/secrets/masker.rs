//! Masking of a text that comes in pieces.

use std::sync::Arc;

use super::{MASK, Patterns};

/// Masks a text that comes in pieces.
///
/// Every byte that belongs to an occurrence of a pattern is masked, also where occurrences
/// overlap, and bytes that touch share one mask. What may be the beginning of an occurrence is
/// held back until it is known whether it is one; nothing else is.
#[derive(Debug)]
pub(crate) struct Masker {
    patterns: Arc<Patterns>,
    /// Bytes that were held back.
    pending: Vec<u8>,
    /// Number of bytes at the beginning of `pending` that belong to an occurrence begun before.
    covered: usize,
    /// True if the last byte that was let go was masked.
    after_mask: bool,
    masked: bool,
}

impl Masker {
    pub(crate) fn new(patterns: Arc<Patterns>) -> Self {
        Self {
            patterns,
            pending: Vec::new(),
            covered: 0,
            after_mask: false,
            masked: false,
        }
    }

    /// Returns true if anything was masked until now.
    pub(super) fn has_masked(&self) -> bool {
        self.masked
    }

    /// Takes a piece, and appends to `output` what can be let go.
    pub(crate) fn push(&mut self, piece: &[u8], output: &mut Vec<u8>) {
        self.pending.extend_from_slice(piece);
        // The next piece may complete a secret that begins at the end of this one.
        let unfinished = self.patterns.unfinished(&self.pending);
        self.let_go(self.pending.len() - unfinished, output);
    }

    /// Lets go of the rest, since nothing follows.
    pub(crate) fn finish(&mut self, output: &mut Vec<u8>) {
        self.let_go(self.pending.len(), output);
        self.after_mask = false;
    }

    fn let_go(&mut self, end: usize, output: &mut Vec<u8>) {
        if end == 0 {
            return;
        }
        let mut place = 0;
        let mut masked_until = 0;
        for (start, stop) in self.occurrences() {
            if start >= end {
                break;
            }
            output.extend_from_slice(&self.pending[place..start]);
            let continues = start == 0 && self.after_mask;
            if !continues {
                output.extend_from_slice(MASK.as_bytes());
                self.masked = true;
            }
            masked_until = stop;
            place = stop.min(end);
        }
        output.extend_from_slice(&self.pending[place..end]);
        self.after_mask = masked_until >= end;
        self.covered = masked_until.saturating_sub(end);
        self.pending.drain(..end);
        // A long piece must not keep its memory.
        if self.pending.is_empty() {
            self.pending.shrink_to(64 << 10);
        }
    }

    /// Returns the ranges to mask, in order; those that overlap or touch are one.
    fn occurrences(&self) -> Vec<(usize, usize)> {
        let mut all: Vec<(usize, usize)> = Vec::new();
        if self.covered > 0 {
            all.push((0, self.covered));
        }
        let found = self.patterns.automaton.find_overlapping_iter(&self.pending);
        for occurrence in found {
            let (start, stop) = (occurrence.start(), occurrence.end());
            // They come in the order of their ends, so a new one can only swallow the last ones.
            let mut merged = (start, stop);
            while let Some(&(last_start, last_stop)) = all.last() {
                if last_stop < merged.0 {
                    break;
                }
                merged = (merged.0.min(last_start), merged.1.max(last_stop));
                all.pop();
            }
            all.push(merged);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The specification: masks every occurrence, byte by byte.
    fn oracle(patterns: &[Vec<u8>], text: &[u8]) -> Vec<u8> {
        let mut hidden = vec![false; text.len()];
        for pattern in patterns {
            for start in 0..text.len() {
                if text[start..].starts_with(pattern) {
                    hidden[start..start + pattern.len()].fill(true);
                }
            }
        }
        let mut shown = Vec::new();
        for (index, byte) in text.iter().enumerate() {
            if !hidden[index] {
                shown.push(*byte);
            } else if index == 0 || !hidden[index - 1] {
                shown.extend_from_slice(MASK.as_bytes());
            }
        }
        shown
    }

    fn of(patterns: &[&str]) -> (Vec<Vec<u8>>, Masker) {
        let sorted: BTreeSet<Vec<u8>> = patterns
            .iter()
            .map(|pattern| pattern.as_bytes().to_vec())
            .collect();
        let sorted: Vec<_> = sorted.into_iter().collect();
        let masker = Masker::new(Arc::new(Patterns::of(sorted.clone())));
        (sorted, masker)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn pieces_give_what_the_whole_would(
            patterns in prop::collection::btree_set("[ab]{1,6}", 1..5),
            pieces in prop::collection::vec("[abc]{0,7}", 0..12),
        ) {
            let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
            let (sorted, mut masker) = of(&patterns);
            let mut shown = Vec::new();
            for piece in &pieces {
                masker.push(piece.as_bytes(), &mut shown);
            }
            masker.finish(&mut shown);
            let whole = pieces.concat();
            let expected = oracle(&sorted, whole.as_bytes());
            prop_assert_eq!(
                String::from_utf8(shown).unwrap(),
                String::from_utf8(expected).unwrap()
            );
        }

        #[test]
        fn nothing_is_held_back_that_cannot_become_a_secret(
            patterns in prop::collection::btree_set("[ab]{1,6}", 1..5),
            text in "[abc]{0,20}",
        ) {
            let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
            let (sorted, mut masker) = of(&patterns);
            masker.push(text.as_bytes(), &mut Vec::new());
            let held = masker.pending.clone();
            let begins = |pattern: &Vec<u8>| pattern.len() > held.len() && pattern.starts_with(&held);
            prop_assert!(held.is_empty() || sorted.iter().any(begins));
        }
    }

    #[track_caller]
    fn check(pieces: &[(&str, &str)], rest: &str) {
        let (_, mut masker) = of(&["secret-1", "secret-12", "1-other"]);
        for (piece, expected) in pieces {
            let mut shown = Vec::new();
            masker.push(piece.as_bytes(), &mut shown);
            assert_eq!(String::from_utf8(shown).unwrap(), *expected, "{piece}");
        }
        let mut shown = Vec::new();
        masker.finish(&mut shown);
        assert_eq!(String::from_utf8(shown).unwrap(), rest);
    }

    #[test]
    fn a_piece_comes_at_once_unless_it_ends_like_a_secret() {
        check(&[("hello\n", "hello\n"), ("to you\n", "to you\n")], "");
        check(&[("a sec", "a "), ("ond\n", "second\n")], "");
        check(&[("a sec", "a ")], "sec");
    }

    #[test]
    fn a_secret_in_several_pieces_is_one_mask() {
        check(
            &[("a se", "a "), ("cre", ""), ("t-1", ""), (" b", "*** b")],
            "",
        );
        check(&[("secret-1", "")], "***");
        check(&[("secret-12", "***"), ("secret-12", "")], "");
        check(&[("secret-1-oth", "***"), ("er.", ".")], "");
    }
}
