//! Work on the files of a volume.

use skep_volume::{Attributes, Content, ContentError, EntryKind, Ownership, WriteMode};

use crate::{Bed, OWNER, path, read, write};

fn names(content: &Content, at: &str, depth: u32) -> Vec<String> {
    let entries = content.list(&path(at), depth, || true).unwrap();
    entries.into_iter().map(|entry| entry.path).collect()
}

#[test]
fn files_are_written_read_listed_changed_and_removed() {
    let bed = Bed::new(32);
    let content = &bed.content;
    let entry = write(content, "/a", b"hello", WriteMode::New).unwrap();
    assert_eq!(
        (entry.name.as_str(), entry.path.as_str(), entry.kind),
        ("a", "/a", EntryKind::File)
    );
    let owned = (entry.size, entry.mode, entry.uid, entry.gid);
    assert_eq!(owned, (5, 0o666, 1000, 1000));
    assert_eq!(read(content, "/a").unwrap(), b"hello");
    let refused = write(content, "/a", b"x", WriteMode::New).unwrap_err();
    assert!(matches!(refused, ContentError::Exists(_)), "{refused}");
    write(content, "/a", b"", WriteMode::Replace).unwrap();
    assert_eq!(read(content, "/a").unwrap(), b"");

    let refused = write(content, "/d/e/f", b"x", WriteMode::New).unwrap_err();
    assert!(matches!(refused, ContentError::NotFound(_)), "{refused}");
    write(content, "/d/e/f", b"deep", WriteMode::Replace).unwrap();
    let made = content.stat(&path("/d/e")).unwrap();
    assert_eq!((made.mode, made.uid), (0o777, 1000));
    assert_eq!(names(content, "/", 1), ["/a", "/d"]);
    assert_eq!(names(content, "/", 10), ["/a", "/d", "/d/e", "/d/e/f"]);

    let changes = Attributes {
        uid: Some(5),
        gid: Some(6),
        mode: Some(0o640),
    };
    let entry = content.set_attributes(&path("/a"), changes).unwrap();
    assert_eq!((entry.uid, entry.gid, entry.mode), (5, 6, 0o640));
    let same = content.set_attributes(&path("/a"), Attributes::default());
    assert_eq!(same.unwrap(), entry);

    content.remove(&path("/d")).unwrap();
    assert_eq!(names(content, "/", 10), ["/a"]);
    for gone in [content.remove(&path("/d")), content.remove(&path("/d/e/f"))] {
        assert!(matches!(gone, Err(ContentError::NotFound(_))));
    }
    let root = content.remove(&path("/")).unwrap_err();
    assert!(matches!(root, ContentError::Root));
}

#[test]
fn directories_are_made_once_unless_that_is_fine() {
    let bed = Bed::new(32);
    let content = &bed.content;
    let owner = Ownership {
        mode: 0o700,
        uid: 7,
        ..OWNER
    };
    let made = content.make_directory(&path("/d"), owner, false).unwrap();
    assert_eq!(
        (made.kind, made.mode, made.uid),
        (EntryKind::Directory, 0o700, 7)
    );
    let again = content
        .make_directory(&path("/d"), OWNER, false)
        .unwrap_err();
    assert!(matches!(again, ContentError::Exists(_)), "{again}");
    let again = content.make_directory(&path("/d"), OWNER, true).unwrap();
    assert_eq!((again.mode, again.uid), (0o700, 7), "it is as it was");
    let below = content
        .make_directory(&path("/x/y"), OWNER, false)
        .unwrap_err();
    assert!(matches!(below, ContentError::NotFound(_)), "{below}");
    content.make_directory(&path("/x/y"), OWNER, true).unwrap();

    write(content, "/f", b"", WriteMode::New).unwrap();
    let file = content
        .make_directory(&path("/f"), OWNER, true)
        .unwrap_err();
    assert!(matches!(file, ContentError::Exists(_)), "{file}");
    let through = content
        .make_directory(&path("/f/d"), OWNER, true)
        .unwrap_err();
    assert!(matches!(through, ContentError::ThroughFile(_)), "{through}");
    let over = write(content, "/d", b"", WriteMode::Replace).unwrap_err();
    assert!(matches!(over, ContentError::Exists(_)), "{over}");
    let listed = content.list(&path("/f"), 1, || true).unwrap_err();
    assert!(matches!(listed, ContentError::NotFound(_)), "{listed}");
    let read = content.read(&path("/d")).unwrap_err();
    assert!(matches!(read, ContentError::IsDirectory(_)), "{read}");
}

#[test]
fn an_upload_that_breaks_off_leaves_nothing_and_what_was_there() {
    let bed = Bed::new(32);
    let content = &bed.content;
    write(content, "/a", b"old", WriteMode::New).unwrap();
    let free = || {
        use skep_volume::Backend as _;
        bed.volumes.usage(bed.volume).unwrap().used
    };
    let before = free();
    let mut upload = content
        .write(&path("/a"), OWNER, WriteMode::Replace)
        .unwrap();
    upload.write(&vec![1; 4 << 20]).unwrap();
    drop(upload);
    assert_eq!(read(content, "/a").unwrap(), b"old");
    assert_eq!(names(content, "/", 1), ["/a"]);
    assert!(free() <= before + (64 << 10), "{} {before}", free());
}
