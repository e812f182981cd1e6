//! Template builds: the machine's users and network, changes kept.

use std::os::unix::fs::MetadataExt;

use skep_launch::{LaunchPlan, Network, Privileges, Program, Users};

use crate::plan::{asking, check};

crate::tests![
    a_build_step_leaves_its_changes_in_the_upper_directory,
    a_build_step_cannot_reach_the_machine_through_proc_or_devices,
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

fn a_build_step_cannot_reach_the_machine_through_proc_or_devices() {
    let expected = [
        ("write=/proc/sys/kernel/core_pattern", "EROFS"),
        ("read=/proc/kmsg", ""),
        ("device=/tmp/disk", "EACCES"),
        ("mount", "EPERM"),
        ("unshare=user", "EPERM"),
        ("status=CapEff", "00000000a80405fb"),
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
