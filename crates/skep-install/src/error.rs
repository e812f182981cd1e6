//! Failures of work on an installation, with remedies for its operator.

use std::fmt;

/// Party that can do something about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The operator has to decide or do something first.
    Operator,
    /// The host did not do what it was asked.
    Host,
}

/// A failure, and what to do about it.
#[derive(Debug)]
pub struct InstallError {
    /// Party that can do something about it.
    pub cause: Cause,
    /// The error itself, with its chain of causes.
    pub source: Box<dyn std::error::Error + Send + Sync>,
    /// Remedies for the operator, one sentence each.
    pub hints: Vec<String>,
}

impl InstallError {
    pub(crate) fn input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            cause: Cause::Operator,
            source: message.into().into(),
            hints: vec![hint.into()],
        }
    }

    pub(crate) fn failure(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            cause: Cause::Host,
            source: error.into(),
            hints: Vec::new(),
        }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(formatter)
    }
}

impl std::error::Error for InstallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.source()
    }
}
