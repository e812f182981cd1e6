//! Removing what belongs to no lease of this server.

use std::fs;
use std::time::Instant;

use skep_telemetry::Chain;
use skep_types::SandboxId;

use crate::cgroup::Group;
use crate::gateway;
use crate::instance::Slot;
use crate::lease::{ReleaseError, Source};
use crate::leases::Leases;
use crate::slots::TakenSlot;

impl Leases {
    /// Removes what belongs to no lease of this server, and returns the sandboxes it was of. What
    /// cannot be removed now is tried again later. Blocks.
    ///
    /// # Errors
    ///
    /// The first thing that could not be removed; the rest is removed.
    pub fn sweep(&self) -> Result<Vec<SandboxId>, ReleaseError> {
        let deadline = Instant::now() + self.config.kill_deadline;
        let (ids, links) = self.find_leftovers()?;
        let mut first = Ok(());
        for slot in links {
            let removed = gateway::remove_link(slot).map_err(|source| ReleaseError {
                what: format!("network link `{}`", slot.interface()),
                source: source.into(),
            });
            first = first.and(removed);
        }
        // Nobody waits for one that does not die before all others have been killed.
        let (mut swept, left): (Vec<_>, Vec<_>) = ids
            .into_iter()
            .partition(|id| self.remove(id, None, Instant::now()).is_ok());
        for id in left {
            match self.remove(&id, None, deadline) {
                Ok(()) => swept.push(id),
                Err(error) => {
                    self.leftovers.add(&id, self.take_slots_of(&id), &error);
                    first = first.and(Err(error));
                }
            }
        }
        first.map(|()| swept)
    }

    /// Finds everything that is there and belongs to no lease of this server: sandboxes, and
    /// links. Blocks.
    fn find_leftovers(&self) -> Result<(Vec<SandboxId>, Vec<Slot>), ReleaseError> {
        let unlisted = |what: &str| {
            let what = what.to_owned();
            move |source: Source| ReleaseError { what, source }
        };
        let groups = self.cgroups.list();
        let mut names = groups.map_err(|error| unlisted("cgroups")(error.into()))?;
        let directories = fs::read_dir(self.config.data_dir.join("sandboxes"));
        for directory in directories.map_err(|error| unlisted("files")(error.into()))? {
            let directory = directory.map_err(|error| unlisted("files")(error.into()))?;
            names.extend(directory.file_name().into_string());
        }
        names.sort();
        names.dedup();
        let ids = (names.iter())
            .filter_map(|name| name.parse().ok())
            .filter(|id| !self.is_leased(id))
            .collect();
        let links =
            gateway::links(self.naming).map_err(|error| unlisted("network links")(error.into()))?;
        let unused = links.into_iter().filter(|slot| !self.slots.is_taken(*slot));
        Ok((ids, unused.collect()))
    }

    /// Takes the slots whose ids living processes of a sandbox have: nobody else may have them.
    /// Blocks.
    fn take_slots_of(&self, id: &SandboxId) -> Vec<TakenSlot> {
        let processes = self
            .cgroups
            .processes(&Group::new(id))
            .unwrap_or_else(|error| {
                tracing::warn!(sandbox = %id, error = %Chain(&error), "cannot list processes");
                Vec::new()
            });
        let mut slots: Vec<_> = (processes.into_iter())
            .flat_map(|process| {
                // It may have ended meanwhile, which is what everybody wants.
                let map = fs::read_to_string(format!("/proc/{process}/uid_map"));
                self.naming.slots_in_map(&map.unwrap_or_default())
            })
            .collect();
        slots.sort_by_key(|slot| slot.number());
        slots.dedup();
        (slots.into_iter())
            .filter(|slot| self.slots.take_number(slot.number()))
            .map(|slot| self.slots.taken(slot))
            .collect()
    }
}
