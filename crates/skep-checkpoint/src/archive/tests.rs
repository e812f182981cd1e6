use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use super::*;

fn open(path: &Path) -> OwnedFd {
    File::open(path).unwrap().into()
}

#[test]
fn what_was_packed_is_there_again_with_other_ids() {
    let [old, new, store] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let at = |name: &str| old.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::set_permissions(at("a/b"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(at("a/b/file"), "content").unwrap();
    fs::hard_link(at("a/b/file"), at("a/other")).unwrap();
    symlink("/etc/passwd", at("a/link")).unwrap();
    let sparse = File::create(at("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    sparse.write_all_at(b"far", 32 << 20).unwrap();
    let odd = OsStr::from_bytes(b"odd\xff name");
    fs::write(old.path().join(odd), "odd").unwrap();
    drop(UnixListener::bind(at("socket")).unwrap());
    let archive = store.path().join("archive");
    pack(&[open(old.path())], 0, &archive).unwrap();
    assert!(
        fs::metadata(&archive).unwrap().len() < 1 << 20,
        "holes take no space"
    );

    // What its maker has put there stays, or is replaced.
    fs::create_dir(new.path().join("a")).unwrap();
    fs::write(new.path().join("sparse"), "other").unwrap();
    let archive = File::open(&archive).unwrap();
    unpack(archive, &[open(new.path())], 70_000).unwrap();
    let at = |name: &str| new.path().join(name);
    assert_eq!(fs::read(at("a/b/file")).unwrap(), b"content");
    let (file, other) = (
        fs::metadata(at("a/b/file")).unwrap(),
        fs::metadata(at("a/other")).unwrap(),
    );
    assert_eq!(file.ino(), other.ino());
    let owner = fs::metadata(old.path().join("a")).unwrap();
    assert_eq!(
        (file.uid(), file.gid()),
        (70_000 + owner.uid(), 70_000 + owner.gid())
    );
    assert_eq!(fs::metadata(at("a/b")).unwrap().mode() & 0o7777, 0o1777);
    assert_eq!(
        fs::read_link(at("a/link")).unwrap(),
        Path::new("/etc/passwd")
    );
    let sparse = fs::metadata(at("sparse")).unwrap();
    assert_eq!(sparse.len(), 64 << 20);
    assert!(sparse.blocks() < 1000);
    assert_eq!(fs::read(new.path().join(odd)).unwrap(), b"odd");
    fs::symlink_metadata(at("socket")).unwrap();
}

/// The maker of `/dev` puts links there that lead into the process that unpacks.
#[test]
fn a_directory_in_place_of_a_link_changes_nothing_behind_the_link() {
    let [old, new, outside, store] = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let behind = outside.path().join("behind");
    fs::write(&behind, "").unwrap();
    fs::set_permissions(&behind, fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(old.path().join("stdout")).unwrap();
    fs::set_permissions(old.path().join("stdout"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(old.path().join("lock"), "a file").unwrap();
    let archive = store.path().join("archive");
    pack(&[open(old.path())], 0, &archive).unwrap();
    symlink(&behind, new.path().join("stdout")).unwrap();
    fs::create_dir(new.path().join("lock")).unwrap();
    unpack(File::open(&archive).unwrap(), &[open(new.path())], 0).unwrap();
    assert_eq!(fs::metadata(&behind).unwrap().mode() & 0o7777, 0o600);
    assert!(
        fs::symlink_metadata(new.path().join("stdout"))
            .unwrap()
            .is_dir()
    );
    assert_eq!(fs::read(new.path().join("lock")).unwrap(), b"a file");
}

#[test]
fn more_holes_than_can_be_read_again_are_not_packed() {
    let [old, store] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let file = File::create(old.path().join("holes")).unwrap();
    for at in 0..8000 {
        file.write_all_at(b"x", at * 16_384).unwrap();
    }
    let packed = pack(&[open(old.path())], 0, &store.path().join("archive"));
    assert!(
        matches!(packed, Err(ArchiveError::Archive("write", _))),
        "{packed:?}"
    );
}

#[test]
fn an_archive_leads_to_nothing_outside_of_its_mount() {
    let [target, outside, store] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    symlink(outside.path(), target.path().join("out")).unwrap();
    for path in ["out/file", "../file", "/file", "out"] {
        let archive = store.path().join("archive");
        let entry = Entry {
            mount: 0,
            path: hex::encode(path),
            kind: Kind::Pipe,
            mode: 0o644,
            owner: (0, 0),
            changed: (0, 0),
        };
        let head = serde_json::to_vec(&entry).unwrap();
        let mut file = File::create(&archive).unwrap();
        let length = u32::try_from(head.len()).unwrap();
        file.write_all(&length.to_le_bytes()).unwrap();
        file.write_all(&head).unwrap();
        let archive = File::open(&archive).unwrap();
        let unpacked = unpack(archive, &[open(target.path())], 0);
        // One that takes the link's place is what it says.
        assert_eq!(unpacked.is_ok(), path == "out", "{path}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "{path}");
    }
}
