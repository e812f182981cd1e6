//! Changes of what a sandbox may reach.

use std::io;
use std::sync::Arc;

use skep_telemetry::Chain;
use skep_types::{Connections, Egress, Reach};

use super::{Lease, Source};
use crate::defence::Defence;
use crate::firewall::{self, Allowance};
use crate::gateway;
use crate::instance::Slot;
use crate::leases::Leases;

impl Lease {
    /// Puts the policy in force that the lease was acquired with, before it has a link. Blocks.
    pub(crate) fn begin_policy(&self) -> io::Result<()> {
        let egress = self.egress.lock();
        self.provide_proxy(&egress)?;
        let allowance = self.allowance(&egress);
        if matches!(allowance, Allowance::Some { .. }) {
            let note = self.note(&egress);
            self.leases.policies.set(self.number, &allowance, note)?;
        }
        Ok(())
    }

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
            Connections::Cut => self.leases.cut(self.number, &egress.routed()),
        });
        if let Err(error) = changed {
            // What is in force is what its owner is told.
            if let Err(error) = self.put_in_force(&current) {
                tracing::error!(sandbox = %self.id, error = %Chain(&error), "cannot go back to a policy");
            }
            return Err(error.into());
        }
        self.look_at_named_connections(&egress);
        *current = egress;
        Ok(())
    }

    /// Destinations that the packet filter lets the sandbox reach under a policy.
    pub(super) fn allowance(&self, egress: &Egress) -> Allowance {
        let proxy = self.proxy.lock();
        Allowance::of(egress, proxy.as_ref().map(skep_egress::Proxy::port))
    }

    fn put_in_force(&self, egress: &Egress) -> io::Result<()> {
        self.provide_proxy(egress)?;
        let allowance = self.allowance(egress);
        let group = firewall::group(&allowance);
        let (policies, note) = (&self.leases.policies, self.note(egress));
        match allowance {
            // The link leads to the policy when there is one, and away from it while there is one.
            Allowance::Some { .. } => {
                policies.set(self.number, &allowance, note)?;
                gateway::set_group(self.number, group)?;
            }
            Allowance::Everything | Allowance::Nothing => {
                gateway::set_group(self.number, group)?;
                policies.set(self.number, &allowance, note)?;
            }
        }
        Ok(())
    }

    /// Takes note of a policy that is in force from then on.
    fn note(&self, egress: &Egress) -> impl FnOnce() {
        let port = self.proxy.lock().as_ref().map(skep_egress::Proxy::port);
        move || self.leases.note_egress(&self.id, egress.clone(), port)
    }

    /// Starts the egress proxy, if the policy needs one and there is none.
    fn provide_proxy(&self, egress: &Egress) -> io::Result<()> {
        let mut proxy = self.proxy.lock();
        if egress.judges_names() && proxy.is_none() {
            let log = Arc::clone(&self.requests);
            *proxy = Some(self.leases.start_proxy(&self.id, self.number, log)?);
        }
        Ok(())
    }

    /// Cuts connections to hosts that the policy does not allow any more, and lets go of a proxy
    /// that has nothing left to do.
    fn look_at_named_connections(&self, egress: &Egress) {
        let mut proxy = self.proxy.lock();
        let Some(running) = proxy.as_ref() else {
            return;
        };
        if self.leases.config.has(Defence::CutConnections) {
            running.cut();
        }
        if !egress.judges_names() && running.is_idle() {
            *proxy = None;
        }
    }
}

impl Leases {
    /// Cuts the connections of a sandbox that lead beyond what it reaches. Those that its egress
    /// proxy has answered are the proxy's affair. Blocks.
    fn cut(&self, slot: Slot, reach: &Reach) -> io::Result<()> {
        if *reach == Reach::Everything || !self.config.has(Defence::CutConnections) {
            return Ok(());
        }
        let (sandbox, gateway) = (slot.address(), self.gateway());
        let cut = skep_linux::forget_connections(|connection| {
            connection.sender == sandbox
                && connection.receiver != gateway
                && connection.answerer != gateway
                && !reach.contains(connection.receiver)
        })?;
        tracing::debug!(cut, "connections that a policy denies are cut");
        Ok(())
    }
}
