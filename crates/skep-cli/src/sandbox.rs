//! `skep sandbox …`

mod connect;
mod logs;
mod metrics;

use std::path::Path;

use clap::Subcommand;
use skep_client::{Client, ClientError, Command, CommandEvent, SandboxRecord, SandboxRecordState};

use crate::{CliError, OutputArgs, ServerArgs, print_json, print_note, print_table};

pub use logs::{Level, LogArgs};

/// Subcommands of `skep sandbox`.
#[derive(Debug, Subcommand)]
pub enum SandboxCommand {
    /// List sandboxes
    List {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Include ended sandboxes, with the reason why each ended
        #[arg(long)]
        all: bool,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show one sandbox, running or ended
    Info {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the sandbox
        id: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Kill sandboxes
    Kill {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// IDs of the sandboxes
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Run a command in a sandbox; exits with the command's code
    Exec {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the sandbox
        id: String,
        /// Run as this user
        #[arg(long, short)]
        user: Option<String>,
        /// Run in this directory
        #[arg(long, short = 'C', value_name = "DIR")]
        cwd: Option<String>,
        /// Command and its arguments, after `--`
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Open a shell in a sandbox
    Connect {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the sandbox
        id: String,
        /// Run the shell as this user
        #[arg(long, short)]
        user: Option<String>,
        /// Start in this directory
        #[arg(long, short = 'C', value_name = "DIR")]
        cwd: Option<String>,
        /// Terminal type
        #[arg(
            long,
            value_name = "NAME",
            env = "TERM",
            hide = true,
            default_value = "xterm-256color"
        )]
        term: String,
    },
    /// Show the log of a sandbox, running or ended
    Logs {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the sandbox
        id: String,
        /// Selection of entries
        #[command(flatten)]
        which: logs::LogArgs,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show the resource usage of a sandbox
    Metrics {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the sandbox
        id: String,
        /// Follow until the sandbox ends
        #[arg(long, short)]
        follow: bool,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl SandboxCommand {
    /// Does it, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(self, local_key: &Path) -> Result<u8, CliError> {
        match self {
            Self::List {
                server,
                all,
                output,
            } => {
                let records = records(&server.client(local_key)?, all).await?;
                if output.json {
                    print_json(&records);
                } else if records.is_empty() {
                    print_note(if all {
                        "no sandboxes yet"
                    } else {
                        "no sandboxes are running"
                    });
                } else {
                    print_table(LIST_HEADER, records.iter().map(list_row).collect());
                }
            }
            Self::Info { server, id, output } => {
                let record = record(&server.client(local_key)?, &id).await?;
                if output.json {
                    print_json(&record);
                } else {
                    print_table(&["field", "value"], info_rows(&record));
                }
            }
            Self::Kill { server, ids } => return kill(&server.client(local_key)?, &ids).await,
            Self::Exec {
                server,
                id,
                user,
                cwd,
                command,
            } => {
                let (program, arguments) = command.split_first().expect("clap requires one");
                let command = surrounded(Command::new(program).args(arguments), user, cwd);
                return exec(&server.client(local_key)?, &id, command).await;
            }
            Self::Connect {
                server,
                id,
                user,
                cwd,
                term,
            } => {
                let shell = Command::new("/bin/bash").args(["-i", "-l"]);
                let shell = surrounded(shell, user, cwd).env("TERM", term);
                return connect::connect(&server.client(local_key)?, &id, &shell).await;
            }
            Self::Logs {
                server,
                id,
                which,
                output,
            } => return logs::logs(&server.client(local_key)?, &id, &which, output).await,
            Self::Metrics {
                server,
                id,
                follow,
                output,
            } => {
                return metrics::metrics(&server.client(local_key)?, &id, follow, output).await;
            }
        }
        Ok(0)
    }
}

/// The command, as this user and in this directory.
fn surrounded(mut command: Command, user: Option<String>, cwd: Option<String>) -> Command {
    if let Some(user) = user {
        command = command.user(user);
    }
    if let Some(cwd) = cwd {
        command = command.cwd(cwd);
    }
    command
}

async fn records(client: &Client, all: bool) -> Result<Vec<SandboxRecord>, ClientError> {
    client.sandboxes().records(all).await
}

async fn record(client: &Client, id: &str) -> Result<SandboxRecord, CliError> {
    let records = records(client, true).await?;
    records
        .into_iter()
        .find(|record| record.sandbox_id == id)
        .ok_or_else(|| {
            CliError::input(
                format!("there is and was no sandbox `{id}`"),
                "`skep sandbox list --all` shows what there is and was",
            )
        })
}

async fn kill(client: &Client, ids: &[String]) -> Result<u8, CliError> {
    let mut missing = 0;
    for id in ids {
        match client.sandbox(id).kill().await {
            Ok(()) => print_note(&format!("ended {id}")),
            Err(error) if error.is_not_found() => {
                missing += 1;
                print_note(&format!("not running: {id}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(u8::from(missing > 0))
}

async fn exec(client: &Client, id: &str, command: Command) -> Result<u8, CliError> {
    let mut stream = client.sandbox(id).commands().start(command).await?;
    let mut code = None;
    while let Some(event) = stream.next().await? {
        match event {
            CommandEvent::Started(_) => {}
            CommandEvent::Stdout(bytes) | CommandEvent::Terminal(bytes) => {
                write_all(std::io::stdout().lock(), &bytes)?
            }
            CommandEvent::Stderr(bytes) => write_all(std::io::stderr().lock(), &bytes)?,
            CommandEvent::Ended {
                code: ended,
                status,
            } => {
                if ended < 0 {
                    print_note(&format!("ended by {status}"));
                }
                // A shell's code for a signal whose number we are not told.
                code = Some(u8::try_from(ended).unwrap_or(128));
            }
        }
    }
    code.ok_or_else(|| CliError::failure("the command's end was not reported"))
}

fn write_all(mut target: impl std::io::Write, bytes: &[u8]) -> Result<(), CliError> {
    target
        .write_all(bytes)
        .and_then(|()| target.flush())
        .map_err(CliError::failure)
}

const LIST_HEADER: &[&str] = &[
    "id",
    "template",
    "state",
    "started",
    "ends",
    "reason",
    "memory peak",
    "cpu",
];

fn list_row(record: &SandboxRecord) -> Vec<String> {
    let time = |time: Option<jiff::Timestamp>| {
        time.map_or_else(
            || "-".to_owned(),
            |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        )
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        record.sandbox_id.clone(),
        record.alias.clone(),
        state(record.state).to_owned(),
        time(record.started_at),
        time(record.end_at),
        or_dash(record.end_reason.clone()),
        or_dash(record.usage.map(|usage| mebibytes(usage.memory_peak_bytes))),
        or_dash(
            record
                .usage
                .map(|usage| format!("{:.2} s", usage.cpu_seconds)),
        ),
    ]
}

fn info_rows(record: &SandboxRecord) -> Vec<Vec<String>> {
    let mut rows: Vec<_> = LIST_HEADER
        .iter()
        .zip(list_row(record))
        .map(|(name, value)| vec![(*name).to_owned(), value])
        .collect();
    let limits = format!(
        "{} CPUs, {} MiB memory, {} MiB disk",
        record.cpu_count, record.memory_mb, record.disk_size_mb
    );
    rows.push(vec!["limits".to_owned(), limits]);
    for (key, value) in &record.metadata {
        rows.push(vec![format!("metadata {key}"), value.clone()]);
    }
    rows
}

fn state(state: SandboxRecordState) -> &'static str {
    match state {
        SandboxRecordState::Starting => "starting",
        SandboxRecordState::Running => "running",
        SandboxRecordState::Paused => "paused",
        SandboxRecordState::Stopping => "stopping",
        SandboxRecordState::Stuck => "stuck",
        SandboxRecordState::Ended => "ended",
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1024 * 1024))
}
