//! Template builds: the host's users and network, changes kept.

use std::os::unix::fs::MetadataExt;

use skep_launch::{Bind, Defence, LaunchPlan, Network, Privileges, Program, Users};

use crate::plan::{asking, check};

/// A disk and a way to make one: what every host that runs sandboxes has.
const DEVICES: [&str; 2] = ["block:7:0", "character:10:237"];
/// Every mount that a step can write to, with what holds a node there that could be made.
const WRITABLE: [(&str, &str); 6] = [
    ("/dev", "EROFS"),
    ("/dev/shm", "EACCES"),
    ("/etc", "EACCES"),
    ("/run", "EACCES"),
    ("/tmp", "EACCES"),
    ("/cache", "EACCES"),
];

crate::tests![
    a_build_step_leaves_its_changes_in_the_upper_directory,
    a_build_step_cannot_reach_the_machine_through_proc,
    a_build_step_can_make_no_device_anywhere,
    a_build_step_that_could_make_a_device_could_not_open_it,
    devices_are_opened_where_neither_wall_stands,
    a_build_step_has_terminals_and_shared_memory,
    a_build_step_runs_as_the_planned_user,
];

fn make_build(plan: &mut LaunchPlan) {
    plan.users = Users::Host;
    plan.network = Network::Host;
    plan.privileges = Privileges::Build;
    plan.run_bytes = None;
    plan.process.program = Program::Path("/probe".into());
}

fn a_build_step_leaves_its_changes_in_the_upper_directory() {
    let expected = [("pid", "1"), ("write=/etc/built", "ok")];
    let mut bench = asking(&expected);
    make_build(&mut bench.plan);
    let directory = check(bench, &expected);
    let built = directory.path().join("upper/etc/built");
    assert_eq!(std::fs::read_to_string(&built).unwrap(), "written");
    assert_eq!(std::fs::metadata(&built).unwrap().uid(), 0);
}

fn a_build_step_cannot_reach_the_machine_through_proc() {
    let expected = [
        ("write=/proc/sys/kernel/core_pattern", "EROFS"),
        ("read=/proc/kmsg", ""),
        ("mount", "EPERM"),
        ("unshare=user", "EPERM"),
        ("status=CapEff", "00000000a00405fb"),
    ];
    let mut bench = asking(&expected);
    make_build(&mut bench.plan);
    check(bench, &expected);
}

/// Tries to make and open each device in each writable place, without some defences.
#[track_caller]
fn check_devices(without: &[Defence], answer: impl Fn(&str, &'static str) -> &'static str) {
    let questions: Vec<(String, &str)> = WRITABLE
        .iter()
        .flat_map(|(place, made)| {
            let expected = answer(place, made);
            DEVICES.map(|device| {
                let name = device.replace(':', "-");
                (format!("device={device}:{place}/{name}"), expected)
            })
        })
        .collect();
    let expected: Vec<_> = questions
        .iter()
        .map(|(question, answer)| (question.as_str(), *answer))
        .collect();
    let mut bench = asking(&expected);
    make_build(&mut bench.plan);
    bench.plan.run_bytes = Some(1 << 20);
    let cache = bench.path("cache");
    std::fs::create_dir(&cache).unwrap();
    bench.plan.binds = vec![Bind {
        source: cache,
        target: "/cache".into(),
        writable: true,
    }];
    bench.plan.without = without.to_vec();
    check(bench, &expected);
}

fn a_build_step_can_make_no_device_anywhere() {
    check_devices(&[], |place, made| match place {
        "/dev" => made,
        _ => "EPERM",
    });
}

fn a_build_step_that_could_make_a_device_could_not_open_it() {
    check_devices(&[Defence::Capabilities], |_, made| made);
}

fn devices_are_opened_where_neither_wall_stands() {
    let without = [Defence::Capabilities, Defence::ReadOnlyDev];
    check_devices(&without, |place, made| match place {
        "/dev" => "opened",
        _ => made,
    });
}

fn a_build_step_has_terminals_and_shared_memory() {
    let expected = [
        ("write=/dev/null", "ok"),
        ("write=/dev/shm/file", "ok"),
        ("terminal", "ok"),
        ("write=/dev/file", "EROFS"),
    ];
    let mut bench = asking(&expected);
    make_build(&mut bench.plan);
    check(bench, &expected);
}

fn a_build_step_runs_as_the_planned_user() {
    let expected = [
        ("id", "1000:1000"),
        ("status=Groups", "27"),
        ("status=CapPrm", "0000000000000000"),
        ("cwd", "/tmp"),
        ("write=/etc/no", "EACCES"),
    ];
    let mut bench = asking(&expected);
    make_build(&mut bench.plan);
    bench.plan.process.user = 1000;
    bench.plan.process.group = 1000;
    bench.plan.process.groups = vec![27];
    bench.plan.process.working_directory = "/tmp".into();
    check(bench, &expected);
}
