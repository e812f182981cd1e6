//! Requirements on every kind of host. `cargo xtask cgroup2` runs these tests on others than
//! this one.

mod memory;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::time::Duration;

use skep_client::{
    Client, Command, ContextRef, ExecuteOptions, ExecutionOutput, LimitOptions, NewSandbox,
    RunOptions, Sandbox, SandboxRecord,
};
use skep_native::{Native, NativeConfig};
use skep_testkit::{wait_for, wait_until};

use crate::installation::{INTERPRETER, Installation};
use crate::machine::Traces;
use crate::witness::Witness;

/// Limits of the sandboxes here.
const LIMITS: &str = "[limits]\ncpus = 1\nmemory_mib = 384\ndisk_mib = 64\npids = 96\n";
/// Nothing is kept ready, so that what is left can be told from what is kept.
const NO_POOL: &str = "[pool]\nready = 0\ndisks = 0\nwarm = []\n";
const MEMORY: u64 = 384 << 20;
/// Memory of a sandbox's agent, beside that.
const RESERVE: u64 = 64 << 20;
/// Time limit for anything here; some hosts are emulated.
const DEADLINE: Duration = Duration::from_secs(120);

/// Starts processes until it may not, and says how many and why.
const FORK: &str = "import os, time
count = 0
try:
    while count < 500:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        count += 1
except OSError as error:
    print(count, error.errno)
";

async fn create(client: &Client, template: &str) -> Sandbox {
    let body = NewSandbox {
        template_id: template.to_owned(),
        timeout: Some(1800),
        ..NewSandbox::default()
    };
    client.sandboxes().create(&body).await.unwrap()
}

async fn python(sandbox: &Sandbox, program: &str) -> skep_client::CommandOutput {
    let command = Command::new("python3").args(["-I", "-c", program]);
    let commands = sandbox.commands();
    let ran = tokio::time::timeout(DEADLINE, commands.run(command));
    ran.await.expect("a command that has an end").unwrap()
}

async fn record(client: &Client, id: &str) -> SandboxRecord {
    let records = client.sandboxes().records(true).await.unwrap();
    let found = records.into_iter().find(|record| record.sandbox_id == id);
    found.expect("it was made here")
}

fn nothing_is_left(installation: &Installation) {
    tokio::task::block_in_place(|| {
        wait_for(DEADLINE, || match Traces::find(installation) {
            left if left == Traces::default() => Ok(()),
            left => Err(format!("{left:#?}")),
        });
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_and_tell_and_nothing_is_left() {
    let installation = Installation::start_configured(&format!("{LIMITS}{NO_POOL}"));
    let client = installation.client();
    let sandbox = create(&client, "base").await;

    let bomb = python(&sandbox, "bytearray(b'x') * (1 << 30)").await;
    assert_eq!((bomb.code, bomb.status.as_str()), (-1, "signal: killed"));
    let bomb = python(&sandbox, FORK).await;
    let said = bomb.stdout_text();
    let (count, errno) = said.trim().split_once(' ').expect("it met a limit");
    assert_eq!(errno, "11", "EAGAIN");
    assert!((64..96).contains(&count.parse().unwrap()), "{said}");
    // There is no room for another process until those have ended.
    wait_until(DEADLINE, async || {
        let ran = sandbox.commands().run(Command::new("true")).await;
        ran.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let filled = "dd if=/dev/zero of=/home/user/full bs=1M 2>&1";
    let filled = sandbox.commands().run(Command::shell(filled)).await;
    let said = filled.unwrap().stdout_text();
    assert!(said.contains("No space left on device"), "{said}");
    sandbox.kill().await.unwrap();

    let record = record(&client, sandbox.id()).await;
    assert_eq!(record.end_reason.as_deref(), Some("killed"));
    let usage = record.usage.expect("what it used is known");
    assert_eq!(usage.out_of_memory_kills, 1, "{usage:?}");
    let peak = usage.memory_peak_bytes;
    assert!((MEMORY / 2..=MEMORY + RESERVE).contains(&peak), "{usage:?}");
    assert!(usage.cpu_seconds > 0.0, "{usage:?}");
    assert!(usage.disk_bytes >= 32 << 20, "{usage:?}");
    nothing_is_left(&installation);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_disk_of_a_sandbox_is_as_slow_as_it_is_told_to_be() {
    if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        // What goes through the cache is written in nobody's name there.
        return;
    }
    let limits = "[limits]\ndisk_mib = 256\ndisk_mib_per_second = 8\n";
    let installation = Installation::start_configured(&format!("{limits}{NO_POOL}"));
    let sandbox = create(&installation.client(), "base").await;
    // Past the cache: a flush of a sandbox's disk does not wait, because nothing of it is to
    // survive a crash of the host.
    let write = "dd if=/dev/zero of=/home/user/big bs=1M count=64 oflag=direct 2>/dev/null";
    let start = std::time::Instant::now();
    let written = sandbox.commands().run(Command::shell(write)).await.unwrap();
    assert_eq!(written.code, 0, "{written:?}");
    // Eight seconds at full speed, and some of it is still under way when it is fast.
    assert!(
        start.elapsed() > Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    sandbox.kill().await.unwrap();
    nothing_is_left(&installation);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_replaced_and_its_sandboxes_go_on() {
    let mut installation = Installation::start_configured(NO_POOL);
    let client = installation.client();
    let mut witness = Witness::start(&client).await;
    installation.kill();
    witness.check_cut().await;
    installation.restart();
    let client = installation.client();
    witness.check(&client).await;
    let next = create(&client, "base").await;
    next.kill().await.unwrap();
    witness.sandbox.kill().await.unwrap();
    nothing_is_left(&installation);
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_have_receipts_and_limits() {
    executions(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_of_forked_kernels_have_receipts_and_limits() {
    executions(true).await;
}

async fn executions(zygotes: bool) {
    let config = format!("{LIMITS}{NO_POOL}zygotes = {zygotes}\n");
    let mut installation = Installation::start_with_interpreter();
    installation.stop();
    installation.configure(&config);
    installation.restart();
    let client = installation.client();
    if zygotes {
        make_zygote(&client).await;
    }
    let sandbox = create(&client, INTERPRETER).await;
    let code = "import time; x = bytearray(b'x') * (64 << 20); print(len(x))";
    let receipt = execute(&sandbox, code, None).await;
    assert_eq!(receipt.stdout, "67108864\n", "{receipt:?}");
    let usage = &receipt.usage;
    assert!(usage.peak_memory_bytes > Some(64 << 20), "{usage:?}");
    assert!(usage.cpu_us > Some(0), "{usage:?}");
    assert_eq!(usage.out_of_memory_kills, None, "{usage:?}");

    let bomb = execute(&sandbox, "y = bytearray(b'y') * (1 << 30)", Some(256 << 20)).await;
    let error = bomb.error.expect("it cannot have that");
    let kind = error.kind.map(|kind| kind.name());
    assert_eq!(kind, Some("out_of_memory"), "{error:?}");
    let after = execute(&sandbox, "print(6 * 7)", None).await;
    assert_eq!(after.stdout, "42\n", "{after:?}");
    let forked = counted(&client, "skep_zygote_kernels_total{outcome=\"forked\"}").await;
    assert_eq!(forked > 0.0, zygotes, "{forked} forked");
    sandbox.kill().await.unwrap();
}

/// Makes a server have a zygote of the interpreter.
async fn make_zygote(client: &Client) {
    // The first one asks for a zygote, and need not wait for it.
    create(client, INTERPRETER).await.kill().await.unwrap();
    wait_until(DEADLINE, async || {
        let count = counted(client, "skep_zygotes").await;
        (count == 1.0).then_some(()).ok_or(count)
    })
    .await;
}

async fn execute(sandbox: &Sandbox, code: &str, memory: Option<u64>) -> ExecutionOutput {
    let options = RunOptions {
        skep: ExecuteOptions {
            limits: LimitOptions {
                memory_bytes: memory,
                ..LimitOptions::default()
            },
            ..ExecuteOptions::default()
        },
        ..RunOptions::default()
    };
    let python = sandbox.interpreter(ContextRef::Language("python"));
    let execution = python.execute(code, &options).await.unwrap();
    let output = tokio::time::timeout(DEADLINE, execution.output());
    output.await.expect("an execution has an end").unwrap()
}

/// Value of a metric of the server; 0 if it has none of that name.
async fn counted(client: &Client, name: &str) -> f64 {
    let text = client.server_metrics().await.unwrap();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or(0.0)
}

/// The unit as it is published, with another executable and data of its own.
struct Unit {
    file: PathBuf,
    folder: tempfile::TempDir,
}

const UNIT: &str = "skep-test.service";
const PORT: u16 = 31_873;

impl Unit {
    fn install() -> Self {
        let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/skep.service");
        let text = fs::read_to_string(published).unwrap();
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let start = format!(
            "ExecStart={} serve --listen 127.0.0.1:{PORT} --data-dir {} --cache-dir {}",
            env!("CARGO_BIN_EXE_skep"),
            folder.path().display(),
            crate::installation::CACHE.to_str().unwrap(),
        );
        let start = format!("Environment=SKEP_PAUSE_CHECKPOINT_AFTER=1\n{start}");
        let changed = text.replace("ExecStart=/usr/local/bin/skep serve", &start);
        assert_ne!(changed, text, "the unit starts something else");
        let file = PathBuf::from("/etc/systemd/system").join(UNIT);
        fs::write(&file, changed).unwrap();
        systemctl(&["daemon-reload"]);
        Self { file, folder }
    }

    async fn client(&self) -> Client {
        client_of_unit(self.directory()).await
    }

    fn directory(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves it on this host, and returns its data directory.
    fn keep(self) -> PathBuf {
        let unit = std::mem::ManuallyDrop::new(self);
        unit.directory().to_owned()
    }
}

/// A client of the unit's server, once it answers.
async fn client_of_unit(data_dir: &Path) -> Client {
    let url = format!("http://127.0.0.1:{PORT}");
    wait_until(DEADLINE, async || {
        let key =
            fs::read_to_string(data_dir.join("local-key")).map_err(|error| error.to_string())?;
        // The file is there a moment before what is in it.
        if key.is_empty() {
            return Err("the key is not written".to_owned());
        }
        let client = Client::new(&url, key.trim()).unwrap();
        let health = client.health().await;
        health.map(|_| client).map_err(|error| error.to_string())
    })
    .await
}

impl Drop for Unit {
    fn drop(&mut self) {
        fs::remove_file(&self.file).unwrap();
    }
}

fn systemctl(arguments: &[&str]) {
    let output = Program::new("systemctl").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Limits of a sandbox, as the kernel has them.
fn limits(id: &str) -> Vec<String> {
    let groups = fs::read_dir("/sys/fs/cgroup").unwrap();
    let group = groups
        .map(|entry| entry.unwrap().path().join(id))
        .find(|path| path.is_dir())
        .expect("a sandbox has a group");
    [
        "memory.max",
        "work/memory.max",
        "work/pids.max",
        "work/cpu.max",
    ]
    .map(|name| fs::read_to_string(group.join(name)).unwrap())
    .to_vec()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "installs a unit: `cargo xtask cgroup2` runs it on a host with systemd"]
async fn a_restart_of_the_unit_keeps_the_sandboxes_and_their_limits() {
    let unit = Unit::install();
    systemctl(&["start", UNIT]);
    let mut witness = Witness::start(&unit.client().await).await;
    let before = limits(witness.sandbox.id());
    systemctl(&["restart", UNIT]);
    witness.check_cut().await;
    witness.check(&unit.client().await).await;
    // Everything that makes systemd look at its cgroups again.
    systemctl(&["daemon-reload"]);
    systemctl(&["daemon-reexec"]);
    systemctl(&["set-property", "--runtime", "system.slice", "CPUWeight=50"]);
    systemctl(&["stop", UNIT]);
    witness.check_cut().await;
    systemctl(&["start", UNIT]);
    let client = unit.client().await;
    witness.check(&client).await;
    assert_eq!(limits(witness.sandbox.id()), before);
    witness.sandbox.kill().await.unwrap();
    let next = create(&client, "base").await;
    let ran = next.commands().run(Command::new("true")).await.unwrap();
    assert_eq!(ran.code, 0);
    next.kill().await.unwrap();
    systemctl(&["stop", UNIT]);
    let config = NativeConfig::new(unit.folder.path(), env!("CARGO_BIN_EXE_skep"));
    let native = Native::start(config).await.unwrap();
    native.dismantle().await.unwrap();
}
