//! Changes of what a sandbox may reach.

use std::io;

use skep_telemetry::Chain;
use skep_types::{Connections, Egress, Reach};

use super::{Lease, Source};
use crate::defence::Defence;
use crate::firewall::{self, Allowance};
use crate::gateway;
use crate::instance::Slot;
use crate::leases::Leases;

impl Lease {
    /// Changes what the sandbox may reach, and cuts the connections that it may not have any more,
    /// unless it is known to have none. Blocks.
    ///
    /// # Errors
    ///
    /// If the packet filter or the link cannot be changed, or connections cannot be cut. It reaches
    /// what it did before.
    pub fn set_egress(&self, egress: Egress, connections: Connections) -> Result<(), Source> {
        let mut current = self.egress.lock();
        let changed = self.put_in_force(&egress).and_then(|()| match connections {
            Connections::None => Ok(()),
            Connections::Cut => self.leases.cut(self.number, &egress.reach()),
        });
        if let Err(error) = changed {
            // What is in force is what its owner is told.
            if let Err(error) = self.put_in_force(&current) {
                tracing::error!(sandbox = %self.id, error = %Chain(&error), "cannot go back to a policy");
            }
            return Err(error.into());
        }
        *current = egress;
        Ok(())
    }

    fn put_in_force(&self, egress: &Egress) -> io::Result<()> {
        let allowance = Allowance::of(egress);
        let group = firewall::group(&allowance);
        let policies = &self.leases.policies;
        match allowance {
            // The link leads to the policy when there is one, and away from it while there is one.
            Allowance::Some { .. } => {
                policies.set(self.number, &allowance)?;
                gateway::set_group(self.number, group)?;
            }
            Allowance::Everything | Allowance::Nothing => {
                gateway::set_group(self.number, group)?;
                policies.set(self.number, &allowance)?;
            }
        }
        self.leases.note_egress(&self.id, egress.clone());
        Ok(())
    }
}

impl Leases {
    /// Cuts the connections of a sandbox that lead beyond what it reaches. Blocks.
    fn cut(&self, slot: Slot, reach: &Reach) -> io::Result<()> {
        if *reach == Reach::Everything || !self.config.has(Defence::CutConnections) {
            return Ok(());
        }
        let (sandbox, gateway) = (slot.address(), self.gateway());
        let cut = skep_linux::forget_connections(|connection| {
            connection.sender == sandbox
                && connection.receiver != gateway
                && !reach.contains(connection.receiver)
        })?;
        tracing::debug!(cut, "connections that a policy denies are cut");
        Ok(())
    }
}
