//! Kernels that are forked into sandboxes instead of being started there.
//!
//! A template that names a zygote gets one for each tenant: a process of the template that has
//! imported what kernels need, in a user namespace of its own with ids for many sandboxes
//! ([`Holder`]). The tenant's sandboxes of the template get user namespaces below it, so it may
//! enter them and nobody else on the host may. There are so many at most; the one that
//! nobody uses makes room for another, and a tenant that has many for one that has few
//! ([`registry`]). Their agents ask for kernels ([`serve`]); each is looked at from
//! outside before anybody speaks to it ([`verify_fork`]), because the zygote runs code of the
//! template and nothing it says is believed.
//!
//! Whatever goes wrong here, the sandbox starts its kernel itself, and it is counted.

mod fork;
mod holder;
mod registry;
mod serve;
mod specification;
mod verify_fork;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use skep_host::{Leases, SLOTS, TakenSlot, raise_inotify_limits};
use skep_launch::{Launcher, MAX_PER_PARENT};
use skep_telemetry::{Counter, Durations, Gauge, LogLimit, Tasks};
use tokio::sync::watch;

use crate::config::ZygoteConfig;

pub(crate) use holder::Holder;
use registry::Registry;
pub(crate) use registry::ZygoteKey;
pub(crate) use serve::{Client, serve};
pub use specification::has_zygote;

/// Time limit, at the server's end, for the removal of its zygotes' remains.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of looks within the time that an unused zygote is kept, to see whether it is over.
const LOOKS: u32 = 30;

/// Minimum interval between two log lines about failed forks.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// Metrics of the zygotes.
#[derive(Debug, Default)]
pub struct ZygoteCounts {
    /// Zygotes that are there now.
    pub alive: Gauge,
    /// Zygotes that were made.
    pub made: Counter,
    /// Zygotes that could not be made.
    pub not_made: Counter,
    /// Zygotes that were not made because there are as many as there may be, all of them have
    /// sandboxes, and no tenant has many more than the one that asks.
    pub no_room: Counter,
    /// Kernels that were forked.
    pub forked: Counter,
    /// Duration of a fork, from the request until the kernel was found to be right.
    pub fork: Durations,
    /// Sandboxes that were launched without a zygote though their template names one.
    pub cold: Counter,
    /// Questions to a zygote that had ended.
    pub dead: Counter,
    /// Questions that the zygote did not take up in time.
    pub slow: Counter,
    /// Forks that did not become kernels in time, in the cgroups of their sandbox.
    pub stalled: Counter,
    /// Forks that said they cannot be what was asked for.
    pub declined: Counter,
    /// Forks that were not what a started kernel is, and were killed.
    pub different: Counter,
    /// Questions that made no sense.
    pub nonsense: Counter,
}

/// The zygotes of this server.
#[derive(Debug)]
pub(crate) struct Zygotes {
    config: Option<ZygoteConfig>,
    leases: Arc<Leases>,
    launcher: Launcher,
    /// The seccomp filter that a fork is still to be put under, in hexadecimal.
    filter: String,
    /// Held while one is found, and for a look at files when a template is new.
    registry: Mutex<Registry>,
    /// Says that one is ready, or will not be.
    arrivals: watch::Sender<()>,
    /// Number of zygotes that exist, are being made, or leave something that is being removed.
    kept: watch::Sender<usize>,
    pub(crate) counts: Arc<ZygoteCounts>,
    /// Says of how many forks that failed the log tells.
    warnings: LogLimit,
}

impl Zygotes {
    /// Compiles the filter of forked kernels, and raises the kernel's shared limits if zygotes are
    /// on.
    ///
    /// # Errors
    ///
    /// If there is no filter for this host.
    pub(crate) fn new(
        config: Option<ZygoteConfig>,
        leases: Arc<Leases>,
        launcher: Launcher,
    ) -> io::Result<Self> {
        if config.is_some() {
            raise_inotify_limits(MAX_PER_PARENT)?;
        }
        let filter = skep_launch::filter_after_entering()?;
        Ok(Self {
            config,
            leases,
            launcher,
            filter: filter.iter().map(|byte| format!("{byte:02x}")).collect(),
            registry: Mutex::default(),
            arrivals: watch::Sender::new(()),
            kept: watch::Sender::new(0),
            counts: Arc::default(),
            warnings: LogLimit::new(WARN_EVERY),
        })
    }

    pub(crate) fn is_on(&self) -> bool {
        self.config.is_some()
    }

    /// A slot below the zygote of a tenant's template. If there is none yet, it is made for
    /// those who come later; nobody waits for it. Blocks for the time of a look at a file.
    pub(crate) fn slot_below(
        self: &Arc<Self>,
        key: &ZygoteKey,
    ) -> Option<(Arc<Holder>, TakenSlot)> {
        let config = self.config.as_ref()?;
        let mut registry = self.registry.lock();
        registry.end_unused(&self.leases, config.idle_after);
        registry.specification(&key.layers)?;
        let current = registry.living(key);
        let is_old = (current.as_ref()).is_none_or(|holder| holder.age() > config.rotate_after);
        let found = current.and_then(|holder| {
            let slot = self.leases.take_slot_of(holder.run)?;
            holder.is_used();
            Some((holder, slot))
        });
        if found.is_none() || is_old {
            self.make(&mut registry, key, config);
        }
        if found.is_none() {
            self.counts.cold.add_one();
        }
        found
    }

    /// Makes a zygote of this template for this tenant if there is none, and waits for it.
    /// Blocks for the time of a look at a file before it waits.
    pub(crate) async fn warm(self: &Arc<Self>, key: &ZygoteKey) {
        let Some(config) = &self.config else {
            return;
        };
        // Before the look at the registry, so that an arrival in between is not missed.
        let mut arrivals = self.arrivals.subscribe();
        {
            let mut registry = self.registry.lock();
            if registry.living(key).is_none() {
                registry.end_unused(&self.leases, config.idle_after);
                self.make(&mut registry, key, config);
            }
        }
        // The sender lives as long as this does.
        while self.registry.lock().is_warming(key) && arrivals.changed().await.is_ok() {}
    }

    /// Starts to make a zygote, unless the template names none, one is on its way, the last could
    /// not be made, or there are too many.
    fn make(self: &Arc<Self>, registry: &mut Registry, key: &ZygoteKey, config: &ZygoteConfig) {
        let Some(specification) = registry.specification(&key.layers).cloned() else {
            return;
        };
        if !registry.may_begin(key) {
            return;
        }
        if !registry.make_room(&self.leases, &key.tenant, config.most) {
            self.counts.no_room.add_one();
            return;
        }
        registry.begin(key);
        let sandboxes = sandboxes_each(config);
        if let Err(error) = holder::warm(self, key.clone(), specification, sandboxes) {
            tracing::warn!(%error, "no thread for a zygote");
            registry.arrived(key, None);
        }
    }

    /// The process that is to be a zygote runs. `false` if none is wanted any more.
    fn runs(&self, key: &ZygoteKey, process: OwnedFd) -> bool {
        self.registry.lock().runs(key, process)
    }

    /// A zygote is ready, or will not be.
    fn arrived(&self, key: &ZygoteKey, holder: Option<Arc<Holder>>) {
        self.registry.lock().arrived(key, holder);
        self.end_unused();
        self.arrivals.send_replace(());
    }

    /// Returns true if a zygote that was silent for this long is to be given up.
    fn gives_up_after(&self, silence: Duration) -> bool {
        let config = self.config.as_ref();
        config.is_none_or(|config| silence > config.give_up_after)
    }

    /// Ends zygotes that nobody needs: called when a sandbox has gone, which may have been the
    /// last of one that was replaced, and from time to time.
    pub(crate) fn end_unused(&self) {
        if let Some(config) = &self.config {
            self.registry
                .lock()
                .end_unused(&self.leases, config.idle_after);
        }
    }

    /// Ends zygotes that have no sandboxes, however short the time is.
    pub(crate) fn end_without_sandboxes(&self) {
        self.registry
            .lock()
            .end_unused(&self.leases, Duration::ZERO);
    }

    /// Ends zygotes whose time without sandboxes is over, until the tasks are to end.
    pub(crate) async fn end_idle(self: Arc<Self>, tasks: Tasks) {
        let Some(config) = &self.config else {
            return;
        };
        let stop = tasks.stopping();
        let between = (config.idle_after / LOOKS).max(Duration::from_millis(10));
        let mut looks = tokio::time::interval(between);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = looks.tick() => self.end_unused(),
            }
        }
    }

    /// Ends all zygotes, also those that are being made, and waits until nothing is left of
    /// them. What they forked lives on.
    pub(crate) async fn end(&self) {
        self.registry.lock().end();
        self.arrivals.send_replace(());
        let mut kept = self.kept.subscribe();
        let all_left = kept.wait_for(|count| *count == 0);
        if tokio::time::timeout(END_TIMEOUT, all_left).await.is_err() {
            tracing::warn!("something of a zygote is left; the next start removes it");
        }
    }
}

/// Number of sandboxes that each zygote serves, so that when there are as many as there may be, a
/// quarter of all slots is left for sandboxes that are below none.
fn sandboxes_each(config: &ZygoteConfig) -> u16 {
    let slots = (SLOTS / 4 * 3).checked_div(config.most).unwrap_or(0);
    let own = u16::try_from(holder::OWN_SLOTS).expect("one");
    let sandboxes = slots.saturating_sub(own);
    sandboxes.min(config.sandboxes).min(MAX_PER_PARENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zygotes_leave_slots_for_sandboxes_that_are_below_none() {
        let usual = ZygoteConfig::default();
        assert_eq!(sandboxes_each(&usual), usual.sandboxes);
        for most in 1..=ZygoteConfig::MOST {
            let config = ZygoteConfig {
                most,
                ..ZygoteConfig::default()
            };
            let each = sandboxes_each(&config);
            assert!(each >= 16, "{each} of {most}");
            assert!((each + 1) * most <= SLOTS / 4 * 3, "{each} of {most}");
        }
    }
}
