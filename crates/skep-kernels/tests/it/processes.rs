//! Kernels that are processes: started, heard, interrupted, and gone.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group};
use skep_kernels::fake::{FakeSettings, plain_files};
use skep_kernels::{
    Command, ContextError, Contexts, CopyError, ExecuteRequest, Exit, Inherited, KernelSpecs,
    ProcessMeter, Processes, Started,
};
use skep_testkit::wait_until;

use crate::talk::{all, next, request, run};

/// Ordinary children of the test.
#[derive(Debug, Default)]
pub(crate) struct Children {
    pub(crate) out_of_memory_kills: AtomicU64,
    pub(crate) inherited: Mutex<Inherited>,
    pub(crate) is_short_of_memory: AtomicBool,
    /// Descriptors that were offered to forks, of which none became a kernel.
    stolen: Mutex<Vec<[OwnedFd; 3]>>,
    /// Processes that said hello as copies of kernels.
    adopted: Mutex<Vec<u32>>,
    started: Mutex<Vec<u32>>,
}

impl Processes for Children {
    fn start(
        &self,
        command: Command,
        standard: [OwnedFd; 3],
    ) -> BoxFuture<'_, io::Result<Started>> {
        async move {
            let [input, output, error] = standard;
            let mut child = std::process::Command::new(&command.arguments[0])
                .args(&command.arguments[1..])
                .envs(&command.environment)
                .stdin(input)
                .stdout(output)
                .stderr(error)
                .process_group(0)
                .spawn()?;
            let pid = child.id();
            self.started.lock().push(pid);
            let (sender, exit) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || {
                let status = child.wait().unwrap();
                sender.send(Exit::of(status.code(), status.signal())).ok();
            });
            Ok(Started {
                pid,
                exit: exit.map(|exit| exit.unwrap_or(Exit::Unknown)).boxed(),
                meter: Arc::new(ProcessMeter::new(pid)),
            })
        }
        .boxed()
    }

    fn fork(
        &self,
        _command: Command,
        standard: [OwnedFd; 3],
    ) -> BoxFuture<'_, io::Result<Option<Started>>> {
        self.stolen.lock().push(standard);
        async { Ok(None) }.boxed()
    }

    fn adopt(&self, pid: u32) -> BoxFuture<'_, io::Result<Started>> {
        self.adopted.lock().push(pid);
        if self.started.lock().contains(&pid) {
            return async { Err(io::ErrorKind::AlreadyExists.into()) }.boxed();
        }
        async move {
            let process = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            let pidfd = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
            let (sender, exit) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || {
                let mut ends = [PollFd::new(&pidfd, PollFlags::IN)];
                rustix::event::poll(&mut ends, None).unwrap();
                sender.send(Exit::Unknown).ok();
            });
            Ok(Started {
                pid,
                exit: exit.map(|exit| exit.unwrap_or(Exit::Unknown)).boxed(),
                meter: Arc::new(ProcessMeter::new(pid)),
            })
        }
        .boxed()
    }

    fn signal(&self, pid: u32, signal: Signal) -> io::Result<()> {
        let leader = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        Ok(kill_process_group(leader, signal)?)
    }

    fn make_directory(&self) -> io::Result<PathBuf> {
        Ok(tempfile::tempdir()?.keep())
    }

    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        std::fs::write(path, content)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
    }

    fn remove_directory(&self, directory: &Path) -> io::Result<()> {
        std::fs::remove_dir_all(directory)
    }

    fn read_file(&self, path: &Path, longest: u64) -> io::Result<Vec<u8>> {
        let content = std::fs::read(path)?;
        assert!(content.len() as u64 <= longest);
        Ok(content)
    }

    fn names_in(&self, directory: &Path, most: usize) -> io::Result<Vec<String>> {
        plain_files::names_in(directory, most)
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn modified(&self, path: &Path) -> Option<SystemTime> {
        plain_files::modified(path)
    }

    fn null_device(&self) -> io::Result<OwnedFd> {
        let options = std::fs::File::options().read(true).write(true).clone();
        Ok(options.open("/dev/null")?.into())
    }

    fn out_of_memory_kills(&self) -> Option<u64> {
        Some(self.out_of_memory_kills.load(Ordering::SeqCst))
    }

    fn is_short_of_memory(&self) -> BoxFuture<'static, bool> {
        let is_short = self.is_short_of_memory.load(Ordering::SeqCst);
        async move { is_short }.boxed()
    }

    fn inherited(&self) -> Inherited {
        self.inherited.lock().clone()
    }
}

struct World {
    children: Arc<Children>,
    contexts: Contexts,
    python: String,
    _directory: tempfile::TempDir,
}

/// Contexts whose kernels are processes of the simple kernel, in one of its modes.
fn world(mode: &str) -> World {
    world_with(mode, serde_json::Value::Null)
}

/// The same, with what their template says about its zygote.
fn world_with(mode: &str, zygote: serde_json::Value) -> World {
    let directory = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/simple_kernel.py");
    let python = directory.path().join("python");
    std::fs::create_dir(&python).unwrap();
    let specification = serde_json::json!({
        "argv": ["python3", script, mode],
        "env": {"FROM_SPECIFICATION": "yes"},
        "zygote": zygote,
    });
    std::fs::write(python.join("kernel.json"), specification.to_string()).unwrap();
    let children = Arc::new(Children::default());
    let directories = vec![
        directory.path().join("missing"),
        directory.path().to_owned(),
    ];
    let installed = KernelSpecs::new(move || directories.clone(), Arc::clone(&children) as _);
    let settings = Arc::new(FakeSettings::default());
    let contexts = Contexts::new(Arc::new(installed), settings, &["python"]);
    let python = contexts.default_of("python").unwrap();
    World {
        children,
        contexts,
        python,
        _directory: directory,
    }
}

#[tokio::test]
async fn a_kernel_is_started_and_runs_code() {
    let world = world("good");
    let with_variables = ExecuteRequest {
        variables: BTreeMap::from([("A".to_owned(), "'\"\n😀".to_owned())]),
        ..request("say(env['A']); say(os.environ['FROM_SPECIFICATION'])")
    };
    let execution = world
        .contexts
        .execute(&world.python, with_variables)
        .unwrap();
    assert_eq!(
        all(execution).await,
        ["accepted 1", "'\"\n😀", "yes", "ended Ok"]
    );
}

#[tokio::test]
async fn what_was_offered_to_a_fork_that_failed_is_never_used_again() {
    let world = world_with("good", serde_json::json!({"argv": ["zygote"]}));
    let words = run(&world.contexts, &world.python, "say('hello')").await;
    assert_eq!(words, ["accepted 1", "hello", "ended Ok"]);
    let stolen = std::mem::take(&mut *world.children.stolen.lock());
    assert!(!stolen.is_empty(), "a fork was asked for");
    for [socket, ..] in stolen {
        // Whoever kept it hears nothing, and is not heard.
        let mut piece = [0; 16];
        assert_eq!(rustix::io::read(&socket, &mut piece), Ok(0));
        let flags = rustix::net::SendFlags::NOSIGNAL;
        let said = rustix::net::send(&socket, b"forged", flags);
        assert_eq!(said, Err(rustix::io::Errno::PIPE));
    }
}

#[tokio::test]
async fn a_copy_of_a_kernel_is_who_the_host_says_it_is() {
    let world = world("forks");
    let (contexts, python) = (&world.contexts, &world.python);
    run(contexts, python, "x = 1").await;
    let checkpoint = contexts.checkpoint(python).await.unwrap().id;
    run(contexts, python, "x = 2").await;
    contexts.roll_back(python, &checkpoint).await.unwrap();
    let said = run(contexts, python, "say(str(x)); say(str(os.getpid()))").await;
    let adopted = world.children.adopted.lock().clone();
    assert_eq!(said[..3], ["accepted 2", "1", &adopted[1].to_string()]);
    let fork = contexts.fork(python).await.unwrap();
    let said = run(contexts, &fork.id, "say(str(x))").await;
    assert_eq!(said, ["accepted 3", "1", "ended Ok"]);
    contexts.remove(python).await.unwrap();
    let [checkpoint, kernel, fork] = world.children.adopted.lock()[..] else {
        panic!("three copies were made");
    };
    for (pid, lives) in [(checkpoint, false), (kernel, false), (fork, true)] {
        wait_until(Duration::from_secs(30), || async {
            (is_alive(pid) == lives).then_some(()).ok_or(pid)
        })
        .await;
    }
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}

#[tokio::test]
async fn a_kernel_that_lies_about_its_copy_gets_nothing_for_it() {
    let world = world("lies");
    let (contexts, python) = (&world.contexts, &world.python);
    run(contexts, python, "x = 1").await;
    let refused = contexts.fork(python).await;
    assert!(matches!(refused, Err(CopyError::Process(_))), "{refused:?}");
    // It said that it is process 1.
    assert_eq!(
        *world.children.adopted.lock(),
        *world.children.started.lock()
    );
    // Nobody listens to what it offered instead.
    let said = run(contexts, python, "say(str(x)); copy.recv(1)").await;
    let expected = [
        "accepted 2",
        "1",
        "raised ConnectionResetError",
        "ended Runtime",
    ];
    assert_eq!(said, expected);
}

#[tokio::test]
async fn a_kernel_that_is_not_copied_goes_on() {
    let world = world("forks");
    let (contexts, python) = (&world.contexts, &world.python);
    run(contexts, python, "refusal = 'no'").await;
    let refused = contexts.fork(python).await.unwrap_err();
    assert_eq!(refused.to_string(), "the context cannot be copied now: no");
    assert_eq!(run(contexts, python, "1").await, ["accepted 2", "ended Ok"]);

    let world = self::world("silent");
    let (contexts, python) = (&world.contexts, &world.python);
    run(contexts, python, "x = 1").await;
    let refused = contexts.checkpoint(python).await;
    assert!(matches!(refused, Err(CopyError::Silent)), "{refused:?}");
    let said = run(contexts, python, "say(str(x))").await;
    assert_eq!(said, ["accepted 2", "1", "ended Ok"]);
}

#[tokio::test]
async fn a_kernel_that_fails_to_start_says_why() {
    for (mode, reason) in [
        ("broken", "there is no such module"),
        ("old", "speaks version 0 of the protocol, not 1"),
    ] {
        let world = world(mode);
        let Err(ContextError::Start(error)) = world.contexts.ready().await else {
            panic!("{mode} is ready");
        };
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[tokio::test]
async fn what_is_not_installed_is_not_started() {
    let world = world("good");
    for language in ["ruby", "", "..", "a/b", "python\0"] {
        let made = world.contexts.create(language, None).await;
        assert!(
            matches!(made, Err(ContextError::Start(_))),
            "{language}: {made:?}"
        );
    }
}

#[tokio::test]
async fn what_was_said_before_the_end_is_heard() {
    let world = world("good");
    let code = "for n in range(1000): say(str(n))\nos._exit(3)";
    let words = run(&world.contexts, &world.python, code).await;
    assert_eq!(words.len(), 1003, "{:?}", words.last());
    assert_eq!(
        words[1000..],
        ["999", "failed Died(Code(3))", "ended KernelDied"]
    );
    let code = "say('bye'); os.kill(os.getpid(), 11)";
    assert_eq!(
        run(&world.contexts, &world.python, code).await,
        [
            "lost Died(Code(3))",
            "accepted 1",
            "bye",
            "failed Died(Signal(11))",
            "ended KernelDied"
        ]
    );
}

#[tokio::test]
async fn a_child_that_holds_the_socket_does_not_hide_the_end_of_its_kernel() {
    let world = world("good");
    let code = "os.set_inheritable(peer.fileno(), True)\nif os.fork() == 0:\n    os.setsid(); say(str(os.getpid())); time.sleep(1000)\ntime.sleep(0.3); os._exit(0)";
    let words = run(&world.contexts, &world.python, code).await;
    assert_eq!(words[2..], ["failed Died(Code(0))", "ended KernelDied"]);
    let child = Pid::from_raw(words[1].parse().unwrap()).unwrap();
    rustix::process::kill_process(child, Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_kill_for_want_of_memory_is_told_apart_from_other_kills() {
    let world = world("good");
    let code = "os.kill(os.getpid(), 9)";
    let words = run(&world.contexts, &world.python, code).await;
    assert_eq!(words[1..], ["failed Died(Signal(9))", "ended Killed"]);
    // The count is compared with what it was when the kernel started, so it must rise while
    // the code runs.
    let directory = tempfile::tempdir().unwrap();
    let flag = directory.path().join("go on");
    let code = format!(
        "say('go')\nwhile not os.path.exists({flag:?}): time.sleep(0.01)\nos.kill(os.getpid(), 9)"
    );
    let mut execution = world
        .contexts
        .execute(&world.python, request(&code))
        .unwrap();
    while next(&mut execution).await.expect("the code says go first") != "go" {}
    let kills = &world.children.out_of_memory_kills;
    kills.store(1, Ordering::SeqCst);
    std::fs::write(&flag, "").unwrap();
    let mut words = Vec::new();
    while let Some(word) = next(&mut execution).await {
        words.push(word);
    }
    assert_eq!(words, ["failed Died(OutOfMemory)", "ended OutOfMemory"]);
}

#[tokio::test]
async fn an_interrupt_reaches_the_code_and_what_it_started() {
    let world = world("good");
    run(&world.contexts, &world.python, "kept = 'kept'").await;
    let code = "say('go'); os.system('sleep 1000')\ntime.sleep(1000)";
    let mut execution = world
        .contexts
        .execute(&world.python, request(code))
        .unwrap();
    next(&mut execution).await;
    assert_eq!(next(&mut execution).await.as_deref(), Some("go"));
    drop(execution);
    assert_eq!(
        run(&world.contexts, &world.python, "say(kept)").await,
        ["accepted 3", "kept", "ended Ok"]
    );
}

#[tokio::test]
async fn a_kernel_that_sends_garbage_is_ended() {
    let world = world("good");
    for garbage in ["b'\\0\\0\\0\\2[]'", "b'\\0\\0\\0\\4\\xff\\xff\\xff\\xff'"] {
        let code = format!("peer.sendall({garbage}); time.sleep(1000)");
        let words = run(&world.contexts, &world.python, &code).await;
        assert_eq!(
            words[words.len() - 2..],
            ["failed Died(Confused)", "ended KernelDied"]
        );
    }
}

#[tokio::test]
async fn a_kernel_that_closes_its_socket_is_ended() {
    let world = world("good");
    let code = "peer.close(); os.closerange(0, 100); time.sleep(1000)";
    let words = run(&world.contexts, &world.python, code).await;
    assert_eq!(words[1..], ["failed Died(Signal(9))", "ended Killed"]);
}

#[tokio::test]
async fn a_message_that_is_too_large_is_left_out_and_the_rest_is_heard() {
    let world = world("good");
    let code = "say('x' * (129 << 20)); say('after')";
    let words = run(&world.contexts, &world.python, code).await;
    assert!(words[1].starts_with("too large 135"), "{}", words[1]);
    assert_eq!(words[2..], ["after", "ended Ok"]);
}

#[tokio::test]
async fn a_removed_context_leaves_no_process() {
    let world = world("good");
    let words = run(&world.contexts, &world.python, "say(str(os.getpid()))").await;
    let process = format!("/proc/{}", words[1]);
    assert!(Path::new(&process).exists());
    world.contexts.remove(&world.python).await.unwrap();
    wait_until(Duration::from_secs(10), || async {
        if Path::new(&process).exists() {
            Err("the process is still there")
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test]
async fn an_execution_is_measured_from_outside() {
    let world = world("good");
    let code = "end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nkept = bytearray(64 << 20)";
    let mut execution = world
        .contexts
        .execute(&world.python, request(code))
        .unwrap();
    let mut receipt = None;
    while let Some(update) = execution.updates.recv().await {
        if let skep_kernels::Update::Ended(ended) = update {
            receipt = Some(ended);
        }
    }
    let receipt = receipt.unwrap();
    let usage = receipt.spent.unwrap();
    assert!(usage.processor >= Duration::from_millis(280), "{usage:?}");
    assert!(receipt.wall >= usage.processor.mul_f64(0.8), "{receipt:?}");
    assert!(usage.peak_memory.unwrap() > 64 << 20, "{usage:?}");
}
