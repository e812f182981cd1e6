//! Egress proxies of sandboxes that reach hosts by their names.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_egress::{FillError, Gate, Lookup, Program, Proxy, RequestLog, Seat};
use skep_telemetry::Tasks;
use skep_types::{
    Egress, EgressProxy, HostName, Reach, Redacted, RequestRule, SandboxId, ValueRequest,
};

use crate::config::HostConfig;
use crate::defence::Defence;
use crate::dns;
use crate::instance::Slot;
use crate::leases::Leases;

/// Directory below the data directory in which there is nothing: the file system of a proxy.
const EMPTY: &str = "empty";

/// Means to start proxies, once the server answers for names.
#[derive(Debug, Default)]
pub(crate) struct Proxies(OnceLock<Means>);

struct Means {
    program: Program,
    names: Arc<dns::Service>,
    tasks: Tasks,
    runtime: tokio::runtime::Handle,
}

impl Proxies {
    /// Makes proxies possible, if there is a program for them. In a runtime.
    pub(crate) fn open(
        &self,
        config: &HostConfig,
        names: Arc<dns::Service>,
        tasks: &Tasks,
    ) -> io::Result<()> {
        let Some(command) = config.egress_proxy.clone() else {
            return Ok(());
        };
        let root = config.data_dir.join(EMPTY);
        fs::create_dir_all(&root)?;
        let means = Means {
            program: Program::new(command.executable, command.arguments, root)?,
            names,
            tasks: tasks.clone(),
            runtime: tokio::runtime::Handle::current(),
        };
        // One that is there already would do as well.
        drop(self.0.set(means));
        Ok(())
    }
}

impl Leases {
    /// Starts the proxy of a sandbox. Blocks for as long as it takes to listen.
    pub(crate) fn start_proxy(
        self: &Arc<Self>,
        id: &SandboxId,
        slot: Slot,
        log: Arc<RequestLog>,
    ) -> io::Result<Proxy> {
        let means = self.proxies.0.get().ok_or_else(|| {
            let missing = "there is no program that reaches hosts by their names";
            io::Error::new(io::ErrorKind::Unsupported, missing)
        })?;
        let seat = Seat {
            listener: TcpListener::bind((self.gateway(), 0))?,
            sandbox: slot.address(),
            user: slot.proxy_user(),
            sender_user: slot.sender_user(),
            inspection: Arc::clone(&self.config.inspection),
        };
        let gate = Arc::new(SandboxGate {
            leases: Arc::clone(self),
            names: Arc::clone(&means.names),
            id: id.clone(),
        });
        let program = means.program.clone();
        Proxy::start(program, seat, gate, log, &means.tasks, &means.runtime)
    }
}

/// The policy of a sandbox, for its proxy.
struct SandboxGate {
    leases: Arc<Leases>,
    names: Arc<dns::Service>,
    id: SandboxId,
}

impl SandboxGate {
    fn egress(&self) -> Egress {
        // One that has no lease any more reaches nothing.
        self.leases
            .egress_of(&self.id)
            .unwrap_or_else(Egress::closed)
    }
}

impl Gate for SandboxGate {
    fn rule_for(&self, host: &HostName, port: u16) -> Option<String> {
        if !self.leases.config.has(Defence::NamedHosts) {
            return Some("*".to_owned());
        }
        self.egress().rule_for(host, port).map(ToString::to_string)
    }

    fn reaches(&self, address: Ipv4Addr) -> bool {
        self.egress().reach().contains(address) && self.names.may_connect(address)
    }

    fn denies_nothing(&self) -> bool {
        self.egress().reach() == Reach::Everything
    }

    fn proxy(&self) -> Option<EgressProxy> {
        self.egress().proxy().cloned()
    }

    fn may_connect(&self, address: Ipv4Addr) -> bool {
        self.names.may_connect(address)
    }

    fn request_rule(&self, host: &HostName) -> Option<(String, RequestRule)> {
        if !self.leases.config.has(Defence::InspectedRequests) {
            return None;
        }
        let egress = self.egress();
        let (domain, rule) = egress.request_rules().find(host)?;
        Some((domain.to_string(), rule.clone()))
    }

    fn fill<'a>(
        &'a self,
        wanted: ValueRequest<'a>,
    ) -> BoxFuture<'a, Result<Redacted<String>, FillError>> {
        match self.leases.config.inspection.get() {
            Some(inspection) => inspection.values.fill(&self.id, wanted),
            None => std::future::ready(Err(FillError::Unavailable)).boxed(),
        }
    }

    fn look_up<'a>(&'a self, host: &'a HostName) -> BoxFuture<'a, Lookup> {
        let inspection = self.leases.config.inspection.get();
        let edge = inspection.and_then(|inspection| inspection.edge.as_ref());
        if let Some(edge) = edge.filter(|edge| edge.serves(host)) {
            return std::future::ready(Lookup::Here(edge.address)).boxed();
        }
        async move { self.names.look_up(host, &self.egress()).await }.boxed()
    }

    fn may_stay(&self, host: Option<&HostName>, port: u16, address: Option<Ipv4Addr>) -> bool {
        let reach = self.egress().reach();
        host.is_some_and(|host| self.rule_for(host, port).is_some())
            || address.map_or(reach == Reach::Everything, |address| {
                reach.contains(address)
            })
    }
}

impl std::fmt::Debug for Means {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Means").finish_non_exhaustive()
    }
}
