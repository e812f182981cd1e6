//! Output of code, kept as far as anybody can read it.

use crate::clean::plain;

/// Size of the begin of an output that is kept, in bytes.
const BEGIN: usize = 1 << 20;
/// Size of the end of a longer one that is kept, in bytes.
const END: usize = 32 << 10;
/// Number of characters of an output that are shown.
const SHOWN: usize = 24_000;
/// Number of those that are its end.
const SHOWN_END: usize = 8_000;

/// Output of code, whose memory has a limit whatever the code does.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    begin: String,
    end: String,
    /// Number of bytes between the two.
    lost: usize,
}

/// An output as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    /// True if something was left out.
    pub(crate) is_cut: bool,
}

impl Captured {
    pub(crate) fn push(&mut self, text: &str) {
        let room = text.floor_char_boundary(BEGIN.saturating_sub(self.begin.len()));
        let (fits, rest) = if self.end.is_empty() {
            text.split_at(room)
        } else {
            ("", text)
        };
        self.begin.push_str(fits);
        let skipped = rest.ceil_char_boundary(rest.len().saturating_sub(END));
        self.lost += skipped;
        self.end.push_str(&rest[skipped..]);
        if self.end.len() > 2 * END {
            let excess = self.end.ceil_char_boundary(self.end.len() - END);
            self.end.drain(..excess);
            self.lost += excess;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.begin.is_empty()
    }

    /// Last line that has something in it.
    pub(crate) fn last_line(&self) -> Option<String> {
        let newest = if self.end.is_empty() {
            &self.begin
        } else {
            &self.end
        };
        let from = newest.floor_char_boundary(newest.len().saturating_sub(2000));
        let text = plain(&newest[from..]);
        let line = text
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty())?;
        Some(line.chars().take(200).collect())
    }

    /// The whole output, or its begin and its end if it is long.
    pub(crate) fn shown(&self) -> Shown {
        let begin = plain(&self.begin);
        if self.lost == 0 {
            let whole = begin + &plain(&self.end);
            let length = whole.chars().count();
            if length <= SHOWN {
                return Shown {
                    text: whole,
                    is_cut: false,
                };
            }
            let left_out = length - SHOWN;
            return cut(&whole, &whole, &format!("{left_out} characters"));
        }
        let end = plain(&self.end);
        cut(&begin, &end, "much more output")
    }

    /// Everything that is kept, for a file.
    pub(crate) fn kept(&self) -> String {
        if self.lost == 0 {
            return format!("{}{}", self.begin, self.end);
        }
        format!(
            "{}\n[{} bytes were not kept]\n{}",
            self.begin, self.lost, self.end
        )
    }
}

fn cut(begin: &str, end: &str, left_out: &str) -> Shown {
    let first: String = begin.chars().take(SHOWN - SHOWN_END).collect();
    let length = end.chars().count();
    let last: String = end.chars().skip(length.saturating_sub(SHOWN_END)).collect();
    let text = format!("{first}\n[… {left_out} left out …]\n{last}");
    Shown { text, is_cut: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_output_is_shown_whole() {
        let mut captured = Captured::default();
        captured.push("a\n");
        captured.push("b\n");
        let expected = Shown {
            text: "a\nb\n".to_owned(),
            is_cut: false,
        };
        assert_eq!(captured.shown(), expected);
        assert_eq!(captured.last_line().as_deref(), Some("b"));
    }

    #[test]
    fn a_long_output_has_its_begin_and_its_end_and_little_memory() {
        let mut captured = Captured::default();
        captured.push("first\n");
        for _ in 0..300 {
            captured.push(&"é".repeat(50_000));
        }
        captured.push("\nlast");
        let shown = captured.shown();
        assert!(shown.is_cut);
        assert!(shown.text.starts_with("first\n") && shown.text.ends_with("\nlast"));
        assert!(shown.text.chars().count() < SHOWN + 100);
        assert!(captured.kept().len() < BEGIN + 3 * END);
        assert_eq!(captured.last_line().as_deref(), Some("last"));
    }
}
