//! Starts that fail, ends that nobody asked for, servers that come and go.

use std::sync::Arc;
use std::time::Duration;

use skep_isolation::{AdoptError, Exit, Isolation, LaunchError, LaunchRecord};
use skep_launch::Step;

use crate::bench::{Bench, DEADLINE, ask, has_unified_cgroups};

crate::tests![
    an_agent_that_ends_is_reported_with_its_code,
    an_agent_that_never_listens_is_given_up,
    a_second_launch_of_a_living_sandbox_is_refused_and_harms_nobody,
    a_missing_layer_is_told_by_the_step_that_needs_it,
    a_launch_that_fails_at_any_step_leaves_nothing,
    a_launch_that_nobody_waits_for_leaves_nothing,
    a_sandbox_of_parts_that_were_ready_is_as_any_other,
    a_launcher_that_is_killed_costs_no_sandbox_and_is_counted,
    the_end_of_the_first_process_is_seen_with_its_code,
    a_sandbox_outlives_its_server_and_is_adopted_by_the_next,
    what_was_not_adopted_is_swept,
    a_record_of_another_boot_or_process_is_not_adopted,
    what_a_sandbox_used_is_known_although_it_died_without_a_server,
    a_hundred_sandboxes_in_parallel_leave_nothing,
];

async fn an_agent_that_ends_is_reported_with_its_code() {
    let bench = Bench::new().await;
    let error = bench.launch_with("crash").await;
    assert!(
        matches!(error, LaunchError::AgentEnded(Exit::Code(3))),
        "{error:?}"
    );
    bench.finish().await;
}

async fn an_agent_that_never_listens_is_given_up() {
    let bench = Bench::with(|config| config.agent_deadline = Duration::from_millis(300)).await;
    let error = bench.launch_with("silent").await;
    assert!(matches!(error, LaunchError::AgentSilent(_)), "{error:?}");
    assert!(error.is_transient());
    bench.finish().await;
}

async fn a_sandbox_of_parts_that_were_ready_is_as_any_other() {
    let bench = Bench::with(|config| config.host.ready_parts = 2).await;
    let first = bench.launch().await;
    skep_testkit::wait_until(DEADLINE, async || {
        let left = bench.left();
        let ready = |what: &str| left.iter().any(|thing| thing.starts_with(what));
        // On v2 a group cannot be renamed, so none is made before its sandbox.
        let groups = has_unified_cgroups() || (ready("memory ready-") && ready("blkio ready-"));
        let are_ready = groups && bench.has_ready_disk();
        are_ready.then_some(()).ok_or(format!("{left:?}"))
    })
    .await;
    let second = bench.launch().await;
    let limits = async |sandbox| ask(sandbox, "work memory=1024").await;
    for sandbox in [&first, &second] {
        assert_eq!(limits(sandbox).await, "", "killed for want of memory");
        let used = sandbox.destroy().await.unwrap();
        assert_eq!(used.out_of_memory_kills, 1);
    }
    drop((first, second));
    // What is ready goes with the server.
    bench.native().stop().await;
    bench.finish().await;
}

async fn a_launcher_that_is_killed_costs_no_sandbox_and_is_counted() {
    let bench = Bench::new().await;
    let launches = bench.native().launches();
    let counts = || (launches.by_fork.get(), launches.by_own_launcher.get());
    let mut sandboxes = vec![bench.launch().await];
    assert_eq!(counts(), (1, 0));
    let launcher = bench.native().launcher_pid().unwrap().cast_signed();
    let launcher = rustix::process::Pid::from_raw(launcher).unwrap();
    rustix::process::kill_process(launcher, rustix::process::Signal::KILL).unwrap();
    sandboxes.push(bench.launch().await);
    assert_eq!(counts(), (1, 1));
    sandboxes.push(bench.launch().await);
    assert_eq!(counts(), (2, 1));
    for sandbox in sandboxes {
        assert_eq!(ask(&sandbox, "agent pid").await, "1");
        sandbox.destroy().await.unwrap();
    }
    bench.finish().await;
}

async fn a_second_launch_of_a_living_sandbox_is_refused_and_harms_nobody() {
    let bench = Bench::new().await;
    let request = bench.request();
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    let error = bench.native().launch(request.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot launch the sandbox");
    assert_eq!(ask(&sandbox, "agent pid").await, "1");
    sandbox.destroy().await.unwrap();
    // A name may be used again when nothing of it is left, as a resumed sandbox does.
    let again = bench.native().launch(request).await.unwrap();
    again.destroy().await.unwrap();
    drop((sandbox, again));
    bench.finish().await;
}

async fn a_missing_layer_is_told_by_the_step_that_needs_it() {
    let bench = Bench::new().await;
    let mut request = bench.request();
    request.layers.push("/nonexistent".into());
    let error = bench.native().launch(request).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "launcher failed while mapping the layers `/nonexistent`"
    );
    bench.finish().await;
}

async fn a_launch_that_fails_at_any_step_leaves_nothing() {
    let bench = Bench::new().await;
    for step in Step::ALL {
        bench.native().fail_next_launches_at(Some(*step));
        let error = bench.native().launch(bench.request()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("launcher failed while {step}"));
        bench.wait_until_empty().await;
    }
    bench.native().fail_next_launches_at(None);
    // The slots are free again, and the host is as good as new.
    let sandbox = bench.launch().await;
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn a_launch_that_nobody_waits_for_leaves_nothing() {
    let bench = Bench::new().await;
    let launch = bench.native().launch(bench.request());
    let given_up = tokio::time::timeout(Duration::from_millis(5), launch).await;
    assert!(given_up.is_err(), "a launch takes longer than that");
    bench.wait_until_empty().await;
    bench.finish().await;
}

async fn the_end_of_the_first_process_is_seen_with_its_code() {
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    ask(&sandbox, "exit").await;
    let exit = tokio::time::timeout(DEADLINE, sandbox.exited()).await;
    assert_eq!(exit.unwrap(), Exit::Code(5));
    assert_eq!(sandbox.exited().await, Exit::Code(5), "any number of times");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn a_sandbox_outlives_its_server_and_is_adopted_by_the_next() {
    let mut bench = Bench::new().await;
    let sandbox = bench.launch().await;
    ask(&sandbox, "work write=/tmp/kept").await;
    let (record, address) = (sandbox.record(), sandbox.address());
    drop(sandbox);
    bench.restart().await;

    let adopted = bench.native().adopt(record.clone()).await.unwrap();
    assert_eq!(adopted.address(), address);
    let swept = bench.native().sweep().await.unwrap();
    assert!(swept.sandboxes.is_empty(), "{swept:?}");
    assert_eq!(ask(&adopted, "work read=/tmp/kept").await, "written");
    let launched = bench.launch().await;
    assert_ne!(launched.address(), address, "its slot is still taken");

    adopted.destroy().await.unwrap();
    launched.destroy().await.unwrap();
    assert!(matches!(
        bench.native().adopt(record).await,
        Err(AdoptError::Gone(_))
    ));
    drop((adopted, launched));
    bench.finish().await;
}

async fn what_was_not_adopted_is_swept() {
    let mut bench = Bench::new().await;
    let forgotten = bench.launch().await;
    let record = forgotten.record();
    drop(forgotten);
    bench.restart().await;
    assert!(!bench.left().is_empty());
    let swept = bench.native().sweep().await.unwrap();
    assert_eq!(swept.sandboxes.len(), 1);
    bench.wait_until_empty().await;
    assert!(matches!(
        bench.native().adopt(record).await,
        Err(AdoptError::Gone(_))
    ));
    assert!(bench.native().sweep().await.unwrap().sandboxes.is_empty());
    bench.finish().await;
}

async fn a_record_of_another_boot_or_process_is_not_adopted() {
    let mut bench = Bench::new().await;
    let sandbox = bench.launch().await;
    let LaunchRecord(record) = sandbox.record();
    drop(sandbox);
    bench.restart().await;
    let mut changed: serde_json::Value = serde_json::from_str(&record).unwrap();
    changed["started"] = 1.into();
    let other_process = LaunchRecord(changed.to_string());
    assert!(matches!(
        bench.native().adopt(other_process).await,
        Err(AdoptError::Gone(_))
    ));
    changed["boot"] = "another".into();
    let other_boot = LaunchRecord(changed.to_string());
    assert!(matches!(
        bench.native().adopt(other_boot).await,
        Err(AdoptError::HostRestarted)
    ));
    assert!(matches!(
        bench.native().adopt(LaunchRecord("nonsense".into())).await,
        Err(AdoptError::Record(_))
    ));
    bench.native().sweep().await.unwrap();
    bench.finish().await;
}

async fn what_a_sandbox_used_is_known_although_it_died_without_a_server() {
    let mut bench = Bench::new().await;
    let sandbox = bench.launch().await;
    assert_eq!(ask(&sandbox, "work memory=1024").await, "");
    ask(&sandbox, "work fill=/tmp/full").await;
    let living = sandbox.usage().await.unwrap();
    let record = sandbox.record();
    drop(sandbox);
    bench.stop().await;
    let written: serde_json::Value = serde_json::from_str(&record.0).unwrap();
    let pid = i32::try_from(written["pid"].as_i64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    bench.start().await;
    // Its disk's counters are there until another sandbox has the device, and those of the other
    // tests are looking for one: it stays bound for as long as somebody has it open.
    let device = format!("/dev/loop{}", written["disk"][0]);
    let device = std::fs::File::open(device).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    skep_testkit::wait_until(DEADLINE, async || {
        let is_there = std::fs::exists(format!("/proc/{pid}")).unwrap();
        (!is_there).then_some(()).ok_or("it is not gone yet")
    })
    .await;
    let gone = bench.native().adopt(record).await.unwrap_err();
    let AdoptError::Gone(usage) = gone else {
        panic!("{gone:?}");
    };
    assert!(usage.out_of_memory_kills >= 1, "{usage:?}");
    assert!(usage.cpu_time >= living.cpu_time, "{usage:?}");
    assert!(
        usage.disk_written_bytes >= living.disk_written_bytes,
        "{usage:?}"
    );
    drop(device);
    bench.native().sweep().await.unwrap();
    bench.finish().await;
}

async fn a_hundred_sandboxes_in_parallel_leave_nothing() {
    let bench = Arc::new(Bench::new().await);
    let mut cycles = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let bench = Arc::clone(&bench);
        cycles.spawn(async move {
            for _ in 0..10 {
                let sandbox = bench.launch().await;
                assert_eq!(ask(&sandbox, "agent pid").await, "1");
                sandbox.destroy().await.unwrap();
            }
        });
    }
    while let Some(cycle) = cycles.join_next().await {
        cycle.unwrap();
    }
    let bench = Arc::into_inner(bench).unwrap();
    bench.finish().await;
}
