//! Arguments of `skep bench`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `skep bench`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(
    after_help = "Without `--against` the bench starts a server of its own, with its data in a \
    temporary directory below TMPDIR, and removes it at the end.

Examples:
  sudo skep bench tti --rounds 50
  sudo skep bench burst 100 --pool 8
  skep bench exec --against http://127.0.0.1:3000"
)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: Part,

    /// Measure this server, Skep or any that speaks E2B's protocol, instead of starting one
    #[arg(long, global = true, value_name = "URL")]
    pub against: Option<String>,

    /// API key of that server
    #[arg(
        long,
        global = true,
        value_name = "KEY",
        env = "E2B_API_KEY",
        hide_env_values = true
    )]
    pub(crate) api_key: Option<String>,

    /// Domain of the sandboxes' host names [default: none, sandboxes are addressed by headers]
    #[arg(long, global = true, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,

    /// Template of the sandboxes
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        default_value = "code-interpreter-slim"
    )]
    pub template: String,

    /// Template without an interpreter, for measurements that need none
    #[arg(long, global = true, value_name = "NAME", default_value = "base")]
    pub plain_template: String,

    /// Number of spare sandboxes per template of the bench's own server [default: as configured]
    #[arg(long, global = true, value_name = "N", conflicts_with = "against")]
    pub(crate) pool: Option<u32>,

    /// Number of measured rounds [default: depends on the benchmark]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: Option<u32>,

    /// Number of warm-up rounds [default: depends on the benchmark]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) warmup: Option<u32>,

    /// Milliseconds to wait before each sandbox of `tti`, while the server ends what the last one has left
    #[arg(long, global = true, value_name = "MS", default_value_t = 0)]
    pub(crate) pause: u32,

    /// Print the report as JSON, with all samples
    #[arg(long, global = true)]
    pub json: bool,

    /// Write the report as JSON to this file
    #[arg(long, global = true, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Draw the samples into this SVG file
    #[arg(long, global = true, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// A part of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(crate) enum Part {
    /// Time from create to the first command and the first result, step by step
    Tti,
    /// Time of a command, of the same command on this host, and of code in a warm interpreter
    Exec,
    /// Time to create many sandboxes at once, each to its first result
    Burst {
        /// Number of sandboxes
        #[arg(default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
    },
    /// Memory and CPU time of many idle sandboxes, and whether all of them answer
    Density {
        /// Number of sandboxes
        #[arg(default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
        /// Seconds to watch the idle sandboxes
        #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
        window: u32,
    },
    /// Throughput of output: time to the first line, lines and bytes per second
    Stream {
        /// Number of lines to print
        #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        lines: u32,
        /// Mebibytes to print
        #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
        size: u32,
    },
    /// Upload and download of a file, compared with `cp` on the same disk
    Files {
        /// Size of the file in mebibytes
        #[arg(long, default_value_t = 1024, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
        size: u32,
    },
    /// Recovery: restart of a killed server, restart of contexts
    Restart,
    /// Fork, checkpoint and rollback of a Python context, compared with a plain fork in it
    Context,
    /// First result, new contexts, warm code and memory of each language of the template
    Languages {
        /// Seconds to wait before memory is measured
        #[arg(long, default_value_t = 3, value_name = "SECONDS")]
        settle: u32,
    },
    /// Overhead of the proxy, compared with a direct connection
    Proxy {
        /// Mebibytes to fetch
        #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
        size: u32,
    },
    /// Traffic through the egress proxy of a sandbox, beside a direct link and Debian's squid
    Egress {
        /// Mebibytes to fetch
        #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
        size: u32,
    },
    /// Pause and resume: in memory, and by the disk beside CRIU alone
    Pause {
        /// Mebibytes that the interpreter holds beside its own
        #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=1024))]
        memory: u32,
    },
    /// Copies of a running sandbox, until each of them answers, beside CRIU alone
    Fork {
        /// Mebibytes that the interpreter holds beside its own
        #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=1024))]
        memory: u32,
        /// Number of copies, beside a single one
        #[arg(default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=100))]
        count: u32,
    },
    /// Snapshots, and new sandboxes from them, with memory and of files alone
    Snapshot {
        /// Mebibytes that the interpreter holds beside its own
        #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=1024))]
        memory: u32,
        /// Mebibytes of files that the sandbox has written
        #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=4096))]
        disk: u32,
    },
    /// Builds of a template: cold, cached, and with its last file changed, beside Debian's buildah
    Build,
    /// Comparison with ipykernel, a bare IPython shell, bare namespaces and a Jupyter server
    Compare,
}

impl Part {
    /// Name of the part on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tti => "tti",
            Self::Exec => "exec",
            Self::Burst { .. } => "burst",
            Self::Density { .. } => "density",
            Self::Stream { .. } => "stream",
            Self::Files { .. } => "files",
            Self::Restart => "restart",
            Self::Context => "context",
            Self::Languages { .. } => "languages",
            Self::Proxy { .. } => "proxy",
            Self::Egress { .. } => "egress",
            Self::Pause { .. } => "pause",
            Self::Fork { .. } => "fork",
            Self::Snapshot { .. } => "snapshot",
            Self::Build => "build",
            Self::Compare => "compare",
        }
    }

    /// Arguments of the part alone, as they are typed.
    fn arguments(self) -> Vec<String> {
        let option = |name: &str, value: u32| vec![name.to_owned(), value.to_string()];
        match self {
            Self::Tti
            | Self::Exec
            | Self::Restart
            | Self::Context
            | Self::Build
            | Self::Compare => Vec::new(),
            Self::Burst { count } => vec![count.to_string()],
            Self::Density { count, window } => {
                [vec![count.to_string()], option("--window", window)].concat()
            }
            Self::Stream { lines, size } => {
                [option("--lines", lines), option("--size", size)].concat()
            }
            Self::Files { size } | Self::Proxy { size } | Self::Egress { size } => {
                option("--size", size)
            }
            Self::Languages { settle } => option("--settle", settle),
            Self::Pause { memory } => option("--memory", memory),
            Self::Fork { memory, count } => {
                [option("--memory", memory), vec![count.to_string()]].concat()
            }
            Self::Snapshot { memory, disk } => {
                [option("--memory", memory), option("--disk", disk)].concat()
            }
        }
    }

    /// Rounds and warm-up unless somebody says otherwise: enough for a percentile where a round
    /// is short, few where it takes seconds.
    fn usual_rounds(self) -> Rounds {
        let (warmup, measured) = match self {
            Self::Tti => (3, 50),
            Self::Exec => (20, 500),
            Self::Burst { .. } => (1, 3),
            Self::Density { .. } => (0, 1),
            Self::Stream { .. } => (1, 5),
            Self::Files { .. } => (0, 3),
            Self::Restart => (1, 10),
            Self::Context => (3, 50),
            Self::Languages { .. } => (1, 10),
            Self::Proxy { .. } => (5, 200),
            Self::Egress { .. } => (1, 10),
            Self::Pause { .. } => (2, 20),
            Self::Fork { .. } => (1, 10),
            Self::Snapshot { .. } => (1, 10),
            Self::Build => (1, 10),
            Self::Compare => (2, 20),
        };
        Rounds { warmup, measured }
    }
}

/// Numbers of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Rounds {
    /// Rounds before anything is measured.
    pub warmup: u32,
    /// Rounds that are measured.
    pub measured: u32,
}

impl BenchArgs {
    pub(crate) fn rounds(&self) -> Rounds {
        let usual = self.what.usual_rounds();
        Rounds {
            warmup: self.warmup.unwrap_or(usual.warmup),
            measured: self.rounds.unwrap_or(usual.measured),
        }
    }

    /// Templates that the bench's own server must have. None for a server that is there already.
    pub fn templates(&self) -> Vec<&str> {
        match (&self.against, self.what) {
            (Some(_), _) => Vec::new(),
            (None, Part::Compare) => vec![&self.template, &self.plain_template],
            (None, Part::Build | Part::Egress { .. }) => vec![&self.plain_template],
            (None, _) => vec![&self.template],
        }
    }

    /// API key of the server that is measured.
    pub fn api_key(&self) -> Option<&str> {
        self.api_key.as_deref()
    }

    /// The arguments as they are typed, without the key, which is a secret.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![OsString::from(self.what.name())];
        arguments.extend(self.what.arguments().into_iter().map(OsString::from));
        let mut option = |name: &str, value: Option<OsString>| {
            arguments.extend(
                value
                    .map(|value| [OsString::from(name), value])
                    .into_iter()
                    .flatten(),
            );
        };
        let number = |number: Option<u32>| number.map(|number| number.to_string().into());
        option("--against", self.against.clone().map(OsString::from));
        option("--domain", self.domain.clone().map(OsString::from));
        option("--template", Some(self.template.clone().into()));
        option("--plain-template", Some(self.plain_template.clone().into()));
        option("--pool", number(self.pool));
        option("--rounds", number(self.rounds));
        option("--warmup", number(self.warmup));
        option("--pause", number(Some(self.pause)));
        option("--output", self.output.clone().map(OsString::from));
        option("--svg", self.svg.clone().map(OsString::from));
        arguments.extend(self.json.then(|| "--json".into()));
        arguments
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(arguments: &[OsString]) -> BenchArgs {
        let name = [OsString::from("bench")];
        Cli::parse_from(name.iter().chain(arguments)).bench
    }

    #[test]
    fn arguments_are_read_again_as_they_were() {
        for line in [
            "tti --pause 250",
            "exec --rounds 3 --warmup 0 --json",
            "burst 7 --against http://127.0.0.1:1 --domain skep.test",
            "density 9 --window 2 --pool 4",
            "stream --lines 5 --size 6",
            "files --size 7 --output a.json --svg b.svg",
            "restart --template base",
            "context --rounds 2",
            "languages --settle 0",
            "proxy --size 8",
            "egress --size 8",
            "pause --memory 9 --rounds 4",
            "fork --memory 9 3",
            "snapshot --memory 9 --disk 10",
            "build --rounds 1",
            "compare --plain-template base",
        ] {
            let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let read = parse(&typed);
            assert_eq!(parse(&read.arguments()), read, "{line}");
        }
    }
}
