//! The configuration: defaults, then `skep.toml`, then the environment, then flags.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use skep_types::{AdmissionPolicy, Reserve, Resources, Sharing, WhenStopped};

use crate::TraceHeaders;
use crate::env_vars;

/// The file that is read when nobody names one.
pub const DEFAULT_PATH: &str = "/etc/skep/skep.toml";

/// Name of the template that the code-interpreter SDKs ask for by default.
const DEFAULT_INTERPRETER: &str = "code-interpreter-v1";

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
    /// The domain under which sandboxes have host names; none means by headers only.
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
    /// Retention of ended sandboxes.
    pub records: Records,
    /// Destinations beyond the public internet that sandboxes reach, and their DNS resolvers.
    pub network: Network,
    /// Concessions to clients that cannot do better.
    pub security: Security,
    /// Limits on connections and requests, and their timeouts.
    pub server: Server,
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
    /// Limit on one sandbox's reads from the disk, and on its writes to it; 0 is no limit.
    pub disk_mib_per_second: u32,
}

/// Conditions under which the host has room for another sandbox; see [`AdmissionPolicy`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admission {
    /// False to refuse nothing.
    pub enabled: bool,
    /// Memory that sandboxes do not get.
    #[serde(deserialize_with = "reserve")]
    pub memory_reserve: Reserve,
    /// Memory that a new sandbox is expected to need.
    pub memory_per_sandbox_mib: u32,
    /// Largest ratio of all memory limits to the host's memory.
    #[serde(deserialize_with = "factor")]
    pub memory_overcommit: f64,
    /// Disk that sandboxes do not get.
    #[serde(deserialize_with = "reserve")]
    pub disk_reserve: Reserve,
    /// Disk space that a new sandbox is expected to write.
    pub disk_per_sandbox_mib: u32,
    /// Largest ratio of all disk limits to the size of the file system.
    #[serde(deserialize_with = "factor")]
    pub disk_overcommit: f64,
    /// Processes that sandboxes do not get.
    #[serde(deserialize_with = "percent")]
    pub process_reserve: Reserve,
}

impl Default for Admission {
    fn default() -> Self {
        let policy = AdmissionPolicy::default();
        Self {
            enabled: policy.enabled,
            memory_reserve: policy.memory_reserve,
            memory_per_sandbox_mib: policy.memory_per_sandbox_mib,
            memory_overcommit: policy.memory_overcommit,
            disk_reserve: policy.disk_reserve,
            disk_per_sandbox_mib: policy.disk_per_sandbox_mib,
            disk_overcommit: policy.disk_overcommit,
            process_reserve: policy.process_reserve,
        }
    }
}

impl Admission {
    /// The rules of admission that this says.
    pub fn policy(&self) -> AdmissionPolicy {
        AdmissionPolicy {
            enabled: self.enabled,
            memory_reserve: self.memory_reserve,
            memory_per_sandbox_mib: self.memory_per_sandbox_mib,
            memory_overcommit: self.memory_overcommit,
            disk_reserve: self.disk_reserve,
            disk_per_sandbox_mib: self.disk_per_sandbox_mib,
            disk_overcommit: self.disk_overcommit,
            process_reserve: self.process_reserve,
        }
    }
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
            records: Records::default(),
            network: Network::default(),
            security: Security::default(),
            server: Server::default(),
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
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sandboxes: 1000,
            cpus: 8,
            memory_mib: 8 * 1024,
            disk_mib: 50 * 1024,
            pids: 4096,
            lifetime_hours: 24,
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

/// Errors of reading the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not a configuration.
    #[error("`{}` is not a valid configuration", .path.display())]
    Parse {
        /// Path of the file.
        path: PathBuf,
        /// The place in it, and what is wrong there.
        source: Box<toml::de::Error>,
    },
    /// A variable has a value that its key cannot have.
    #[error("{name} is not a valid value for `{key}`")]
    Environment {
        /// Name of the variable.
        name: &'static str,
        /// The key that it overrides.
        key: &'static str,
        /// The error of its value.
        source: Box<toml::de::Error>,
    },
}

impl Config {
    /// Reads the file at `path`, or the default one if it exists, then the environment.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the file or the variable, and its source the line and the key.
    pub fn load(
        path: Option<&Path>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let (path, text) = match path {
            Some(path) => (path, Some(std::fs::read_to_string(path))),
            None => {
                let path = Path::new(DEFAULT_PATH);
                (path, path.exists().then(|| std::fs::read_to_string(path)))
            }
        };
        let text = text
            .transpose()
            .map_err(|source| ConfigError::Read {
                path: path.to_owned(),
                source,
            })?
            .unwrap_or_default();
        Self::parse(path, &text, environment)
    }

    fn parse(
        path: &Path,
        text: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let parse = |source| ConfigError::Parse {
            path: path.to_owned(),
            source: Box::new(source),
        };
        // The file alone first, so that its errors point into it.
        toml::from_str::<Self>(text).map_err(parse)?;
        let mut table: toml::Table = toml::from_str(text).map_err(parse)?;
        for var in env_vars::ALL.iter().filter(|var| !var.key.is_empty()) {
            if let Some(value) = environment(var.name) {
                insert(&mut table, var.key, scalar(&value));
                table.clone().try_into::<Self>().map_err(|source| {
                    let (name, key) = (var.name, var.key);
                    ConfigError::Environment {
                        name,
                        key,
                        source: Box::new(source),
                    }
                })?;
            }
        }
        table.try_into().map_err(parse)
    }
}

/// A list of names, or their text with commas between, as the environment has it.
fn names<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        List(Vec<String>),
        Text(String),
    }
    Ok(match Names::deserialize(source)? {
        Names::List(names) => names,
        Names::Text(text) => {
            let names = text.split(',').map(str::trim);
            let names = names.filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        }
    })
}

/// A part such as `5%`, a size such as `512 MiB`, or `5% or 2 GiB` for what is less.
fn reserve<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Reserve, D::Error> {
    let text = String::deserialize(source)?;
    parse_reserve(&text).ok_or_else(|| {
        let expected =
            "a part from `0%` to `100%`, a size in `MiB` or `GiB`, or one `or` the other";
        serde::de::Error::custom(format!("`{text}` is not {expected}"))
    })
}

/// A part such as `5%`.
fn percent<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Reserve, D::Error> {
    match reserve(source)? {
        percent @ Reserve::Percent(_) => Ok(percent),
        Reserve::Bytes(_) | Reserve::Least { .. } => {
            Err(serde::de::Error::custom("it is a part, such as `5%`"))
        }
    }
}

fn parse_reserve(text: &str) -> Option<Reserve> {
    if let Some((part, size)) = text.split_once(" or ") {
        return match (parse_reserve(part.trim())?, parse_reserve(size.trim())?) {
            (Reserve::Percent(percent), Reserve::Bytes(bytes)) => {
                Some(Reserve::Least { percent, bytes })
            }
            _ => None,
        };
    }
    if let Some(number) = text.strip_suffix('%') {
        let percent: f64 = number.trim().parse().ok()?;
        return (0.0..=100.0)
            .contains(&percent)
            .then_some(Reserve::Percent(percent));
    }
    let units = [("MiB", 20), ("GiB", 30)];
    units.iter().find_map(|(unit, shift)| {
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_shl(*shift).map(Reserve::Bytes)
    })
}

/// Deserializes a finite factor that is more than 0.
fn factor<'de, D: serde::Deserializer<'de>>(source: D) -> Result<f64, D::Error> {
    let factor = f64::deserialize(source)?;
    if factor.is_finite() && factor > 0.0 {
        Ok(factor)
    } else {
        Err(serde::de::Error::custom("it must be more than 0"))
    }
}

/// A number or a truth value where the text is one, else the text itself.
fn scalar(text: &str) -> toml::Value {
    if let Ok(number) = text.parse::<i64>() {
        return toml::Value::Integer(number);
    }
    let is_fraction = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    if let Ok(number) = text.parse::<f64>()
        && text.bytes().all(is_fraction)
    {
        return toml::Value::Float(number);
    }
    match text {
        "true" => toml::Value::Boolean(true),
        "false" => toml::Value::Boolean(false),
        text => toml::Value::String(text.to_owned()),
    }
}

fn insert(table: &mut toml::Table, key: &str, value: toml::Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((section, key)) => {
            let section = table
                .entry(section)
                .or_insert_with(|| toml::Value::Table(toml::Table::new()));
            if let toml::Value::Table(section) = section {
                insert(section, key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
        let look_up = |name: &str| {
            environment
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        Config::parse(Path::new("skep.toml"), text, look_up)
            .map_err(|error| skep_telemetry::Chain(&error).to_string())
    }

    #[test]
    fn nothing_configured_is_the_default() {
        assert_eq!(parse("", &[]), Ok(Config::default()));
    }

    #[test]
    fn the_environment_wins_over_the_file() {
        let config = parse(
            "listen = \"127.0.0.1:1\"\n[limits]\ncpus = 4\npids = 7",
            &[("SKEP_LISTEN", "127.0.0.1:2"), ("SKEP_MAX_CPUS", "3")],
        )
        .unwrap();
        assert_eq!(config.listen.port(), 2);
        assert_eq!((config.limits.cpus, config.limits.pids), (3, 7));
    }

    #[test]
    fn traces_are_off_until_a_collector_is_named_in_the_usual_variables() {
        assert_eq!(parse("", &[]).unwrap().traces.endpoint, None);
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ];
        let traces = parse("[traces]\nservice_name = \"here\"", &variables)
            .unwrap()
            .traces;
        assert_eq!(traces.endpoint.as_deref(), Some("http://127.0.0.1:4318"));
        assert_eq!(
            (traces.service_name.as_str(), traces.sample),
            ("here", 0.25)
        );
        assert!(!format!("{traces:?}").contains("secret"));
        // A whole number is a part, too.
        let all = parse("", &[("OTEL_TRACES_SAMPLER_ARG", "1")]).unwrap();
        assert_eq!(all.traces.sample, 1.0);
    }

    #[test]
    fn names_are_a_list_in_the_file_and_have_commas_between_in_the_environment() {
        let warm = |text: &str, environment: &[(&str, &str)]| {
            let config = parse(text, environment).unwrap();
            config.pool.warm
        };
        assert_eq!(warm("", &[]), ["code-interpreter-v1"]);
        assert_eq!(
            warm("pool.warm = [\"base\", \"mine\"]", &[]),
            ["base", "mine"]
        );
        assert_eq!(
            warm("", &[("SKEP_POOL_WARM", "base, mine")]),
            ["base", "mine"]
        );
        assert!(warm("", &[("SKEP_POOL_WARM", "")]).is_empty());
    }

    #[test]
    fn teams_share_no_zygote_unless_the_operator_says_so() {
        let sharing = |text: &str, has_zygote| {
            let config = parse(text, &[]).unwrap();
            config.pool.sharing(has_zygote)
        };
        assert_eq!(sharing("", true), Sharing::WithinTeam);
        assert_eq!(sharing("", false), Sharing::BetweenTeams);
        for text in ["pool.share_zygotes = true", "pool.zygotes = false"] {
            assert_eq!(sharing(text, true), Sharing::BetweenTeams, "{text}");
        }
    }

    #[test]
    fn a_reserve_is_a_part_or_a_size() {
        let reserve = |text: &str| {
            let config = parse("", &[("SKEP_DISK_RESERVE", text)])?;
            Ok::<_, String>(config.admission.disk_reserve)
        };
        assert_eq!(reserve("2.5%"), Ok(Reserve::Percent(2.5)));
        assert_eq!(reserve("512 MiB"), Ok(Reserve::Bytes(512 << 20)));
        assert_eq!(reserve("20GiB"), Ok(Reserve::Bytes(20 << 30)));
        let (percent, bytes) = (5.0, 2 << 30);
        assert_eq!(
            reserve("5% or 2 GiB"),
            Ok(Reserve::Least { percent, bytes })
        );
        for wrong in [
            "101%",
            "-1%",
            "much",
            "5",
            "5 TB",
            "1 GiB or 5%",
            "5% or 5% or 5%",
        ] {
            assert!(reserve(wrong).is_err(), "{wrong}");
        }
        let error = parse("admission.memory_overcommit = 0", &[]).unwrap_err();
        assert!(error.contains("more than 0"), "{error}");
        let policy = parse("", &[]).unwrap().admission.policy();
        assert_eq!(policy, AdmissionPolicy::default());
    }

    #[test]
    fn a_misspelt_key_is_refused_and_the_known_ones_are_listed() {
        let error = parse("[limits]\nmemory = 1", &[]).unwrap_err();
        assert!(
            error.contains("unknown field `memory`") && error.contains("memory_mib"),
            "{error}"
        );
        let error = parse("lisen = \"x\"", &[]).unwrap_err();
        assert!(
            error.contains("unknown field `lisen`") && error.contains("listen"),
            "{error}"
        );
    }

    #[test]
    fn a_bad_variable_is_named() {
        let error = parse("", &[("SKEP_MAX_PIDS", "many")]).unwrap_err();
        assert!(
            error.starts_with("SKEP_MAX_PIDS is not a valid value for `limits.pids`"),
            "{error}"
        );
    }

    #[test]
    fn a_template_gets_no_more_than_the_server_gives() {
        let limits = Limits {
            cpus: 1,
            memory_mib: 512,
            ..Limits::default()
        };
        let bounded = limits.bound(Resources::default());
        assert_eq!(
            (bounded.cpus, bounded.memory_mib, bounded.pids),
            (1, 512, 1024)
        );
    }
}
