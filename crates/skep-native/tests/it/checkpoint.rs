//! Sandboxes that are written to images with their memory, and go on from there.
//!
//! CRIU is fetched as `skep up` fetches it if the host has none.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_checkpoint::{Criu, SUITE, fetch};
use skep_isolation::{
    AfterCheckpoint, ContractSubject, Isolation, LaunchRequest, Launched, RestoreRequest,
    RestoreTarget, check_contract,
};
use skep_native::{CheckpointConfig, CheckpointedAgents, Defence, NativeConfig};
use skep_packages::PackageSettings;
use skep_types::{Capability, Checkpoint, ExecutionId, ImageKind, ImagePurpose, Redacted};

use crate::bench::{Bench, DEADLINE, ask, ask_at, has_unified_cgroups};

crate::tests![
    memory_survives_the_end_of_its_processes,
    processes_files_and_pipes_go_on_where_they_stopped,
    a_sandbox_is_restored_again_and_again_and_nothing_leaks,
    copies_have_ids_addresses_and_configurations_of_their_own,
    a_restored_sandbox_is_as_limited_as_a_launched_one,
    a_watch_of_a_directory_goes_on,
    an_image_that_was_edited_is_refused,
    an_image_of_another_version_of_cgroups_is_refused,
    what_has_more_rights_than_a_launch_gives_is_ended_before_it_runs,
    a_sandbox_that_cannot_be_written_runs_on_or_stands_as_it_did,
    the_next_server_resumes_from_an_image,
    a_sandbox_that_is_put_back_to_anothers_memory_stays_who_it_is,
    the_contract_holds_for_images_with_memory,
];

/// Place to which `skep up` fetches CRIU.
const FETCHED: &str = "/var/cache/skep/criu";

/// CRIU, fetched if this host has none. That needs the host's network.
#[expect(
    clippy::disallowed_methods,
    reason = "a test program is its own `main`"
)]
fn criu() -> Criu {
    static CRIU: OnceLock<Criu> = OnceLock::new();
    let find = || Criu::find(Path::new(FETCHED), &std::env::temp_dir().join("skep-tests"));
    let found = CRIU.get_or_init(|| {
        find().unwrap_or_else(|_missing| {
            let host = PackageSettings::detect(std::env::vars()).unwrap();
            let sources = host.apt().sources_for(SUITE).unwrap();
            fetch(
                Path::new(FETCHED),
                &sources,
                &host.apt().configuration(None),
            )
            .unwrap();
            find().unwrap()
        })
    });
    found.clone()
}

/// The agents of these tests, by their own protocol.
#[derive(Debug)]
struct TestAgents;

async fn tell(address: IpAddr, word: &str) -> io::Result<()> {
    match ask_at(address, word).await?.as_str() {
        "done" => Ok(()),
        answer => Err(io::Error::other(answer.to_owned())),
    }
}

impl CheckpointedAgents for TestAgents {
    fn prepare<'a>(
        &'a self,
        address: IpAddr,
        _: &'a Redacted<Vec<u8>>,
    ) -> BoxFuture<'a, io::Result<()>> {
        async move { tell(address, "prepare").await }.boxed()
    }

    fn go_on<'a>(
        &'a self,
        address: IpAddr,
        known: &'a Redacted<Vec<u8>>,
        new: Option<&'a Redacted<Vec<u8>>>,
    ) -> BoxFuture<'a, io::Result<()>> {
        let config = String::from_utf8(new.unwrap_or(known).reveal().clone()).unwrap();
        async move { tell(address, &format!("go-on {config}")).await }.boxed()
    }
}

pub(crate) fn checkpoints() -> CheckpointConfig {
    CheckpointConfig {
        criu: criu(),
        agents: Arc::new(TestAgents),
    }
}

async fn bench() -> Bench {
    Bench::with(|config| config.checkpoints = Some(checkpoints())).await
}

pub(crate) async fn dump(sandbox: &Launched, after: AfterCheckpoint) -> Checkpoint {
    let taken = sandbox.checkpoint(ImageKind::Memory, after).await;
    taken.unwrap_or_else(|error| panic!("{}", skep_telemetry::Chain(&error)))
}

pub(crate) async fn restore(
    bench: &Bench,
    checkpoint: &Checkpoint,
    target: RestoreTarget,
) -> Launched {
    let request = RestoreRequest {
        checkpoint: checkpoint.clone(),
        kind: ImageKind::Memory,
        target,
    };
    let restored = bench
        .native()
        .restore(request)
        .await
        .unwrap_or_else(|error| panic!("{}", skep_telemetry::Chain(&error)));
    restored.thaw().await.unwrap();
    restored
}

pub(crate) fn same(request: &LaunchRequest) -> RestoreTarget {
    RestoreTarget::Same {
        id: request.id.clone(),
        execution: ExecutionId::random(),
        egress: request.egress.clone(),
    }
}

async fn memory_survives_the_end_of_its_processes() {
    let bench = bench().await;
    assert!(bench.native().capabilities().has(Capability::Checkpoint));
    let request = bench.request();
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    assert_eq!(ask(&sandbox, "remember 41").await, "done");
    sandbox.freeze().await.unwrap();

    let image = dump(&sandbox, AfterCheckpoint::Stand).await;
    assert_eq!(image.kind, ImageKind::Memory);
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.wait_until_empty().await;

    let resumed = restore(&bench, &image, same(&request)).await;
    assert_eq!(ask(&resumed, "remembered").await, "41");
    resumed.destroy().await.unwrap();
    drop(resumed);
    bench.native().forget_checkpoint(image).await.unwrap();
    bench.finish().await;
}

/// Starts something of a user's in a sandbox, which has no end.
pub(crate) async fn start_work(sandbox: &Launched, what: &str) {
    let address = sandbox.address();
    let mut stream = tokio::net::TcpStream::connect((address, crate::agent::PORT))
        .await
        .unwrap();
    let order = format!("work {what}\n");
    tokio::io::AsyncWriteExt::write_all(&mut stream, order.as_bytes())
        .await
        .unwrap();
}

/// The keeper's next answer, when it has begun.
pub(crate) async fn kept(sandbox: &Launched) -> String {
    skep_testkit::wait_until(DEADLINE, async || {
        let answer = ask(sandbox, "work kept").await;
        if answer.contains("memory") {
            Ok(answer)
        } else {
            Err(answer)
        }
    })
    .await
}

async fn processes_files_and_pipes_go_on_where_they_stopped() {
    let bench = bench().await;
    let request = bench.request();
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    start_work(&sandbox, "keep").await;
    assert_eq!(kept(&sandbox).await, "1 0 deleted memory piped");
    let boot_id = "agent read=/proc/sys/kernel/random/boot_id";
    let booted = ask(&sandbox, boot_id).await;

    let image = dump(&sandbox, AfterCheckpoint::Stand).await;
    sandbox.destroy().await.unwrap();
    let resumed = restore(&bench, &image, same(&request)).await;

    assert_eq!(kept(&resumed).await, "2 1 deleted memory piped");
    assert_eq!(ask(&resumed, boot_id).await, booted);
    assert_eq!(ask(&resumed, "work write=/tmp/new").await, "ok");
    resumed.destroy().await.unwrap();
    drop((sandbox, resumed));
    bench.finish().await;
}

fn open_descriptors(sandbox: &Launched) -> usize {
    let record: serde_json::Value = serde_json::from_str(&sandbox.record().0).unwrap();
    let path = format!("/proc/{}/fd", record["pid"]);
    std::fs::read_dir(path).unwrap().count()
}

async fn a_sandbox_is_restored_again_and_again_and_nothing_leaks() {
    let bench = bench().await;
    let request = bench.request();
    let mut sandbox = bench.native().launch(request.clone()).await.unwrap();
    start_work(&sandbox, "keep").await;
    kept(&sandbox).await;
    let descriptors = open_descriptors(&sandbox);
    for cycle in 2..7 {
        sandbox.freeze().await.unwrap();
        let image = dump(&sandbox, AfterCheckpoint::Stand).await;
        sandbox.destroy().await.unwrap();
        bench.wait_until_empty().await;
        sandbox = restore(&bench, &image, same(&request)).await;
        bench.native().forget_checkpoint(image).await.unwrap();
        let answer = kept(&sandbox).await;
        assert!(answer.starts_with(&format!("{cycle} ")), "{answer}");
        assert_eq!(open_descriptors(&sandbox), descriptors, "cycle {cycle}");
    }
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    let images = bench.config.host.data_dir.join("images");
    assert_eq!(std::fs::read_dir(images).unwrap().count(), 0);
    bench.finish().await;
}

async fn copies_have_ids_addresses_and_configurations_of_their_own() {
    let bench = bench().await;
    let sandbox = bench.launch().await;
    start_work(&sandbox, "keep").await;
    kept(&sandbox).await;
    let snapshot = dump(&sandbox, AfterCheckpoint::Continue(ImagePurpose::Copy)).await;
    assert!(kept(&sandbox).await.starts_with("2 "), "it goes on");

    let copy = |config: &str| {
        let mut request = bench.request();
        request.agent_config = Redacted::new(config.into());
        let target = RestoreTarget::Copy(Box::new(request));
        restore(&bench, &snapshot, target)
    };
    let (first, second) = tokio::join!(copy("first"), copy("second"));
    for (config, copy) in [("first", &first), ("second", &second)] {
        assert_eq!(ask(copy, "config").await, config);
        assert!(
            kept(copy).await.starts_with("2 "),
            "each from the same point"
        );
    }
    assert!(kept(&sandbox).await.starts_with("3 "));
    let all = [&sandbox, &first, &second];
    let addresses: BTreeSet<_> = all.iter().map(|sandbox| sandbox.address()).collect();
    assert_eq!(addresses.len(), 3);
    let mut maps = BTreeSet::new();
    for sandbox in all {
        maps.insert(ask(sandbox, "agent read=/proc/self/uid_map").await);
    }
    assert_eq!(maps.len(), 3);
    assert_eq!(ask(&sandbox, "config").await, "normal");
    for sandbox in [sandbox, first, second] {
        sandbox.destroy().await.unwrap();
    }
    bench.native().forget_checkpoint(snapshot).await.unwrap();
    bench.finish().await;
}

/// Mounts by their places, with their options; those of memory with their sizes and numbers of files.
fn mounts(mountinfo: &str) -> Vec<String> {
    let line = |line: &str| -> Option<String> {
        let (own, of_files) = line.split_once(" - ")?;
        let (own, of_files): (Vec<_>, Vec<_>) =
            (own.split(' ').collect(), of_files.split(' ').collect());
        let is_memory = of_files[0] == "tmpfs";
        let options: Vec<_> = of_files[2]
            .split(',')
            .filter(|option| {
                // Ids are those of another place among all sandboxes.
                is_memory && !option.starts_with("uid=") && !option.starts_with("gid=")
            })
            .collect();
        let options = options.join(",");
        Some(format!("{} {} {} {options}", own[4], own[5], of_files[0]))
    };
    let mut found: Vec<_> = mountinfo.lines().filter_map(line).collect();
    found.sort();
    found
}

/// Takes the limit of timers and waiting signals off the others of a process.
fn take_pending_signals(limits: &mut Vec<String>) -> u64 {
    let is_it = |line: &&str| line.starts_with("Max pending signals");
    let all = limits.join("\n");
    let line = all.lines().find(is_it).expect("the kernel lists it");
    let rest = all.lines().filter(|line| !is_it(line)).map(str::to_owned);
    *limits = rest.collect();
    let maximum = line.split_whitespace().nth(4);
    maximum
        .and_then(|text| text.parse().ok())
        .unwrap_or(u64::MAX)
}

async fn a_restored_sandbox_is_as_limited_as_a_launched_one() {
    let bench = bench().await;
    let request = bench.request();
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    let limits = |sandbox: Launched| async move {
        let mut found = Vec::new();
        for limit in ["user", "pid", "net", "mnt", "ipc", "uts", "cgroup", "time"] {
            let file = format!("work read=/proc/sys/user/max_{limit}_namespaces");
            found.push(ask(&sandbox, &file).await);
        }
        for file in ["/proc/kcore", "/proc/keys", "/proc/1/environ"] {
            found.push(ask(&sandbox, &format!("work read={file}")).await);
        }
        found.push(ask(&sandbox, "work write=/proc/sys/kernel/domainname").await);
        found.push(ask(&sandbox, "work write=/sys/class/net/x").await);
        found.push(ask(&sandbox, "work read=/proc/self/cgroup").await);
        found.push(ask(&sandbox, "work read=/proc/self/limits").await);
        found.extend(mounts(
            &ask(&sandbox, "work read=/proc/self/mountinfo").await,
        ));
        found
    };
    let mut launched = limits(Arc::clone(&sandbox)).await;
    assert_eq!(launched[0], "0", "the control: {launched:?}");
    let is_bounded = |line: &String| line.starts_with("/dev ") && line.contains("nr_inodes=");
    assert!(launched.iter().any(is_bounded), "the control: {launched:?}");
    let image = dump(&sandbox, AfterCheckpoint::Stand).await;
    sandbox.destroy().await.unwrap();
    let resumed = restore(&bench, &image, same(&request)).await;
    let mut restored = limits(Arc::clone(&resumed)).await;
    // They are counted with those of all restored sandboxes, and of root, so each has a part.
    let whole = take_pending_signals(&mut launched);
    let part = take_pending_signals(&mut restored);
    let is_part = part > 0 && part <= whole / 100;
    assert!(is_part || whole == u64::MAX, "{part} of {whole}");
    assert_eq!(restored, launched);
    resumed.destroy().await.unwrap();
    drop((sandbox, resumed));
    bench.finish().await;
}

/// Waits until a file in a sandbox has a content.
async fn wait_for_content(sandbox: &Launched, path: &str, wanted: &str) {
    skep_testkit::wait_until(DEADLINE, async || {
        let answer = ask(sandbox, &format!("work read={path}")).await;
        if answer == wanted {
            Ok(())
        } else {
            Err(answer)
        }
    })
    .await;
}

async fn a_watch_of_a_directory_goes_on() {
    let bench = bench().await;
    let request = bench.request();
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    assert_eq!(ask(&sandbox, "work mkdir=/tmp/followed").await, "ok");
    start_work(&sandbox, "follow").await;
    wait_for_content(&sandbox, "/tmp/following", "ready").await;
    let image = dump(&sandbox, AfterCheckpoint::Stand).await;
    sandbox.destroy().await.unwrap();
    let resumed = restore(&bench, &image, same(&request)).await;
    assert_eq!(ask(&resumed, "work write=/tmp/followed/new").await, "ok");
    wait_for_content(&resumed, "/tmp/following", "new").await;
    resumed.destroy().await.unwrap();
    drop((sandbox, resumed));
    bench.finish().await;
}

/// The largest file of a directory: of an image, its memory.
fn largest_file(directory: &Path) -> PathBuf {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let largest = entries
        .max_by_key(|entry| entry.metadata().unwrap().len())
        .unwrap();
    assert!(largest.file_name().to_string_lossy().starts_with("pages-"));
    largest.path()
}

async fn an_image_that_was_edited_is_refused() {
    let edit = |mut content: Vec<u8>| {
        *content.last_mut().unwrap() ^= 1;
        content
    };
    let words = "not as it was written";
    // What is read before anything is made, and memory, which is looked at meanwhile.
    refuse_edited(|image| image.join("processes/core-1.img"), edit, words).await;
    refuse_edited(|image| largest_file(&image.join("processes")), edit, words).await;
}

async fn an_image_of_another_version_of_cgroups_is_refused() {
    let is_unified = |value: bool| format!("\"is_unified\":{value}");
    let here = has_unified_cgroups();
    let edit = |content: Vec<u8>| {
        let text = String::from_utf8(content).unwrap();
        let other = text.replacen(&is_unified(here), &is_unified(!here), 1);
        assert_ne!(other, text);
        other.into_bytes()
    };
    let words = "another version of cgroups";
    refuse_edited(|image| image.join("manifest.json"), edit, words).await;
}

/// Edits a file of an image, and checks that it is refused with these words, and restored when the
/// file is as it was.
async fn refuse_edited(
    file: impl Fn(&Path) -> PathBuf,
    edit: impl Fn(Vec<u8>) -> Vec<u8>,
    words: &str,
) {
    let bench = bench().await;
    let request = bench.request();
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    let image = dump(&sandbox, AfterCheckpoint::Stand).await;
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    let directory = bench.config.host.data_dir.join("images");
    let file = file(&directory.join(&image.record));
    let before = std::fs::read(&file).unwrap();
    std::fs::write(&file, edit(before.clone())).unwrap();
    let restoring = || {
        let request = RestoreRequest {
            checkpoint: image.clone(),
            kind: ImageKind::Memory,
            target: same(&request),
        };
        bench.native().restore(request)
    };
    let refused = restoring().await.unwrap_err();
    let text = skep_telemetry::Chain(&refused).to_string();
    assert!(text.contains(words), "{text}");
    bench.wait_until_empty().await;
    // The control: as it was, it is restored.
    std::fs::write(&file, before).unwrap();
    let resumed = restoring().await.unwrap();
    resumed.destroy().await.unwrap();
    drop(resumed);
    bench.finish().await;
}

async fn what_has_more_rights_than_a_launch_gives_is_ended_before_it_runs() {
    // As somebody would make it who can write images: whole, sealed, and without a defence.
    for (defence, what) in [
        (skep_launch::Defence::Filter, "Seccomp"),
        (skep_launch::Defence::Capabilities, "Cap"),
    ] {
        let without = |config: &mut NativeConfig| {
            config.checkpoints = Some(checkpoints());
            config.without = vec![Defence::Launch(defence)];
        };
        let bench = Bench::with(without).await;
        let request = bench.request();
        let sandbox = bench.native().launch(request.clone()).await.unwrap();
        start_work(&sandbox, "keep").await;
        kept(&sandbox).await;
        let image = dump(&sandbox, AfterCheckpoint::Stand).await;
        sandbox.destroy().await.unwrap();
        drop(sandbox);
        let restoring = bench.native().restore(RestoreRequest {
            checkpoint: image,
            kind: ImageKind::Memory,
            target: same(&request),
        });
        let refused = restoring.await.unwrap_err();
        let text = skep_telemetry::Chain(&refused).to_string();
        assert!(text.contains("cannot trust"), "{text}");
        assert!(text.contains(&format!("its {what}")), "{text}");
        bench.finish().await;
    }
}

async fn a_sandbox_that_cannot_be_written_runs_on_or_stands_as_it_did() {
    let bench = bench().await;
    let sandbox = bench.launch().await;
    assert_eq!(ask(&sandbox, "remember 41").await, "done");
    assert_eq!(ask(&sandbox, "work write=/tmp/file").await, "ok");
    start_work(&sandbox, "watch=/tmp/file").await;
    wait_for_content(&sandbox, "/tmp/watching", "").await;
    for after in [
        AfterCheckpoint::Continue(ImagePurpose::Keep),
        AfterCheckpoint::Stand,
    ] {
        let failed = sandbox.checkpoint(ImageKind::Memory, after).await;
        let text = skep_telemetry::Chain(&failed.unwrap_err()).to_string();
        assert!(text.contains("(watch)"), "{text}");
        assert_eq!(ask(&sandbox, "remembered").await, "41", "it runs on");
    }
    sandbox.freeze().await.unwrap();
    let failed = sandbox.checkpoint(ImageKind::Memory, AfterCheckpoint::Stand);
    failed.await.unwrap_err();
    let asking = tokio::time::timeout(
        std::time::Duration::from_millis(300),
        ask(&sandbox, "config"),
    );
    asking.await.unwrap_err();
    sandbox.thaw().await.unwrap();
    assert_eq!(ask(&sandbox, "remembered").await, "41");
    let images = bench.config.host.data_dir.join("images");
    assert_eq!(
        std::fs::read_dir(images).unwrap().count(),
        0,
        "no half image"
    );
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn the_next_server_resumes_from_an_image() {
    let mut bench = bench().await;
    let request = bench.request();
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    ask(&sandbox, "remember 41").await;
    let image = dump(&sandbox, AfterCheckpoint::Stand).await;
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.restart().await;
    bench
        .native()
        .retain_checkpoints(vec![image.clone()])
        .await
        .unwrap();
    let resumed = restore(&bench, &image, same(&request)).await;
    let record = resumed.record();
    drop(resumed);
    bench.restart().await;
    // One that was restored is found again as any, with its log.
    let adopted = bench.native().adopt(record).await.unwrap();
    assert_eq!(ask(&adopted, "remembered").await, "41");
    bench.native().sweep().await.unwrap();
    adopted.destroy().await.unwrap();
    drop(adopted);
    bench.native().retain_checkpoints(Vec::new()).await.unwrap();
    bench.finish().await;
}

async fn a_sandbox_that_is_put_back_to_anothers_memory_stays_who_it_is() {
    let bench = bench().await;
    let named = |name: &str| LaunchRequest {
        agent_config: Redacted::new(name.into()),
        ..bench.request()
    };
    let other = bench.native().launch(named("other")).await.unwrap();
    ask(&other, "remember 41").await;
    let snapshot = dump(&other, AfterCheckpoint::Continue(ImagePurpose::Keep)).await;
    let request = named("own");
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    let own = dump(&sandbox, AfterCheckpoint::Stand).await;
    sandbox.destroy().await.unwrap();
    let back = RestoreTarget::RollBack {
        id: request.id.clone(),
        execution: ExecutionId::random(),
        egress: request.egress.clone(),
        own,
    };
    let back = restore(&bench, &snapshot, back).await;
    assert_eq!(ask(&back, "remembered").await, "41");
    assert_eq!(ask(&back, "config").await, "own");
    for sandbox in [back, other] {
        sandbox.destroy().await.unwrap();
    }
    drop(sandbox);
    bench.finish().await;
}

struct Subject(Bench);

impl ContractSubject for Subject {
    fn isolation(&self) -> Arc<dyn Isolation> {
        Arc::clone(self.0.native()) as Arc<dyn Isolation>
    }

    fn request(&self) -> LaunchRequest {
        self.0.request()
    }
}

async fn the_contract_holds_for_images_with_memory() {
    let subject = Subject(bench().await);
    check_contract(&subject).await;
    subject.0.finish().await;
}
