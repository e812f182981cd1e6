//! Parts of a sandbox after it slept: a part is a row, and the forms in which it is kept are the columns.

mod parts;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_client::{Client, ForkedSandbox, Sandbox, SandboxRecord};
use skep_wire::rest::SandboxDetail;

use crate::installation::{CACHE, Installation};
use crate::languages;
use crate::sleep::{create_from, fetch_criu, run};
use parts::{Sleeper, ensure};

/// Time limit for one look on a busy host.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) type Outcome = Result<(), String>;
type Look = for<'a> fn(&'a Sleeper, Form) -> BoxFuture<'a, Outcome>;

/// The form in which a sandbox was kept, as the answer to its resume tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Memory,
    Checkpoint,
    Files,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Checkpoint => "checkpoint",
            Self::Files => "files",
        }
    }
}

/// Parts that are kept with the memory.
const OF_MEMORY: [(&str, Look); 10] = [
    ("variables of all languages", |sleeper, _| {
        sleeper.variables().boxed()
    }),
    ("a second context and its secrets", |sleeper, _| {
        sleeper.context().boxed()
    }),
    ("checkpoints of a context", |sleeper, _| {
        sleeper.checkpoint().boxed()
    }),
    ("code that runs", |sleeper, _| sleeper.execution().boxed()),
    (
        "a command, its input, files, memory and connections",
        |sleeper, form| sleeper.command(form).boxed(),
    ),
    ("a terminal", |sleeper, _| sleeper.terminal().boxed()),
    ("a watch", |sleeper, _| sleeper.watch().boxed()),
    ("locks", |sleeper, _| sleeper.locks().boxed()),
    ("a listener", |sleeper, _| sleeper.listener().boxed()),
    ("the log", |sleeper, _| sleeper.log().boxed()),
];

/// Parts that are kept in every form.
const ALWAYS: [(&str, Look); 4] = [
    ("identity", |sleeper, _| sleeper.identity().boxed()),
    ("files", |sleeper, _| sleeper.files().boxed()),
    ("environment", |sleeper, _| sleeper.environment().boxed()),
    ("the boot id, unless it boots", |sleeper, form| {
        sleeper.boot(form).boxed()
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_missing_after_a_resume() {
    fetch_criu();
    languages::build_template(&CACHE);
    let mut installation = Installation::start_configured("[pause]\ncheckpoint_after = 2\n");
    let client = installation.client();
    let sleeper = Sleeper::make(&client).await;
    let mut failures = Vec::new();
    for form in [
        Form::Memory,
        Form::Checkpoint,
        Form::Checkpoint,
        Form::Memory,
    ] {
        sleeper.sleep(&installation, form).await;
        failures.extend(look(&sleeper, form, OF_MEMORY.iter().chain(&ALWAYS)).await);
    }
    failures.extend(copies(&client, &sleeper).await.err());
    let used = sleeper.processor_seconds().await;
    sleeper.sleep(&installation, Form::Files).await;
    failures.extend(look(&sleeper, Form::Files, ALWAYS.iter()).await);
    failures.extend(sleeper.is_empty().await.err());
    assert!(failures.is_empty(), "{}", failures.join("\n"));

    sleeper.sandbox.kill().await.unwrap();
    let id = sleeper.sandbox.id();
    let is_it = |record: &SandboxRecord| record.sandbox_id == id;
    let record = client.sandboxes().find_record(is_it).await;
    let usage = record.unwrap().unwrap().usage.unwrap();
    assert!(
        usage.cpu_seconds >= used,
        "{used} s before, {usage:?} in all"
    );
    installation.stop();
}

async fn look(
    sleeper: &Sleeper,
    form: Form,
    parts: impl Iterator<Item = &(&'static str, Look)>,
) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, part) in parts {
        let looked = tokio::time::timeout(TIMEOUT, part(sleeper, form)).await;
        let outcome = looked.unwrap_or_else(|_| Err("it takes too long".to_owned()));
        failures.extend(
            outcome
                .err()
                .map(|error| format!("{}: {name}: {error}", form.name())),
        );
    }
    failures
}

/// Random numbers of the kernel, of Python, of NumPy where it is, and of OpenSSL.
const DRAW: &str = "import os, random, ssl\n\
    try:\n    import numpy\n    drawn = numpy.random.rand()\n\
    except ImportError:\n    drawn = None\n\
    print(os.urandom(8).hex(), random.random(), ssl.RAND_bytes(8).hex(), *([drawn] if drawn else []))";

/// Copies go on with the same memory, and draw numbers of their own.
async fn copies(client: &Client, sleeper: &Sleeper) -> Outcome {
    // Every generator has a state that could be copied.
    sleeper.python(DRAW).await?;
    let forked = sleeper.sandbox.fork(2).await;
    let mut drawn = vec![sleeper.python(DRAW).await?];
    for copy in forked.map_err(|error| format!("{error:?}"))? {
        let ForkedSandbox::Sandbox(copy) = copy else {
            return Err(format!("{copy:?}"));
        };
        let kept = copy.kept.as_ref().map(|kept| kept.lost.clone());
        ensure(
            kept.as_deref() == Some(&["tcp_connections".to_owned()]),
            &copy,
        )?;
        let copy = client.sandbox(&copy.sandbox_id);
        ensure(
            parts::python_in(&copy, "print(kept)").await?.trim() == "kept",
            &"a copy has the variables",
        )?;
        drawn.push(parts::python_in(&copy, DRAW).await?);
        copy.kill().await.map_err(|error| format!("{error:?}"))?;
    }
    let rows: Vec<Vec<&str>> = drawn
        .iter()
        .map(|line| line.split_whitespace().collect())
        .collect();
    for column in 0..rows[0].len() {
        let numbers: BTreeMap<&str, ()> = rows.iter().map(|row| (row[column], ())).collect();
        ensure(numbers.len() == rows.len(), &drawn)?;
    }
    Ok(())
}

/// Programs that hold what is in no image, with the names by which that is told.
const OBSTACLES: [(&str, &str); 3] = [
    (
        "message_queue",
        "import ctypes, time\n\
         rt = ctypes.CDLL(None, use_errno=True)\n\
         queue = rt.mq_open(b'/held', 0o102, 0o600, None)\n\
         assert queue >= 0, ctypes.get_errno()\n\
         print('held', flush=True)\ntime.sleep(600)",
    ),
    (
        "debugger",
        "import ctypes, os, time\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         child = os.fork()\n\
         if child == 0:\n    time.sleep(600)\n\
         libc.ptrace.argtypes = [ctypes.c_long] * 4\n\
         assert libc.ptrace(0x4206, child, 0, 0) == 0, ctypes.get_errno()\n\
         print('held', flush=True)\ntime.sleep(600)",
    ),
    (
        "terminal",
        "import os, pty, time\n\
         child, screen = pty.fork()\n\
         if child == 0:\n    kept = os.open('/dev/tty', os.O_RDWR)\n    os.write(kept, b'open')\n    time.sleep(600)\n\
         os.read(screen, 4)\n\
         print('held', flush=True)\ntime.sleep(600)",
    ),
];

async fn detail(sandbox: &Sandbox) -> SandboxDetail {
    sandbox.info().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_is_named_and_stays_as_it_was() {
    fetch_criu();
    let mut installation = Installation::start_configured("[pause]\ncheckpoint_after = 0\n");
    let client = installation.client();
    for (name, program) in OBSTACLES {
        let sandbox = create_from(&client, languages::TEMPLATE).await;
        let holder = parts::start(&sandbox, program, "held").await;
        let refused = sandbox.snapshot(None, true).await.unwrap_err();
        assert!(
            format!("{refused:?}").contains("cannot be written"),
            "{refused:?}"
        );
        let refused = sandbox.fork(1).await.unwrap_err();
        assert!(
            format!("{refused:?}").contains("cannot be written"),
            "{refused:?}"
        );
        sandbox.pause(true).await.unwrap();
        skep_testkit::wait_until(TIMEOUT, async || {
            let kept = detail(&sandbox).await.listed.kept;
            match kept.as_ref().and_then(|kept| kept.obstacle.as_deref()) {
                Some(seen) if seen == name => Ok(()),
                _ => Err(format!("{kept:?}")),
            }
        })
        .await;
        let kept = sandbox.resume(None).await.unwrap().unwrap();
        assert_eq!((kept.kept_in.as_str(), kept.lost.len()), ("memory", 0));
        let alive = format!("kill -0 {holder} && echo alive");
        assert_eq!(run(&sandbox, &alive).await, "alive");
        sandbox.kill().await.unwrap();
        let metrics = client.server_metrics().await.unwrap();
        let counted = metrics.lines().any(|line| {
            line.starts_with("skep_sandbox_store_failures_total") && line.contains(name)
        });
        assert!(counted, "{metrics}");
    }
    installation.stop();
}
