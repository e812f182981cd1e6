//! Admission of sandboxes by the host's free resources.
//!
//! What the host has left is sampled in the background, because finding it out takes system
//! calls and none of them belongs on the way of a create call. Between two samples what has
//! been admitted is counted here, so a burst does not take the same room many times.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use skep_isolation::Isolation;
use skep_telemetry::Counter;
use skep_types::{AdmissionPolicy, HostCapacity, HostResource, Promised, Resources, SandboxId};
use tokio::time::Instant;

/// Interval between two samples of the host's resources.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);
/// Age above which a sample is renewed by the caller that asks for room.
const OLD: Duration = Duration::from_secs(1);
/// Age above which nobody is admitted by a sample.
const TOO_OLD: Duration = Duration::from_secs(10);
/// Time limit for a sample. A disk that takes longer holds no more sandboxes.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of further sandboxes that spares must leave room for.
const SPARE_MARGIN: u32 = 8;

/// The host's room, and who has been given some of it. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    policy: AdmissionPolicy,
    /// Held only for a look or a change.
    ledger: Mutex<Ledger>,
    refused: [Counter; HostResource::ALL.len()],
    /// Set while the host's resources cannot be read.
    is_blind: AtomicBool,
}

#[derive(Debug, Default)]
struct Ledger {
    sample: Option<(Instant, HostCapacity)>,
    /// The sandboxes that are there or are about to be, and how many parts of the server say so.
    sandboxes: HashMap<SandboxId, (Promised, u32)>,
    promised: Promised,
    /// Number of sandboxes that are being started.
    starting: u32,
    /// Number started since the last sample began, which may not have seen them.
    unseen: u32,
}

/// The host has too little of something for another sandbox. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not enough {0} for another sandbox")]
pub struct NoRoom(pub HostResource);

/// A sandbox that is counted with its limits until this is dropped. Several may say so of one.
#[derive(Debug)]
pub(crate) struct Promise {
    admission: Admission,
    id: SandboxId,
}

/// Room for a sandbox while it is started. Dropping it says that it is there, or never will be.
#[derive(Debug)]
pub struct Reservation {
    promise: Promise,
}

impl Admission {
    pub(crate) fn new(policy: AdmissionPolicy) -> Self {
        Self {
            inner: Arc::new(Inner {
                policy,
                ledger: Mutex::default(),
                refused: Default::default(),
                is_blind: AtomicBool::new(false),
            }),
        }
    }

    pub(crate) fn policy(&self) -> &AdmissionPolicy {
        &self.inner.policy
    }

    /// Looks at the host and says what it has.
    pub(crate) async fn sample(&self, isolation: &dyn Isolation) -> Option<HostCapacity> {
        // Both before the look: what is started while it lasts may or may not be in it.
        let (began, seen) = {
            let ledger = self.inner.ledger.lock();
            (Instant::now(), ledger.unseen)
        };
        let looked = tokio::time::timeout(SAMPLE_TIMEOUT, isolation.capacity()).await;
        let capacity = match looked {
            Ok(Ok(capacity)) => capacity,
            Ok(Err(error)) => return self.cannot_look(&error),
            Err(_elapsed) => return self.cannot_look(&std::io::ErrorKind::TimedOut.into()),
        };
        if self.inner.is_blind.swap(false, Ordering::Relaxed) {
            tracing::info!("resources of the host can be read again");
        }
        let mut ledger = self.inner.ledger.lock();
        // Samples of two who asked at once may end in another order than they began.
        if ledger.sample.is_none_or(|(newest, _)| newest < began) {
            ledger.sample = Some((began, capacity));
            ledger.unseen = ledger.unseen.saturating_sub(seen);
        }
        Some(capacity)
    }

    fn cannot_look(&self, error: &std::io::Error) -> Option<HostCapacity> {
        if !self.inner.is_blind.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "cannot read the resources of the host");
        }
        None
    }

    /// Takes room for a sandbox that somebody waits for.
    pub(crate) fn admit(
        &self,
        id: &SandboxId,
        resources: Resources,
    ) -> Result<Reservation, NoRoom> {
        self.reserve(id, resources, 0)
    }

    /// Takes room for a sandbox that nobody waits for, if plenty is left.
    pub(crate) fn admit_spare(
        &self,
        id: &SandboxId,
        resources: Resources,
    ) -> Result<Reservation, NoRoom> {
        self.reserve(id, resources, SPARE_MARGIN)
    }

    fn reserve(
        &self,
        id: &SandboxId,
        resources: Resources,
        margin: u32,
    ) -> Result<Reservation, NoRoom> {
        let mut ledger = self.inner.ledger.lock();
        let policy = &self.inner.policy;
        if policy.enabled {
            // Without a look there is no telling. What hangs then is the disk, usually.
            let fresh = ledger.sample.filter(|(began, _)| began.elapsed() < TOO_OLD);
            let (_, host) = fresh.ok_or(NoRoom(HostResource::Disk))?;
            let starting = ledger.starting + ledger.unseen + margin;
            let shortage = policy.shortage(&host, ledger.promised, starting, resources);
            shortage.map_or(Ok(()), |resource| Err(NoRoom(resource)))?;
        }
        ledger.starting += 1;
        ledger.promise(id, resources);
        drop(ledger);
        let promise = Promise {
            admission: self.clone(),
            id: id.clone(),
        };
        Ok(Reservation { promise })
    }

    /// Returns true if the last sample is too old to decide by.
    pub(crate) fn is_old(&self) -> bool {
        let sample = self.inner.ledger.lock().sample;
        self.inner.policy.enabled && sample.is_none_or(|(began, _)| began.elapsed() > OLD)
    }

    /// Counts a sandbox that is there, whether there is room or not.
    pub(crate) fn promise(&self, id: &SandboxId, resources: Resources) -> Promise {
        self.inner.ledger.lock().promise(id, resources);
        Promise {
            admission: self.clone(),
            id: id.clone(),
        }
    }

    pub(crate) fn count_refusal(&self, NoRoom(resource): NoRoom) {
        let same = HostResource::ALL.into_iter().zip(&self.inner.refused);
        for (_, counter) in same.filter(|(candidate, _)| *candidate == resource) {
            counter.add_one();
        }
    }

    /// Number of refusals for want of each resource.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (HostResource, u64)> {
        let counts = self.inner.refused.iter().map(Counter::get);
        HostResource::ALL.into_iter().zip(counts)
    }

    /// The last sample of the host's resources, and the sum of the limits promised to sandboxes.
    pub(crate) fn last(&self) -> (Option<HostCapacity>, Promised) {
        let ledger = self.inner.ledger.lock();
        (ledger.sample.map(|(_, host)| host), ledger.promised)
    }
}

impl Ledger {
    fn promise(&mut self, id: &SandboxId, resources: Resources) {
        let promised = Promised::to(resources);
        let (_, holders) = self.sandboxes.entry(id.clone()).or_insert((promised, 0));
        *holders += 1;
        if *holders == 1 {
            self.promised = self.promised.plus(promised);
        }
    }

    fn release(&mut self, id: &SandboxId) {
        let Some((promised, holders)) = self.sandboxes.get_mut(id) else {
            return;
        };
        *holders -= 1;
        if *holders == 0 {
            self.promised = self.promised.minus(*promised);
            self.sandboxes.remove(id);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.admission.inner.ledger.lock().release(&self.id);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut ledger = self.promise.admission.inner.ledger.lock();
        ledger.starting -= 1;
        ledger.unseen += 1;
    }
}

#[cfg(test)]
mod tests {
    use skep_isolation::FakeIsolation;
    use skep_types::Capacity;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A host with memory for so many sandboxes, as they are expected to be.
    fn room_for(count: u64) -> HostCapacity {
        let total = 1024 * 32 * MIB;
        HostCapacity {
            memory: Capacity {
                total,
                available: total / 20 + count * 32 * MIB,
            },
            ..HostCapacity::default()
        }
    }

    async fn sampled(isolation: &FakeIsolation, room: u64) -> Admission {
        let admission = Admission::new(AdmissionPolicy::default());
        isolation.set_capacity(room_for(room));
        admission.sample(isolation).await;
        admission
    }

    fn admit(admission: &Admission) -> Result<Reservation, NoRoom> {
        admission.admit(&SandboxId::random(), Resources::default())
    }

    #[tokio::test]
    async fn a_burst_does_not_take_the_same_room_twice() {
        let isolation = FakeIsolation::default();
        let admission = sampled(&isolation, 3).await;
        let taken: Vec<_> = (0..3).map(|_| admit(&admission).unwrap()).collect();
        assert_eq!(admit(&admission).unwrap_err(), NoRoom(HostResource::Memory));
        drop(taken);
        // They are there, but no sample has seen them yet.
        admit(&admission).unwrap_err();
        admission.sample(&isolation).await;
        admit(&admission).unwrap();
    }

    #[tokio::test]
    async fn what_is_kept_ready_leaves_room_for_others() {
        let isolation = FakeIsolation::default();
        let admission = sampled(&isolation, u64::from(SPARE_MARGIN)).await;
        let resources = Resources::default();
        let spare = admission.admit_spare(&SandboxId::random(), resources);
        assert_eq!(spare.unwrap_err(), NoRoom(HostResource::Memory));
        admit(&admission).unwrap();
    }

    #[tokio::test]
    async fn one_sandbox_is_promised_its_limits_once_however_many_say_so() {
        let isolation = FakeIsolation::default();
        let admission = sampled(&isolation, 9).await;
        let (id, resources) = (SandboxId::random(), Resources::default());
        let reservation = admission.admit(&id, resources).unwrap();
        let driver = admission.promise(&id, resources);
        assert_eq!(admission.last().1, Promised::to(resources));
        drop(reservation);
        assert_eq!(admission.last().1, Promised::to(resources));
        drop(driver);
        assert_eq!(admission.last().1, Promised::default());
        assert!(admission.inner.ledger.lock().sandboxes.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_admitted_by_a_sample_that_is_too_old() {
        let isolation = FakeIsolation::default();
        let admission = sampled(&isolation, 9).await;
        admit(&admission).unwrap();
        tokio::time::advance(OLD + Duration::from_millis(1)).await;
        assert!(admission.is_old());
        tokio::time::advance(TOO_OLD).await;
        admit(&admission).unwrap_err();
    }
}
