//! `run_command`

use std::time::Duration;

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skep_client::{Command, CommandEvent, CommandStream, Sandbox};
use tokio::time::{Instant, sleep_until};

use super::Call;
use super::run_code::{cancelled, keep_long};
use crate::answer::Answer;
use crate::captured::Captured;
use crate::failure::Failure;
use crate::progress::Progress;

/// Time limit of a command that names none.
const USUAL_TIMEOUT: u64 = 120;
/// Runs the first argument as a line of the shell, with its output in the file that is the second.
const IN_BACKGROUND: &str = r#"exec >"$2" 2>&1 </dev/null; eval "$1""#;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// Line of bash.
    command: String,
    /// Directory to run it in; without it /home/user.
    #[serde(default)]
    cwd: Option<String>,
    /// User to run it as: `user`, or `root` for what needs rights in the sandbox.
    #[serde(default)]
    user: Option<String>,
    /// Text for its standard input.
    #[serde(default)]
    stdin: Option<String>,
    /// Return at once and let it run; its output goes to a file.
    #[serde(default)]
    background: bool,
    /// Seconds after which it is killed.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    timeout_seconds: Option<u64>,
    /// ID or name of the sandbox; without it the usual one is used.
    #[serde(default)]
    sandbox: Option<String>,
}

/// Result of a command.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// ID of the sandbox that it ran in.
    sandbox: String,
    /// Exit code; -1 if a signal ended it, nothing if it still runs.
    exit_code: Option<i32>,
    /// Standard output of the program.
    stdout: String,
    /// Standard error of the program.
    stderr: String,
    /// Process ID of a command that runs in the background.
    process: Option<u32>,
    /// File in the sandbox that has all of a long output, or that of a command in the background.
    full_output: Option<String>,
}

/// A command that has ended, or was ended.
#[derive(Debug, Default)]
struct Ran {
    stdout: Captured,
    stderr: Captured,
    process: Option<u32>,
    code: Option<i32>,
    status: String,
    is_late: bool,
}

pub(crate) async fn run(call: &Call<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    let found = call
        .session
        .sandbox(call.client, arguments.sandbox.as_deref())
        .await?;
    let limit = call.timeout(arguments.timeout_seconds, USUAL_TIMEOUT);
    if arguments.background {
        let log = format!("/tmp/command-{}.log", uuid::Uuid::new_v4().simple());
        let words = ["-l", "-c", IN_BACKGROUND, "bash", &arguments.command, &log];
        let command = placed(Command::new("/bin/bash").args(words), &arguments);
        return in_background(&found.sandbox, command, log).await;
    }
    let command = placed(Command::shell(&*arguments.command), &arguments);
    let input = arguments.stdin.as_deref();
    follow(call, &found.sandbox, (command, input), limit, found.note).await
}

fn placed(mut command: Command, arguments: &Arguments) -> Command {
    if let Some(cwd) = &arguments.cwd {
        command = command.cwd(cwd);
    }
    if let Some(user) = &arguments.user {
        command = command.user(user);
    }
    command
}

/// Runs a command to its end, or to its limit, and tells what it did.
pub(super) async fn follow(
    call: &Call<'_>,
    sandbox: &Sandbox,
    (command, input): (Command, Option<&str>),
    limit: Duration,
    note: Option<String>,
) -> Result<CallToolResult, Failure> {
    let command = command.env("NO_COLOR", "1");
    let command = if input.is_some() {
        command.with_input()
    } else {
        command
    };
    let stream = sandbox.commands().start(command).await?;
    let ran = to_end(call, sandbox, stream, input, limit).await?;
    let (stdout, stderr) = (ran.stdout.shown(), ran.stderr.shown());
    let full_output = keep_long(sandbox, &[(&ran.stdout, &stdout), (&ran.stderr, &stderr)]).await;
    let mut answer = Answer::default();
    answer.say(note.map(|note| format!("[{note}]")).unwrap_or_default());
    answer.say(stdout.text.trim_end());
    if !stderr.text.trim().is_empty() {
        answer.say(format!("[stderr]\n{}", stderr.text.trim_end()));
    }
    if let Some(path) = &full_output {
        answer.say(format!("[all of the output is in {path}]"));
    }
    if ran.is_late {
        answer.say(format!(
            "[killed after {} s; `background` lets a command run on]",
            limit.as_secs()
        ));
    }
    match ran.code {
        Some(0) => answer.say("[exit code 0]"),
        Some(code) => answer.say(format!("[exit code {code}: {}]", ran.status)),
        None => {}
    }
    if ran.code != Some(0) {
        answer.fail();
    }
    Ok(answer.with(&Output {
        sandbox: sandbox.id().to_owned(),
        exit_code: ran.code,
        stdout: stdout.text,
        stderr: stderr.text,
        process: None,
        full_output,
    }))
}

async fn to_end(
    call: &Call<'_>,
    sandbox: &Sandbox,
    mut stream: CommandStream,
    mut input: Option<&str>,
    limit: Duration,
) -> Result<Ran, Failure> {
    let mut deadline = Instant::now() + limit;
    let mut ran = Ran::default();
    let mut progress = Progress::of(call.context);
    let mut beat = Progress::heartbeat();
    loop {
        tokio::select! {
            event = stream.next() => match event? {
                Some(event) => ran.take(event),
                None => return Ok(ran),
            },
            _ = beat.tick() => {}
            () = call.context.ct.cancelled() => {
                kill(sandbox, ran.process).await;
                return Err(cancelled());
            }
            () = sleep_until(deadline) => {
                kill(sandbox, ran.process).await;
                if std::mem::replace(&mut ran.is_late, true) {
                    return Ok(ran);
                }
                // What it wrote before is on its way.
                deadline = Instant::now() + Duration::from_secs(5);
            }
        }
        if let Some((text, process)) = input.zip(ran.process) {
            input = None;
            let commands = sandbox.commands();
            // A command that reads nothing may have ended before.
            drop(commands.send_input(process, text.as_bytes()).await);
            drop(commands.close_input(process).await);
        }
        progress.tell(ran.stdout.last_line()).await;
    }
}

async fn kill(sandbox: &Sandbox, process: Option<u32>) {
    if let Some(process) = process {
        // It may have ended by itself in this very moment.
        drop(sandbox.commands().kill(process).await);
    }
}

impl Ran {
    fn take(&mut self, event: CommandEvent) {
        match event {
            CommandEvent::Started(process) => self.process = Some(process),
            CommandEvent::Stdout(bytes) | CommandEvent::Terminal(bytes) => {
                self.stdout.push(&String::from_utf8_lossy(&bytes));
            }
            CommandEvent::Stderr(bytes) => self.stderr.push(&String::from_utf8_lossy(&bytes)),
            CommandEvent::Ended { code, status } => {
                self.code = Some(code);
                self.status = status;
            }
        }
    }
}

/// Starts a command and leaves it to itself.
async fn in_background(
    sandbox: &Sandbox,
    command: Command,
    log: String,
) -> Result<CallToolResult, Failure> {
    let mut stream = sandbox.commands().start(command).await?;
    let process = match stream.next().await? {
        Some(CommandEvent::Started(process)) => process,
        Some(_) | None => {
            return Err(Failure::new(
                "the command did not start",
                "Run it without `background` to see why.",
            ));
        }
    };
    let answer = Answer::text(format!(
        "[process {process} runs in the background; its output goes to {log}; `kill {process}` ends it]"
    ));
    Ok(answer.with(&Output {
        sandbox: sandbox.id().to_owned(),
        process: Some(process),
        full_output: Some(log),
        ..Output::default()
    }))
}
