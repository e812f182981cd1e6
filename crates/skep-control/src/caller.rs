//! Authentication of callers by their keys.

use skep_store::{Keys, Standing, StoreError, Team};
use skep_telemetry::Chain;
use skep_types::TeamId;

use crate::control::now;
use crate::{ApiKey, Control, TeamLimits};

/// Somebody whose key was recognised: a team, and what it may have.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The team that the key belongs to.
    pub team: Team,
    /// Limits of the team, with the configuration's defaults filled in.
    pub limits: TeamLimits,
}

/// Failure to authenticate a caller.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// No team has this key.
    #[error("no team has this API key")]
    Unknown,
    /// The team may do nothing at all.
    #[error("team is banned")]
    Banned,
    /// The keys could not be read.
    #[error(transparent)]
    Record(#[from] StoreError),
}

/// The team may only look and clean up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("team is blocked: {reason}")]
pub struct Blocked {
    /// Reason, in the operator's words.
    pub reason: String,
}

impl Caller {
    /// Checks that the team may start or change something.
    ///
    /// # Errors
    ///
    /// [`Blocked`].
    pub fn may_change(&self) -> Result<(), Blocked> {
        match &self.team.standing {
            Standing::Good => Ok(()),
            Standing::Blocked(reason) => Err(Blocked {
                reason: reason.clone(),
            }),
            Standing::Banned => Err(Blocked {
                reason: "banned".to_owned(),
            }),
        }
    }
}

impl Control {
    /// Says who holds a key.
    ///
    /// The key is found by its hash, so how long the answer takes says nothing about how much
    /// of a guess was right.
    ///
    /// # Errors
    ///
    /// [`AuthError`].
    pub async fn authenticate(&self, key: &ApiKey) -> Result<Caller, AuthError> {
        let keys = self.inner.store.keys();
        let (key, team) = keys.find(key.hash()).await?.ok_or(AuthError::Unknown)?;
        let now = now();
        if key.has_expired(now) {
            return Err(AuthError::Unknown);
        }
        let noted = key
            .last_used
            .is_some_and(|last| now.duration_since(last).unsigned_abs() < Keys::LAST_USED_STEP);
        if !noted {
            // Nobody waits for this; the writer logs a failure.
            drop(keys.used(key.id, now));
        }
        self.caller(team)
    }

    /// The caller for whom no key is needed: the default team, on a server that trusts whoever
    /// reaches it.
    ///
    /// # Errors
    ///
    /// [`AuthError`].
    pub async fn trusted_caller(&self) -> Result<Caller, AuthError> {
        let team = self.default_team().await?;
        self.caller(team)
    }

    /// The team that owns a sandbox, as a caller; `None` if it may do nothing at all, or cannot be
    /// read now.
    pub(crate) async fn owner(&self, team: &TeamId) -> Option<Caller> {
        match self.inner.store.teams().find(team.clone()).await {
            Ok(team) => self.caller(team?).ok(),
            Err(error) => {
                tracing::error!(error = %Chain(&error), "the owner of a sandbox cannot be read");
                None
            }
        }
    }

    fn caller(&self, team: Team) -> Result<Caller, AuthError> {
        if team.standing == Standing::Banned {
            return Err(AuthError::Banned);
        }
        let limits = self.inner.limits.of(&team);
        Ok(Caller { team, limits })
    }
}
