//! Results of looking at a host.

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Subject of the check.
    pub name: &'static str,
    /// Consequence of the result for sandboxes.
    pub status: CheckStatus,
    /// Result of the check, for display.
    pub detail: String,
    /// Remedy for the operator, if there is one.
    pub cure: Option<String>,
}

/// Consequence of a [`Check`]'s result for sandboxes on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckStatus {
    /// The host is as it should be.
    Good,
    /// Sandboxes run, but something is weaker or slower, or another tier is not there.
    Limited,
    /// Sandboxes do not run on this host as it is.
    Missing,
}

impl Check {
    /// A check of something that is as it should be.
    pub fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Good,
            detail: detail.into(),
            cure: None,
        }
    }

    /// A check of something without which sandboxes are weaker or slower.
    pub fn limited(
        name: &'static str,
        detail: impl Into<String>,
        cure: impl Into<Option<&'static str>>,
    ) -> Self {
        Self {
            name,
            status: CheckStatus::Limited,
            detail: detail.into(),
            cure: cure.into().map(str::to_owned),
        }
    }

    /// A check of something without which sandboxes do not run.
    pub fn missing(name: &'static str, detail: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Missing,
            detail: detail.into(),
            cure: Some(cure.into()),
        }
    }
}
