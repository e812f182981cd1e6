//! Kernels that are forked into sandboxes instead of being started there.
//!
//! A template that names a zygote gets one: a process of the template that has imported what
//! kernels need, in a user namespace of its own with ids for many sandboxes ([`Holder`]).
//! Sandboxes of the template get user namespaces below it, so it may enter them and nobody
//! else on the machine may. Their agents ask for kernels ([`serve`]); each is looked at from
//! outside before anybody speaks to it ([`likeness`]), because the zygote runs code of the
//! template and nothing it says is believed.
//!
//! Whatever goes wrong here, the sandbox starts its kernel itself, and it is counted.

mod fork;
mod holder;
mod likeness;
mod serve;
mod specification;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use skep_launch::MOST_BELOW_ONE;
use skep_telemetry::{Counter, Durations, Gauge};
use tokio::sync::watch;

use crate::config::ZygoteConfig;
use crate::host::Host;
use crate::instance::Slot;

pub(crate) use holder::Holder;
pub(crate) use serve::{Client, serve};
use specification::Specification;

/// How long a template whose zygote could not be made is left alone.
const REST: Duration = Duration::from_secs(60);

/// How long the server waits at its end for what its zygotes leave behind to be removed.
const LEAVING: Duration = Duration::from_secs(10);

/// How long a zygote is kept that has no sandboxes.
const IDLE: Duration = Duration::from_secs(1800);

/// What is counted.
#[derive(Debug, Default)]
pub struct ZygoteCounts {
    /// Zygotes that are there now.
    pub alive: Gauge,
    /// Zygotes that were made.
    pub made: Counter,
    /// Zygotes that could not be made.
    pub not_made: Counter,
    /// Kernels that were forked.
    pub forked: Counter,
    /// How long that took, from the question until the kernel was found to be right.
    pub fork: Durations,
    /// Sandboxes that were launched without a zygote though their template names one.
    pub cold: Counter,
    /// Questions to a zygote that had ended.
    pub dead: Counter,
    /// Questions that took too long.
    pub slow: Counter,
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
    /// What a fork is still to be put under, in hexadecimal.
    filter: String,
    places: Mutex<HashMap<Vec<PathBuf>, Place>>,
    /// Says that one is ready, or will not be.
    arrivals: watch::Sender<()>,
    /// How many are there, are being made, or leave something that is being removed.
    kept: watch::Sender<usize>,
    pub(crate) counts: Arc<ZygoteCounts>,
}

/// The zygote of one template.
#[derive(Debug)]
struct Place {
    /// What the template says; `None` if it has no zygote.
    specification: Option<Specification>,
    current: Option<Arc<Holder>>,
    /// Those that were replaced and still have sandboxes.
    former: Vec<Arc<Holder>>,
    is_warming: bool,
    /// The process that is being warmed, as soon as there is one.
    warming: Option<OwnedFd>,
    rests_until: Option<Instant>,
}

impl Zygotes {
    /// # Errors
    ///
    /// If there is no filter for this machine.
    pub(crate) fn new(config: Option<ZygoteConfig>) -> io::Result<Self> {
        if config.is_some() {
            share_limits()?;
        }
        let filter = skep_launch::filter_after_entering()?;
        Ok(Self {
            config,
            filter: filter.iter().map(|byte| format!("{byte:02x}")).collect(),
            places: Mutex::default(),
            arrivals: watch::Sender::new(()),
            kept: watch::Sender::new(0),
            counts: Arc::default(),
        })
    }

    pub(crate) fn is_on(&self) -> bool {
        self.config.is_some()
    }

    /// A slot below the zygote of a template. If there is none yet, it is made for those who
    /// come later; nobody waits for it. Blocks for the time of a look at a file.
    pub(crate) fn place_for(
        &self,
        host: &Arc<Host>,
        layers: &[PathBuf],
    ) -> Option<(Arc<Holder>, Slot)> {
        let config = self.config.as_ref()?;
        let mut places = self.places();
        places.values_mut().for_each(|place| place.end_unused(host));
        let place = places
            .entry(layers.to_vec())
            .or_insert_with(|| Place::new(specification::find(layers)));
        place.specification.as_ref()?;
        let current = place.living();
        let is_old = current.is_none_or(|holder| holder.age() > config.rotate_after);
        let found = current.and_then(|holder| {
            let slot = host.slots.take_reserved(holder.run)?;
            holder.is_used();
            Some((Arc::clone(holder), slot))
        });
        if found.is_none() || is_old {
            place.make(host, layers, config);
        }
        if found.is_none() {
            self.counts.cold.add_one();
        }
        found
    }

    /// Makes a zygote of this template if it has none, and waits for it. Blocks for the time of
    /// a look at a file before it waits.
    pub(crate) async fn warm(&self, host: &Arc<Host>, layers: &[PathBuf]) {
        let Some(config) = &self.config else {
            return;
        };
        let mut arrivals = self.arrivals.subscribe();
        {
            let mut places = self.places();
            let place = places
                .entry(layers.to_vec())
                .or_insert_with(|| Place::new(specification::find(layers)));
            if place.specification.is_some() && place.living().is_none() {
                place.make(host, layers, config);
            }
        }
        let is_warming = || {
            self.places()
                .get(layers)
                .is_some_and(|place| place.is_warming)
        };
        // The sender lives as long as this does.
        while is_warming() && arrivals.changed().await.is_ok() {}
    }

    /// The process that is to be a zygote runs. `false` if none is wanted any more.
    fn runs(&self, layers: &[PathBuf], process: OwnedFd) -> bool {
        match self.places().get_mut(layers) {
            Some(place) => {
                place.warming = Some(process);
                true
            }
            None => false,
        }
    }

    /// A zygote is ready, or will not be.
    fn arrived(&self, host: &Host, layers: &[PathBuf], holder: Option<Arc<Holder>>) {
        let mut places = self.places();
        let Some(place) = places.get_mut(layers) else {
            return;
        };
        place.is_warming = false;
        place.warming = None;
        place.rests_until = match &holder {
            Some(_) => None,
            None => Some(Instant::now() + REST),
        };
        if let Some(holder) = holder {
            place.former.extend(place.current.replace(holder));
        }
        place.end_unused(host);
        drop(places);
        self.arrivals.send_replace(());
    }

    /// Whether a zygote that was silent for so long is of no use any more.
    fn gives_up_after(&self, silence: Duration) -> bool {
        let config = self.config.as_ref();
        config.is_none_or(|config| silence > config.give_up_after)
    }

    /// A sandbox has gone; a zygote that was replaced may have no other.
    pub(crate) fn left(&self, host: &Host) {
        for place in self.places().values_mut() {
            place.end_unused(host);
        }
    }

    /// Ends all zygotes, also those that are being made, and waits until nothing is left of
    /// them. What they forked lives on.
    pub(crate) async fn end(&self) {
        for (_, mut place) in self.places().drain() {
            place.former.extend(place.current.take());
            place.former.iter().for_each(|holder| holder.end());
            place.warming.iter().for_each(holder::kill);
        }
        self.arrivals.send_replace(());
        let mut kept = self.kept.subscribe();
        let all_left = kept.wait_for(|count| *count == 0);
        if tokio::time::timeout(LEAVING, all_left).await.is_err() {
            tracing::warn!("something of a zygote is left; the next start removes it");
        }
    }

    fn places(&self) -> MutexGuard<'_, HashMap<Vec<PathBuf>, Place>> {
        self.places.lock().expect("no holder panics")
    }
}

impl Place {
    fn new(specification: Option<Specification>) -> Self {
        Self {
            specification,
            current: None,
            former: Vec::new(),
            is_warming: false,
            warming: None,
            rests_until: None,
        }
    }

    /// The zygote that new sandboxes go below.
    fn living(&mut self) -> Option<&Arc<Holder>> {
        self.current.take_if(|holder| holder.has_ended());
        self.current.as_ref()
    }

    /// Has a zygote made, unless one is on its way or the last could not be made.
    fn make(&mut self, host: &Arc<Host>, layers: &[PathBuf], config: &ZygoteConfig) {
        let rests = self.rests_until.is_some_and(|end| Instant::now() < end);
        if let Some(specification) = &self.specification
            && !self.is_warming
            && !rests
        {
            self.is_warming = true;
            let sandboxes = config.sandboxes.min(MOST_BELOW_ONE);
            holder::warm(host, layers.to_vec(), specification.clone(), sandboxes);
        }
    }

    /// Ends zygotes without sandboxes: one that was replaced at once, another when nobody has
    /// asked for its template for a while (it may have been built anew).
    fn end_unused(&mut self, host: &Host) {
        let has_sandboxes =
            |holder: &Arc<Holder>| host.slots.in_use(holder.run) > holder::OWN_SLOTS;
        let is_unused = |holder: &mut Arc<Holder>| !has_sandboxes(holder) && holder.idle() > IDLE;
        let unused = self.current.take_if(is_unused);
        let (needed, mut ended): (Vec<_>, Vec<_>) = self.former.drain(..).partition(has_sandboxes);
        self.former = needed;
        ended.extend(unused);
        ended.iter().for_each(|holder| holder.end());
    }
}

/// What the kernel counts for the creator of a user namespace is counted for all sandboxes
/// below it together, and only the machine's own setting limits that. Each sandbox is limited
/// to its part by its launcher; the machine must have room for all parts.
fn share_limits() -> io::Result<()> {
    for (name, needed) in [
        ("max_user_instances", 128 * u64::from(MOST_BELOW_ONE)),
        ("max_user_watches", 131_072 * u64::from(MOST_BELOW_ONE)),
    ] {
        let path = format!("/proc/sys/fs/inotify/{name}");
        let text = std::fs::read_to_string(&path)?;
        let present: u64 = text.trim().parse().map_err(io::Error::other)?;
        if present < needed {
            std::fs::write(&path, needed.to_string())?;
        }
    }
    Ok(())
}
