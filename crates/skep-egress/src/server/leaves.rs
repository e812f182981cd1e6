//! Certificates by which a sandbox is shown the hosts that rules look into.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use skep_domain::EgressCa;
use skep_telemetry::Chain;
use skep_types::HostName;

use crate::message::{Leaf, Refusal};

/// Time for which a certificate is used. It is valid for a day.
const USED_FOR: Duration = Duration::from_hours(12);
/// Hosts whose certificates are kept. A sandbox may name as many as it likes below a wildcard.
const MOST: usize = 64;

/// The certificates of a sandbox. No other one has their keys.
#[derive(Default)]
pub(super) struct Leaves(Mutex<HashMap<HostName, (Leaf, Instant)>>);

impl Leaves {
    /// The certificate for a host.
    pub(super) fn get(&self, authority: &EgressCa, host: &HostName) -> Result<Leaf, Refusal> {
        let mut leaves = self.0.lock();
        if let Some((leaf, made)) = leaves.get(host)
            && made.elapsed() < USED_FOR
        {
            return Ok(leaf.clone());
        }
        let issued = authority.issue(host, SystemTime::now()).map_err(|error| {
            tracing::warn!(error = %Chain(&error), "no certificate for a host of a rule");
            Refusal::NoAnswer
        })?;
        let leaf = Leaf {
            certificate: issued.certificate,
            key: issued.key,
        };
        if leaves.len() >= MOST {
            leaves.clear();
        }
        leaves.insert(host.clone(), (leaf.clone(), Instant::now()));
        Ok(leaf)
    }
}
