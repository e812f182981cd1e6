//! `skep sandbox exec`

mod ending;
mod input;
mod interrupt;

use std::io::IsTerminal as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde::Serialize;
use skep_client::{Cause, ClientError, Command, CommandEvent, CommandStream, Sandbox};
use tokio::time::{Instant, sleep_until};

use super::connect;
use super::{Among, whole_id};
use crate::code::{Signalled, Signals};
use crate::run::duration;
use crate::variables::variables;
use crate::{
    CliError, DefaultServer, OutputArgs, ServerArgs, print_bytes, print_error_bytes,
    print_json_line, print_note,
};
pub(super) use ending::exit_code;
use ending::failed_start;
use interrupt::{Force, interrupt};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep sandbox exec i8f6 -- ls -la /srv
  skep sandbox exec i8f6 sh -c 'echo $HOME; nproc'
  tar c ./src | skep sandbox exec i8f6 tar x
  skep sandbox exec -it i8f6 bash
  skep sandbox exec --env MODE=test --timeout 5m -C /srv i8f6 -- make check";

/// Exit code of a command that took longer than it may, as `timeout` has it.
const TIMED_OUT: u8 = 124;
/// Time that a command has for its end after it was interrupted for its time.
const GRACE: Duration = Duration::from_secs(5);
/// Programs that wait for a person.
const TALKATIVE: &[&str] = &[
    "bash", "sh", "zsh", "fish", "python", "python3", "node", "R", "irb",
];

/// Arguments of `skep sandbox exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Pass on standard input, even if it is a terminal
    #[arg(long, short)]
    interactive: bool,
    /// Give the command a terminal
    #[arg(long, short, conflicts_with = "json")]
    tty: bool,
    /// Run as this user
    #[arg(long, short)]
    user: Option<String>,
    /// Run in this directory
    #[arg(long, short = 'C', value_name = "DIR")]
    cwd: Option<String>,
    /// Set an environment variable; without a value it is copied from this shell
    #[arg(long, short = 'e', value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Interrupt the command after this time, such as 30, 90s, 5m or 1h 30m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Print one line of JSON per event
    #[command(flatten)]
    output: OutputArgs,
    /// ID of the sandbox
    id: String,
    /// Command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// A line for machines.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Told {
    /// It runs.
    Started { pid: u32 },
    /// It wrote to its standard output.
    Stdout(Piece),
    /// It wrote to its standard error.
    Stderr(Piece),
    /// It ended.
    Exit { code: u8, status: String },
}

/// Part of an output: text, or bytes that are none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Piece {
    Text(String),
    Base64(String),
}

impl Piece {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }
}

impl ExecArgs {
    pub(super) async fn run(
        self,
        default: &DefaultServer,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<u8, CliError> {
        let command = self.command(&environment)?;
        let client = self.server.client(default)?;
        let id = whole_id(&client, &self.id, Among::Living).await?;
        if self.tty {
            let term = environment("TERM").unwrap_or_else(|| connect::TERMINAL.to_owned());
            let opened = connect::open(&client, &id, &command.env("TERM", term)).await;
            return opened.or_else(|error| match error {
                connect::OpenError::Start(error) => self.not_started(error),
                connect::OpenError::Other(error) => Err(error),
            });
        }
        let is_terminal = std::io::stdin().is_terminal();
        let passes_input = self.interactive || !is_terminal;
        if !passes_input {
            self.hint_at_terminal();
        }
        let command = if passes_input {
            command.with_input()
        } else {
            command
        };
        let sandbox = client.sandbox(&id);
        let stream = match sandbox.commands().start(command).await {
            Ok(stream) => stream,
            Err(error) => return self.not_started(error),
        };
        let running = Running {
            sandbox,
            user: self.user.clone(),
            passes_input,
            output: self.output,
            deadline: self.timeout.map(|timeout| Instant::now() + timeout),
        };
        match running.follow(stream).await {
            Err(Followed::Start(error)) => self.not_started(error),
            Err(Followed::Other(error)) => Err(error),
            Ok(code) => Ok(code),
        }
    }

    /// The command with its surroundings.
    fn command(&self, environment: impl Fn(&str) -> Option<String>) -> Result<Command, CliError> {
        let (program, arguments) = self.command.split_first().expect("clap requires one");
        let mut command = Command::new(program)
            .args(arguments)
            .envs(variables(&self.env, environment)?);
        if let Some(user) = &self.user {
            command = command.user(user);
        }
        if let Some(cwd) = &self.cwd {
            command = command.cwd(cwd);
        }
        Ok(command)
    }

    /// A command that waits for a person who cannot reach it would only end at once.
    fn hint_at_terminal(&self) {
        if let [program] = self.command.as_slice()
            && let Some(name) = program.rsplit('/').next()
            && TALKATIVE.contains(&name)
        {
            print_note(&format!(
                "hint: `{program}` reads nothing here; `skep sandbox exec -it` gives it a terminal"
            ));
        }
    }

    fn not_started(&self, error: ClientError) -> Result<u8, CliError> {
        let program = self.command[0].as_str();
        let Some(code) = failed_start(&error) else {
            return Err(error.into());
        };
        let mut error = CliError::from(error);
        if program.contains(char::is_whitespace) && self.command.len() == 1 {
            error = error.hint(format!(
                "a line for a shell is run as `skep sandbox exec {} sh -c '{program}'`",
                self.id
            ));
        }
        error.report_as(code, self.output.json);
        Ok(code)
    }
}

/// End of the work with a command other than its own.
enum Followed {
    /// The agent could not start it.
    Start(ClientError),
    Other(CliError),
}

impl From<CliError> for Followed {
    fn from(error: CliError) -> Self {
        Self::Other(error)
    }
}

/// A command in a sandbox, and how it is followed.
struct Running {
    sandbox: Sandbox,
    user: Option<String>,
    passes_input: bool,
    output: OutputArgs,
    deadline: Option<Instant>,
}

impl Running {
    /// Shows what the command does until it ends; returns its exit code.
    async fn follow(self, mut stream: CommandStream) -> Result<u8, Followed> {
        let mut signals = Signals::new()?;
        let mut pid = None;
        let mut interrupts = 0_u32;
        let mut deadline = self.deadline;
        let mut is_late = false;
        let mut passing = None;
        let ended = loop {
            tokio::select! {
                event = stream.next() => match event {
                    Ok(Some(CommandEvent::Started(number))) => {
                        pid = Some(number);
                        self.tell(|| Told::Started { pid: number })?;
                        passing = self.passes_input.then(|| input::pass(&self.sandbox, number));
                    }
                    Ok(Some(CommandEvent::Ended { code, status })) => break (code, status),
                    Ok(Some(event)) => {
                        if let Err(error) = self.show(event) {
                            // Nobody reads it any more, so it need not go on.
                            if let Some(pid) = pid {
                                interrupt(&self.sandbox, self.user.as_deref(), pid, Force::Kill).await?;
                            }
                            return Err(error.into());
                        }
                    }
                    Ok(None) => return Err(CliError::failure("the command's end was not reported").into()),
                    Err(error) if pid.is_none() && matches!(error.cause(), Cause::Agent { .. }) => {
                        return Err(Followed::Start(error));
                    }
                    Err(error) => return Err(CliError::from(error).into()),
                },
                signal = signals.next() => {
                    interrupts += 1;
                    let Some(pid) = pid else {
                        return Ok(signal.exit_code());
                    };
                    let force = match signal {
                        Signalled::Interrupt if interrupts == 1 => Force::Interrupt,
                        Signalled::Interrupt | Signalled::Terminate | Signalled::HangUp => Force::Kill,
                    };
                    interrupt(&self.sandbox, self.user.as_deref(), pid, force).await?;
                    if force == Force::Kill && interrupts > 2 {
                        return Ok(signal.exit_code());
                    }
                }
                () = until(deadline) => {
                    let Some(pid) = pid else {
                        return Ok(TIMED_OUT);
                    };
                    let force = if is_late { Force::Kill } else { Force::Interrupt };
                    is_late = true;
                    deadline = (force == Force::Interrupt).then(|| Instant::now() + GRACE);
                    interrupt(&self.sandbox, self.user.as_deref(), pid, force).await?;
                }
            }
        };
        // What is left of our input is for nobody.
        drop(passing);
        let (code, status) = ended;
        let code = if is_late {
            TIMED_OUT
        } else {
            exit_code(code, &status)
        };
        if is_late && !self.output.json {
            print_note("the command took longer than `--timeout`, and was interrupted");
        } else if code > 128 && status.starts_with("signal") && !self.output.json && interrupts == 0
        {
            print_note(&format!("ended by {status}"));
        }
        self.tell(|| Told::Exit { code, status })?;
        Ok(code)
    }

    fn tell(&self, told: impl FnOnce() -> Told) -> Result<(), CliError> {
        if self.output.json {
            print_json_line(&told())?;
        }
        Ok(())
    }

    fn show(&self, event: CommandEvent) -> Result<(), CliError> {
        match event {
            CommandEvent::Stdout(bytes) | CommandEvent::Terminal(bytes) if self.output.json => {
                print_json_line(&Told::Stdout(Piece::of(&bytes)))
            }
            CommandEvent::Stderr(bytes) if self.output.json => {
                print_json_line(&Told::Stderr(Piece::of(&bytes)))
            }
            CommandEvent::Stdout(bytes) | CommandEvent::Terminal(bytes) => print_bytes(&bytes),
            CommandEvent::Stderr(bytes) => print_error_bytes(&bytes),
            CommandEvent::Started(_) | CommandEvent::Ended { .. } => Ok(()),
        }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
