//! The command line.

#[cfg(test)]
mod page;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use skep_bench::BenchArgs;
use skep_cli::{
    ChosenServerArgs, KeyCommand, NotebookCommand, OutputArgs, ReplArgs, RunArgs, SandboxCommand,
};

use crate::config::Config;
use crate::env_vars;
use crate::team::TeamCommand;

/// Skep runs AI-written code in sandboxes that you own.
#[derive(Debug, Parser)]
#[command(
    name = "skep",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_long_help = environment()
)]
pub(crate) struct Cli {
    /// Configuration file [default: /etc/skep/skep.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", env = crate::env_vars::SKEP_CONFIG)]
    pub(crate) config: Option<PathBuf>,

    /// Data directory, for the database and the sandboxes [default: /var/lib/skep]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The environment variables, for `--help`.
fn environment() -> String {
    let width = env_vars::ALL
        .iter()
        .map(|var| var.name.len())
        .max()
        .unwrap_or_default();
    let line = |var: &env_vars::EnvVar| format!("  {:width$}  {}\n", var.name, var.help);
    let lines: String = env_vars::ALL.iter().map(line).collect();
    format!("Environment:\n{lines}")
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build missing templates, start the server, and print how to connect
    Up(ServeArgs),
    /// Run a file or a snippet of code in a sandbox
    ///
    /// Passes on its output, its pictures and its exit code. If no server runs on this host, it
    /// starts a temporary one, which needs root. Exit codes: the code's own, 1 for an exception,
    /// 124 timeout, 130 interrupted, 137 out of memory, 125 if it could not be run.
    Run {
        #[command(flatten)]
        server: ChosenServerArgs,
        #[command(flatten)]
        run: Box<RunArgs>,
    },
    /// Start an interactive prompt (REPL) in a sandbox
    Repl {
        #[command(flatten)]
        server: ChosenServerArgs,
        #[command(flatten)]
        repl: Box<ReplArgs>,
    },
    /// Run notebooks in a sandbox, and export a session as a notebook
    #[command(subcommand)]
    Notebook(NotebookCommand),
    /// Start the server without building templates
    Serve(ServeArgs),
    /// Check whether this host can run sandboxes, and print remedies
    Doctor(OutputArgs),
    /// Build and list templates
    #[command(subcommand)]
    Template(TemplateCommand),
    /// Manage sandboxes and run commands in them
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Manage teams and their limits
    #[command(subcommand)]
    Team(TeamCommand),
    /// Measure performance, and compare it with baselines and other systems
    Bench(BenchArgs),
    /// Remove this installation from the host: sandboxes, network, cgroups, settings, data
    ///
    /// Lists what will be removed and asks for confirmation. Safe to run again, also after a
    /// failure. Keeps the templates if there is another installation on this host. Exit codes: 0
    /// everything is removed, 1 a server still runs or the confirmation is missing, 2 something
    /// could not be removed.
    Uninstall(UninstallArgs),
    /// Print shell completions
    Completions {
        /// Shell to print completions for
        shell: clap_complete::Shell,
    },
    /// The first process of a sandbox
    #[command(hide = true)]
    Agent(AgentArgs),
}

/// Arguments of `uninstall`.
#[derive(Debug, Clone, Args)]
pub(crate) struct UninstallArgs {
    /// Show what would be removed, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,

    /// Stop the server first, if it runs
    #[arg(long)]
    pub(crate) stop: bool,

    /// Keep the database, keys, logs and templates
    #[arg(long)]
    pub(crate) keep_data: bool,

    /// Directory of template layers [default: /var/cache/skep]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `up` and `serve`, which override the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Address and port to serve on [default: 127.0.0.1:3000]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,

    /// Directory of template layers [default: /var/cache/skep]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,

    /// Give sandboxes the host's package mirrors, proxies and certificate authorities
    #[arg(long)]
    pub(crate) share_host_package_settings: bool,

    /// Serve TLS with a local certificate authority, and answer DNS for the domain on loopback
    #[arg(long)]
    pub(crate) tls: bool,

    /// Send traces to the OpenTelemetry collector at this URL
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,

    /// Print one line of JSON when ready, instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Stop when standard input ends, and leave nothing on the host
    #[arg(long, hide = true)]
    pub(crate) private: bool,

    /// Accept requests without an API key; only on a loopback address
    #[arg(long)]
    pub(crate) no_auth: bool,
}

impl ServeArgs {
    /// The configuration with what the flags say.
    pub(crate) fn over(&self, mut config: Config) -> Config {
        config.listen = self.listen.unwrap_or(config.listen);
        config.cache_dir = self.cache_dir.clone().unwrap_or(config.cache_dir);
        config.share_host_package_settings |= self.share_host_package_settings;
        if self.private {
            // Nobody else comes, so nothing is made for them.
            config.when_stopped = skep_types::WhenStopped::End;
            config.pool.ready = 0;
            config.pool.disks = 0;
            config.pool.warm.clear();
            config.pool.zygotes = false;
            config.tls = None;
            config.domain = None;
        }
        if let Some(endpoint) = &self.otlp_endpoint {
            config.traces.endpoint = Some(endpoint.clone());
        }
        config
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// Build a built-in template, reusing cached layers
    Build {
        /// Name of the template, such as `base`
        name: String,
        /// Directory of template layers [default: /var/cache/skep]
        #[arg(long, value_name = "DIR")]
        cache_dir: Option<PathBuf>,
    },
    /// List templates
    List {
        /// Directory of template layers [default: /var/cache/skep]
        #[arg(long, value_name = "DIR")]
        cache_dir: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Arguments of the hidden command `agent`, which the launcher passes.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Descriptors handed over by the launcher, as `name=number`
    #[arg(long, value_delimiter = ',', value_parser = named_descriptor)]
    pub(crate) fds: Vec<(String, i32)>,
    /// Address to listen on
    #[arg(long, default_value = "0.0.0.0:49983")]
    pub(crate) listen: SocketAddr,
}

fn named_descriptor(text: &str) -> Result<(String, i32), String> {
    let parsed = text.split_once('=').and_then(|(name, number)| {
        let number = number.parse().ok()?;
        Some((name.to_owned(), number))
    });
    parsed.ok_or_else(|| format!("`{text}` is not `name=number`"))
}
