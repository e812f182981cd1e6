//! The command line.

#[cfg(test)]
mod json;
#[cfg(test)]
mod page;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use skep_admin::mcp::McpArgs;
use skep_admin::{TeamCommand, TemplateCommand, UninstallArgs};
use skep_bench::BenchArgs;
use skep_cli::{
    ChosenServerArgs, ConsoleArgs, EventsArgs, KeyCommand, NotebookCommand, OutputArgs, ReplArgs,
    RunArgs, SandboxCommand, SecretCommand, VolumeCommand, WebhookCommand,
};

use crate::config::Config;
use crate::env_vars;

const EXAMPLES: &str = "\
Examples:
  sudo skep up                       build what is missing, serve, print how to connect
  sudo skep run -c 'sum(range(10))'  run code in a sandbox, with or without a server
  skep sandbox create                a sandbox that stays; `skep sandbox exec` runs commands in it";

const RUN_EXAMPLES: &str = "\
Examples:
  skep run plot.py 2026 --save-dir plots     a file with an argument; keeps its pictures
  skep run -c '[x * x for x in range(5)]'    an expression, whose value is printed
  skep run analysis.ipynb                    the cells of a notebook, one after another
  skep run --lang r model.R --timeout 5m --json";

const REPL_EXAMPLES: &str = "\
Examples:
  skep repl                          Python in a new sandbox
  skep repl --lang r --with data.csv
  skep repl --sandbox i8f6           where an SDK runs its code";

const UP_EXAMPLES: &str = "\
Examples:
  sudo skep up
  sudo skep up --listen 0.0.0.0:3000
  sudo skep up --config ./skep.toml";

const NOTEBOOK_EXAMPLES: &str = "\
Examples:
  skep notebook run report.ipynb
  skep notebook export i8f6 -o session.ipynb";

const MCP_EXAMPLES: &str = "\
Examples:
  claude mcp add skep -- skep mcp
  skep mcp --name analysis --no-internet
  skep mcp --server https://api.sandboxes.example.com --tools run_code,read_file";

const TEMPLATE_EXAMPLES: &str = "\
A version is named `app`, `app:v1`, `app:BUILD` or `app@CONTENT`.

Examples:
  skep template build . -n app
  skep template history app
  sudo skep template build code-interpreter-languages";

const SANDBOX_EXAMPLES: &str = "\
A sandbox is named by its ID, or by the first letters of it.

Examples:
  skep sandbox create
  skep sandbox exec -it i8f6 bash
  skep sandbox kill --all";

const KEY_EXAMPLES: &str = "\
Examples:
  skep key create laptop
  sudo skep key rotate";

const VOLUME_EXAMPLES: &str = "\
Examples:
  skep volume create data
  skep volume cp ./models data:/models
  skep volume snapshot data data-monday";

const SECRET_EXAMPLES: &str = "\
Examples:
  skep secret create github-token
  skep secret list";

const WEBHOOK_EXAMPLES: &str = "\
Examples:
  skep webhook create https://example.com/hook --event created --event killed
  skep webhook dead-letters";

const TEAM_EXAMPLES: &str = "\
Examples:
  sudo skep team create research --max-sandboxes 20
  sudo skep team list";

/// Skep runs AI-written code in sandboxes that you own.
#[derive(Debug, Parser)]
#[command(
    name = "skep",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{}", environment())
)]
pub(crate) struct Cli {
    /// Configuration file [default: /etc/skep/skep.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", env = crate::env_vars::SKEP_CONFIG)]
    pub(crate) config: Option<PathBuf>,

    /// Data directory, for the database and the sandboxes [default: /var/lib/skep]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Print JSON, also of failures
    #[arg(long, global = true)]
    pub(crate) json: bool,

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
    /// Build missing templates, start the server, and print how to connect; needs root
    ///
    /// Serves as soon as `code-interpreter-slim` is built. `mcp-gateway` and the larger
    /// `code-interpreter-v1` are built while it serves, at low priority; new sandboxes get them from
    /// the moment they are ready.
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),
    /// Run a file or a snippet of code in a sandbox
    ///
    /// Passes on its output, its pictures and its exit code. If no server runs on this host, it
    /// starts a temporary one, which needs root. Exit codes: the code's own, 1 for an exception,
    /// 124 timeout, 130 interrupted, 137 out of memory, 125 if it could not be run.
    #[command(after_help = RUN_EXAMPLES)]
    Run {
        #[command(flatten)]
        server: ChosenServerArgs,
        #[command(flatten)]
        run: Box<RunArgs>,
    },
    /// Start an interactive prompt (REPL) in a sandbox
    #[command(after_help = REPL_EXAMPLES)]
    Repl {
        #[command(flatten)]
        server: ChosenServerArgs,
        #[command(flatten)]
        repl: Box<ReplArgs>,
    },
    /// Run notebooks in a sandbox, and export a session as a notebook
    #[command(subcommand, after_help = NOTEBOOK_EXAMPLES)]
    Notebook(NotebookCommand),
    /// Print a link that opens the web console once, within a minute
    #[command(after_help = "\
Examples:
  skep console
  skep console --server https://api.sandboxes.example.com")]
    Console(ConsoleArgs),
    /// Serve sandboxes to an agent by the Model Context Protocol (MCP), on standard input and output
    ///
    /// Agents start it themselves: give them this command. If no server runs on this host, it
    /// starts a temporary one, which needs root. A sandbox is made at the first need and ends with
    /// the session, unless it has a name. Servers offer the same at `/mcp`, with an API key.
    #[command(after_help = MCP_EXAMPLES)]
    Mcp {
        #[command(flatten)]
        server: ChosenServerArgs,
        #[command(flatten)]
        mcp: Box<McpArgs>,
    },
    /// Start the server without building templates; needs root
    #[command(after_help = "\
Examples:
  sudo skep serve
  sudo skep serve --listen 0.0.0.0:3000 --tls")]
    Serve(ServeArgs),
    /// Check whether this host can run sandboxes, and print remedies; needs root
    #[command(after_help = "\
Examples:
  sudo skep doctor
  sudo skep doctor --fetch")]
    Doctor(DoctorArgs),
    /// Build templates from Dockerfiles, and manage their versions
    #[command(subcommand, after_help = TEMPLATE_EXAMPLES)]
    Template(TemplateCommand),
    /// Manage sandboxes and run commands in them
    #[command(subcommand, after_help = SANDBOX_EXAMPLES)]
    Sandbox(SandboxCommand),
    /// Manage volumes, whose files outlive sandboxes and are shared by them
    #[command(subcommand, after_help = VOLUME_EXAMPLES)]
    Volume(VolumeCommand),
    /// Create, list, rotate and revoke API keys
    #[command(subcommand, after_help = KEY_EXAMPLES)]
    Key(KeyCommand),
    /// Keep secrets that requests of sandboxes carry and code in them never sees
    #[command(subcommand, after_help = SECRET_EXAMPLES)]
    Secret(SecretCommand),
    /// Show what happened to sandboxes, and what happens
    #[command(after_help = "\
Examples:
  skep events
  skep events --follow --type created --type killed --json")]
    Events(EventsArgs),
    /// Manage webhooks, which are sent what happens to sandboxes
    #[command(subcommand, after_help = WEBHOOK_EXAMPLES)]
    Webhook(WebhookCommand),
    /// Manage teams and their limits, in the database of this host
    #[command(subcommand, after_help = TEAM_EXAMPLES)]
    Team(TeamCommand),
    /// Measure performance, and compare it with baselines and other systems
    Bench(BenchArgs),
    /// Remove this installation from the host: sandboxes, network, cgroups, settings, data
    ///
    /// Lists what will be removed and asks for confirmation. Safe to run again, also after a
    /// failure. Keeps the templates if there is another installation on this host. Exit codes: 0
    /// everything is removed, 1 a server still runs or the confirmation is missing, 2 something
    /// could not be removed.
    #[command(after_help = "\
Examples:
  sudo skep uninstall --dry-run      what would be removed
  sudo skep uninstall")]
    Uninstall(UninstallArgs),
    /// Print shell completions
    #[command(after_help = "\
Examples:
  skep completions bash > ~/.local/share/bash-completion/completions/skep")]
    Completions {
        /// Shell to print completions for
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all commands
    #[command(after_help = "\
Examples:
  skep man | man -l -
  skep man /usr/local/share/man/man1")]
    Man {
        /// Directory to write `skep.1`, `skep-run.1` and the others to
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

/// Arguments of `skep doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Fetch criu if this host has none: unmodified, from Debian's newest suite, into the cache
    #[arg(long)]
    pub(crate) fetch: bool,
    /// Output format
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Arguments of `up`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) serve: ServeArgs,

    /// Do not build `mcp-gateway` and `code-interpreter-v1`; the smaller template stands in for the latter
    #[arg(long)]
    pub(crate) slim: bool,
}

/// Arguments of `up` and `serve`, which override the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Address and port to serve on [default: 127.0.0.1:3000]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,

    /// Directory of template layers [default: /var/cache/skep]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,

    /// Give sandboxes the host's package mirrors, proxies and certificate authorities
    #[arg(long)]
    pub(crate) share_host_package_settings: bool,

    /// Serve TLS alone, with a local certificate authority unless the configuration names a
    /// certificate, and answer DNS for the domain
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

/// An address to listen on: `127.0.0.1:3000`, `localhost:3000`, or only a port of loopback.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let loopback = |port: &str| {
        let port = port.parse().ok()?;
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    };
    let parsed = text.parse().ok().or_else(|| match text.rsplit_once(':') {
        Some((host, port)) if host.is_empty() || skep_client::is_localhost(host) => loopback(port),
        Some(_) => None,
        None => loopback(text),
    });
    parsed.ok_or_else(|| "write address:port, such as 127.0.0.1:3000 or 0.0.0.0:3000".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The commands that people use, with all above and below them.
    fn commands(command: &clap::Command) -> Vec<clap::Command> {
        let below = command
            .get_subcommands()
            .filter(|below| {
                // The measurements of a bench are shown together.
                !below.is_hide_set() && below.get_name() != "help" && command.get_name() != "bench"
            })
            .flat_map(commands);
        [command.clone()].into_iter().chain(below).collect()
    }

    /// The words of an example, without what a shell does with it and what is said about it.
    fn words(example: &str) -> Vec<String> {
        let command = example
            .trim_start_matches("sudo ")
            .split("  ")
            .next()
            .and_then(|text| text.split([';', '|', '>', '<']).next());
        let mut words = Vec::new();
        for (index, part) in command.unwrap_or_default().split('\'').enumerate() {
            if index % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        words
    }

    #[test]
    fn every_command_has_examples_that_it_understands() {
        for command in commands(&Cli::command()) {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let name = command.get_name();
            let (_, examples) = help
                .split_once("Examples:\n")
                .unwrap_or_else(|| panic!("`{name}` has no examples"));
            for example in examples.lines().map(str::trim) {
                let words = words(example);
                if words.first().map(String::as_str) == Some("skep") {
                    let parsed = Cli::try_parse_from(words);
                    assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
                }
            }
        }
    }

    #[test]
    fn an_address_to_listen_on_may_be_only_a_port() {
        for (text, expected) in [
            ("0.0.0.0:3000", "0.0.0.0:3000"),
            ("[::1]:3000", "[::1]:3000"),
            ("localhost:3001", "127.0.0.1:3001"),
            (":3002", "127.0.0.1:3002"),
            ("3003", "127.0.0.1:3003"),
        ] {
            assert_eq!(
                listen_address(text).unwrap().to_string(),
                expected,
                "{text}"
            );
        }
        for text in ["", "example.test:80", "127.0.0.1", "99999"] {
            assert!(listen_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn json_is_asked_for_before_or_after_the_command() {
        for arguments in [
            ["skep", "--json", "sandbox", "list"],
            ["skep", "sandbox", "--json", "list"],
            ["skep", "sandbox", "list", "--json"],
        ] {
            let cli = Cli::parse_from(arguments);
            assert!(cli.json, "{arguments:?}");
            let Command::Sandbox(SandboxCommand::List(list)) = cli.command else {
                panic!("{arguments:?} is no list");
            };
            assert!(list.json(), "{arguments:?}");
        }
    }
}
