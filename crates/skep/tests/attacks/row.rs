//! Results of one attack: in a sandbox as it was launched, in one that was restored, in its control.

use crate::attack::Attack;
use crate::target::Verdict;

/// Result of one attack, with and without its defence.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) attack: Attack,
    /// In a sandbox as it was launched.
    pub(crate) defended: Verdict,
    /// In a sandbox that went to the disk and came back. Missing if it is no attack on one, or where
    /// sandboxes do not go to the disk.
    pub(crate) restored: Option<Verdict>,
    /// Missing where this kernel cannot be attacked that way at all.
    pub(crate) control: Option<Verdict>,
}

impl Row {
    /// Returns what is wrong, if anything is.
    pub(crate) fn check(&self, can_restore: bool) -> Result<(), String> {
        let must_be_restored = can_restore && self.attack.is_of_one_sandbox();
        let is_held = |verdict: &Verdict| matches!(verdict, Verdict::Held(_));
        let restored = match &self.restored {
            Some(verdict) => is_held(verdict),
            None => !must_be_restored,
        };
        let escapes = matches!(self.control, None | Some(Verdict::Escaped(_)));
        if is_held(&self.defended) && restored && escapes {
            return Ok(());
        }
        Err(format!(
            "{}\n  in a sandbox: {}\n  in a restored one: {}\n  without {}: {}",
            self.attack.tries,
            self.defended,
            in_words(self.restored.as_ref(), "not tried"),
            self.attack.control.in_words(),
            in_words(self.control.as_ref(), "not tried"),
        ))
    }
}

fn in_words(verdict: Option<&Verdict>, otherwise: &str) -> String {
    verdict.map_or_else(|| otherwise.to_owned(), ToString::to_string)
}

/// Prints the table: launched, restored, control.
#[expect(
    clippy::print_stdout,
    reason = "the table is what a reader of the log wants"
)]
pub(crate) fn report(rows: &[Row]) {
    for row in rows {
        let control = in_words(row.control.as_ref(), "this kernel has no such thing");
        let restored = in_words(row.restored.as_ref(), "launched only");
        let name = row.attack.full_name();
        let launched = row.defended.to_string();
        println!("{name:<36} {launched:<28.28} | {restored:<28.28} | {control:.90}");
    }
    let count = rows.iter().filter(|row| row.restored.is_some()).count();
    let all = rows.len();
    println!("{all} attacks on launched sandboxes, {count} of them on a restored one, too");
}
