//! The view and the rights of a process in a sandbox.

use std::os::unix::fs::{MetadataExt, symlink};

use skep_launch::{Bind, Ended, PlannedFile, Users};

use crate::plan::{Bench, asking, check};

crate::tests![
    the_program_is_the_first_process_of_namespaces_of_its_own,
    nothing_of_the_machine_is_in_its_root,
    every_sandbox_has_a_boot_id_of_its_own,
    memory_is_told_by_a_file_that_only_the_first_process_writes,
    terminals_belong_to_the_tty_group_whatever_the_ids_are,
    only_the_planned_descriptors_are_open,
    files_have_natural_owners_inside_and_on_disk,
    capabilities_are_cut_and_cannot_come_back,
    what_it_starts_cannot_have_the_marker_of_the_first_process,
    namespaces_cannot_be_made,
    mounts_cannot_be_changed,
    sockets_that_reach_past_the_network_namespace_do_not_exist,
    sockets_are_in_few_groups,
    root_may_bind_low_ports_and_ping,
    a_planned_file_replaces_a_symlink_and_stays_inside,
    a_bind_is_read_only_and_stays_inside,
    the_exit_code_is_reported,
    a_tied_process_dies_with_its_handle,
];

fn the_program_is_the_first_process_of_namespaces_of_its_own() {
    let expected = [
        ("pid", "1"),
        ("id", "0:0"),
        ("hostname", "e2b.local"),
        ("cwd", "/"),
        ("environment", r#"[("HOME", "/root")]"#),
        ("status=Threads", "1"),
        ("status=NoNewPrivs", "0"),
        ("status=Seccomp", "2"),
        ("status=Seccomp_filters", "1"),
        ("status=SigIgn", "0000000000001000"),
        ("thread", "ok"),
    ];
    // Rust's own runtime ignores SIGPIPE in the probe: that one bit is not ours.
    check(asking(&expected), &expected);
}

fn nothing_of_the_machine_is_in_its_root() {
    let expected = [
        ("list=/", "dev etc probe proc run sys tmp"),
        (
            "list=/dev",
            "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero",
        ),
        ("list=/sys", "class devices fs kernel"),
        ("list=/sys/class/net", "lo"),
        ("list=/sys/devices/virtual", "net"),
        ("list=/run", "lock"),
        ("read=/proc/kmsg", ""),
        ("read=/proc/timer_list", ""),
        ("read=/proc/locks", ""),
        ("list=/proc/acpi", ""),
        ("list=/proc/pressure", ""),
        ("read=/proc/interrupts", ""),
        ("read=/proc/cmdline", ""),
        ("read=/proc/sys/fs/file-nr", ""),
        ("read=/proc/sys/kernel/pty/nr", ""),
        ("write=/proc/sys/kernel/core_pattern", "EROFS"),
        ("write=/proc/irq/default_smp_affinity", "EROFS"),
        ("write=/sys/x", "EROFS"),
    ];
    check(asking(&expected), &expected);
}

fn every_sandbox_has_a_boot_id_of_its_own() {
    let question = "read=/proc/sys/kernel/random/boot_id";
    let mut seen = vec![std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap()];
    for _ in 0..2 {
        let (_, said, _directory) = Bench::new(&[question]).run();
        let id = said.rsplit_once(' ').unwrap().1.to_owned();
        assert_eq!(id.len(), seen[0].len(), "{id}");
        assert!(!seen.contains(&id), "{id}");
        seen.push(id);
    }
}

fn memory_is_told_by_a_file_that_only_the_first_process_writes() {
    let expected = [
        ("read=/proc/meminfo", "MemTotal: 1 kB"),
        ("write=/proc/meminfo", "EROFS"),
        ("unmount=/proc/meminfo", "EPERM"),
        ("write=/proc/self/fd/3", "EACCES"),
        ("overwrite=3", "ok"),
        ("read=/proc/meminfo", "written:  1 kB"),
        ("read=/proc/swaps", ""),
    ];
    let mut bench = asking(&expected);
    let text = "MemTotal: 1 kB\n".to_owned();
    bench.plan.show_memory("memory-info", text);
    assert_eq!(bench.plan.process.fd_table(), "memory-info=3");
    check(bench, &expected);
    // Without a text it is the machine's own.
    let (_, said, _directory) = Bench::new(&["read=/proc/meminfo"]).run();
    let own = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = own.lines().next().unwrap();
    assert!(said.contains(total), "{said}");
}

/// Ids of sandboxes go beyond what a signed number holds, and so do those of their terminals.
fn terminals_belong_to_the_tty_group_whatever_the_ids_are() {
    let expected = [("terminal", "ok"), ("terminal-owner", "0:5")];
    for first in [0x1000_0000, 0x7fff_0000, 0x8000_0000, 0xf000_0000] {
        let mut bench = asking(&expected);
        let count = 65_536;
        bench.plan.users = Users::Range { first, count };
        check(bench, &expected);
    }
}

fn only_the_planned_descriptors_are_open() {
    let expected = [("descriptors", "0 1 2 3")];
    let mut bench = asking(&expected);
    let file = skep_linux::sealed_file("config", b"secret").unwrap();
    assert_eq!(bench.plan.pass("config", file), 3);
    assert_eq!(bench.plan.process.fd_table(), "config=3");
    check(bench, &expected);
}

fn files_have_natural_owners_inside_and_on_disk() {
    let expected = [
        ("owner=/etc", "0:0"),
        ("owner=/dev/null", "0:0"),
        ("owner=/proc/1", "0:0"),
        ("write=/etc/new", "ok"),
        ("owner=/etc/new", "0:0"),
    ];
    let directory = check(asking(&expected), &expected);
    let on_disk = std::fs::metadata(directory.path().join("upper/etc/new")).unwrap();
    assert_eq!((on_disk.uid(), on_disk.gid()), (0, 0));
    assert!(!directory.path().join("layer/etc/new").exists());
}

fn capabilities_are_cut_and_cannot_come_back() {
    let expected = [
        ("status=CapBnd", "00000000a00405fb"),
        ("status=CapEff", "00000008a00405fb"),
        ("device=block:7:0:/tmp/disk", "EPERM"),
        ("write=/proc/sys/user/max_user_namespaces", "EROFS"),
        ("read=/proc/sys/user/max_user_namespaces", "0"),
    ];
    check(asking(&expected), &expected);
}

fn what_it_starts_cannot_have_the_marker_of_the_first_process() {
    let expected = [
        ("protect", "ok"),
        ("status=CapInh", "0000000000000000"),
        ("status=CapAmb", "0000000000000000"),
        ("status=CapPrm", "00000008a00405fb"),
        ("run=status:CapPrm", "00000000a00405fb"),
        // What it starts is root, too, and still cannot read its memory or descriptors.
        ("run=link:/proc/1/fd/0", "EACCES"),
        ("run=read:/proc/1/fd/0", "EACCES"),
        ("run=link:/proc/1/exe", "EACCES"),
        ("run=read:/proc/1/mem", "EACCES"),
        ("run=read:/proc/1/environ", "EACCES"),
    ];
    check(asking(&expected), &expected);
}

fn namespaces_cannot_be_made() {
    let expected = [
        ("unshare=user", "EPERM"),
        ("unshare=mount", "EPERM"),
        ("unshare=pid", "EPERM"),
        ("unshare=net", "EPERM"),
        ("unshare=files", "ok"),
    ];
    check(asking(&expected), &expected);
}

fn mounts_cannot_be_changed() {
    let expected = [
        ("mount", "EPERM"),
        ("unmount=/proc/kmsg", "EPERM"),
        ("unmount=/sys", "EPERM"),
    ];
    check(asking(&expected), &expected);
}

fn sockets_are_in_few_groups() {
    let expected = [("read=/proc/sys/net/ipv4/igmp_max_memberships", "4")];
    check(asking(&expected), &expected);
}

fn sockets_that_reach_past_the_network_namespace_do_not_exist() {
    let expected = [
        ("socket=tcp", "ok"),
        ("socket=route", "ok"),
        ("socket=audit", "EAFNOSUPPORT"),
        ("socket=vsock", "EAFNOSUPPORT"),
        ("socket=packet", "EAFNOSUPPORT"),
        ("socket=sctp", "EAFNOSUPPORT"),
        ("socket=raw", "EPERM"),
    ];
    check(asking(&expected), &expected);
}

fn root_may_bind_low_ports_and_ping() {
    let expected = [
        ("bind=127.0.0.1:80", "ok"),
        ("bind=[::1]:80", "ok"),
        ("socket=ping", "ok"),
    ];
    check(asking(&expected), &expected);
}

fn a_planned_file_replaces_a_symlink_and_stays_inside() {
    let expected = [("read=/etc/resolv.conf", "nameserver 192.0.2.1")];
    let mut bench = asking(&expected);
    let outside = bench.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("resolv.conf"), "untouched").unwrap();
    std::fs::remove_dir(bench.path("layer/etc")).unwrap();
    // `/etc` itself is a symlink that, seen from the host, leads to `outside`.
    std::fs::create_dir_all(bench.path("layer").join(outside.strip_prefix("/").unwrap())).unwrap();
    symlink(&outside, bench.path("layer/etc")).unwrap();
    symlink(
        "/proc/self/fd/1",
        bench
            .path("layer")
            .join(outside.strip_prefix("/").unwrap())
            .join("resolv.conf"),
    )
    .unwrap();
    bench.plan.files = vec![PlannedFile {
        path: "/etc/resolv.conf".into(),
        content: "nameserver 192.0.2.1\n".into(),
        mode: 0o644,
    }];
    let directory = check(bench, &expected);
    let untouched = std::fs::read_to_string(directory.path().join("outside/resolv.conf")).unwrap();
    assert_eq!(untouched, "untouched");
}

fn a_bind_is_read_only_and_stays_inside() {
    let expected = [
        ("read=/etc/ssl/bundle", "certificates"),
        ("write=/etc/ssl/bundle", "EROFS"),
    ];
    let mut bench = asking(&expected);
    let source = bench.path("bundle");
    std::fs::write(&source, "certificates").unwrap();
    bench.plan.binds = vec![Bind {
        source,
        target: "/etc/ssl/bundle".into(),
        writable: false,
    }];
    check(bench, &expected);
}

fn the_exit_code_is_reported() {
    let (ended, said, _directory) = Bench::new(&["pid", "exit=7"]).run();
    assert_eq!((ended, said.as_str()), (Ended::Code(7), "pid -> 1\n"));
}

fn a_tied_process_dies_with_its_handle() {
    let mut bench = Bench::new(&["wait"]);
    let (hold, theirs) = {
        let (reader, writer) = std::io::pipe().unwrap();
        (writer, reader)
    };
    bench.plan.stdin(theirs);
    let started = crate::plan::launcher()
        .launch(bench.plan, crate::plan::DEADLINE)
        .unwrap();
    let process = format!("/proc/{}/stat", started.pid);
    assert!(std::fs::exists(&process).unwrap());
    drop(started);
    skep_testkit::wait_for(crate::plan::DEADLINE, || {
        if std::fs::exists(&process).unwrap() {
            Err("the process still lives")
        } else {
            Ok(())
        }
    });
    drop(hold);
}
