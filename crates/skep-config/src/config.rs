//! The keys of the configuration, and their defaults.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::Deserialize;
use skep_types::{Resources, Sharing, WhenStopped};

use crate::{Admission, Builds, Mcp, Mirror, TraceHeaders};

/// Name of the template that the code-interpreter SDKs ask for by default.
pub(crate) const DEFAULT_INTERPRETER: &str = "code-interpreter-v1";

/// Everything that can be configured. `docs/reference/configuration.md` has a row for each key.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port to serve on.
    pub listen: SocketAddr,
    /// Directory of the database and of the sandboxes.
    pub data_dir: PathBuf,
    /// Directory of the template layers. Content-addressed: servers may share it.
    pub cache_dir: PathBuf,
    /// The domain under which sandboxes have host names; none means `skep.localhost`, which leads
    /// to this host.
    pub domain: Option<String>,
    /// Fate of the sandboxes when the server stops in good order.
    #[serde(with = "WhenStoppedWords")]
    pub when_stopped: WhenStopped,
    /// Gives sandboxes the host's package mirrors, proxies and certificate authorities if true.
    pub share_host_package_settings: bool,
    /// Upper bounds, whatever a template asks for.
    pub limits: Limits,
    /// Conditions under which the host has room for another sandbox.
    pub admission: Admission,
    /// Resources made ahead of demand.
    pub pool: Pool,
    /// Sandboxes that are paused.
    pub pause: Pause,
    /// Key that seals the secrets of teams.
    pub vault: Vault,
    /// Identity tokens of sandboxes.
    pub identity: Identity,
    /// Events that are sent to teams.
    pub webhooks: Webhooks,
    /// Retention of ended sandboxes.
    pub records: Records,
    /// Builds of templates.
    pub builds: Builds,
    /// Destinations beyond the public internet that sandboxes reach, and their DNS resolvers.
    pub network: Network,
    /// The mirror of package registries.
    pub mirror: Mirror,
    /// Registries of images that the operator knows, and the host that is asked in place of each.
    #[serde(deserialize_with = "hosts")]
    pub registries: BTreeMap<String, String>,
    /// File with credentials for registries that every team may pull with.
    pub registries_auth_file: Option<PathBuf>,
    /// Concessions to clients that cannot do better.
    pub security: Security,
    /// Limits on connections and requests, and their timeouts.
    pub server: Server,
    /// The endpoint of the Model Context Protocol.
    pub mcp: Mcp,
    /// The kernel gateway for Jupyter.
    pub jupyter: Jupyter,
    /// TLS with certificates of your own.
    pub tls: Option<Tls>,
    /// Destination of traces.
    pub traces: Traces,
}

/// The words of [`WhenStopped`].
#[derive(Deserialize)]
#[serde(remote = "WhenStopped", rename_all = "snake_case")]
enum WhenStoppedWords {
    Leave,
    End,
}

/// Upper bounds of a team's and of a sandbox's resources.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Running sandboxes of a team that has no limit of its own.
    pub sandboxes: u32,
    /// Paused sandboxes of a team that do not count among these; none means as many again.
    pub paused: Option<u32>,
    /// Processors of one sandbox.
    pub cpus: u32,
    /// Memory of one sandbox.
    pub memory_mib: u32,
    /// Disk space of one sandbox.
    pub disk_mib: u32,
    /// Processes and threads of one sandbox.
    pub pids: u32,
    /// Lifetime of a sandbox of a team that has no limit of its own.
    pub lifetime_hours: u32,
    /// Snapshots that a team keeps.
    pub snapshots: u32,
    /// Space that they take.
    pub snapshot_gib: u32,
    /// Volumes that a team keeps.
    pub volumes: u32,
    /// Largest size of a volume, and that of one for which none is asked.
    pub volume_mib: u32,
    /// Builds of templates that a team runs at a time.
    pub builds: u32,
    /// Limit on one sandbox's reads from the disk, and on its writes to it; 0 is no limit.
    pub disk_mib_per_second: u32,
}

/// Resources made ahead of demand.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pool {
    /// Running sandboxes of each template that is asked for.
    pub ready: u32,
    /// Mounted disks of each size that is asked for, and cgroups with limits that are.
    pub disks: u32,
    /// Forks a warmed kernel into sandboxes of each template that names one, if true.
    pub zygotes: bool,
    /// Lets teams share the zygotes of public templates if true.
    pub share_zygotes: bool,
    /// Warmed kernels of all templates and teams, at most.
    pub most_zygotes: u16,
    /// Templates that are made ready when the server starts, if they are built.
    #[serde(deserialize_with = "names")]
    pub warm: Vec<String>,
}

/// Sandboxes that are paused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pause {
    /// Seconds after which a frozen sandbox is written to the disk, where the host can.
    pub checkpoint_after: u32,
    /// Seconds after which the memory of one that is on the disk is compressed; 0 is never.
    pub compress_after: u32,
    /// Memory of sandboxes that stay frozen goes to the host's swap, if there is any.
    pub page_out: bool,
    /// File with the key by which images are encrypted; none means that they are not.
    pub encryption_key_file: Option<PathBuf>,
}

impl Default for Pause {
    fn default() -> Self {
        Self {
            checkpoint_after: 30,
            compress_after: 3600,
            page_out: true,
            encryption_key_file: None,
        }
    }
}

/// Place of the key that seals the secrets of teams. None means a file beside the data directory,
/// which is made when the first secret is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vault {
    /// File with the key, or keys, the newest first.
    pub key_file: Option<PathBuf>,
    /// Program that prints them.
    pub key_command: Option<PathBuf>,
}

/// Identity tokens of sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Identity {
    /// URL of whoever issues them; the API's if there is none.
    pub issuer: Option<String>,
    /// Days after which another key signs.
    pub key_days: NonZeroU32,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            issuer: None,
            key_days: const { NonZeroU32::new(30).expect("it is not zero") },
        }
    }
}

/// Webhooks of teams.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Webhooks {
    /// Hosts that webhooks may be at although their addresses are not public, as URLs write them.
    #[serde(deserialize_with = "names")]
    pub allowed_hosts: Vec<String>,
}

/// Retention of ended sandboxes, with the reasons of their ends and their logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Records {
    /// Number of days after their end.
    pub days: u32,
    /// Number of ended sandboxes, the newest.
    pub count: u32,
    /// Size of their logs together, the newest.
    pub log_mib: u32,
    /// Number of days for which a snapshot is kept; 0 is until somebody deletes it.
    pub snapshot_days: u32,
}

/// The network of sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// DNS resolvers for sandboxes; empty means those of the host.
    pub dns_upstreams: Vec<IpAddr>,
    /// Ranges that are reachable although they are private, such as a package mirror's.
    pub allow: Vec<String>,
}

/// Concessions to clients that cannot do better.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Security {
    /// Lets callers without a token make contexts, though nothing else, if true.
    pub contexts_without_token: bool,
    /// Demands the token of every sandbox, also of those whose owner, with a client of the first
    /// generation, did not ask for `secure`; by default where others than this host can connect.
    pub require_tokens: Option<bool>,
}

/// Limits on clients' use of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Connections at a time.
    pub connections: NonZeroU32,
    /// Those of one address, or one /64 of IPv6.
    pub connections_per_address: NonZeroU32,
    /// Those of one address of this host.
    pub connections_per_loopback_address: NonZeroU32,
    /// Requests without a key or token at a time.
    pub anonymous_connections: NonZeroU32,
    /// Requests of one team to the API at a time.
    pub requests_per_team: NonZeroU32,
    /// Requests to one sandbox at a time.
    pub requests_per_sandbox: NonZeroU32,
    /// Those of them without a key or token.
    pub anonymous_requests_per_sandbox: NonZeroU32,
    /// Time limit for the head of a request.
    pub head_seconds: NonZeroU32,
    /// Idle timeout of a connection that has shown a valid key or token.
    pub idle_seconds: NonZeroU32,
    /// Idle timeout of a connection that has not.
    pub anonymous_idle_seconds: NonZeroU32,
    /// Time for which a connection that has not may leave an answer unread, and a service what the
    /// connection sends.
    pub anonymous_stall_seconds: NonZeroU32,
}

impl Default for Server {
    fn default() -> Self {
        let number = |number| NonZeroU32::new(number).expect("not zero");
        Self {
            connections: number(8192),
            connections_per_address: number(1024),
            connections_per_loopback_address: number(6144),
            anonymous_connections: number(4096),
            requests_per_team: number(2048),
            requests_per_sandbox: number(4096),
            anonymous_requests_per_sandbox: number(1024),
            head_seconds: number(15),
            idle_seconds: number(620),
            anonymous_idle_seconds: number(30),
            anonymous_stall_seconds: number(60),
        }
    }
}

/// The kernel gateway, `/skep/jupyter`, at which Jupyter's front ends use sandboxes as kernels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Jupyter {
    /// Serves it if true.
    pub enabled: bool,
    /// Template of kernels whose kernelspec names none.
    pub template: String,
    /// Minutes that a kernel lives without a client and without code that runs.
    pub idle_minutes: NonZeroU32,
}

impl Default for Jupyter {
    fn default() -> Self {
        Self {
            enabled: true,
            template: DEFAULT_INTERPRETER.to_owned(),
            idle_minutes: NonZeroU32::new(10).expect("it is not zero"),
        }
    }
}

/// Traces, for an OpenTelemetry collector.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traces {
    /// The collector's URL; none means that there are no traces.
    pub endpoint: Option<String>,
    /// Headers that the collector asks for, such as a token.
    pub headers: TraceHeaders,
    /// Name of this server in traces.
    pub service_name: String,
    /// The part of all traces that is recorded, unless the caller has decided.
    pub sample: f64,
}

impl Default for Traces {
    fn default() -> Self {
        Self {
            endpoint: None,
            headers: TraceHeaders::default(),
            service_name: "skep".to_owned(),
            sample: 1.0,
        }
    }
}

/// Certificate and key in PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// File of the certificates, the server's own first.
    pub certificate: PathBuf,
    /// File of the private key.
    pub key: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 3000)),
            data_dir: "/var/lib/skep".into(),
            cache_dir: "/var/cache/skep".into(),
            domain: None,
            when_stopped: WhenStopped::Leave,
            share_host_package_settings: false,
            limits: Limits::default(),
            admission: Admission::default(),
            pool: Pool::default(),
            pause: Pause::default(),
            vault: Vault::default(),
            identity: Identity::default(),
            webhooks: Webhooks::default(),
            records: Records::default(),
            builds: Builds::default(),
            network: Network::default(),
            mirror: Mirror::default(),
            registries: BTreeMap::new(),
            registries_auth_file: None,
            security: Security::default(),
            server: Server::default(),
            mcp: Mcp::default(),
            jupyter: Jupyter::default(),
            tls: None,
            traces: Traces::default(),
        }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            ready: 2,
            disks: 8,
            zygotes: true,
            share_zygotes: false,
            most_zygotes: 8,
            warm: vec![DEFAULT_INTERPRETER.to_owned()],
        }
    }
}

impl Pool {
    /// Returns how the warmed state of a public template is shared.
    ///
    /// Sandboxes that are ready have nothing of a team in them: a name, tokens that nobody was
    /// told, the template's environment, and a disk, cgroups and an address as any other has. So
    /// without a zygote above them anybody may get one.
    pub fn sharing(&self, has_zygote: bool) -> Sharing {
        if self.zygotes && has_zygote && !self.share_zygotes {
            Sharing::WithinTeam
        } else {
            Sharing::BetweenTeams
        }
    }
}

impl Default for Records {
    fn default() -> Self {
        Self {
            days: 30,
            count: 100_000,
            log_mib: 4096,
            snapshot_days: 0,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sandboxes: 1000,
            paused: None,
            cpus: 8,
            memory_mib: 8 * 1024,
            disk_mib: 50 * 1024,
            pids: 4096,
            lifetime_hours: 24,
            snapshots: 1000,
            snapshot_gib: 100,
            volumes: 100,
            volume_mib: 10 * 1024,
            builds: 20,
            disk_mib_per_second: 400,
        }
    }
}

impl Limits {
    /// Resources that a template asks for, capped at this server's limits.
    pub fn bound(&self, asked: Resources) -> Resources {
        Resources {
            cpus: asked.cpus.min(self.cpus),
            memory_mib: asked.memory_mib.min(self.memory_mib),
            disk_mib: asked.disk_mib.min(self.disk_mib),
            pids: asked.pids.min(self.pids),
        }
    }
}

/// A table of hosts, each with its port if it has one. The one that is asked may say how.
fn hosts<'de, D: serde::Deserializer<'de>>(
    source: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let hosts = BTreeMap::<String, String>::deserialize(source)?;
    let is_host = |text: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
        !text.is_empty() && text.bytes().all(is_allowed)
    };
    let without_scheme = |text: &str| {
        text.strip_prefix("http://")
            .or_else(|| text.strip_prefix("https://"))
            .unwrap_or(text)
            .to_owned()
    };
    let wrong = hosts
        .iter()
        .flat_map(|(from, to)| [from.clone(), without_scheme(to)])
        .find(|text| !is_host(text));
    if let Some(wrong) = wrong {
        let text = format!("`{wrong}` is not a host with or without a port");
        return Err(serde::de::Error::custom(text));
    }
    Ok(hosts)
}

/// A list of names, or their text with commas between, as the environment has it.
pub(crate) fn names<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        List(Vec<String>),
        Text(String),
    }
    Ok(match Names::deserialize(source)? {
        Names::List(names) => names,
        Names::Text(text) => {
            let names = text
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        }
    })
}
