//! The guarantees of every language, in real sandboxes: a language is a row, a guarantee a column.

pub(crate) mod answer;
pub(crate) mod rows;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_client::{
    AnswerLine, Client, Command as SandboxCommand, ContextOptions, ContextRef, ExecuteOptions,
    LimitOptions, NewSandbox, RunOptions, Sandbox,
};
use skep_testkit::wait_until;
use skep_wire::interpreter::Outcome as Kind;
use tokio::task::JoinSet;

use crate::installation::{CACHE, Installation};
use answer::Answer;
use rows::{ROWS, Row};

/// A template with kernels for all of them.
pub(crate) const TEMPLATE: &str = "code-interpreter-languages";
/// Time limit for one wait on a busy host.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Processor time, in microseconds, that a waiting kernel may use from look to look.
const STILL: u64 = 20_000;
/// No kernel needs as much for itself.
const MEMORY_LIMIT: u64 = 500 << 20;

/// Values that would end a literal, or begin something in it, in some language.
const VALUES: [&str; 8] = [
    "'\"`\\'\\\"",
    "line\nline\r\n\ttab\n",
    "$(touch /tmp/injected) ${HOME} `id` %s%n {0} #{x}",
    "# comment // comment /* -- */; rm",
    "r\"(raw)\" )\" r\"---(",
    "ünï 😀 \u{2028}\u{feff}\u{1b}[0m \\u0041 \\x41 \\",
    "",
    " NA NULL null None ",
];

/// A row in a sandbox of its own.
struct Stage {
    row: Row,
    sandbox: Sandbox,
    /// A second context, in a directory with an odd name.
    other: String,
}

const FOLDER: &str = "/tmp/it's \"odd\" $(x) \\ {} ü";

type Outcome = Result<(), String>;
type Guarantee = for<'a> fn(&'a Stage) -> BoxFuture<'a, Outcome>;

const GUARANTEES: [(&str, Guarantee); 10] = [
    ("variables of all layers arrive and go", |stage| {
        stage.variables().boxed()
    }),
    ("a context starts in its folder, and again", |stage| {
        stage.folder().boxed()
    }),
    ("an interrupt keeps the state", |stage| {
        stage.interrupt().boxed()
    }),
    (
        "errors have a name, a value, a traceback and a kind",
        |stage| stage.errors().boxed(),
    ),
    ("an execution has a receipt", |stage| {
        stage.receipt().boxed()
    }),
    (
        "a stalled reader stops the kernel, and nothing is lost",
        |stage| stage.flood().boxed(),
    ),
    ("secrets are masked", |stage| stage.secrets().boxed()),
    ("contexts run in parallel", |stage| stage.parallel().boxed()),
    ("want of memory is named", |stage| stage.memory().boxed()),
    (
        "a death is told, and the next execution runs anew",
        |stage| stage.death().boxed(),
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_language_keeps_every_guarantee() {
    build_template(&CACHE);
    let installation = Installation::start();
    let client = installation.client();
    let mut stages = JoinSet::new();
    for row in ROWS {
        let client = client.clone();
        stages.spawn(async move { failures_of(&client, row).await });
    }
    let failures: Vec<String> = stages.join_all().await.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

pub(crate) fn build_template(cache: &OsStr) {
    let mut build = Command::new(env!("CARGO_BIN_EXE_skep"));
    build.args(["template", "build", TEMPLATE, "--cache-dir"]);
    let built = build.arg(cache).output().unwrap();
    assert!(built.status.success(), "{built:?}");
}

async fn failures_of(client: &Client, row: Row) -> Vec<String> {
    let stage = Stage::make(client, row).await;
    let mut failures = Vec::new();
    for (name, guarantee) in GUARANTEES {
        let began = std::time::Instant::now();
        let outcome = tokio::time::timeout(TIMEOUT, guarantee(&stage))
            .await
            .unwrap_or_else(|_| Err("it takes too long".to_owned()));
        eprintln!(
            "{}: {name}: {outcome:?} after {:?}",
            row.language,
            began.elapsed()
        );
        failures.extend(
            outcome
                .err()
                .map(|error| format!("{}: {name}: {error}", row.language)),
        );
    }
    failures
}

/// Fails with what was seen.
fn ensure(is_so: bool, seen: &impl std::fmt::Debug) -> Outcome {
    if is_so {
        Ok(())
    } else {
        Err(format!("{seen:?}"))
    }
}

impl Stage {
    async fn make(client: &Client, row: Row) -> Self {
        let variables = [("V0", VALUES[0]), ("V1", "sandbox")]
            .into_iter()
            .chain(row.limit)
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let body = NewSandbox {
            template_id: TEMPLATE.to_owned(),
            timeout: Some(600),
            env_vars: Some(variables.collect()),
            ..NewSandbox::default()
        };
        let sandbox = client.sandboxes().create(&body).await.unwrap();
        assert!(succeeds(&sandbox, "mkdir", &[FOLDER]).await);
        let options = ContextOptions::default();
        let other = sandbox
            .contexts()
            .create(row.language, Some(FOLDER), &options)
            .await;
        Self {
            row,
            other: other.unwrap().id,
            sandbox,
        }
    }

    async fn run(&self, code: &str) -> Result<Answer, String> {
        self.run_with(
            code,
            ContextRef::Language(self.row.language),
            &RunOptions::default(),
        )
        .await
    }

    async fn run_with(
        &self,
        code: &str,
        place: ContextRef<'_>,
        options: &RunOptions,
    ) -> Result<Answer, String> {
        let execution = self.sandbox.interpreter(place).execute(code, options).await;
        Answer::read(execution.map_err(|error| format!("{error:?}"))?).await
    }

    /// Returns true if a command in the sandbox succeeds.
    async fn succeeds(&self, program: &str, arguments: &[&str]) -> bool {
        succeeds(&self.sandbox, program, arguments).await
    }

    async fn variables(&self) -> Outcome {
        let shown = |values: &[(usize, &str)]| {
            let mut words = ["-"; 10].map(str::to_owned);
            for (index, value) in values {
                let digits: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
                words[*index] = format!("x{digits}");
            }
            words.join(" ")
        };
        let of_sandbox = [(0, VALUES[0]), (1, "sandbox")];
        let before = self.run(self.row.variables).await?;
        ensure(before.stdout.trim() == shown(&of_sandbox), &before)?;
        let long = "'\"\\\n😀".repeat(2000);
        let mut of_execution: Vec<(usize, &str)> = (1..).zip(VALUES).collect();
        of_execution.push((9, &long));
        let owned = |(index, value): &(usize, &str)| (format!("V{index}"), (*value).to_owned());
        let options = RunOptions {
            env: of_execution.iter().map(owned).collect::<BTreeMap<_, _>>(),
            ..RunOptions::default()
        };
        let place = ContextRef::Language(self.row.language);
        let during = self.run_with(self.row.variables, place, &options).await?;
        of_execution.push(of_sandbox[0]);
        ensure(during.stdout.trim() == shown(&of_execution), &during)?;
        // However the code ends.
        self.run_with(self.row.raise, place, &options).await?;
        let after = self.run(self.row.variables).await?;
        ensure(after.stdout == before.stdout, &after)
    }

    async fn folder(&self) -> Outcome {
        let place = ContextRef::Id(&self.other);
        let usual = RunOptions::default();
        let seen = self.run_with(self.row.folder, place, &usual).await?;
        ensure(seen.stdout.trim() == FOLDER, &seen)?;
        self.run_with(self.row.keep, place, &usual).await?;
        let restarted = self.sandbox.contexts().restart(&self.other).await;
        ensure(restarted.is_ok(), &restarted)?;
        let seen = self.run_with(self.row.folder, place, &usual).await?;
        ensure(seen.stdout.trim() == FOLDER, &seen)?;
        let seen = self.run_with(self.row.kept, place, &usual).await?;
        ensure(seen.stdout.trim() != "kept", &seen)
    }

    async fn interrupt(&self) -> Outcome {
        self.run(self.row.keep).await?;
        let place = ContextRef::Language(self.row.language);
        let options = RunOptions::default();
        let started = self
            .sandbox
            .interpreter(place)
            .execute(self.row.endless, &options)
            .await;
        let mut execution = started.map_err(|error| format!("{error:?}"))?;
        loop {
            let line = execution
                .next()
                .await
                .map_err(|error| format!("{error:?}"))?;
            match line {
                Some(AnswerLine::Stdout { text, .. }) if text.contains("go") => break,
                Some(AnswerLine::NumberOfExecutions { .. } | AnswerLine::Stdout { .. }) => {}
                other => return Err(format!("{other:?}")),
            }
        }
        let id = execution.id.clone().ok_or("an execution has an id")?;
        let interrupted = self.sandbox.executions().interrupt(&id).await;
        ensure(interrupted.is_ok(), &interrupted)?;
        let ended = Answer::read(execution).await?;
        ensure(ended.kind() == Some(Kind::Interrupted), &ended)?;
        ensure(ended.outcome == Kind::Interrupted, &ended)?;
        let after = self.run(self.row.kept).await?;
        ensure(after.stdout.trim() == "kept", &after)
    }

    async fn errors(&self) -> Outcome {
        let answer = self.run(self.row.raise).await?;
        let expected = self.row.raised;
        let error = answer.error.as_ref().ok_or("it raises nothing")?;
        ensure(error.name == expected.name, &answer)?;
        ensure(error.value.trim() == expected.value, &answer)?;
        ensure(error.traceback.contains(expected.traceback), &answer)?;
        ensure(
            answer.kind() == Some(Kind::Runtime) && answer.outcome == Kind::Runtime,
            &answer,
        )?;
        let answer = self.run(self.row.syntax).await?;
        ensure(
            answer.kind() == Some(Kind::Syntax) && answer.outcome == Kind::Syntax,
            &answer,
        )
    }

    async fn secrets(&self) -> Outcome {
        let secret = "a-very-secret-value";
        let options = RunOptions {
            env: BTreeMap::from([("V0".to_owned(), secret.to_owned())]),
            skep: ExecuteOptions {
                secret_envs: vec!["V0".to_owned()],
                ..ExecuteOptions::default()
            },
            ..RunOptions::default()
        };
        let place = ContextRef::Language(self.row.language);
        let answer = self.run_with(self.row.secret, place, &options).await?;
        ensure(answer.stdout.trim() == "***", &answer)
    }

    async fn receipt(&self) -> Outcome {
        let answer = self.run(self.row.kept).await?;
        ensure(answer.outcome == Kind::Ok, &answer)?;
        let usage = answer.usage.as_ref().ok_or("there is no receipt")?;
        ensure(
            usage.cpu_us.is_some() && usage.peak_memory_bytes.is_some(),
            &answer,
        )?;
        ensure(usage.wall_us > 0, &answer)
    }

    async fn flood(&self) -> Outcome {
        let file = "/tmp/flooded";
        let code = self.row.flood.replace("FILE", file);
        let place = ContextRef::Language(self.row.language);
        let options = RunOptions::default();
        let interpreter = self.sandbox.interpreter(place);
        let started = interpreter.execute(&code, &options).await;
        let execution = started.map_err(|error| format!("{error:?}"))?;
        let id = execution.id.clone().ok_or("an execution has an id")?;
        // Nobody reads: when hardly any processor time is used, the kernel waits. Some have
        // threads that are never quite still.
        let last = parking_lot::Mutex::new(None);
        wait_until(TIMEOUT, || async {
            let used = self.processor_time(&id).await?;
            let before = last.lock().replace(used);
            tokio::time::sleep(Duration::from_millis(300)).await;
            match before {
                Some(before) if used > 0 && used.saturating_sub(before) < STILL => Ok(()),
                _ => Err(format!("{used} µs")),
            }
        })
        .await;
        if self.row.stops_at_once {
            let is_done = self.succeeds("test", &["-e", file]).await;
            ensure(!is_done, &"it has printed everything already")?;
        }
        let answer = Answer::read(execution).await?;
        let length = answer.stdout.len();
        ensure(
            length == 24_000_000 && answer.outcome == Kind::Ok,
            &(length, &answer.outcome),
        )
    }

    async fn processor_time(&self, execution: &str) -> Result<u64, String> {
        let usage = self
            .sandbox
            .executions()
            .usage(execution)
            .await
            .map_err(|error| format!("{error:?}"))?;
        usage.cpu_us.ok_or_else(|| format!("{usage:?}"))
    }

    async fn parallel(&self) -> Outcome {
        let file = "/tmp/parallel";
        let wait = self.row.wait.replace("FILE", file);
        let make = self.row.make.replace("FILE", file);
        let options = RunOptions::default();
        let waiting = self
            .sandbox
            .interpreter(ContextRef::Id(&self.other))
            .execute(&wait, &options)
            .await
            .map_err(|error| format!("{error:?}"))?;
        let made = self.run(&make).await?;
        ensure(made.outcome == Kind::Ok, &made)?;
        let seen = Answer::read(waiting).await?;
        ensure(seen.stdout.trim() == "seen", &seen)
    }

    async fn memory(&self) -> Outcome {
        let place = ContextRef::Id(&self.other);
        let usual = RunOptions::default();
        let limited = RunOptions {
            skep: ExecuteOptions {
                limits: LimitOptions {
                    memory_bytes: Some(MEMORY_LIMIT),
                    ..LimitOptions::default()
                },
                ..ExecuteOptions::default()
            },
            ..RunOptions::default()
        };
        let answer = self.run_with(self.row.devour, place, &limited).await?;
        ensure(answer.kind() == Some(Kind::OutOfMemory), &answer)?;
        ensure(answer.outcome == Kind::OutOfMemory, &answer)?;
        let Some(exhaust) = self.row.exhaust else {
            return Ok(());
        };
        self.run_with(self.row.keep, place, &usual).await?;
        let answer = self.run_with(exhaust.code, place, &usual).await?;
        ensure(answer.kind() == Some(Kind::OutOfMemory), &answer)?;
        ensure(answer.outcome == Kind::OutOfMemory, &answer)?;
        let after = self.run_with(self.row.kept, place, &usual).await?;
        ensure(
            (after.stdout.trim() == "kept") == exhaust.keeps_state,
            &after,
        )?;
        ensure(after.restarted.is_some() != exhaust.keeps_state, &after)
    }

    async fn death(&self) -> Outcome {
        self.run(self.row.keep).await?;
        let answer = self.run(self.row.die).await?;
        ensure(
            answer.kind() == Some(Kind::Killed) && answer.outcome == Kind::Killed,
            &answer,
        )?;
        let after = self.run(self.row.variables).await?;
        ensure(after.restarted.as_deref() == Some("killed"), &after)?;
        ensure(
            after.outcome == Kind::Ok && after.stdout.starts_with('x'),
            &after,
        )
    }
}

/// Returns true if a command in a sandbox succeeds.
async fn succeeds(sandbox: &Sandbox, program: &str, arguments: &[&str]) -> bool {
    let command = SandboxCommand::new(program).args(arguments.iter().copied());
    sandbox.commands().run(command).await.unwrap().code == 0
}
