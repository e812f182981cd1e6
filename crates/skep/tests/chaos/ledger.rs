//! The server's promises to its callers, compared with what it says later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use skep_wire::rest::{SandboxRecord, SandboxRecordState as State};

/// Knowledge that callers have of one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Promise {
    /// The caller that made it; nobody else touches it.
    owner: u64,
    access_token: Option<String>,
    /// Bounds of the time of its end.
    ends: (Timestamp, Timestamp),
    /// Somebody asked for its end; whether they had an answer.
    killed: Option<bool>,
    /// Somebody asked for another deadline and had no answer, so nobody knows which holds.
    unsure_of_end: bool,
}

/// Every promise, by the id of the sandbox.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    promises: BTreeMap<String, Promise>,
    /// Every id that ever was in the database.
    seen: BTreeSet<String>,
}

/// The time in which a server may have read its clock: since `asked`.
pub(crate) fn ends_after(asked: Timestamp, lifetime: Duration) -> (Timestamp, Timestamp) {
    let lifetime = SignedDuration::try_from(lifetime).unwrap();
    // The wire knows microseconds, cut.
    let slack = SignedDuration::from_micros(1);
    (asked + lifetime - slack, Timestamp::now() + lifetime)
}

impl Ledger {
    /// A sandbox was made.
    pub(crate) fn created(
        &mut self,
        owner: u64,
        id: &str,
        access_token: Option<String>,
        ends: (Timestamp, Timestamp),
    ) {
        let promise = Promise {
            owner,
            access_token,
            ends,
            killed: None,
            unsure_of_end: false,
        };
        let earlier = self.promises.insert(id.to_owned(), promise);
        assert!(earlier.is_none(), "`{id}` was given twice");
        assert!(!self.seen.contains(id), "`{id}` was given again");
    }

    /// Somebody asks for the end of a sandbox.
    pub(crate) fn kill_asked(&mut self, id: &str) {
        self.promise(id).killed = Some(false);
    }

    /// It was ended.
    pub(crate) fn kill_answered(&mut self, id: &str) {
        self.promise(id).killed = Some(true);
    }

    /// Somebody asks for another deadline.
    pub(crate) fn deadline_asked(&mut self, id: &str) {
        self.promise(id).unsure_of_end = true;
    }

    /// It has another deadline.
    pub(crate) fn deadline_answered(&mut self, id: &str, ends: (Timestamp, Timestamp)) {
        let promise = self.promise(id);
        promise.ends = ends;
        promise.unsure_of_end = false;
    }

    /// The sandboxes of a caller that should live, as far as anybody knows.
    pub(crate) fn living(&self, owner: u64) -> Vec<String> {
        let now = Timestamp::now();
        let living = |promise: &Promise| {
            promise.owner == owner && promise.killed.is_none() && promise.ends.0 > now
        };
        let ids = self.promises.iter().filter(|(_, promise)| living(promise));
        ids.map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn token(&self, id: &str) -> Option<String> {
        self.promises.get(id)?.access_token.clone()
    }

    fn promise(&mut self, id: &str) -> &mut Promise {
        self.promises.get_mut(id).expect("only known ones are used")
    }

    /// Compares the database with every promise. Returns the living that nobody was promised:
    /// their server was killed after they had started and before it could say so.
    pub(crate) fn check(&mut self, records: &[SandboxRecord]) -> Vec<String> {
        let by_id: BTreeMap<_, _> = records
            .iter()
            .map(|record| (record.sandbox_id.as_str(), record))
            .collect();
        for id in self.promises.keys().chain(&self.seen) {
            assert!(
                by_id.contains_key(id.as_str()),
                "`{id}` is not in the record"
            );
        }
        for (id, promise) in &self.promises {
            let broken = promise.broken_by(by_id[id.as_str()]);
            assert_eq!(broken, None, "{promise:?} but {:?}", by_id[id.as_str()]);
        }
        let unknown = records
            .iter()
            .filter(|record| !self.promises.contains_key(&record.sandbox_id));
        let living = unknown
            .filter(|record| record.end_reason.is_none())
            .map(|record| record.sandbox_id.clone())
            .collect();
        let ids = records.iter().map(|record| record.sandbox_id.clone());
        self.seen.extend(ids);
        living
    }
}

impl Promise {
    /// Returns how the record breaks the promise, if it does.
    fn broken_by(&self, record: &SandboxRecord) -> Option<&'static str> {
        let Some(end) = record.end_at else {
            return Some("it was started and nobody knows when it ends");
        };
        let known_end = self.ends.0 <= end && end <= self.ends.1;
        match (record.state, record.end_reason.as_deref()) {
            (State::Running | State::Stopping, None) => match self.killed {
                Some(true) => Some("it was killed and lives"),
                Some(false) | None if self.unsure_of_end || known_end => None,
                Some(false) | None => Some("it has another deadline"),
            },
            (State::Ended, Some("killed")) => match self.killed {
                Some(_) => None,
                None => Some("nobody asked for its end"),
            },
            (State::Ended, Some("timeout")) if self.unsure_of_end => None,
            (State::Ended, Some("timeout")) => {
                (end < self.ends.0).then_some("it ended before its time")
            }
            // The server may be killed in the middle of ending a sandbox; that is no reason to
            // tell its owner that it crashed.
            (_, _) => Some("nobody asked for such an end"),
        }
    }
}
