//! Files that an upload leaves behind.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use skep_testkit::wait_until;

use super::{FORM, RAW, form, told};
use crate::agent::{TestAgent, USER_ID, streamed};

#[tokio::test]
async fn several_parts_go_to_the_full_paths_they_name() {
    let agent = TestAgent::start();
    let absolute = agent.at("abs/x.txt");
    let parts = [
        ("file", absolute.as_str(), "one"),
        ("other", "skipped", "-"),
        ("file", "y.txt", "two"),
    ];
    let answer = agent.post("/files", &[FORM], form(&parts)).await;
    let written: Vec<Value> = answer
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].clone())
        .collect();
    assert_eq!(written, [json!(absolute), json!(agent.at("y.txt"))]);
    assert!(!agent.home().join("skipped").exists());
    let twice = form(&[("file", "z", "1"), ("file", "./z", "2")]);
    assert_eq!(
        agent.post("/files", &[FORM], twice).await.status,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn metadata_is_kept_shown_and_replaced() {
    let agent = TestAgent::start();
    let headers = [
        RAW,
        ("X-Metadata-Author", "mish"),
        ("X-Metadata-Kind", "note"),
    ];
    let answer = agent.post("/files?path=m", &headers, "x").await;
    let metadata = json!({"author": "mish", "kind": "note"});
    assert_eq!(answer.json()[0]["metadata"], metadata);
    let entry = async || {
        agent
            .ask("filesystem.Filesystem/Stat", json!({"path": "m"}))
            .await["entry"]
            .clone()
    };
    assert_eq!(entry().await["metadata"], metadata);
    agent
        .ask(
            "filesystem.Filesystem/Move",
            json!({"source": "m", "destination": "n"}),
        )
        .await;
    agent
        .ask(
            "filesystem.Filesystem/Move",
            json!({"source": "n", "destination": "m"}),
        )
        .await;
    agent
        .post("/files?path=m", &[RAW, ("x-metadata-kind", "other")], "x")
        .await;
    assert_eq!(entry().await["metadata"], json!({"kind": "other"}));
    agent.post("/files?path=m", &[RAW], "x").await;
    assert_eq!(entry().await.get("metadata"), None);
    let refused = agent
        .post("/files?path=never", &[RAW, ("x-metadata-a", "ü")], "x")
        .await;
    assert!(
        told(&refused).starts_with("400 400 invalid metadata"),
        "{}",
        refused.text()
    );
    assert!(!agent.home().join("never").exists());
}

#[tokio::test]
async fn overwriting_keeps_the_mode_the_inode_and_the_links() {
    let agent = TestAgent::start();
    let large = "x".repeat(600_000);
    for body in ["tiny", large.as_str(), "small again"] {
        std::fs::write(agent.at("real"), "before, and longer than tiny").unwrap();
        std::fs::set_permissions(agent.at("real"), std::fs::Permissions::from_mode(0o750)).unwrap();
        let before = std::fs::metadata(agent.at("real")).unwrap();
        drop(std::fs::remove_file(agent.at("link")));
        symlink("real", agent.at("link")).unwrap();
        let answer = agent
            .post("/files?path=link", &[RAW], body.to_owned())
            .await;
        assert_eq!(answer.status, StatusCode::OK);
        let after = std::fs::metadata(agent.at("real")).unwrap();
        assert_eq!(std::fs::read_to_string(agent.at("real")).unwrap(), body);
        assert_eq!(
            (after.ino(), after.mode() & 0o777, after.uid()),
            (before.ino(), 0o750, USER_ID)
        );
    }
}

/// Sends some of a body, waits until the agent has taken it, and hangs up.
async fn cut_upload(agent: &TestAgent, path: &str, seen: impl Fn() -> bool) {
    let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
    let body = streamed(futures_util::stream::unfold(
        receiver,
        |mut receiver| async { receiver.recv().await.map(|piece| (piece, receiver)) },
    ));
    let path = format!("/files?path={path}");
    let headers = [RAW];
    let upload = agent.send(Method::POST, &path, &headers, body);
    let feed = async {
        for _ in 0..8 {
            sender.send(Bytes::from(vec![b'n'; 100_000])).await.unwrap();
        }
        wait_until(Duration::from_secs(10), || async {
            if seen() {
                Ok(())
            } else {
                Err("nothing arrived")
            }
        })
        .await;
    };
    tokio::select! {
        _ = upload => panic!("the upload cannot end by itself"),
        () = feed => {}
    }
}

#[tokio::test]
async fn an_upload_that_is_cut_off_leaves_what_was_there() {
    let agent = TestAgent::start();
    std::fs::write(agent.at("old"), "precious").unwrap();
    let owner = std::fs::metadata(agent.at("old")).unwrap().uid();
    // Opening the file is what happens first; it changes hands with its content.
    cut_upload(&agent, "old", || is_open_here(agent.at("old").as_ref())).await;
    let new = agent.home().join("new");
    cut_upload(&agent, "new", || new.exists()).await;
    wait_until(Duration::from_secs(10), || async {
        if new.exists() {
            Err("half of a new file is still there")
        } else {
            Ok(())
        }
    })
    .await;
    assert_eq!(
        std::fs::read_to_string(agent.at("old")).unwrap(),
        "precious"
    );
    let names: Vec<_> = std::fs::read_dir(agent.home())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["old"]);
    let left = std::fs::metadata(agent.at("old")).unwrap().uid();
    assert_eq!(left, owner, "a cut upload takes nothing from its owner");
}

#[tokio::test]
async fn a_cut_upload_is_removed_where_it_is_and_not_where_its_path_leads_by_then() {
    let agent = TestAgent::start();
    for directory in ["place", "victim"] {
        std::fs::create_dir(agent.at(directory)).unwrap();
    }
    std::fs::write(agent.at("victim/file"), "precious").unwrap();
    let swap_when_begun = || {
        let has_begun = std::fs::exists(agent.at("place/file")).unwrap();
        if has_begun {
            std::fs::rename(agent.at("place"), agent.at("aside")).unwrap();
            std::os::unix::fs::symlink(agent.at("victim"), agent.at("place")).unwrap();
        }
        has_begun
    };
    cut_upload(&agent, "place/file", swap_when_begun).await;
    wait_until(Duration::from_secs(10), || async {
        if std::fs::exists(agent.at("aside/file")).unwrap() {
            Err("half of a file is still there")
        } else {
            Ok(())
        }
    })
    .await;
    let kept = std::fs::read_to_string(agent.at("victim/file")).unwrap();
    assert_eq!(kept, "precious");
}

/// Returns true if this process, which the agent is a part of, holds the file open.
fn is_open_here(path: &std::path::Path) -> bool {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .any(|descriptor| std::fs::read_link(descriptor.path()).is_ok_and(|file| file == *path))
}

/// A small disk that is taken away again however the test ends.
struct Disk(std::path::PathBuf);

impl Disk {
    fn of_one_megabyte(place: std::path::PathBuf) -> Self {
        std::fs::create_dir(&place).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount(
            "tmpfs",
            &place,
            "tmpfs",
            flags,
            Some(c"size=1m,nr_inodes=32"),
        )
        .unwrap();
        Self(place)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

#[tokio::test]
async fn a_full_disk_is_told_apart_and_spares_the_old_file() {
    let agent = TestAgent::start();
    let disk = Disk::of_one_megabyte(agent.home().join("disk"));
    std::fs::write(disk.0.join("old"), "precious").unwrap();
    std::fs::write(disk.0.join("filler"), vec![0; 900_000]).unwrap();
    for (path, size) in [
        ("disk/new", 200_000),
        ("disk/new", 2_000_000),
        ("disk/old", 200_000),
        ("disk/old", 2_000_000),
    ] {
        let answer = agent
            .post(&format!("/files?path={path}"), &[RAW], vec![b'x'; size])
            .await;
        assert_eq!(
            told(&answer),
            "507 507 not enough disk space available",
            "{path} {size}"
        );
    }
    assert_eq!(
        std::fs::read_to_string(disk.0.join("old")).unwrap(),
        "precious"
    );
    assert!(!disk.0.join("new").exists());
}

#[tokio::test]
async fn what_a_full_disk_has_no_room_for_leaves_nothing_behind() {
    let agent = TestAgent::start();
    let disk = Disk::of_one_megabyte(agent.home().join("disk"));
    for (name, size) in [("one", 300_000), ("other", 300_000), ("filler", 400_000)] {
        std::fs::write(disk.0.join(name), vec![b'x'; size]).unwrap();
    }
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&disk.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let before = names();
    let body = serde_json::json!({
        "source_paths": ["disk/one", "disk/other"], "destination": "disk/new/composed",
    });
    let json = ("content-type", "application/json");
    let answer = agent
        .post("/files/compose", &[json], body.to_string())
        .await;
    assert_eq!(told(&answer), "507 507 not enough disk space available");
    assert_eq!(
        names(),
        before,
        "no torn file, no directory, and both sources"
    );

    // A directory takes an inode, of which there are few here; those above it go again.
    let deep = "d/".repeat(40);
    let request = serde_json::json!({"path": format!("disk/{deep}")});
    let refused = agent
        .refused("filesystem.Filesystem/MakeDir", request)
        .await;
    assert_eq!(
        refused,
        "429 resource_exhausted not enough disk space available: No space left on device (os error 28)"
    );
    assert_eq!(names(), before);
}

/// Found by fuzzing: the directories stayed, and an existing file had changed hands already.
#[tokio::test]
async fn a_refused_upload_changes_nothing_on_its_way() {
    let agent = TestAgent::start();
    std::fs::write(agent.at("old"), "old").unwrap();
    let owner = std::fs::metadata(agent.at("old")).unwrap().uid();
    assert_ne!(owner, USER_ID);
    let mut cut = super::gzip(&[0; 1 << 20]).await;
    cut.truncate(cut.len() - 4);
    let gzip = ("content-encoding", "gzip");
    for path in ["new/large", "old"] {
        let answer = agent
            .post(&format!("/files?path={path}"), &[RAW, gzip], cut.clone())
            .await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
    }
    let long = format!("new/{}", "n".repeat(256));
    for path in [&agent.at("new/."), &agent.at("new/sub/"), &long, "old/x"] {
        let answer = agent
            .post(&format!("/files?path={path}"), &[RAW], "data")
            .await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
    }
    assert!(!agent.home().join("new").exists());
    assert_eq!(std::fs::read_to_string(agent.at("old")).unwrap(), "old");
    assert_eq!(std::fs::metadata(agent.at("old")).unwrap().uid(), owner);
}

#[tokio::test]
async fn uploads_that_fail_do_not_take_directories_from_those_that_succeed() {
    let agent = TestAgent::start();
    let mut cut = super::gzip(&[0; 1 << 20]).await;
    cut.truncate(cut.len() - 4);
    for round in 0..20 {
        let bad = format!("/files?path=d{round}/a/bad");
        let headers = [RAW, ("content-encoding", "gzip")];
        let good = format!("/files?path=d{round}/a/good");
        let (bad, good) = futures_util::join!(
            agent.post(&bad, &headers, cut.clone()),
            agent.post(&good, &[RAW], "good")
        );
        assert_eq!(bad.status, StatusCode::BAD_REQUEST);
        assert_eq!(good.status, StatusCode::OK, "{}", good.text());
        let written = agent.home().join(format!("d{round}/a/good"));
        assert_eq!(std::fs::read_to_string(written).unwrap(), "good");
    }
}
