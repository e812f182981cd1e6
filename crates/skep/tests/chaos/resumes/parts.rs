//! A sandbox with one of each part, and a look at each.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use skep_client::{
    Client, Command, CommandEvent, CommandStream, ContextOptions, ContextRef, Execution, Kept,
    LogQuery, NewSandbox, RunOptions, Sandbox, TerminalSize,
};

use super::{Form, Outcome};
use crate::installation::Installation;
use crate::languages::answer::Answer;
use crate::languages::{TEMPLATE, rows::ROWS};
use crate::sleep::{run, wait_until_stored};

const HOLDER: &str = include_str!("holder.py");

/// Value that is never shown in the second context.
const SECRET: &str = "a-very-secret-value";
/// File that code which runs waits for.
const SIGN: &str = "/tmp/sign";
/// Time limit for output of a program on a busy host.
const OUTPUT: Duration = Duration::from_secs(60);

/// A sandbox that holds one of each part.
pub(crate) struct Sleeper {
    pub(crate) sandbox: Sandbox,
    before: Value,
    boot: String,
    /// A context of its own, with a checkpoint.
    context: String,
    /// The context of code that runs while the sandbox sleeps.
    busy: String,
    checkpoint: String,
    holder: u32,
    terminal: u32,
    watcher: String,
    /// The execution that runs there.
    running: Mutex<Option<String>>,
    /// Last answer of the holder, and the number of questions.
    told: Mutex<(Value, u32)>,
}

/// Fails with what was seen.
pub(crate) fn ensure(is_so: bool, seen: &impl std::fmt::Debug) -> Outcome {
    if is_so {
        Ok(())
    } else {
        Err(format!("{seen:?}"))
    }
}

fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

async fn output_of(sandbox: &Sandbox, place: ContextRef<'_>, code: &str) -> Result<String, String> {
    let options = RunOptions::default();
    let execution = sandbox.interpreter(place).execute(code, &options).await;
    let answer = Answer::read(execution.map_err(text)?).await?;
    ensure(
        answer.error.is_none() && answer.restarted.is_none(),
        &answer,
    )?;
    Ok(answer.stdout)
}

/// Output of Python code in the usual context of a sandbox.
pub(crate) async fn python_in(sandbox: &Sandbox, code: &str) -> Result<String, String> {
    output_of(sandbox, ContextRef::Language("python"), code).await
}

/// Starts a Python program, and waits until it has written a word.
pub(crate) async fn start(sandbox: &Sandbox, program: &str, word: &str) -> u32 {
    let command = Command::new("python3").args(["-c", program]);
    let mut stream = sandbox.commands().start(command).await.unwrap();
    let pid = started(&mut stream).await;
    read_until(&mut stream, word).await.unwrap();
    pid
}

async fn started(stream: &mut CommandStream) -> u32 {
    match stream.next().await.unwrap() {
        Some(CommandEvent::Started(pid)) => pid,
        other => panic!("{other:?}"),
    }
}

/// Reads what a program writes, until that has a word in it.
async fn read_until(stream: &mut CommandStream, word: &str) -> Result<String, String> {
    let mut read = String::new();
    let reading = async {
        while !read.contains(word) {
            match stream.next().await.map_err(text)? {
                Some(CommandEvent::Stdout(bytes) | CommandEvent::Terminal(bytes)) => {
                    read += &String::from_utf8_lossy(&bytes);
                }
                Some(CommandEvent::Started(_)) => {}
                other => return Err(format!("{other:?} after {read:?}")),
            }
        }
        Ok(())
    };
    let done = tokio::time::timeout(OUTPUT, reading).await;
    match done {
        Ok(done) => done.map(|()| read),
        Err(_) => Err(format!("only {read:?}")),
    }
}

/// Parts of a sandbox that are told to its owner and must not change.
fn identity(detail: &Value) -> Value {
    let keys = [
        "sandboxID",
        "templateID",
        "alias",
        "envdAccessToken",
        "domain",
        "metadata",
        "lifecycle",
        "allowInternetAccess",
        "cpuCount",
        "memoryMB",
    ];
    let parts = keys.map(|key| (key.to_owned(), detail[key].clone()));
    Value::Object(parts.into_iter().collect())
}

impl Sleeper {
    pub(crate) async fn make(client: &Client) -> Self {
        let pairs = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let body = NewSandbox {
            template_id: TEMPLATE.to_owned(),
            timeout: Some(600),
            auto_pause: Some(true),
            allow_internet_access: Some(false),
            metadata: Some(pairs("owner", "me")),
            env_vars: Some(pairs("COLOUR", "green")),
            ..NewSandbox::default()
        };
        let sandbox = client.sandboxes().create(&body).await.unwrap();
        for row in ROWS {
            let place = ContextRef::Language(row.language);
            output_of(&sandbox, place, row.keep).await.unwrap();
        }
        let options = ContextOptions {
            secrets: vec![SECRET.to_owned()],
        };
        let contexts = sandbox.contexts();
        let context = contexts.create("python", None, &options).await.unwrap().id;
        let place = ContextRef::Id(&context);
        output_of(&sandbox, place, "state = 'kept'").await.unwrap();
        let checkpoint = contexts.checkpoint(&context).await.unwrap().id;
        output_of(&sandbox, place, "state = 'later'").await.unwrap();
        let command = Command::new("python3").args(["-c", HOLDER]).with_input();
        let holder = started(&mut sandbox.commands().start(command).await.unwrap()).await;
        // It does not open `/dev/tty`, as `sh` does for job control, which is in no image.
        let shell = Command::new("/bin/bash").args(["--norc"]);
        let size = TerminalSize { cols: 80, rows: 24 };
        let terminals = sandbox.terminals();
        let mut screen = terminals.open(&shell, size).await.unwrap();
        let terminal = started(&mut screen).await;
        let typed = b"word=kept; stty -echo; echo rea''dy\n";
        terminals.type_in(terminal, typed).await.unwrap();
        read_until(&mut screen, "ready").await.unwrap();
        run(
            &sandbox,
            "mkdir watched; echo mine > note; sudo touch /etc/mine",
        )
        .await;
        let boot = run(&sandbox, "cat /proc/sys/kernel/random/boot_id").await;
        let options = ContextOptions::default();
        let busy = contexts.create("python", None, &options).await.unwrap().id;
        let mut sleeper = Self {
            busy,
            before: Value::Null,
            boot,
            context,
            checkpoint,
            holder,
            terminal,
            watcher: String::new(),
            running: Mutex::default(),
            told: Mutex::default(),
            sandbox,
        };
        sleeper.before = identity(&sleeper.detail().await);
        let made = sleeper
            .watcher("CreateWatcher", json!({"path": "/home/user/watched"}))
            .await
            .unwrap();
        sleeper.watcher = made["watcherId"].as_str().unwrap().to_owned();
        let told = sleeper.ask().await.unwrap();
        *sleeper.told.lock() = (told, 1);
        sleeper
    }

    async fn detail(&self) -> Value {
        serde_json::to_value(self.sandbox.info().await.unwrap()).unwrap()
    }

    /// Pauses the sandbox while code runs in it, and resumes it from this form.
    pub(crate) async fn sleep(&self, installation: &Installation, form: Form) {
        // Held until it sleeps: a caller who leaves ends the code.
        let begun = self.begin_execution().await;
        self.sandbox.pause(form != Form::Files).await.unwrap();
        if form == Form::Checkpoint {
            wait_until_stored(installation, self.sandbox.id()).await;
        }
        // It is told a moment after its processes have gone.
        let paused = skep_testkit::wait_until(OUTPUT, async || {
            let kept = self.sandbox.info().await.unwrap().listed.kept;
            match &kept {
                Some(seen) if seen.kept_in == form.name() => Ok(kept),
                _ => Err(format!("{kept:?}")),
            }
        })
        .await;
        drop(begun);
        let kept = self.sandbox.resume(None).await.unwrap();
        let lost = match form {
            Form::Memory => vec![],
            Form::Checkpoint => vec!["tcp_connections"],
            Form::Files => vec!["processes", "memory", "memory_files", "tcp_connections"],
        };
        let expected = Kept {
            kept_in: form.name().to_owned(),
            lost: lost.into_iter().map(str::to_owned).collect(),
            obstacle: None,
        };
        assert_eq!(paused.as_ref(), Some(&expected));
        assert_eq!(kept.as_ref(), Some(&expected));
    }

    pub(crate) async fn python(&self, code: &str) -> Result<String, String> {
        python_in(&self.sandbox, code).await
    }

    async fn in_context(&self, code: &str) -> Result<String, String> {
        output_of(&self.sandbox, ContextRef::Id(&self.context), code).await
    }

    pub(crate) async fn variables(&self) -> Outcome {
        for row in ROWS {
            let place = ContextRef::Language(row.language);
            let seen = output_of(&self.sandbox, place, row.kept).await?;
            ensure(seen.trim() == "kept", &(row.language, seen))?;
        }
        Ok(())
    }

    pub(crate) async fn context(&self) -> Outcome {
        let code = format!("print(state, '{SECRET}')");
        let seen = self.in_context(&code).await?;
        ensure(seen.trim() == "later ***", &seen)
    }

    pub(crate) async fn checkpoint(&self) -> Outcome {
        let back = self
            .sandbox
            .contexts()
            .roll_back(&self.context, &self.checkpoint)
            .await;
        back.map_err(text)?;
        let seen = self.in_context("print(state)\nstate = 'later'").await?;
        ensure(seen.trim() == "kept", &seen)
    }

    async fn begin_execution(&self) -> Execution {
        run(&self.sandbox, &format!("rm -f {SIGN}")).await;
        let code = format!(
            "import os, time\nwhile not os.path.exists('{SIGN}'): time.sleep(0.01)\nprint('seen')"
        );
        let place = ContextRef::Id(&self.busy);
        let options = RunOptions::default();
        let interpreter = self.sandbox.interpreter(place);
        let begun = interpreter.execute(&code, &options).await.unwrap();
        self.running.lock().clone_from(&begun.id);
        begun
    }

    pub(crate) async fn execution(&self) -> Outcome {
        let id = self.running.lock().take().ok_or("no code runs")?;
        let rest = self.sandbox.executions().attach(&id).await.map_err(text)?;
        run(&self.sandbox, &format!("touch {SIGN}")).await;
        let answer = Answer::read(rest).await?;
        ensure(
            answer.stdout.trim() == "seen" && answer.usage.is_some(),
            &answer,
        )
    }

    /// Asks the holder what it has, by its standard input.
    async fn ask(&self) -> Result<Value, String> {
        let number = {
            let mut told = self.told.lock();
            told.1 += 1;
            told.1
        };
        let commands = self.sandbox.commands();
        let mut stream = commands.attach(self.holder).await.map_err(text)?;
        let line = format!("question-{number}\n");
        let sent = commands.send_input(self.holder, line.as_bytes()).await;
        sent.map_err(text)?;
        let read = read_until(&mut stream, "}\n").await?;
        let said: Value = serde_json::from_str(read.trim()).map_err(text)?;
        ensure(said["line"] == line.trim(), &said)?;
        Ok(said)
    }

    pub(crate) async fn command(&self, form: Form) -> Outcome {
        let said = self.ask().await?;
        for (key, expected) in [
            ("opened", "open"),
            ("deleted", "deleted"),
            ("shared", "shared"),
            ("pipe", "in the pipe"),
            ("mapped", "mapped"),
            ("environment", "green"),
        ] {
            ensure(said[key] == expected, &(key, &said))?;
        }
        ensure(said["child"] == true, &said)?;
        // Cut once, it stays so.
        let before = std::mem::replace(&mut self.told.lock().0, said.clone());
        let is_cut = form == Form::Checkpoint || before["tcp"] == "cut";
        ensure((said["tcp"] == "cut") == is_cut, &said)?;
        let passed = |clock: &str| {
            let read = |value: &Value| value[clock].as_f64().unwrap_or_default();
            read(&said) - read(&before)
        };
        let slept = passed("wall") - passed("monotonic");
        ensure(
            (passed("monotonic") - passed("boottime")).abs() < 0.1,
            &said,
        )?;
        match form {
            Form::Memory => ensure(slept.abs() < 0.1, &slept),
            Form::Checkpoint => ensure(slept > 0.05, &slept),
            Form::Files => Err("it is gone".to_owned()),
        }
    }

    pub(crate) async fn terminal(&self) -> Outcome {
        let mut screen = self
            .sandbox
            .commands()
            .attach(self.terminal)
            .await
            .map_err(text)?;
        let typed = b"echo $wo''rd-$((6 * 7)) $(stty size)\n";
        let typed = self.sandbox.terminals().type_in(self.terminal, typed).await;
        typed.map_err(text)?;
        let seen = read_until(&mut screen, "24 80").await?;
        ensure(seen.contains("-42"), &seen)
    }

    async fn watcher(&self, method: &str, body: Value) -> Result<Value, String> {
        let port = self.sandbox.port(49983);
        let path = format!("/filesystem.Filesystem/{method}");
        let request = port
            .request(reqwest::Method::POST, &path)
            .await
            .map_err(text)?
            .json(&body);
        let answer = port.send("watch", request).await.map_err(text)?;
        answer.json().await.map_err(text)
    }

    pub(crate) async fn watch(&self) -> Outcome {
        let body = json!({"watcherId": self.watcher});
        self.watcher("GetWatcherEvents", body.clone()).await?;
        run(&self.sandbox, "touch watched/one; rm watched/one").await;
        let mut seen = Vec::new();
        skep_testkit::wait_until(OUTPUT, async || {
            let events = self.watcher("GetWatcherEvents", body.clone()).await?;
            match events["events"].as_array() {
                Some(events) if !events.is_empty() => Ok(events.clone()),
                _ => Err(format!("{events}")),
            }
        })
        .await
        .into_iter()
        .for_each(|event| seen.push(event["name"].clone()));
        ensure(seen.iter().all(|name| name == "one"), &seen)
    }

    pub(crate) async fn locks(&self) -> Outcome {
        let script = "flock -n /tmp/flocked true; echo $?; python3 -c \"import fcntl\ntry:\n  \
                      fcntl.lockf(open('/tmp/ranged', 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n  print('free')\n\
                      except OSError: print('held')\"";
        let seen = run(&self.sandbox, script).await;
        ensure(seen == "1\nheld", &seen)
    }

    pub(crate) async fn listener(&self) -> Outcome {
        let script = "python3 -c \"import socket; \
                      print(socket.create_connection(('127.0.0.1', 8123)).recv(5).decode())\"";
        let seen = run(&self.sandbox, script).await;
        ensure(seen == "hello", &seen)
    }

    pub(crate) async fn log(&self) -> Outcome {
        let lines = self.sandbox.logs(&LogQuery::default()).await;
        ensure(lines.as_ref().is_ok_and(|lines| !lines.is_empty()), &lines)
    }

    pub(crate) async fn identity(&self) -> Outcome {
        let now = identity(&self.detail().await);
        ensure(now == self.before, &(&now, &self.before))
    }

    pub(crate) async fn files(&self) -> Outcome {
        let seen = run(&self.sandbox, "cat note opened; ls /etc/mine").await;
        ensure(seen == "mine\nopen/etc/mine", &seen)
    }

    pub(crate) async fn environment(&self) -> Outcome {
        let seen = run(&self.sandbox, "echo $COLOUR $(whoami) $PWD").await;
        ensure(seen == "green user /home/user", &seen)
    }

    pub(crate) async fn boot(&self, form: Form) -> Outcome {
        let boot = run(&self.sandbox, "cat /proc/sys/kernel/random/boot_id").await;
        ensure((boot == self.boot) != (form == Form::Files), &boot)
    }

    /// Nothing is left of what ran, in a sandbox of which only the files were kept.
    pub(crate) async fn is_empty(&self) -> Outcome {
        let commands = self.sandbox.commands();
        let attached = commands.attach(self.holder).await;
        let gone = match attached {
            Ok(mut stream) => stream.next().await.err(),
            Err(error) => Some(error),
        };
        ensure(gone.is_some(), &gone)?;
        let seen = run(&self.sandbox, "ls /dev/shm; pgrep -c python3 || true").await;
        ensure(seen == "0", &seen)
    }

    /// Processor time of all runs until now.
    pub(crate) async fn processor_seconds(&self) -> f64 {
        let points = self.sandbox.metrics().await.unwrap();
        points.last().map_or(0.0, |point| point.cpu_seconds)
    }
}
