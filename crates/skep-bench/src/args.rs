//! Arguments of `skep bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `skep bench`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Without `--against` the bench starts a server of its own, on data of its \
    own in a temporary folder (TMPDIR says where), and removes all of it at the end."
)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: What,

    /// Measure this server, ours or any that speaks E2B's protocol, instead of one of its own
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

    /// Domain below which that server's sandboxes have host names [default: told by headers]
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

    /// Template without an interpreter, for what is measured without one
    #[arg(long, global = true, value_name = "NAME", default_value = "base")]
    pub plain_template: String,

    /// Sandboxes of each template that the bench's own server keeps ready [default: as configured]
    #[arg(long, global = true, value_name = "N", conflicts_with = "against")]
    pub(crate) pool: Option<u32>,

    /// Number of measured rounds [default: depends on the part]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: Option<u32>,

    /// Number of unmeasured rounds before those [default: depends on the part]
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
    /// From create to the first command and the first result, step by step
    Tti,
    /// A command beside the same one on this machine; code in a warm interpreter
    Exec,
    /// Many sandboxes at once, each to its first result
    Burst {
        /// Number of sandboxes
        #[arg(default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
    },
    /// Many sandboxes that do nothing: memory, processor time, and whether all answer
    Density {
        /// Number of sandboxes
        #[arg(default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
        /// Seconds for which the idle sandboxes are watched
        #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
        window: u32,
    },
    /// Output of commands and of code: the first line, lines and bytes a second
    Stream {
        /// Number of lines to print
        #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        lines: u32,
        /// Mebibytes to print
        #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
        size: u32,
    },
    /// A file into a sandbox and out of it, beside `cp` on the same disk
    Files {
        /// Size of the file in mebibytes
        #[arg(long, default_value_t = 1024, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
        size: u32,
    },
    /// A killed server until its sandboxes answer again; contexts, new and restarted
    Restart,
    /// Every language of the template: its first result, new contexts, warm code, memory
    Languages {
        /// Seconds for a kernel and its spare to come to rest
        #[arg(long, default_value_t = 3, value_name = "SECONDS")]
        settle: u32,
    },
    /// Cost of the way through the server, beside a direct connection
    Proxy {
        /// Mebibytes to fetch
        #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
        size: u32,
    },
    /// Beside floors and rivals, alternating: ipykernel, a shell alone, namespaces, a Jupyter server
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
