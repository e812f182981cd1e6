//! Arguments of `skep bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `skep bench`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Without `--against` the bench starts a server of its own, with its data in a \
    temporary directory below TMPDIR, and removes it at the end."
)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: What,

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
pub(crate) enum What {
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
    /// Comparison with ipykernel, a bare IPython shell, bare namespaces and a Jupyter server
    Compare,
}

impl What {
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
            Self::Languages { .. } => "languages",
            Self::Proxy { .. } => "proxy",
            Self::Compare => "compare",
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
            Self::Languages { .. } => (1, 10),
            Self::Proxy { .. } => (5, 200),
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

    /// Returns true if the plain template is used, and so has to be there.
    pub fn needs_plain_template(&self) -> bool {
        self.what == What::Compare
    }
}
