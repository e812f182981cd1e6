//! Repeated requests that must be answered like the first.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use skep_store::{Idempotency, Order, StoreError};
use skep_types::TeamId;

use crate::{Caller, Control};

/// A caller's name for a request: up to 255 characters of `[a-z0-9-]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Box<str>);

/// A text that is no idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an idempotency key is 1 to 255 characters of a-z, 0-9 and `-`")]
pub struct IdempotencyKeyError;

impl FromStr for IdempotencyKey {
    type Err = IdempotencyKeyError;

    fn from_str(text: &str) -> Result<Self, IdempotencyKeyError> {
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=255).contains(&text.len()) && text.bytes().all(word) {
            Ok(Self(text.into()))
        } else {
            Err(IdempotencyKeyError)
        }
    }
}

/// Digest of a whole request. It says whether two requests are the same, and keeps nothing of them.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestDigest(Box<str>);

impl RequestDigest {
    /// The digest of a request that was made of these parts.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            // With its length before it, no part can pretend to be two.
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(part);
        }
        Self(hex::encode(hasher.finalize()).into())
    }
}

impl fmt::Display for RequestDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for RequestDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RequestDigest({}…)", &self.0[..8])
    }
}

/// Failure to answer a repeated request like the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdempotencyError {
    /// The first is not done yet. Ask again in a moment.
    #[error("a request with this idempotency key is in progress")]
    InProgress,
    /// The first was another request.
    #[error("this idempotency key was used for another request")]
    Mismatch,
    /// The server was killed during the first. There may or may not have been a sandbox; there
    /// is none now that never became ready.
    #[error("the outcome of the first request with this idempotency key is not known")]
    OutcomeUnknown,
}

/// The keys of requests that are under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    running: Arc<Mutex<HashMap<(TeamId, IdempotencyKey), RequestDigest>>>,
}

/// A key that nobody else can use until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Claims,
    name: (TeamId, IdempotencyKey),
    digest: RequestDigest,
}

impl Claims {
    fn take(
        &self,
        team: &TeamId,
        key: IdempotencyKey,
        digest: RequestDigest,
    ) -> Result<Claim, IdempotencyError> {
        let name = (team.clone(), key);
        let mut running = self.running.lock();
        match running.get(&name) {
            Some(first) if *first == digest => return Err(IdempotencyError::InProgress),
            Some(_) => return Err(IdempotencyError::Mismatch),
            None => running.insert(name.clone(), digest.clone()),
        };
        Ok(Claim {
            claims: self.clone(),
            name,
            digest,
        })
    }
}

impl Claim {
    /// The request as it is kept in the database.
    pub(crate) fn to_record(&self) -> Idempotency {
        Idempotency {
            key: self.key(),
            request: self.digest.0.to_string(),
        }
    }

    pub(crate) fn key(&self) -> String {
        self.name.1.0.to_string()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.running.lock().remove(&self.name);
    }
}

/// A request with an idempotency key, compared with those before it.
pub(crate) enum Attempt {
    /// The first of its name.
    First(Claim),
    /// One that was answered before, with this sandbox.
    Repeated(Arc<Order>),
}

/// Failure of a request with an idempotency key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttemptError {
    #[error(transparent)]
    Idempotency(#[from] IdempotencyError),
    #[error(transparent)]
    Record(#[from] StoreError),
}

impl Control {
    pub(crate) async fn attempt(
        &self,
        caller: &Caller,
        key: IdempotencyKey,
        digest: RequestDigest,
    ) -> Result<Attempt, AttemptError> {
        let team = &caller.team.id;
        // Claimed before the database is read, so that no other request can slip in between.
        let claim = self.inner.claims.take(team, key, digest)?;
        let sandboxes = self.inner.store.sandboxes();
        let Some(first) = sandboxes.remembered(team.clone(), claim.key()).await? else {
            return Ok(Attempt::First(claim));
        };
        if *first.request != *claim.digest.0 {
            return Err(IdempotencyError::Mismatch.into());
        }
        match sandboxes.find(first.sandbox).await? {
            Some(record) if record.run.is_some() => Ok(Attempt::Repeated(Arc::new(record.order))),
            Some(_) | None => Err(IdempotencyError::OutcomeUnknown.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_words() {
        for good in ["a", "0-9", &"x".repeat(255)] {
            assert!(good.parse::<IdempotencyKey>().is_ok(), "{good}");
        }
        for bad in ["", "A", "a b", "a_b", "é", &"x".repeat(256)] {
            assert!(bad.parse::<IdempotencyKey>().is_err(), "{bad}");
        }
    }

    #[test]
    fn where_one_part_ends_matters() {
        assert_ne!(
            RequestDigest::of(&[b"ab", b"c"]),
            RequestDigest::of(&[b"a", b"bc"])
        );
    }
}
