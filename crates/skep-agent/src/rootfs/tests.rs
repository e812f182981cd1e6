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

/// The story: a thread that ends between the opening of its entry and the look at whose it is.
#[test]
fn the_memory_of_the_agent_cannot_be_had_through_a_thread_that_ends() {
    static WORD: [u8; 16] = *b"known only to us";
    let (send, number) = std::sync::mpsc::channel();
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        send.send(rustix::thread::gettid()).unwrap();
        wait.recv().expect_err("the sender was dropped");
    });
    let number = number.recv().unwrap().as_raw_nonzero();
    let memory = File::open(format!("/proc/{number}/mem")).unwrap();
    drop(end);
    thread.join().unwrap();
    let entry = format!("/proc/self/task/{number}");
    skep_testkit::wait_for(
        std::time::Duration::from_secs(5),
        || match std::fs::exists(&entry) {
            Ok(false) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    );

    // Nothing tells any more whose it is, and it is still good for reading.
    let memory = OwnedFd::from(memory);
    assert_eq!(refuse(memory.as_fd()).unwrap(), FileSystem::Proc);
    let mut read = [0; 16];
    rustix::io::pread(&memory, &mut read, WORD.as_ptr().addr() as u64).unwrap();
    assert_eq!(read, WORD);

    let error = admit(memory, OFlags::RDONLY).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::SRCH));
}
