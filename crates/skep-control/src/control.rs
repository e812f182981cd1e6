//! The service: what it is made of and how it starts.

use std::sync::{Arc, Weak};

use jiff::{Timestamp, Unit};
use skep_seal::KeySource;
use skep_store::{Standing, Store, StoreError, Team};
use skep_telemetry::Tasks;
use skep_types::{Phase, SandboxStatus, TeamId, random_bytes};

use crate::idempotency::Claims;
use crate::identity::Identity;
use crate::quota::{Full, Quota};
use crate::registry::{Entry, Registry};
use crate::uploads::LinkKey;
use crate::vault::Vault;
use crate::volume_mounts::VolumeUses;
use crate::volumes::VolumeKey;
use crate::{Builds, Living, Nodes, TeamLimits, Templates, Uploads, VolumeBackend};

/// The control plane: authorizes callers and runs their requests. Cheap to clone; clones are the
/// same.
#[derive(Debug, Clone)]
pub struct Control {
    pub(crate) inner: Arc<Inner>,
}

/// A [`Control`] that is not kept alive by this. For parts of a host, which control keeps alive itself.
#[derive(Debug, Clone)]
pub struct WeakControl(Weak<Inner>);

impl Control {
    /// A handle for those whom control keeps alive.
    pub fn downgrade(&self) -> WeakControl {
        WeakControl(Arc::downgrade(&self.inner))
    }
}

impl WeakControl {
    /// Control, unless the server has ended.
    pub fn upgrade(&self) -> Option<Control> {
        let inner = self.0.upgrade()?;
        Some(Control { inner })
    }
}

/// Dependencies of [`Control`].
#[derive(Debug)]
pub struct Parts {
    /// The database of teams, keys and sandboxes.
    pub store: Store,
    /// The hosts. They must have adopted the sandboxes of the last server.
    pub nodes: Arc<dyn Nodes>,
    /// The source of templates.
    pub templates: Arc<dyn Templates>,
    /// Builder of new ones.
    pub builds: Arc<dyn Builds>,
    /// Files that builds copy.
    pub uploads: Arc<dyn Uploads>,
    /// Store of volumes.
    pub volumes: Arc<dyn VolumeBackend>,
    /// The place of the key that seals secrets.
    pub vault: KeySource,
    /// Limits of teams without limits of their own.
    pub limits: TeamLimits,
    /// The sandboxes that should live, which the hosts have adopted as far as they could.
    pub living: Living,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) nodes: Arc<dyn Nodes>,
    pub(crate) templates: Arc<dyn Templates>,
    pub(crate) builds: Arc<dyn Builds>,
    pub(crate) uploads: Arc<dyn Uploads>,
    pub(crate) link_key: LinkKey,
    pub(crate) volumes: Arc<dyn VolumeBackend>,
    pub(crate) volume_key: VolumeKey,
    pub(crate) volume_uses: VolumeUses,
    /// Held while a volume is counted and recorded.
    pub(crate) recording_volume: tokio::sync::Mutex<()>,
    pub(crate) vault: Vault,
    pub(crate) identity: Identity,
    pub(crate) limits: TeamLimits,
    pub(crate) registry: Registry,
    pub(crate) quota: Quota,
    /// Sandboxes that are paused and not counted among those that run.
    paused: Quota,
    /// Snapshots that are being taken.
    pub(crate) snapshots: Quota,
    pub(crate) claims: Claims,
    pub(crate) tasks: Tasks,
}

impl Control {
    /// Starts the service: makes the default team if there is none, takes note of the sandboxes that
    /// live, and takes up builds that ran.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the database cannot be read or written.
    pub async fn open(parts: Parts) -> Result<Self, StoreError> {
        let keys = parts.store.server_keys();
        let link_key = keys.get_or_insert("uploads", random_bytes()).recorded();
        let link_key = LinkKey(link_key.await?);
        let volume_key = keys.get_or_insert("volumes", random_bytes()).recorded();
        let volume_key = VolumeKey(volume_key.await?);
        let control = Self {
            inner: Arc::new(Inner {
                link_key,
                volumes: parts.volumes,
                volume_key,
                volume_uses: VolumeUses::default(),
                recording_volume: tokio::sync::Mutex::default(),
                store: parts.store,
                nodes: parts.nodes,
                templates: parts.templates,
                builds: parts.builds,
                uploads: parts.uploads,
                vault: Vault::new(parts.vault),
                identity: Identity::default(),
                limits: parts.limits,
                registry: Registry::default(),
                quota: Quota::default(),
                paused: Quota::default(),
                snapshots: Quota::default(),
                claims: Claims::default(),
                tasks: Tasks::default(),
            }),
        };
        control.default_team().await?;
        for order in parts.living.into_orders() {
            let status = control.inner.nodes.status(&order.id).await;
            if status.is_some() {
                let most_paused = control.most_paused(&order.team).await;
                let entry = Entry::new(order, None, most_paused);
                let entry = control.inner.registry.insert(entry);
                control.published(&entry).await;
            }
        }
        control.take_up_builds().await?;
        control.take_up_volumes().await?;
        Ok(control)
    }

    /// The team of whoever names no other. Made when it is first asked for.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn default_team(&self) -> Result<Team, StoreError> {
        let teams = self.inner.store.teams();
        if let Some(team) = teams.default_team().await? {
            return Ok(team);
        }
        let team = Team {
            id: TeamId::random(),
            slug: "default".to_owned(),
            name: "Default".to_owned(),
            is_default: true,
            max_sandboxes: None,
            max_lifetime: None,
            standing: Standing::Good,
            created_at: now(),
        };
        match teams.insert(team.clone()).recorded().await {
            Ok(()) => Ok(team),
            // Another process was faster.
            Err(error @ StoreError::Taken { .. }) => teams.default_team().await?.ok_or(error),
            Err(error) => Err(error),
        }
    }

    /// Number of paused sandboxes of a team that do not count.
    async fn most_paused(&self, team: &TeamId) -> u32 {
        let owner = self.owner(team).await;
        let limits = owner.map_or(self.inner.limits, |owner| owner.limits);
        limits.most_paused()
    }

    /// The database, for whoever needs it beside control.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Waits for creations that are under way. New ones are the edge's to stop.
    pub async fn finish(&self) {
        self.inner.tasks.finish().await;
    }

    /// The status of a sandbox that a caller may see; the entries of those that are gone are
    /// dropped on the way, and with them their place in the quota.
    pub(crate) async fn published(&self, entry: &Entry) -> Option<SandboxStatus> {
        let order = &entry.order;
        match self.inner.nodes.status(&order.id).await {
            Some(status) if status.phase != Phase::Gone => {
                self.count(entry, status.phase);
                Some(status)
            }
            Some(_) | None => {
                self.inner.registry.remove(&order.team, &order.id);
                None
            }
        }
    }
}

impl Control {
    /// Counts a sandbox for its team as its phase says. It is done here and not where a pause is
    /// asked for, because a pause and a resume also happen when their caller has gone away.
    fn count(&self, entry: &Entry, phase: Phase) {
        let team = &entry.order.team;
        match phase {
            // It holds memory or disk of the host as long as it is there, so one more than the team
            // may have goes on counting as if it ran.
            Phase::Paused if entry.is_asleep() => {}
            Phase::Paused => match self.inner.paused.take(team, entry.most_paused) {
                Ok(place) => entry.fall_asleep(place),
                Err(Full) if entry.is_counted() => {}
                Err(Full) => entry.set_quota(self.inner.quota.take_anyway(team)),
            },
            // A resume takes its part of the quota before it begins.
            Phase::Starting | Phase::Pausing | Phase::Resuming | Phase::Gone => {}
            Phase::Running | Phase::Snapshotting | Phase::Stopping | Phase::Stuck => {
                if !entry.is_counted() {
                    let quota = self.inner.quota.take_anyway(team);
                    entry.set_quota(quota);
                }
            }
        }
    }
}

/// The time, in the microseconds that clients see and echo back.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    now.round(
        jiff::TimestampRound::new()
            .smallest(Unit::Microsecond)
            .mode(jiff::RoundMode::Trunc),
    )
    .unwrap_or(now)
}
