use std::io::Write as _;

use skep_types::Reserve;

use super::*;

const LIMIT: u64 = 1 << 20;

#[derive(Clone, Copy)]
enum Member<'a> {
    File(&'a str, u32, &'a str),
    Directory(&'a str, u32),
    Link(&'a str, &'a str),
    Pipe(&'a str),
}
use Member::{Directory, File as Plain, Link, Pipe};

/// An archive with names that the library would not write.
fn archive(members: &[Member<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for member in members {
        let mut header = Header::new_ustar();
        let (name, kind, mode, content) = match *member {
            Plain(name, mode, content) => (name, EntryType::Regular, mode, content),
            Directory(name, mode) => (name, EntryType::Directory, mode, ""),
            Link(name, to) => {
                header.as_old_mut().linkname[..to.len()].copy_from_slice(to.as_bytes());
                (name, EntryType::Symlink, 0o777, "")
            }
            Pipe(name) => (name, EntryType::Fifo, 0o644, ""),
        };
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// Lists the members that a sandbox would unpack, one line for each.
fn copied(
    members: &[Member<'_>],
    (from, target): (&str, &str),
    mode: Option<u32>,
) -> Result<Vec<String>, String> {
    let text = |error: ArchiveError| error.to_string();
    let archive = file(&archive(members));
    let survey = Survey::of(&archive, LIMIT).map_err(text)?;
    let source = source(from).map_err(text)?;
    survey.kind(&source, from).map_err(text)?;
    let wanted = Wanted {
        source,
        target: PathBuf::from(target),
        owner: Some(Owner {
            user: "user".to_owned(),
            uid: 1000,
            group: "user".to_owned(),
            gid: 1000,
        }),
        mode,
        limit: LIMIT,
        at: 1,
    };
    let into = tempfile::tempfile().unwrap();
    survey
        .write(&archive, &wanted, Careful::new(&into, None))
        .map_err(text)?;
    let mut lines = Vec::new();
    each_member(&into, u64::MAX, |entry| {
        assert_eq!(entry.header().uid().unwrap(), 1000);
        assert_eq!(entry.header().username(), Ok(Some("user")));
        let path = entry.path().unwrap().display().to_string();
        let mode = entry.header().mode().unwrap();
        let link = entry
            .link_name()
            .unwrap()
            .map_or_else(String::new, |link| format!(" -> {}", link.display()));
        lines.push(format!("{path} {mode:o}{link}"));
        Ok(())
    })
    .unwrap();
    Ok(lines)
}

#[test]
fn the_contents_of_a_directory_come_to_the_target_with_their_parents() {
    let members = [
        Directory("app/sub", 0o700),
        Plain("app/sub/run.sh", 0o755, "x"),
        Plain("app/deep/below/a", 0o600, "x"),
        Plain("other", 0o644, "x"),
    ];
    let lines = copied(&members, ("app", "/t/new"), None).unwrap();
    assert_eq!(
        lines,
        [
            "t 755",
            "t/new 755",
            "t/new/sub 700",
            "t/new/sub/run.sh 755",
            "t/new/deep 755",
            "t/new/deep/below 755",
            "t/new/deep/below/a 600",
        ]
    );
    assert_eq!(copied(&members, ("app/*", "/t/new"), None).unwrap(), lines);
}

#[test]
fn a_file_becomes_the_target_and_a_mode_is_for_all() {
    let members = [Directory("d", 0o755), Plain("d/f.txt", 0o600, "x")];
    assert_eq!(
        copied(&members, ("./d/f.txt", "/t/g.txt"), Some(0o644)).unwrap(),
        ["t 755", "t/g.txt 644"]
    );
    assert_eq!(
        copied(&members, ("d", "/t"), Some(0o644)).unwrap(),
        ["t 755", "t/f.txt 644"]
    );
}

#[test]
fn a_directory_has_its_mode_even_if_its_children_come_first() {
    let members = [
        Plain("d/f", 0o644, "x"),
        Directory("d", 0o711),
        Directory(".", 0o700),
    ];
    let lines = copied(&members, (".", "/t"), None).unwrap();
    assert_eq!(lines, ["t 755", "t/d 711", "t/d/f 644"]);
}

#[test]
fn a_member_below_a_link_is_left_out_and_the_link_is_kept() {
    let members = [
        Plain("d/link/deep", 0o644, "x"),
        Link("d/link", "/etc"),
        Link("d/dangling", "nowhere"),
    ];
    assert_eq!(
        copied(&members, ("d", "/t"), None).unwrap(),
        ["t 755", "t/link 777 -> /etc", "t/dangling 777 -> nowhere"]
    );
    assert_eq!(
        copied(&members, ("d/link", "/t/l"), None).unwrap(),
        ["t 755", "t/l 777 -> /etc"]
    );
}

#[test]
fn what_leads_out_or_is_no_file_is_refused_by_name() {
    for (member, expected) in [
        (
            Plain("../x", 0o644, ""),
            "the uploaded archive has a member '../x' outside of it",
        ),
        (
            Plain("/x", 0o644, ""),
            "the uploaded archive has a member '/x' outside of it",
        ),
        (
            Pipe("p"),
            "the uploaded archive has a member 'p' that is no file, directory or symbolic link",
        ),
    ] {
        let copied = copied(&[Plain("good", 0o644, ""), member], (".", "/t"), None);
        assert_eq!(copied, Err(expected.to_owned()));
    }
    let good = [Plain("good", 0o644, "")];
    let missing = copied(&good, ("bad", "/t"), None);
    assert_eq!(
        missing.unwrap_err(),
        "source path 'bad' is not in the uploaded files"
    );
    let outside = copied(&good, ("../bad", "/t"), None);
    assert_eq!(
        outside.unwrap_err(),
        "source path '../bad' is outside of the uploaded files"
    );
}

#[test]
fn a_bomb_ends_at_the_limit_and_a_broken_archive_is_said_to_be() {
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = "0".repeat(2 << 20);
    bomb.write_all(&archive(&[Plain("zeros", 0o644, &zeros)]))
        .unwrap();
    let bomb = bomb.finish().unwrap();
    let refused = Survey::of(&file(&bomb), LIMIT).unwrap_err();
    assert!(
        matches!(refused, ArchiveError::TooLarge(LIMIT)),
        "{refused}"
    );
    let broken = Survey::of(&file(&bomb[..bomb.len() / 2]), LIMIT << 10).unwrap_err();
    assert!(matches!(broken, ArchiveError::Damaged(_)), "{broken}");
}

/// Writes a member that describes the next one, which is an empty file.
fn described(kind: EntryType, content: &[u8]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_cksum();
    builder.append(&header, content).unwrap();
    let mut bytes = builder.into_inner().unwrap();
    bytes.truncate(bytes.len() - 1024);
    bytes.extend(archive(&[Plain("short", 0o644, "")]));
    bytes
}

/// The only name in an archive, or why there is none.
fn only_name(bytes: &[u8]) -> Result<String, String> {
    let survey = Survey::of(&file(bytes), 64 << 20).map_err(|error| error.to_string())?;
    let mut names = survey.members.keys();
    let name = names.next().unwrap().display().to_string();
    assert_eq!(names.next(), None);
    Ok(name)
}

#[test]
fn what_describes_a_member_is_not_read_without_end() {
    let long = vec!["n".repeat(200); 10].join("/");
    let record = format!("2020 path={long}\n");
    for (kind, content) in [
        (EntryType::GNULongName, long.as_bytes()),
        (EntryType::XHeader, record.as_bytes()),
    ] {
        assert_eq!(only_name(&described(kind, content)), Ok(long.clone()));
    }
    let endless = vec![b'n'; 4 << 20];
    for kind in [
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::XHeader,
    ] {
        assert_eq!(
            only_name(&described(kind, &endless)),
            Err(
                "the uploaded archive has a member whose headers take more than 1024 KiB"
                    .to_owned()
            )
        );
    }
}

#[test]
fn a_name_that_no_file_system_has_is_refused() {
    for name in [
        "n".repeat(255),
        "d/".repeat(255) + "f",
        vec!["n".repeat(255); 15].join("/"),
    ] {
        let bytes = described(EntryType::GNULongName, name.as_bytes());
        assert_eq!(only_name(&bytes), Ok(name));
    }
    for name in [
        "n".repeat(256),
        "d/".repeat(256) + "f",
        vec!["n".repeat(240); 17].join("/"),
    ] {
        let bytes = described(EntryType::GNULongName, name.as_bytes());
        let refused = only_name(&bytes).unwrap_err();
        assert!(
            refused.ends_with("' whose name is too long or too deep"),
            "{refused}"
        );
    }
    let members = [Plain("f", 0o644, "")];
    let refused = copied(&members, (".", &"/d".repeat(256)), None).unwrap_err();
    assert!(refused.ends_with("' is too long or too deep"), "{refused}");
    assert_eq!(
        copied(&members, (".", &"/d".repeat(255)), None)
            .unwrap()
            .len(),
        256
    );
}

/// Each of these members needs two hundred directories, each with a name of four thousand bytes.
#[test]
fn directories_that_names_imply_have_a_bound() {
    let mut builder = Builder::new(Vec::new());
    for number in 0..200 {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(0);
        let name = format!("{number}/{}f", "directory-below-it/".repeat(200));
        builder.append_data(&mut header, name, io::empty()).unwrap();
    }
    let bytes = builder.into_inner().unwrap();
    let archive = file(&bytes);
    let survey = Survey::of(&archive, 64 << 20).unwrap();
    let wanted = Wanted {
        source: PathBuf::new(),
        target: PathBuf::from("/t"),
        owner: None,
        mode: None,
        limit: 64 << 20,
        at: 1,
    };
    let into = tempfile::tempfile().unwrap();
    let refused = survey
        .write(&archive, &wanted, Careful::new(&into, None))
        .unwrap_err();
    assert!(matches!(refused, ArchiveError::TooMany), "{refused}");
    let written = into.metadata().unwrap().len();
    assert!(written < 2 * MOST_NAME_BYTES as u64, "{written}");
}

#[test]
fn a_copy_leaves_the_reserve_of_the_disk_free() {
    let archive = file(&archive(&[Plain("f", 0o644, "x")]));
    let survey = Survey::of(&archive, LIMIT).unwrap();
    let wanted = Wanted {
        source: PathBuf::new(),
        target: PathBuf::from("/t"),
        owner: None,
        mode: None,
        limit: LIMIT,
        at: 1,
    };
    let into = tempfile::tempfile().unwrap();
    let write = |reserve| survey.write(&archive, &wanted, Careful::new(&into, Some(reserve)));
    write(Reserve::Bytes(1)).unwrap();
    let refused = write(Reserve::Percent(100.0)).unwrap_err();
    assert!(matches!(refused, ArchiveError::NoRoom), "{refused}");
}
