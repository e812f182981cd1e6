//! Traps that sandboxes plant for the server. Each has a control: the plain call is led astray.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat};
use skep_types::VolumeId;
use skep_volume::{Attributes, Backend as _, ContentError, EntryKind, LocalVolumes, WriteMode};

use crate::{Bed, OWNER, path, read, write};

/// The volume as root of a sandbox sees it.
fn inside(bed: &Bed) -> (OwnedFd, String) {
    let mount = bed.volumes.mount(bed.volume).unwrap();
    let inside = format!("/proc/self/fd/{}/data", mount.as_raw_fd());
    (mount, inside)
}

#[test]
fn links_that_lead_out_lead_nowhere() {
    let bed = Bed::new(16);
    let (_mount, inside) = inside(&bed);
    let secret = bed.directory.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, format!("{inside}/file")).unwrap();
    symlink("/", format!("{inside}/root")).unwrap();
    symlink("..", format!("{inside}/up")).unwrap();
    symlink("/proc/self/root", format!("{inside}/magic")).unwrap();
    symlink("loop", format!("{inside}/loop")).unwrap();
    // The control: a plain call follows.
    assert_eq!(fs::read(format!("{inside}/file")).unwrap(), b"secret");

    let content = &bed.content;
    let below = secret.to_str().unwrap();
    for at in [
        "/file".to_owned(),
        format!("/root{below}"),
        format!("/magic{below}"),
        "/up/staging".to_owned(),
        "/loop".to_owned(),
    ] {
        let refused = content.read(&path(&at)).unwrap_err();
        assert!(
            matches!(refused, ContentError::NotFound(_)),
            "{at} {refused}"
        );
        let changes = Attributes {
            mode: Some(0o777),
            ..Attributes::default()
        };
        content.set_attributes(&path(&at), changes).unwrap_err();
    }
    let refused = write(content, &format!("/root{below}"), b"x", WriteMode::Replace);
    assert!(
        matches!(refused, Err(ContentError::NotFound(_))),
        "{refused:?}"
    );
    content
        .make_directory(&path("/up/evil"), OWNER, true)
        .unwrap_err();
    content.remove(&path("/up/staging")).unwrap_err();
    // A link itself is replaced or removed, and never what it leads to.
    write(content, "/file", b"ours", WriteMode::Replace).unwrap();
    content.remove(&path("/root")).unwrap();
    assert_eq!(fs::read(&secret).unwrap(), b"secret");
    let entry = content.stat(&path("/magic")).unwrap();
    assert_eq!(entry.kind, EntryKind::Symlink);
    assert_eq!(entry.target.as_deref(), Some("/proc/self/root"));
}

#[test]
fn links_that_stay_in_the_volume_work() {
    let bed = Bed::new(16);
    let (_mount, inside) = inside(&bed);
    write(&bed.content, "/v1/a", b"1", WriteMode::Replace).unwrap();
    symlink("v1", format!("{inside}/current")).unwrap();
    assert_eq!(read(&bed.content, "/current/a").unwrap(), b"1");
    let entry = bed.content.stat(&path("/current")).unwrap();
    assert_eq!(entry.kind, EntryKind::Directory);
    assert_eq!(entry.target.as_deref(), Some("v1"));
    let entries = bed.content.list(&path("/"), 5, || true).unwrap();
    let listed: Vec<_> = entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(
        listed,
        ["/current", "/v1", "/v1/a"],
        "links are not entered"
    );
}

#[test]
fn links_that_take_long_to_follow_do_not_hold_up_a_listing() {
    const LINKS: usize = 20_000;
    let bed = Bed::new(16);
    let (_mount, inside) = inside(&bed);
    write(&bed.content, "/l0", b"x", WriteMode::New).unwrap();
    // The kernel follows forty links one after another, each through two thousand steps.
    let steps = "./".repeat(2000);
    for number in 1..38 {
        let target = format!("{steps}l{}", number - 1);
        symlink(target, format!("{inside}/l{number}")).unwrap();
    }
    fs::create_dir(format!("{inside}/many")).unwrap();
    symlink(format!("{steps}../l37"), format!("{inside}/many/0")).unwrap();
    for number in 1..LINKS {
        fs::hard_link(
            format!("{inside}/many/0"),
            format!("{inside}/many/{number}"),
        )
        .unwrap();
    }
    let entries = bed.content.list(&path("/many"), 1, || true).unwrap();
    assert_eq!(entries.len(), LINKS);
    assert!(entries.iter().all(|entry| entry.target.is_some()));
    let kind = |at: usize| entries[at].kind;
    assert_eq!(kind(0), EntryKind::File, "the control is followed");
    assert_eq!(kind(LINKS - 1), EntryKind::Symlink);
    let alone = bed.content.stat(&path(&entries[LINKS - 1].path)).unwrap();
    assert_eq!(alone.kind, EntryKind::File, "one alone is followed");

    let asked = std::cell::Cell::new(0);
    let is_wanted = || asked.replace(asked.get() + 1) < 100;
    bed.content.list(&path("/many"), 1, is_wanted).unwrap_err();
    assert_eq!(asked.get(), 101, "nobody waits for it any more");
}

#[test]
fn pipes_sockets_and_devices_are_never_opened() {
    let bed = Bed::new(16);
    let (_mount, inside) = inside(&bed);
    let make = |name: &str, kind, device| {
        let at = format!("{inside}/{name}");
        mknodat(CWD, at.as_str(), kind, Mode::RWXU, device).unwrap();
    };
    make("pipe", FileType::Fifo, 0);
    make("zero", FileType::CharacterDevice, rustix::fs::makedev(1, 5));
    make("disk", FileType::BlockDevice, rustix::fs::makedev(7, 0));
    let _socket = std::os::unix::net::UnixListener::bind(format!("{inside}/socket")).unwrap();
    for name in ["pipe", "zero", "disk", "socket"] {
        let at = path(&format!("/{name}"));
        assert_eq!(bed.content.stat(&at).unwrap().kind, EntryKind::Other);
        let refused = bed.content.read(&at).unwrap_err();
        assert!(
            matches!(refused, ContentError::NotSupported(_)),
            "{refused}"
        );
    }
    // The mount itself opens no device, whoever asks.
    let opened = fs::File::open(format!("{inside}/zero")).unwrap_err();
    assert_eq!(opened.kind(), std::io::ErrorKind::PermissionDenied);
    // A pipe is replaced, not written to.
    write(&bed.content, "/pipe", b"x", WriteMode::Replace).unwrap();
    assert_eq!(read(&bed.content, "/pipe").unwrap(), b"x");
    bed.content.remove(&path("/zero")).unwrap();
}

#[test]
fn a_deletion_ends_although_a_sandbox_goes_on_to_write_in_what_is_deleted() {
    let bed = Bed::new(16);
    let (_mount, inside) = inside(&bed);
    fs::create_dir_all(format!("{inside}/d/below")).unwrap();
    let (is_over, made) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    // As a process does whose working directory it is, wherever that is moved.
    let writing: Vec<_> = (0..3)
        .map(|_| {
            let directory = fs::File::open(format!("{inside}/d/below")).unwrap();
            let (is_over, made) = (Arc::clone(&is_over), Arc::clone(&made));
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let number = made.fetch_add(1, Ordering::Relaxed);
                    let (flags, mode) = (OFlags::CREATE | OFlags::WRONLY, Mode::RWXU);
                    // The volume may be full now and then.
                    openat(&directory, format!("f{number}"), flags, mode).ok();
                }
            })
        })
        .collect();
    let some_are_made = || {
        let before = made.load(Ordering::Relaxed);
        skep_testkit::wait_for(Duration::from_secs(60), || {
            match made.load(Ordering::Relaxed) - before {
                0..100 => Err("nobody writes"),
                _ => Ok(()),
            }
        });
    };
    some_are_made();
    let removed = bed.content.remove(&path("/d"));
    some_are_made();
    is_over.store(true, Ordering::Relaxed);
    for writing in writing {
        writing.join().unwrap();
    }
    removed.unwrap();
    assert_eq!(bed.content.list(&path("/"), 1, || true).unwrap(), []);
    // Nor does what is left keep anybody from the volume, or from its names.
    let directory = bed.directory.path().join("volumes");
    let next = LocalVolumes::new(directory, None).unwrap();
    let content = next.content(bed.volume).unwrap();
    // What was written while it went may have filled the volume, until that is swept.
    skep_testkit::wait_for(Duration::from_secs(60), || {
        match write(&content, "/d/a", b"x", WriteMode::Replace) {
            Err(error @ ContentError::Full) => Err(error.to_string()),
            written => written.map(drop).map_err(|error| panic!("{error}")),
        }
    });
    content.remove(&path("/d")).unwrap();
    wait_until_swept(&inside);
}

/// Waits until nothing is left in the directory that no sandbox sees.
fn wait_until_swept(inside: &str) {
    skep_testkit::wait_for(Duration::from_secs(60), || match left(inside) {
        0 => Ok(()),
        left => Err(format!("{left} names are left")),
    });
}

/// Names in the directory that no sandbox sees, and one level below.
fn left(inside: &str) -> usize {
    let staging = fs::read_dir(format!("{inside}/../staging")).unwrap();
    let below = |path: std::path::PathBuf| fs::read_dir(path).map_or(0, Iterator::count);
    staging.map(|name| 1 + below(name.unwrap().path())).sum()
}

#[test]
fn a_deletion_removes_no_more_names_than_a_volume_can_have_had_and_the_next_goes_on() {
    const LINKS: usize = 60_000;
    let bed = Bed::new(64);
    let (_mount, inside) = inside(&bed);
    // Names without end, as far as anybody can tell who removes them: few files have as many.
    let plant = |directory: &str, files: usize| {
        fs::create_dir(format!("{inside}/{directory}")).unwrap();
        for file in 0..files {
            let first = format!("{inside}/{directory}/{file}");
            fs::write(&first, "").unwrap();
            for link in 0..LINKS {
                fs::hard_link(&first, format!("{first}-{link}")).unwrap();
            }
        }
    };
    plant("few", 1);
    plant("many", 2);
    bed.content.remove(&path("/few")).unwrap();
    assert_eq!(left(&inside), 0, "the control is removed at once");
    bed.content.remove(&path("/many")).unwrap();
    assert!(left(&inside) > 0);
    assert_eq!(bed.content.list(&path("/"), 1, || true).unwrap(), []);
    let directory = bed.directory.path().join("volumes");
    let next = LocalVolumes::new(directory, None).unwrap();
    let _content = next.content(bed.volume).unwrap();
    wait_until_swept(&inside);
}

/// Fills the directory that no sandbox sees with more than is removed in a moment.
fn leave_much(inside: &str) {
    const LINKS: usize = 60_000;
    let directory = format!("{inside}/../staging/left");
    fs::create_dir(&directory).unwrap();
    fs::write(format!("{directory}/0"), "").unwrap();
    for link in 1..LINKS {
        fs::hard_link(format!("{directory}/0"), format!("{directory}/{link}")).unwrap();
    }
}

#[test]
fn whoever_opens_a_volume_does_not_wait_for_what_is_left_in_it() {
    let bed = Bed::new(32);
    let (_mount, inside) = inside(&bed);
    leave_much(&inside);
    let next = LocalVolumes::new(bed.directory.path().join("volumes"), None).unwrap();
    let content = next.content(bed.volume).unwrap();
    assert!(left(&inside) > 0, "nobody has waited");
    // What the server itself has there meanwhile is not taken for what is left.
    let mut upload = content.write(&path("/a"), OWNER, WriteMode::New).unwrap();
    upload.write(b"1").unwrap();
    skep_testkit::wait_for(Duration::from_secs(60), || match left(&inside) {
        1 => Ok(()),
        left => Err(format!("{left} names are left")),
    });
    upload.finish().unwrap();
    assert_eq!(read(&content, "/a").unwrap(), b"1");
    wait_until_swept(&inside);
}

#[test]
fn a_sweep_ends_when_nobody_has_its_volume_any_more() {
    let bed = Bed::new(32);
    let (_mount, inside) = inside(&bed);
    leave_much(&inside);
    let next = LocalVolumes::new(bed.directory.path().join("volumes"), None).unwrap();
    drop(next.content(bed.volume).unwrap());
    drop(next);
    let mut last = 0;
    skep_testkit::wait_for(Duration::from_secs(60), || {
        let (now, before) = (left(&inside), last);
        last = now;
        (now == before).then_some(()).ok_or("it goes on")
    });
    assert!(last > 1, "the rest is left to the next opening");
}

#[test]
fn a_server_that_stops_leaves_deletions_to_the_next_one() {
    let bed = Bed::new(16);
    for name in ["a", "b"] {
        write(
            &bed.content,
            &format!("/d/{name}"),
            b"x",
            WriteMode::Replace,
        )
        .unwrap();
    }
    bed.volumes.stop();
    bed.content.remove(&path("/d")).unwrap();
    assert_eq!(bed.content.list(&path("/"), 1, || true).unwrap(), []);
    let (_mount, inside) = inside(&bed);
    let staging = format!("{inside}/../staging");
    assert_eq!(fs::read_dir(&staging).unwrap().count(), 1);
    let directory = bed.directory.path().join("volumes");
    let next = LocalVolumes::new(directory, None).unwrap();
    let _content = next.content(bed.volume).unwrap();
    wait_until_swept(&inside);
}

#[test]
fn a_volume_that_cannot_be_opened_now_holds_up_no_other() {
    const DEADLINE: Duration = Duration::from_secs(30);
    let bed = Bed::new(16);
    let other = VolumeId::random();
    bed.volumes.make(other, 16).unwrap();
    let (_mount, inside) = inside(&bed);
    let directory = bed.directory.path().join("volumes");
    let next = Arc::new(LocalVolumes::new(directory, None).unwrap());
    // To sweep what sandboxes left may take long; here it waits for as long as we like.
    fs::write(format!("{inside}/../staging/left"), "").unwrap();
    let frozen = skep_linux::FrozenFilesystem::freeze(fs::File::open(&inside).unwrap()).unwrap();
    let open = |volume: VolumeId| {
        let (next, (sending, receiving)) = (Arc::clone(&next), std::sync::mpsc::channel());
        let opening = std::thread::spawn(move || {
            sending.send(rustix::thread::gettid()).unwrap();
            next.content(volume).map(drop).unwrap();
        });
        (receiving.recv().unwrap(), opening)
    };
    let (thread, held_up) = open(bed.volume);
    let state = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    skep_testkit::wait_for(DEADLINE, || {
        let stat = fs::read_to_string(&state).unwrap();
        if stat.contains(") D ") {
            Ok(())
        } else {
            Err(stat)
        }
    });
    let (_, opening) = open(other);
    skep_testkit::wait_for(DEADLINE, || {
        let is_open = opening.is_finished();
        is_open
            .then_some(())
            .ok_or("the other volume is not opened")
    });
    assert!(!held_up.is_finished(), "the control waits");
    opening.join().unwrap();
    drop(frozen);
    held_up.join().unwrap();
}

#[test]
fn directories_that_are_swapped_for_links_meanwhile_lead_nobody_out() {
    const ROUNDS: usize = 2000;
    let bed = Bed::new(16);
    let (_mount, inside) = inside(&bed);
    let outside = bed.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a"), "secret").unwrap();
    fs::create_dir(format!("{inside}/d")).unwrap();
    fs::write(format!("{inside}/d/a"), "ours").unwrap();
    symlink(&outside, format!("{inside}/l")).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (is_over, inside) = (Arc::clone(&is_over), inside.clone());
        std::thread::spawn(move || {
            let (d, l) = (format!("{inside}/d"), format!("{inside}/l"));
            while !is_over.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &d, CWD, &l, flags).unwrap();
            }
        })
    };
    let mut control = 0;
    for _ in 0..ROUNDS {
        if fs::read(format!("{inside}/d/a")).is_ok_and(|found| found == b"secret") {
            control += 1;
        }
        if let Ok(found) = read(&bed.content, "/d/a") {
            assert_eq!(found, b"ours");
        }
        write(&bed.content, "/d/b", b"x", WriteMode::New).ok();
        bed.content.remove(&path("/d/b")).ok();
        let mode = Some(0o600);
        let changes = Attributes {
            mode,
            ..Attributes::default()
        };
        bed.content.set_attributes(&path("/d/a"), changes).ok();
    }
    is_over.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert!(control > 0, "the control is led astray");
    assert!(!outside.join("b").exists());
    assert_eq!(fs::read(outside.join("a")).unwrap(), b"secret");
    let mode = fs::metadata(outside.join("a"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o644);
}
