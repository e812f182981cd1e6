//! Volumes, and links that would put them elsewhere.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::CWD;
use rustix::mount::OpenTreeFlags;
use skep_launch::{SpawnError, Step};

use crate::plan::{Bench, asking, check};

crate::tests![
    a_volume_is_at_its_place_and_so_is_one_inside_it,
    a_link_of_the_template_leads_no_volume_over_a_mask,
    a_link_of_a_volume_leads_no_other_over_the_system,
    a_template_whose_system_directories_are_links_starts_nothing,
];

/// Shows a new directory as a volume at `target`.
fn show(bench: &mut Bench, name: &str, target: &str) {
    let directory = bench.path(name);
    fs::create_dir(&directory).unwrap();
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = rustix::mount::open_tree(CWD, bench.directory.path(), flags).unwrap();
    bench.plan.show_volume(mount, name, target, true);
}

#[track_caller]
fn check_refused(bench: Bench, target: &str) {
    let (error, _directory) = bench.fail();
    let SpawnError::Step {
        step,
        thing,
        source,
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(step, Step::ShowVolumes, "{thing:?} {source}");
    assert_eq!(thing.as_deref(), Some(target));
    assert_eq!(source.raw_os_error(), Some(libc::ELOOP));
}

fn a_volume_is_at_its_place_and_so_is_one_inside_it() {
    let expected = [
        ("list=/a", "data file"),
        ("list=/a/data", "inside"),
        ("write=/a/data/new", "ok"),
        ("owner=/a/data/new", "0:0"),
        ("read=/proc/cmdline", ""),
    ];
    let mut bench = asking(&expected);
    show(&mut bench, "outer", "/a");
    show(&mut bench, "inner", "/a/data");
    fs::write(bench.path("outer/file"), "").unwrap();
    fs::write(bench.path("inner/inside"), "").unwrap();
    let directory = check(bench, &expected);
    assert!(directory.path().join("inner/new").exists());
}

fn a_link_of_the_template_leads_no_volume_over_a_mask() {
    for led_to in ["/dev", "/sys", "/proc", "/etc", "../dev", "/proc/self/root"] {
        let mut bench = Bench::new(&["read=/proc/cmdline"]);
        fs::create_dir(bench.path("layer/mnt")).unwrap();
        symlink(led_to, bench.path("layer/mnt/x")).unwrap();
        show(&mut bench, "volume", "/mnt/x");
        // The launcher would find no mask there, and the new process a file.
        symlink("/proc/self/root/probe", bench.path("volume/null")).unwrap();
        check_refused(bench, "/mnt/x");
    }
    // Also on the way.
    let mut bench = Bench::new(&["pid"]);
    symlink("/dev", bench.path("layer/mnt")).unwrap();
    show(&mut bench, "volume", "/mnt/shm/x");
    check_refused(bench, "/mnt/shm/x");
}

fn a_link_of_a_volume_leads_no_other_over_the_system() {
    for led_to in ["/etc", "/dev", "../etc"] {
        let mut bench = Bench::new(&["list=/etc"]);
        show(&mut bench, "outer", "/a");
        show(&mut bench, "inner", "/a/data");
        symlink(led_to, bench.path("outer/data")).unwrap();
        check_refused(bench, "/a/data");
    }
}

/// A link of a template would put a mount of the launcher's over another of them, or where a volume may be.
fn a_template_whose_system_directories_are_links_starts_nothing() {
    for (name, led_to, step) in [
        ("run", "/dev", Step::MountSystem),
        ("sys", "/mnt/volume", Step::MountSystem),
        ("dev", "/mnt/volume", Step::MakeDevices),
        ("proc", "/dev", Step::MountProc),
        ("proc", "/sys", Step::MountProc),
    ] {
        let mut bench = Bench::new(&["read=/proc/cmdline"]);
        symlink(led_to, bench.path("layer").join(name)).unwrap();
        show(&mut bench, "volume", "/mnt/volume");
        // What the new process would open as root.
        symlink("/proc/self/root/probe", bench.path("volume/null")).unwrap();
        let (error, _directory) = bench.fail();
        let SpawnError::Step {
            step: failed,
            thing,
            source,
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!(failed, step, "{name} to {led_to}: {thing:?} {source}");
        assert_eq!(thing.as_deref(), Some(&*format!("/{name}")));
        assert_eq!(source.raw_os_error(), Some(libc::ELOOP));
    }
}
