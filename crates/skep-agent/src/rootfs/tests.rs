use super::*;

#[track_caller]
fn check(path: &str, expected: Errno) {
    let error = regular_for_reading(path).expect_err(path);
    assert_eq!(Errno::from_io_error(&error), Some(expected), "{path}");
}

#[test]
fn the_agents_own_process_entries_are_refused() {
    let pid = std::process::id();
    let thread = rustix::thread::gettid().as_raw_nonzero();
    for path in [
        "/proc/self/mem".to_owned(),
        "/proc/thread-self/mem".to_owned(),
        format!("/proc/{pid}/environ"),
        format!("/proc/{thread}/maps"),
        format!("/proc/1/../{pid}/maps"),
    ] {
        check(&path, Errno::ACCESS);
    }
    regular_for_reading("/proc/1/status").unwrap();
    regular_for_reading("/proc/meminfo").unwrap();
}

#[test]
fn links_into_descriptors_are_not_followed() {
    for path in [
        "/proc/self/fd/0",
        "/proc/self/root/etc/passwd",
        "/dev/stdin",
    ] {
        check(path, Errno::LOOP);
    }
}

#[test]
fn devices_and_directories_are_no_files() {
    check("/dev/null", Errno::NXIO);
    check("/", Errno::ISDIR);
}
