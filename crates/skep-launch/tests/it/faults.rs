//! A launch that fails, at any step, leaves nothing behind and says where it failed.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use skep_launch::{Lifetime, Link, Network, SpawnError, Step, Top};
use tempfile::TempDir;

use crate::plan::{Bench, DEADLINE, launcher, make_image, shared_server};

crate::tests![
    a_launch_that_fails_at_any_step_names_it_and_leaves_nothing,
    a_missing_layer_is_named,
    a_missing_program_is_the_last_step,
    a_link_to_descriptors_leads_to_no_program_of_the_host,
    a_launcher_that_cannot_be_started_is_named,
];

fn a_launch_that_fails_at_any_step_names_it_and_leaves_nothing() {
    for (number, step) in Step::ALL.iter().enumerate() {
        check_failure(number, *step, |bench| {
            let launched = launcher().launch(bench.plan, DEADLINE);
            (launched.map(drop), bench.directory)
        });
        check_failure(number, *step, |bench| {
            let launched = shared_server().launch(bench.plan, DEADLINE);
            (launched.map(drop), bench.directory)
        });
    }
}

fn check_failure(
    number: usize,
    step: Step,
    launch: impl FnOnce(Bench) -> (Result<(), SpawnError>, TempDir),
) {
    let mut bench = Bench::new(&["pid"]);
    let image = bench.path("disk.img");
    make_image(&image);
    bench.plan.root.top = Top::Image(image.clone());
    let name = format!("skt{}n{number}", std::process::id() % 100_000);
    bench.plan.network = Network::Link(Link {
        host_name: name.clone(),
        host_group: 0,
        address: Ipv4Addr::new(192, 0, 2, 200),
        gateway: Ipv4Addr::new(192, 0, 2, 201),
        host_address: None,
    });
    bench.plan.lifetime = Lifetime::Detached;
    bench.plan.fail_at = Some(step);
    let (launched, directory) = launch(bench);
    check_step(step, launched);
    wait_until_gone(step, directory.path(), &image, &name);
}

#[track_caller]
fn check_step(step: Step, launched: Result<(), SpawnError>) {
    let Err(SpawnError::Step {
        step: failed,
        source,
        thing,
    }) = launched
    else {
        panic!("{step}: {launched:?}");
    };
    assert_eq!(failed, step, "{thing:?}");
    let code = source.raw_os_error();
    assert_eq!(code, Some(libc::ECANCELED), "{step} {thing:?}");
}

/// The kernel takes links and loop devices away a moment after the last process.
#[track_caller]
fn wait_until_gone(step: Step, directory: &Path, image: &Path, link: &str) {
    skep_testkit::wait_for(DEADLINE, || {
        if fs::exists(format!("/sys/class/net/{link}")).unwrap() {
            return Err(format!("{step}: the link is left"));
        }
        for device in fs::read_dir("/sys/block").unwrap() {
            let file = device.unwrap().path().join("loop/backing_file");
            if fs::read_to_string(file).is_ok_and(|path| path.trim() == image.to_str().unwrap()) {
                return Err(format!("{step}: a loop device is left"));
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        if mounts.contains(directory.to_str().unwrap()) {
            return Err(format!("{step}: a mount is left"));
        }
        Ok(())
    });
    assert_eq!(fs::read_dir(directory.join("staging")).unwrap().count(), 0);
}

fn a_missing_layer_is_named() {
    let mut bench = Bench::new(&["pid"]);
    bench.plan.root.layers.push("/nonexistent/layer".into());
    let (error, _directory) = bench.fail();
    assert_eq!(
        error.to_string(),
        "launcher failed while mapping the layers `/nonexistent/layer`"
    );
}

fn a_missing_program_is_the_last_step() {
    let mut bench = Bench::new(&["pid"]);
    bench.plan.process.program = skep_launch::Program::Path("/nope".into());
    let (error, _directory) = bench.fail();
    assert_eq!(
        error.to_string(),
        "launcher failed while executing the program"
    );
}

/// The new process resolves the path of its program, in a root that nobody has checked.
fn a_link_to_descriptors_leads_to_no_program_of_the_host() {
    let outside = tempfile::tempdir().unwrap();
    fs::set_permissions(outside.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = outside.path().join("probe");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for descriptor in 3..24 {
        let mut bench = Bench::new(&["pid"]);
        let target = format!("/proc/self/fd/{descriptor}/..{}", program.display());
        symlink(target, bench.path("layer/link")).unwrap();
        bench.plan.process.program = skep_launch::Program::Path("/link".into());
        let (error, _directory) = bench.fail();
        assert_eq!(
            error.to_string(),
            "launcher failed while executing the program",
            "descriptor {descriptor}"
        );
    }
}

fn a_launcher_that_cannot_be_started_is_named() {
    let bench = Bench::new(&["pid"]);
    let missing = skep_launch::Launcher::new("/nonexistent/skep", ["launch"]);
    let error = missing.launch(bench.plan, DEADLINE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot start the launcher `/nonexistent/skep`"
    );
    // The executable is there but is no launcher: it ends without a word.
    let bench = Bench::new(&["pid"]);
    let silent = skep_launch::Launcher::new("/bin/true", ["launch"]);
    let error = silent.launch(bench.plan, DEADLINE).unwrap_err();
    assert!(
        matches!(
            error,
            SpawnError::Died(_) | SpawnError::Send(_) | SpawnError::Receive(_)
        ),
        "{error}"
    );
}
