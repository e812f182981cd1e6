//! Sandboxes that stand.

use std::time::{Duration, Instant};

use skep_isolation::{
    AfterCheckpoint, Isolation, LaunchRequest, Launched, RestoreRequest, RestoreTarget,
};
use skep_types::{Capability, ExecutionId, ImageKind, ImagePurpose, Redacted, Resources};

use crate::bench::{Bench, ask};

crate::tests![
    a_frozen_sandbox_uses_no_processor_and_answers_when_it_is_thawed,
    a_frozen_sandbox_is_killed_at_once,
    a_frozen_sandbox_is_found_frozen_by_the_next_server,
    a_sandbox_that_is_put_back_to_anothers_files_stays_who_it_is,
    threads_that_execute_programs_all_the_time_stand_all_the_same,
];

/// Time in which a sandbox that runs has answered, and one that stands has not.
const WHILE: Duration = Duration::from_millis(300);

/// Time limit for the kill of a frozen sandbox, whose processes would live for ever if nobody
/// thawed them: a hundredth of the deadline that it would take then.
const KILL: Duration = Duration::from_secs(1);

/// Asks the agent something; `None` if it does not answer for a while.
async fn answers(sandbox: &Launched) -> Option<String> {
    let asking = tokio::time::timeout(WHILE, ask(sandbox, "config"));
    asking.await.ok()
}

async fn cpu_time(sandbox: &Launched) -> Duration {
    sandbox.usage().await.unwrap().cpu_time
}

async fn a_frozen_sandbox_uses_no_processor_and_answers_when_it_is_thawed() {
    let bench = Bench::new().await;
    assert!(bench.native().capabilities().has(Capability::Freeze));
    let sandbox = bench.launch().await;
    assert!(answers(&sandbox).await.is_some(), "the control: it runs");

    sandbox.freeze().await.unwrap();
    let before = cpu_time(&sandbox).await;
    assert_eq!(answers(&sandbox).await, None, "it stands");
    assert_eq!(cpu_time(&sandbox).await, before);

    sandbox.thaw().await.unwrap();
    assert!(answers(&sandbox).await.is_some(), "it goes on");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn a_frozen_sandbox_is_killed_at_once() {
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    sandbox.freeze().await.unwrap();
    let start = Instant::now();
    sandbox.destroy().await.unwrap();
    assert!(start.elapsed() < KILL, "{:?}", start.elapsed());
    drop(sandbox);
    bench.finish().await;
}

async fn a_frozen_sandbox_is_found_frozen_by_the_next_server() {
    let mut bench = Bench::new().await;
    let sandbox = bench.launch().await;
    let record = sandbox.record();
    sandbox.freeze().await.unwrap();
    drop(sandbox);
    bench.restart().await;

    let adopted = bench.native().adopt(record).await.unwrap();
    let swept = bench.native().sweep().await.unwrap();

    assert!(swept.sandboxes.is_empty(), "{swept:?}");
    assert_eq!(answers(&adopted).await, None, "it stands as it did");
    adopted.thaw().await.unwrap();
    assert!(answers(&adopted).await.is_some());
    adopted.freeze().await.unwrap();
    adopted.destroy().await.unwrap();
    drop(adopted);
    bench.finish().await;
}

/// An image holds the tokens, the environment and the limits of the sandbox that it was made of. One
/// that went back to it became that sandbox.
async fn a_sandbox_that_is_put_back_to_anothers_files_stays_who_it_is() {
    let bench = Bench::new().await;
    let named = |name: &str, memory_mib: u32| {
        let request = bench.request();
        LaunchRequest {
            agent_config: Redacted::new(name.into()),
            resources: Resources {
                memory_mib,
                ..request.resources
            },
            ..request
        }
    };
    let files = ImageKind::Filesystem;
    let other = bench.native().launch(named("other", 256)).await.unwrap();
    let snapshot = other
        .checkpoint(files, AfterCheckpoint::Continue(ImagePurpose::Keep))
        .await
        .unwrap();
    let request = named("own", 128);
    let (id, egress) = (request.id.clone(), request.egress.clone());
    let sandbox = bench.native().launch(request).await.unwrap();
    let own = sandbox
        .checkpoint(files, AfterCheckpoint::Stand)
        .await
        .unwrap();
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    let restore = |target| RestoreRequest {
        checkpoint: snapshot.clone(),
        kind: files,
        target,
    };
    let execution = ExecutionId::random();
    let same = RestoreTarget::Same {
        id: id.clone(),
        execution,
        egress: egress.clone(),
    };
    let taken_over = bench.native().restore(restore(same)).await.unwrap();
    assert_eq!(ask(&taken_over, "config").await, "other", "the control");
    taken_over.destroy().await.unwrap();
    drop(taken_over);

    let back = RestoreTarget::RollBack {
        id,
        execution,
        egress,
        own: own.clone(),
    };
    let back = bench.native().restore(restore(back)).await.unwrap();

    assert_eq!(ask(&back, "config").await, "own");
    let record = std::fs::read_dir(bench.sandboxes()).unwrap().flatten();
    let limits: Vec<_> = record
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("launch.json")).ok())
        .filter(|text| text.contains("\"own\""))
        .collect();
    assert_eq!(limits.len(), 1);
    assert!(limits[0].contains("\"memory_mib\":128"), "{limits:?}");
    for sandbox in [back, other] {
        sandbox.destroy().await.unwrap();
    }
    for image in [own, snapshot] {
        bench.native().forget_checkpoint(image).await.unwrap();
    }
    bench.finish().await;
}

/// On v1 a thread that executes a program waits for siblings that cannot die as long as they stand.
/// Most freezes of such a sandbox failed, and it ran on.
async fn threads_that_execute_programs_all_the_time_stand_all_the_same() {
    let bench = Bench::new().await;
    let mut request = bench.request();
    request.resources.pids = 512;
    let sandbox = bench.native().launch(request).await.unwrap();
    assert_eq!(ask(&sandbox, "work restless=16").await, "ok");
    for round in 0..12 {
        let frozen = sandbox.freeze().await;
        assert!(frozen.is_ok(), "round {round}: {frozen:?}");
        let before = cpu_time(&sandbox).await;
        assert_eq!(answers(&sandbox).await, None, "it stands");
        // A thread that the kernel wakes in its freezer goes back to sleep at once, which is counted, too;
        // one of sixteen that ran on would have used all this while.
        let used = cpu_time(&sandbox).await - before;
        assert!(used < WHILE / 20, "all of them stand: {used:?}");
        sandbox.thaw().await.unwrap();
    }
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}
