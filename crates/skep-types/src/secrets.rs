//! Values that must not be shown.

use std::collections::BTreeSet;
use std::fmt;

/// Values that must not be shown wherever code prints them.
///
/// They are few and not large, because every one is looked for in everything that code prints,
/// in every usual way to write it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeSet<String>);

/// Reasons to refuse values as secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// It would be found everywhere, in pictures for instance.
    #[error("a secret has at least {} bytes", Secrets::SHORTEST)]
    Short,
    /// It is no secret but a file.
    #[error("a secret has at most {} bytes", Secrets::LONGEST)]
    Long,
    /// They take too much memory together.
    #[error(
        "all secrets that hold at one time have at most {} bytes",
        Secrets::MOST_BYTES
    )]
    Many,
}

impl Secrets {
    /// A shorter value occurs by chance.
    pub const SHORTEST: usize = 6;
    /// Longer than any key that people hand around.
    pub const LONGEST: usize = 8 << 10;
    /// Limit for the sum of all secrets that hold at one time, in bytes.
    pub const MOST_BYTES: usize = 32 << 10;

    /// These values.
    ///
    /// # Errors
    ///
    /// If one is too short or too long, or all are too long together.
    pub fn new(values: impl IntoIterator<Item = String>) -> Result<Self, SecretsError> {
        let mut secrets = Self::default();
        for value in values {
            match value.len() {
                ..Self::SHORTEST => return Err(SecretsError::Short),
                Self::SHORTEST..=Self::LONGEST => secrets.0.insert(value),
                _ => return Err(SecretsError::Long),
            };
        }
        secrets.checked()
    }

    /// These and those.
    ///
    /// # Errors
    ///
    /// If all are too long together.
    pub fn and(&self, others: &Self) -> Result<Self, SecretsError> {
        Self(self.0.union(&others.0).cloned().collect()).checked()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values. The name makes each use visible in review.
    pub fn reveal(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn checked(self) -> Result<Self, SecretsError> {
        let bytes: usize = self.0.iter().map(String::len).sum();
        if bytes > Self::MOST_BYTES {
            Err(SecretsError::Many)
        } else {
            Ok(self)
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{} redacted]", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_secrets_are_refused() {
        let of = |length: usize| Secrets::new(["x".repeat(length)]);
        assert_eq!(of(5), Err(SecretsError::Short));
        assert_eq!(of(Secrets::LONGEST + 1), Err(SecretsError::Long));
        let long = |first: char| format!("{first}{}", "x".repeat(Secrets::LONGEST - 1));
        let most = Secrets::new("abcd".chars().map(long)).unwrap();
        assert_eq!(
            Secrets::new("abcde".chars().map(long)),
            Err(SecretsError::Many)
        );
        assert_eq!(most.and(&most), Ok(most.clone()));
        let one_more = Secrets::new(["one more".to_owned()]).unwrap();
        assert_eq!(most.and(&one_more), Err(SecretsError::Many));
    }

    #[test]
    fn secrets_are_not_printed() {
        let secrets = Secrets::new(["hunter2hunter2".to_owned()]).unwrap();
        assert_eq!(format!("{secrets:?}"), "[1 redacted]");
    }
}
