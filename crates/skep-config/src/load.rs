//! Reading the configuration: defaults, then `skep.toml`, then the environment. Flags come last, and
//! are the command line's.

use std::path::{Path, PathBuf};

use crate::{Config, env_vars};

/// The file that is read when nobody names one.
pub const DEFAULT_PATH: &str = "/etc/skep/skep.toml";

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
    use skep_types::{AdmissionPolicy, Reserve, Resources, Sharing};

    use super::*;
    use crate::Limits;

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
    fn rules_for_the_sandboxes_of_agents_are_those_of_the_network_or_refused_with_the_reason() {
        let file = "mcp.deny_out = [\"0.0.0.0/0\"]\nmcp.allow_out = [\"192.0.2.7\"]";
        let variables = [
            ("SKEP_MCP_ALLOW_OUT", "pypi.org, *.example.com:8443"),
            ("SKEP_MCP_DENY_OUT", "0.0.0.0/0"),
        ];
        let mcp = |text, environment| parse(text, environment).map(|config| config.mcp);
        assert_eq!(mcp(file, &[]).unwrap().allow_out, ["192.0.2.7"]);
        for text in ["", file] {
            let both = mcp(text, &variables).unwrap();
            assert_eq!(both.allow_out, ["pypi.org", "*.example.com:8443"]);
            assert_eq!(both.deny_out, ["0.0.0.0/0"]);
        }
        for (text, reason) in [
            (
                "mcp.deny_out = [\"example.com\"]",
                "invalid denied CIDR example.com",
            ),
            ("mcp.allow_out = [\"x y\"]", "invalid allowed address x y"),
            (
                "mcp.allow_out = [\"pypi.org\"]",
                "`allow_out` has hosts by name, so `deny_out` must have `0.0.0.0/0`",
            ),
            ("mcp.denyOut = []", "unknown field `denyOut`"),
        ] {
            let refused = mcp(text, &[]).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        let refused = mcp("", &[("SKEP_MCP_DENY_OUT", "x")]).unwrap_err();
        assert!(refused.contains("SKEP_MCP_DENY_OUT") && refused.contains("invalid denied CIDR x"));
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
    fn a_registry_is_a_host_and_has_one_in_its_place() {
        let registries = |text: &str| {
            let config = parse(text, &[])?;
            Ok::<_, String>(config.registries.into_iter().collect::<Vec<_>>())
        };
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(
            registries("[registries]\n\"docker.io\" = \"registry.internal:5000\""),
            Ok(vec![pair("docker.io", "registry.internal:5000")])
        );
        assert_eq!(
            registries("[registries]\n\"docker.io\" = \"http://r.test\""),
            Ok(vec![pair("docker.io", "http://r.test")])
        );
        registries("[registries]\n\"http://r.test\" = \"r.test\"").unwrap_err();
        for wrong in ["ftp://r.test", "http://", "r.test/path", ""] {
            let refused = registries(&format!("[registries]\n\"docker.io\" = \"{wrong}\""));
            assert!(
                refused.is_err_and(|text| text.contains("is not a host")),
                "{wrong}"
            );
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
