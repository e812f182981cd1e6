//! Memory that goes to the disk and comes back, on every kind of host, and across its restart.

use std::fs;
use std::path::PathBuf;

use skep_client::{Client, ForkedSandbox, Sandbox, SandboxState};

use super::{
    DEADLINE, LIMITS, NO_POOL, UNIT, Unit, client_of_unit, counted, create, execute, make_zygote,
    nothing_is_left, systemctl,
};
use crate::installation::{INTERPRETER, INTERPRETERS, Installation};
use crate::sleep::{COUNTER, fetch_criu_into, next_count, run, state, wait_until_stored};

/// Notes for the test after the restart of the host: a line each.
const NOTES: &str = "/var/tmp/skep-restart-of-the-host";

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

async fn prints(sandbox: &Sandbox, code: &str) -> String {
    let output = execute(sandbox, code, None).await;
    assert!(output.error.is_none(), "{output:?}");
    output.stdout.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interpreter_on_the_disk_is_woken_copied_and_put_back() {
    wake_copy_and_put_back(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interpreter_that_was_forked_is_woken_copied_and_put_back() {
    wake_copy_and_put_back(true).await;
}

async fn wake_copy_and_put_back(zygotes: bool) {
    fetch_criu_into(&INTERPRETERS);
    let mut installation = Installation::start_with_interpreter();
    installation.stop();
    let stored = format!("zygotes = {zygotes}\n[pause]\ncheckpoint_after = 1\n");
    installation.configure(&format!("{LIMITS}{NO_POOL}{stored}"));
    installation.restart();
    let client = installation.client();
    if zygotes {
        make_zygote(&client).await;
    }
    let sandbox = create(&client, INTERPRETER).await;
    assert_eq!(prints(&sandbox, "x = 41\nprint(x)").await, "41");
    let forked = counted(&client, "skep_zygote_kernels_total{outcome=\"forked\"}").await;
    assert_eq!(forked > 0.0, zygotes, "{forked} forked");
    run(&sandbox, COUNTER).await;
    let count = next_count(&sandbox).await;

    sandbox.pause(true).await.unwrap();
    wait_until_stored(&installation, sandbox.id()).await;
    sandbox.resume(None).await.unwrap();
    assert_eq!(prints(&sandbox, "print(x + 1)").await, "42");
    let next = next_count(&sandbox).await;
    assert!(next > count && next < count + 1000, "{count} to {next}");

    let kept = sandbox.snapshot(Some("kept"), true).await.unwrap();
    assert_eq!(prints(&sandbox, "x = 7\nprint(x)").await, "7");
    for copy in copies(&client, &sandbox, 2).await {
        assert_eq!(prints(&copy, "print(x)\nx = 8").await, "7");
        next_count(&copy).await;
        copy.kill().await.unwrap();
    }
    let new = create(&client, "kept").await;
    assert_eq!(prints(&new, "print(x)").await, "41");
    new.kill().await.unwrap();
    assert_eq!(prints(&sandbox, "print(x)").await, "7");
    sandbox.roll_back(&kept.snapshot_id).await.unwrap();
    assert_eq!(prints(&sandbox, "print(x)").await, "41");
    next_count(&sandbox).await;

    is_still_limited(&sandbox).await;
    sandbox.kill().await.unwrap();
    client.forget_snapshot(&kept.snapshot_id).await.unwrap();
    // A zygote stays, as long as it likes.
    if !zygotes {
        nothing_is_left(&installation);
    }
}

async fn copies(client: &Client, sandbox: &Sandbox, count: u32) -> Vec<Sandbox> {
    let copies = sandbox.fork(count).await.unwrap().into_iter();
    let made = copies.map(|copy| match copy {
        ForkedSandbox::Sandbox(copy) => client.sandbox(&copy.sandbox_id),
        ForkedSandbox::Error(error) => panic!("{error:?}"),
    });
    made.collect()
}

/// The agent of a restored sandbox counts and limits the kernels that came with it.
async fn is_still_limited(sandbox: &Sandbox) {
    let bomb = "y = bytearray(b'y') * (1 << 30)";
    let bomb = execute(sandbox, bomb, Some(256 << 20)).await;
    assert!(bomb.usage.peak_memory_bytes.is_some(), "{bomb:?}");
    let error = bomb.error.expect("it cannot have that");
    let kind = error.kind.map(|kind| kind.name());
    assert_eq!(kind, Some("out_of_memory"), "{error:?}");
    assert_eq!(prints(sandbox, "print(6 * 7)").await, "42");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the host is to be restarted after it: `cargo xtask cgroup2` does that"]
async fn before_a_restart_of_the_host_a_sandbox_is_paused() {
    let unit = Unit::install();
    systemctl(&["start", UNIT]);
    let client = unit.client().await;
    let sandbox = create(&client, "base").await;
    let script = format!("cat {BOOT_ID} > boot; echo shared > /dev/shm/note; {COUNTER}");
    run(&sandbox, &script).await;
    let count = next_count(&sandbox).await;
    sandbox.pause(true).await.unwrap();
    let directory = unit.directory().join("sandboxes").join(sandbox.id());
    skep_testkit::wait_until(DEADLINE, async || {
        let is_stored = !directory.exists();
        is_stored.then_some(()).ok_or("it has processes")
    })
    .await;
    let boot = fs::read_to_string(BOOT_ID).unwrap();
    let (id, directory) = (sandbox.id().to_owned(), unit.keep());
    let notes = format!("{}\n{id}\n{count}\n{boot}", directory.display());
    fs::write(NOTES, notes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the host is to be restarted before it: `cargo xtask cgroup2` does that"]
async fn after_the_restart_of_the_host_it_goes_on() {
    let notes = fs::read_to_string(NOTES).unwrap();
    let lines: Vec<&str> = notes.lines().collect();
    let (directory, id) = (PathBuf::from(lines[0]), lines[1]);
    let count: u64 = lines[2].parse().unwrap();
    assert_ne!(fs::read_to_string(BOOT_ID).unwrap().trim(), lines[3]);
    systemctl(&["start", UNIT]);
    let client = client_of_unit(&directory).await;
    assert_eq!(state(&client, id).await, SandboxState::Paused);
    let sandbox = client.sandbox(id);
    sandbox.resume(None).await.unwrap();
    let next = next_count(&sandbox).await;
    assert!(next > count && next < count + 1000, "{count} to {next}");
    assert_eq!(run(&sandbox, "cat /dev/shm/note").await, "shared");
    let same = format!("cmp boot {BOOT_ID} && echo same");
    assert_eq!(run(&sandbox, &same).await, "same");
    // And once more from here, as nothing is what it was.
    sandbox.pause(true).await.unwrap();
    sandbox.resume(None).await.unwrap();
    assert!(next_count(&sandbox).await > next);
    sandbox.kill().await.unwrap();
    systemctl(&["stop", UNIT]);
    fs::remove_file(NOTES).unwrap();
}
