//! Lifetimes and deadlines of sandboxes.

use std::time::Duration;

use jiff::Timestamp;
use skep_types::{DeadlineMode, NotHere, Phase, SandboxId};

use crate::control::now;
use crate::{Blocked, Caller, Control, Sandbox};

/// A time to live that the team may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime(Duration);

/// A time to live that cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LifetimeError {
    /// Zero or less.
    #[error("a lifetime must be greater than 0")]
    NotPositive,
    /// More than the team may have.
    #[error("a lifetime cannot be greater than {} s", max.as_secs())]
    TooLong {
        /// The longest lifetime that the team may ask for.
        max: Duration,
    },
}

impl Lifetime {
    /// `seconds`, if that is more than nothing and no more than `max`.
    ///
    /// # Errors
    ///
    /// [`LifetimeError`].
    pub fn new(seconds: i64, max: Duration) -> Result<Self, LifetimeError> {
        let seconds = u64::try_from(seconds).map_err(|_| LifetimeError::NotPositive)?;
        let lifetime = Duration::from_secs(seconds);
        if lifetime.is_zero() {
            return Err(LifetimeError::NotPositive);
        }
        if lifetime > max {
            return Err(LifetimeError::TooLong { max });
        }
        Ok(Self(lifetime))
    }

    /// The time itself.
    pub fn get(self) -> Duration {
        self.0
    }
}

/// Failure to change a sandbox's deadline, which stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum DeadlineError {
    /// The team may not change anything.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The team has no such sandbox, or no longer.
    #[error("no sandbox `{0}`")]
    NotFound(SandboxId),
    /// It is being ended.
    #[error("sandbox `{0}` is being killed")]
    Stopping(SandboxId),
    /// It is being paused or resumed.
    #[error("sandbox `{0}` is changing its state")]
    Changing(SandboxId),
    /// It is paused, so it has no deadline.
    #[error("sandbox `{0}` is paused")]
    Paused(SandboxId),
    /// It has run for as long as the team's sandboxes may.
    #[error("sandbox has reached its maximum age")]
    Exhausted,
}

impl Control {
    /// Lets a sandbox live for `lifetime` from now, more or less than before. It never lives
    /// longer than the team's sandboxes may, counted from its start.
    ///
    /// # Errors
    ///
    /// [`DeadlineError`].
    pub async fn set_lifetime(
        &self,
        caller: &Caller,
        id: &SandboxId,
        lifetime: Duration,
    ) -> Result<Sandbox, DeadlineError> {
        let sandbox = self.changeable(caller, id).await?;
        let started_at = sandbox.status.started_at;
        let left =
            time_left(now(), started_at, caller.limits.lifetime).ok_or(DeadlineError::Exhausted)?;
        self.change(sandbox, lifetime.min(left), DeadlineMode::Set)
            .await
    }

    /// Lets a sandbox live for at least `lifetime` from now. A later deadline stays as it is.
    ///
    /// # Errors
    ///
    /// [`DeadlineError`], but never that it is too old: then it keeps its deadline.
    pub async fn extend_lifetime(
        &self,
        caller: &Caller,
        id: &SandboxId,
        lifetime: Duration,
    ) -> Result<Sandbox, DeadlineError> {
        let sandbox = self.changeable(caller, id).await?;
        let started_at = sandbox.status.started_at;
        match time_left(now(), started_at, caller.limits.lifetime) {
            Some(left) => {
                self.change(sandbox, lifetime.min(left), DeadlineMode::Extend)
                    .await
            }
            None => Ok(sandbox),
        }
    }

    async fn changeable(&self, caller: &Caller, id: &SandboxId) -> Result<Sandbox, DeadlineError> {
        caller.may_change()?;
        let not_found = || DeadlineError::NotFound(id.clone());
        let sandbox = self.known(caller, id).await.ok_or_else(not_found)?;
        match sandbox.status.phase {
            Phase::Running | Phase::Snapshotting => Ok(sandbox),
            Phase::Paused => Err(DeadlineError::Paused(id.clone())),
            Phase::Pausing | Phase::Resuming => Err(DeadlineError::Changing(id.clone())),
            Phase::Stopping | Phase::Stuck => Err(DeadlineError::Stopping(id.clone())),
            Phase::Starting | Phase::Gone => Err(not_found()),
        }
    }

    async fn change(
        &self,
        sandbox: Sandbox,
        lifetime: Duration,
        mode: DeadlineMode,
    ) -> Result<Sandbox, DeadlineError> {
        let id = sandbox.order.id.clone();
        let changing = self.inner.nodes.set_lifetime(id.clone(), lifetime, mode);
        let status = changing
            .await
            .map_err(|NotHere| DeadlineError::NotFound(id))?;
        Ok(Sandbox { status, ..sandbox })
    }
}

/// Lifetime from now that a sandbox running since `started_at` may have of what was asked for;
/// `None` if it is as old as the team's sandboxes may be.
pub(crate) fn bounded(asked: Duration, started_at: Timestamp, caller: &Caller) -> Option<Duration> {
    let left = time_left(now(), started_at, caller.limits.lifetime);
    left.map(|left| asked.min(left))
}

/// Time that a sandbox running since `started_at` may still run; `None` if it may not.
fn time_left(now: Timestamp, started_at: Timestamp, max: Duration) -> Option<Duration> {
    let age = Duration::try_from(now.duration_since(started_at)).unwrap_or(Duration::ZERO);
    max.checked_sub(age).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn a_lifetime_is_positive_and_bounded() {
        assert_eq!(Lifetime::new(1, DAY).unwrap().get(), Duration::from_secs(1));
        assert_eq!(Lifetime::new(86_400, DAY).unwrap().get(), DAY);
        for seconds in [0, -1, i64::MIN] {
            assert_eq!(Lifetime::new(seconds, DAY), Err(LifetimeError::NotPositive));
        }
        for seconds in [86_401, i64::MAX] {
            let too_long = LifetimeError::TooLong { max: DAY };
            assert_eq!(Lifetime::new(seconds, DAY), Err(too_long));
        }
    }

    #[test]
    fn time_left_counts_from_the_start_and_ends() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let max = Duration::from_secs(100);
        assert_eq!(
            time_left(at(1030), at(1000), max),
            Some(Duration::from_secs(70))
        );
        assert_eq!(time_left(at(1100), at(1000), max), None);
        assert_eq!(time_left(at(2000), at(1000), max), None);
        // The wall clock was set back: the sandbox is not younger than new.
        assert_eq!(time_left(at(900), at(1000), max), Some(max));
    }
}
