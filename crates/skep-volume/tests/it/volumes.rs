//! Volumes as wholes.

use std::collections::HashSet;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use skep_types::VolumeId;
use skep_volume::{Backend, ContentError, LocalVolumes, WriteMode};

use crate::{Bed, OWNER, path, read, write};

/// Loop devices whose file is below a directory.
fn devices(directory: &Path) -> usize {
    let blocks = fs::read_dir("/sys/block").unwrap();
    let backing = blocks.filter_map(|block| {
        fs::read_to_string(block.unwrap().path().join("loop/backing_file")).ok()
    });
    let ours = backing.filter(|file| Path::new(file.trim()).starts_with(directory));
    ours.count()
}

#[test]
fn the_size_of_a_volume_is_a_limit_and_what_does_not_fit_is_not_there() {
    let bed = Bed::new(16);
    let usage = bed.volumes.usage(bed.volume).unwrap();
    assert!(usage.size >= 16 << 20 && usage.size < 40 << 20, "{usage:?}");
    let block = vec![7; 1 << 20];
    let mut upload = (bed.content)
        .write(&path("/big"), OWNER, WriteMode::New)
        .unwrap();
    let full = (0..64).find_map(|_| upload.write(&block).err());
    assert!(matches!(full, Some(ContentError::Full)), "{full:?}");
    drop(upload);
    write(&bed.content, "/small", &block, WriteMode::New).unwrap();
    assert_eq!(bed.content.list(&path("/"), 1, || true).unwrap().len(), 1);
}

#[test]
fn whoever_mounts_a_volume_again_has_the_same_filesystem() {
    let bed = Bed::new(16);
    let mount = bed.volumes.mount(bed.volume).unwrap();
    write(&bed.content, "/a", b"1", WriteMode::New).unwrap();
    let inside = format!("/proc/self/fd/{}/data", mount.as_raw_fd());
    assert_eq!(fs::read(format!("{inside}/a")).unwrap(), b"1");
    // Another server, while a sandbox has the volume.
    let directory = bed.directory.path().join("volumes");
    let second = LocalVolumes::new(directory.clone(), None).unwrap();
    drop((bed.content, bed.volumes));
    fs::write(format!("{inside}/b"), b"2").unwrap();
    let content = second.content(bed.volume).unwrap();
    assert_eq!(read(&content, "/b").unwrap(), b"2");
    assert_eq!(devices(&directory), 1);
    drop((content, second, mount));
    skep_testkit::wait_for(Duration::from_secs(10), || match devices(&directory) {
        0 => Ok(()),
        left => Err(format!("{left} devices are left")),
    });
}

#[test]
fn a_copy_has_what_was_there_at_one_moment_and_nothing_that_comes_after() {
    let bed = Bed::new(32);
    write(&bed.content, "/d/a", b"1", WriteMode::Replace).unwrap();
    let copy = VolumeId::random();
    bed.volumes.copy(bed.volume, copy).unwrap();
    write(&bed.content, "/d/a", b"2", WriteMode::Replace).unwrap();
    let copied = bed.volumes.content(copy).unwrap();
    assert_eq!(read(&copied, "/d/a").unwrap(), b"1");
    write(&copied, "/d/b", b"3", WriteMode::New).unwrap();
    assert_eq!(bed.content.list(&path("/d"), 1, || true).unwrap().len(), 1);
}

#[test]
#[expect(clippy::mem_forget, reason = "a server that is killed drops nothing")]
fn a_new_server_removes_halves_and_thaws_what_a_killed_one_froze() {
    let bed = Bed::new(16);
    let directory = bed.directory.path().join("volumes");
    let stray = directory.join(format!("{}.ext4", VolumeId::random()));
    let half = directory.join(format!("{}.making", VolumeId::random()));
    fs::write(&stray, "").unwrap();
    fs::write(&half, "").unwrap();
    let mount = bed.volumes.mount(bed.volume).unwrap();
    let inside = format!("/proc/self/fd/{}/data", mount.as_raw_fd());
    let frozen = skep_linux::FrozenFilesystem::freeze(fs::File::open(&inside).unwrap()).unwrap();
    std::mem::forget(frozen);
    drop((bed.content, bed.volumes));

    let second = LocalVolumes::new(directory.clone(), None).unwrap();
    second.sweep(&HashSet::from([bed.volume])).unwrap();
    assert!(!stray.exists() && !half.exists());
    fs::write(format!("{inside}/a"), b"1").unwrap();
    assert_eq!(
        read(&second.content(bed.volume).unwrap(), "/a").unwrap(),
        b"1"
    );
}

#[test]
fn a_removed_volume_is_gone_and_its_readers_end_in_peace() {
    let bed = Bed::new(16);
    write(&bed.content, "/a", b"1", WriteMode::New).unwrap();
    bed.volumes.remove(bed.volume).unwrap();
    bed.volumes.remove(bed.volume).unwrap();
    assert_eq!(read(&bed.content, "/a").unwrap(), b"1");
    bed.volumes.content(bed.volume).unwrap_err();
    assert_eq!(bed.volumes.bytes(), 0);
    drop(Arc::clone(&bed.content));
}
