//! The host below the sandboxes: its room, and what happens when there is none.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use skep_types::{EndReason, HostCapacity, HostResource, Phase, Promised, Resources, SandboxId};

use crate::admission::{INTERVAL, NoRoom, Reservation};
use crate::driver::Request;
use crate::node::{Inner, Node};

/// Interval between two searches for sandboxes that hold more memory than limits count: what a
/// sandbox can take in such a time is what it can have too much.
const HOARDING_INTERVAL: Duration = Duration::from_millis(100);

/// State of the host's resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostReport {
    /// Resources at the last sample; `None` before the first.
    pub capacity: Option<HostCapacity>,
    /// The resources of which only the reserve is left.
    pub exhausted: Vec<HostResource>,
    /// Sum of the limits promised to sandboxes.
    pub promised: Promised,
    /// Number of refusals for want of each resource.
    pub refusals: Vec<(HostResource, u64)>,
    /// About how many more sandboxes of the default size fit, and what runs out first.
    pub room: Option<(u64, HostResource)>,
}

impl Node {
    /// Takes room for a sandbox that [`Node::create`] is to make. Hold it until that returns.
    /// `None` if the sandbox is there already, because its name is that of a spare.
    ///
    /// Spares give way first.
    ///
    /// # Errors
    ///
    /// [`NoRoom`]; nothing has changed.
    pub async fn admit(
        &self,
        id: &SandboxId,
        resources: Resources,
    ) -> Result<Option<Reservation>, NoRoom> {
        if self.inner.spares.is_promised(id) {
            return Ok(None);
        }
        self.inner.room_for(id, resources).await.map(Some)
    }

    /// Looks after the host until the node is shut down: samples what it has left, lets go of
    /// spares and pools when there is too little, and ends sandboxes whose disk has lost what
    /// was written to it or that hold memory which their limits do not count.
    pub fn watch_host(&self) {
        let (node, tasks) = (self.clone(), &self.inner.tasks);
        tasks.spawn("watch host", async move {
            node.repeat(INTERVAL, Self::look_after_host).await;
        });
        let node = self.clone();
        tasks.spawn("watch uncounted memory", async move {
            node.repeat(HOARDING_INTERVAL, Self::end_hoarding).await;
        });
    }

    /// Reports the state of the host's resources.
    pub fn host(&self) -> HostReport {
        let admission = &self.inner.admission;
        let (capacity, promised) = admission.last();
        let policy = admission.policy();
        HostReport {
            exhausted: capacity.map_or_else(Vec::new, |host| policy.exhausted(&host)),
            promised,
            refusals: admission.refusals().collect(),
            room: capacity.map(|host| policy.room(&host, promised, Resources::default())),
            capacity,
        }
    }

    /// Does something again and again until the node is shut down.
    async fn repeat(&self, interval: Duration, look: impl AsyncFn(&Self)) {
        let stop = self.inner.tasks.stopping();
        loop {
            let look = async {
                look(self).await;
                tokio::time::sleep(interval).await;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = look => {}
            }
        }
    }

    async fn look_after_host(&self) {
        let inner = &self.inner;
        let Some(host) = inner.admission.sample(&*inner.isolation).await else {
            return;
        };
        let policy = inner.admission.policy();
        let exhausted = policy.exhausted(&host);
        if exhausted.is_empty() {
            inner.relax().await;
        } else {
            inner.tighten(&exhausted).await;
        }
        if exhausted.contains(&HostResource::Memory) {
            self.store_frozen();
        }
        if exhausted.contains(&HostResource::Disk) {
            self.end_damaged().await;
        }
    }

    /// Has paused sandboxes written to images, because their memory is wanted. A driver that has too
    /// much to do already is asked the next time.
    fn store_frozen(&self) {
        for status in self.list() {
            let entry = self.entry(&status.id);
            if let Some(entry) = entry.filter(|_| status.phase == Phase::Paused)
                && entry.requests.try_send(Request::Store).is_err()
            {
                tracing::debug!(sandbox = %status.id, "its driver is busy");
            }
        }
    }

    /// Ends the sandboxes whose disk has lost what was written to it. They do not know it yet:
    /// the kernel said yes to their writes and found out later.
    async fn end_damaged(&self) {
        for id in self.inner.isolation.damaged().await {
            self.end_for(id, EndReason::DiskFull);
        }
    }

    /// Ends the sandboxes that hold memory of the host which their limits do not count.
    async fn end_hoarding(&self) {
        for id in self.inner.isolation.hoarding().await {
            // One that is ending is found until it is gone.
            let status = self.status(&id);
            if status.is_some_and(|status| status.phase == Phase::Running) {
                self.end_for(id, EndReason::OutOfMemory);
            }
        }
    }

    /// Ends a sandbox for what it does to the host, or the host to it. Nobody waits for the
    /// slowest of them.
    fn end_for(&self, id: SandboxId, reason: EndReason) {
        let node = self.clone();
        self.inner.tasks.spawn("end a sandbox", async move {
            match node.kill(&id, reason).await {
                Ok(()) => {
                    tracing::warn!(sandbox = %id, %reason, "ended a sandbox that lost data to a full disk, or held memory that no limit counts");
                }
                Err(error) => tracing::debug!(sandbox = %id, %error, "it is ending already"),
            }
        });
    }
}

impl Inner {
    /// Room for a sandbox that somebody waits for. Spares give way first.
    pub(crate) async fn room_for(
        &self,
        id: &SandboxId,
        resources: Resources,
    ) -> Result<Reservation, NoRoom> {
        self.look_if_needed().await;
        let admitted = match self.admission.admit(id, resources) {
            Err(_) if self.make_room().await => {
                self.admission.sample(&*self.isolation).await;
                self.admission.admit(id, resources)
            }
            admitted => admitted,
        };
        if let Err(no_room) = admitted {
            self.admission.count_refusal(no_room);
        }
        admitted
    }

    /// Room for a sandbox that nobody waits for.
    pub(crate) async fn room_for_spare(
        &self,
        id: &SandboxId,
        resources: Resources,
    ) -> Result<Reservation, NoRoom> {
        self.look_if_needed().await;
        self.admission.admit_spare(id, resources)
    }

    async fn look_if_needed(&self) {
        if self.admission.is_old() {
            self.admission.sample(&*self.isolation).await;
        }
    }

    /// Lets go of spares and pools, and returns true if there was anything.
    async fn make_room(&self) -> bool {
        let was_tight = self.is_tight.swap(true, Ordering::Relaxed);
        if !was_tight {
            self.isolation.allow_pools(false).await;
        }
        let spares = self.give_up_spares().await;
        spares > 0 || !was_tight
    }

    async fn tighten(self: &Arc<Self>, exhausted: &[HostResource]) {
        let was_tight = self.is_tight.load(Ordering::Relaxed);
        if self.make_room().await && !was_tight {
            let exhausted = exhausted
                .iter()
                .map(|resource| resource.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            tracing::warn!(exhausted, "host is full, new sandboxes are refused");
        }
    }

    async fn relax(&self) {
        if self.is_tight.swap(false, Ordering::Relaxed) {
            self.isolation.allow_pools(true).await;
            tracing::info!("host has room again");
        }
    }
}
