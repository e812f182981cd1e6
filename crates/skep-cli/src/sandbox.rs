//! `skep sandbox …`

mod connect;
mod cp;
mod create;
mod exec;
mod id;
mod info;
mod kill;
mod list;
mod logs;
mod ls;
mod metrics;
mod network;
mod place;
mod requests;
mod rm;
mod sleep;
mod timeout;

use clap::Subcommand;
use jiff::Timestamp;
use skep_client::Client;

use crate::{CliError, DefaultServer};

pub use connect::ConnectArgs;
pub use cp::CopyArgs;
pub use create::CreateArgs;
pub use exec::ExecArgs;
pub(crate) use id::{Among, whole_id};
pub use info::InfoArgs;
pub use kill::KillArgs;
pub use list::ListArgs;
pub use logs::{Level, LogArgs};
pub use ls::LsArgs;
pub use metrics::MetricsArgs;
pub use network::NetworkArgs;
pub use requests::RequestArgs;
pub use rm::RmArgs;
pub use sleep::SleepCommand;
pub use timeout::TimeoutArgs;

/// Exit code of commands that run something in a sandbox, and could not.
const NOT_RUN: u8 = 125;

/// Subcommands of `skep sandbox`.
#[derive(Debug, Subcommand)]
pub enum SandboxCommand {
    /// Create a sandbox, and print its ID
    #[command(after_help = create::EXAMPLES)]
    Create(CreateArgs),
    /// List sandboxes
    #[command(after_help = list::EXAMPLES)]
    List(ListArgs),
    /// Show one sandbox, running or ended
    #[command(after_help = "\
Examples:
  skep sandbox info i8f6
  skep sandbox info i8f6 --json")]
    Info(InfoArgs),
    /// Run a command in a sandbox; exits with the command's code
    ///
    /// Standard input that is no terminal is passed on; `-it` gives the command a terminal. Ctrl-C
    /// interrupts the command. Exit codes: the command's own, 124 timeout, 125 if it could not be
    /// run, 126 if it is not executable, 127 if it was not found, 128 and the number of the signal
    /// that ended it.
    #[command(after_help = exec::EXAMPLES)]
    Exec(ExecArgs),
    /// Open a shell in a sandbox
    #[command(after_help = "\
Examples:
  skep sandbox connect i8f6")]
    Connect(ConnectArgs),
    /// Copy files and directories into a sandbox, out of it, or from one to another
    #[command(after_help = cp::EXAMPLES)]
    Cp(CopyArgs),
    /// List files of a sandbox; without an argument, list sandboxes
    #[command(after_help = ls::EXAMPLES)]
    Ls(LsArgs),
    /// Remove files of a sandbox; without a path, kill the sandbox
    #[command(after_help = rm::EXAMPLES)]
    Rm(RmArgs),
    /// Set the time after which a sandbox ends, from now on
    #[command(after_help = timeout::EXAMPLES)]
    Timeout(TimeoutArgs),
    /// Show what a sandbox may reach, or replace its rules
    #[command(after_help = network::EXAMPLES)]
    Network(NetworkArgs),
    /// Let sandboxes sleep, and keep or copy them
    #[command(flatten)]
    Sleep(SleepCommand),
    /// Kill sandboxes
    #[command(after_help = kill::EXAMPLES)]
    Kill(KillArgs),
    /// Show the log of a sandbox, running or ended
    #[command(after_help = "\
Examples:
  skep sandbox logs i8f6 --follow")]
    Logs(LogArgs),
    /// Show what a sandbox has asked hosts for that it reaches by name
    #[command(after_help = requests::EXAMPLES)]
    Requests(RequestArgs),
    /// Show the resource usage of a sandbox
    #[command(after_help = "\
Examples:
  skep sandbox metrics i8f6 --follow")]
    Metrics(MetricsArgs),
}

impl SandboxCommand {
    /// Does it, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(
        self,
        default: &DefaultServer,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<u8, CliError> {
        match self {
            Self::Create(args) => args.run(default, environment).await,
            Self::List(args) => args.run(default).await,
            Self::Info(args) => args.run(default).await,
            Self::Exec(args) => args.run(default, environment).await,
            Self::Connect(args) => args.run(default).await,
            Self::Cp(args) => args.run(default).await,
            Self::Ls(args) => args.run(default).await,
            Self::Rm(args) => args.run(default).await,
            Self::Timeout(args) => args.run(default).await,
            Self::Network(args) => args.run(default).await,
            Self::Sleep(command) => command.run(default).await,
            Self::Kill(args) => args.run(default).await,
            Self::Logs(args) => args.run(default).await,
            Self::Requests(args) => args.run(default).await,
            Self::Metrics(args) => args.run(default).await,
        }
    }

    /// Exit code of every failure of the command, if it has one of its own: what it runs must
    /// not look like it.
    pub fn failure_code(&self) -> Option<u8> {
        match self {
            Self::Exec(_) => Some(NOT_RUN),
            Self::Create(_)
            | Self::List(_)
            | Self::Info(_)
            | Self::Connect(_)
            | Self::Cp(_)
            | Self::Ls(_)
            | Self::Rm(_)
            | Self::Timeout(_)
            | Self::Network(_)
            | Self::Sleep(_)
            | Self::Kill(_)
            | Self::Logs(_)
            | Self::Requests(_)
            | Self::Metrics(_) => None,
        }
    }
}

/// Returns true if a sandbox runs or sleeps.
async fn runs(client: &Client, id: &str) -> Result<bool, CliError> {
    match client.sandbox(id).info().await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A moment for people. All are of the same zone, which headers name.
fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}
