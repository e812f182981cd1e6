//! Uploads into a directory.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use tempfile::TempDir;

use super::*;

struct Fixture {
    directory: TempDir,
    uploads: Uploads,
    team: TeamId,
    files: FilesHash,
}

impl Fixture {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        Self {
            uploads: Uploads::new(directory.path()).with_limit(1 << 20),
            directory,
            team: TeamId::random(),
            files: "a".repeat(64).parse().unwrap(),
        }
    }

    async fn send(&self, announced: Option<u64>, body: &[u8]) -> Result<(), String> {
        let chunks: Vec<_> = body
            .chunks(1000)
            .map(Bytes::copy_from_slice)
            .map(Ok)
            .collect();
        self.send_chunks(announced, chunks).await
    }

    async fn send_chunks(
        &self,
        announced: Option<u64>,
        chunks: Vec<io::Result<Bytes>>,
    ) -> Result<(), String> {
        let upload = Upload {
            announced,
            body: stream::iter(chunks).boxed(),
        };
        let uploads: &dyn skep_control::Uploads = &self.uploads;
        let receiving = uploads.receive(&self.team, &self.files, upload).await;
        receiving.map_err(|error| error.to_string())
    }

    fn is_present(&self) -> bool {
        self.uploads.is_present(&self.team, &self.files).unwrap()
    }

    /// Number of files anywhere in the directory.
    fn count(&self) -> usize {
        let mut count = 0;
        let mut open = vec![self.directory.path().to_owned()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    count += 1;
                }
            }
        }
        count
    }
}

/// Something with the form of a tar: a block and its end.
fn tar(content: u8) -> Vec<u8> {
    let mut tar = vec![content; BLOCK];
    tar.resize(20 * BLOCK, 0);
    tar
}

const BLOCK: usize = 512;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn length(body: &[u8]) -> Option<u64> {
    u64::try_from(body.len()).ok()
}

#[tokio::test]
async fn an_archive_is_kept_with_gzip_and_without_for_its_team_alone() {
    for body in [tar(1), gzip(&tar(1))] {
        let fixture = Fixture::new();
        assert!(!fixture.is_present());
        fixture.send(length(&body), &body).await.unwrap();
        assert!(fixture.is_present());
        assert_eq!(fixture.count(), 1);
        let other = TeamId::random();
        assert!(!fixture.uploads.is_present(&other, &fixture.files).unwrap());
        assert!(
            fixture
                .uploads
                .open(&other, &fixture.files)
                .unwrap()
                .is_none()
        );
    }
}

#[tokio::test]
async fn whoever_reads_an_archive_goes_on_when_it_is_replaced() {
    let fixture = Fixture::new();
    let (old, new) = (tar(1), tar(2));
    fixture.send(None, &old).await.unwrap();
    let mut open = fixture
        .uploads
        .open(&fixture.team, &fixture.files)
        .unwrap()
        .unwrap();
    fixture.send(None, &new).await.unwrap();
    let mut read = Vec::new();
    open.read_to_end(&mut read).unwrap();
    assert_eq!(read, old);
    let mut open = fixture
        .uploads
        .open(&fixture.team, &fixture.files)
        .unwrap()
        .unwrap();
    read.clear();
    open.read_to_end(&mut read).unwrap();
    assert_eq!(read, new);
}

#[tokio::test]
async fn what_is_not_complete_leaves_nothing() {
    let fixture = Fixture::new();
    let (plain, packed) = (tar(1), gzip(&tar(1)));
    let check = async |announced, body: &[u8], expected: &str| {
        let refused = fixture.send(announced, body).await.unwrap_err();
        assert_eq!(refused, expected);
        assert_eq!((fixture.is_present(), fixture.count()), (false, 0));
    };
    let short = length(&plain).map(|length| length + 1);
    check(
        short,
        &plain,
        "the archive is broken: it is shorter than was announced",
    )
    .await;
    check(None, &[], "the archive is broken: it is empty").await;
    check(
        None,
        &plain[..700],
        "the archive is broken: it ends in the middle of a block",
    )
    .await;
    check(
        None,
        &plain[..BLOCK],
        "the archive is broken: the end of the tar is missing",
    )
    .await;
    check(
        None,
        &packed[..packed.len() - 4],
        "the archive is broken: its gzip stream is damaged or ends early",
    )
    .await;
    let large = vec![0; (1 << 20) + 1];
    let too_large = "the archive is larger than 1048576 bytes";
    check(length(&large), &[], too_large).await;
    check(None, &large, too_large).await;
    let broken = vec![Ok(Bytes::from(plain)), Err(io::Error::other("reset"))];
    let refused = fixture.send_chunks(None, broken).await.unwrap_err();
    assert_eq!(refused, "the archive is broken: the upload broke off");
    assert_eq!((fixture.is_present(), fixture.count()), (false, 0));
}

#[tokio::test]
async fn what_a_dead_server_was_receiving_is_removed() {
    let fixture = Fixture::new();
    let incoming = fixture.directory.path().join(INCOMING);
    std::fs::create_dir(&incoming).unwrap();
    std::fs::write(incoming.join("half"), "x").unwrap();
    fixture.uploads.clear_incoming().unwrap();
    fixture.uploads.clear_incoming().unwrap();
    assert_eq!(fixture.count(), 0);
}

#[tokio::test]
async fn an_archive_that_nobody_has_asked_for_since_goes() {
    let fixture = Fixture::new();
    fixture.send(None, &tar(7)).await.unwrap();
    let later = SystemTime::now() + std::time::Duration::from_secs(60);
    let earlier = SystemTime::now() - std::time::Duration::from_secs(60);
    assert_eq!(fixture.uploads.forget_unused(earlier).unwrap(), 0);
    let path = fixture.uploads.path(&fixture.team, &fixture.files);
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    // A client that hears that it is there does not send it again.
    assert!(fixture.is_present());
    assert_eq!(fixture.uploads.forget_unused(earlier).unwrap(), 0);
    assert!(fixture.uploads.forget_unused(later).unwrap() > 0);
    assert!(!fixture.is_present());
    assert_eq!(fixture.count(), 0);
}

#[tokio::test]
async fn an_archive_leaves_the_reserve_of_the_disk_free() {
    let mut fixture = Fixture::new();
    let body = tar(1);
    fixture.uploads = fixture.uploads.with_reserve(Some(Reserve::Percent(100.0)));
    for announced in [length(&body), None] {
        let refused = fixture.send(announced, &body).await.unwrap_err();
        assert_eq!(
            refused,
            "the server's disk has no room for the archive; try again later"
        );
        assert_eq!((fixture.is_present(), fixture.count()), (false, 0));
    }
    // The control.
    fixture.uploads = fixture.uploads.with_reserve(Some(Reserve::Bytes(1)));
    fixture.send(length(&body), &body).await.unwrap();
    assert!(fixture.is_present());
}

#[tokio::test]
async fn a_team_has_so_many_bytes_of_archives_and_takes_nothing_from_others() {
    let mut fixture = Fixture::new();
    let own = fixture.team.clone();
    let name = |number: usize| format!("{number:064x}").parse().unwrap();
    let large = [vec![1; 700 << 10], tar(1)].concat();
    for (announced, number) in [(length(&large), 0), (None, 1)] {
        fixture.files = name(number);
        fixture.send(announced, &large).await.unwrap();
    }
    let full = "the archives of the team would take more than 2097152 bytes of the server's disk; leave out files that the \
        build does not need, or try again when archives that builds no longer use are removed (`builds.keep_days`)";
    for announced in [length(&large), None] {
        fixture.files = name(2);
        let refused = fixture.send(announced, &large).await.unwrap_err();
        assert_eq!(refused, full);
        assert_eq!((fixture.is_present(), fixture.count()), (false, 2));
    }
    // Small ones count for more than they are, so that they are not without number.
    let mut small = 0;
    let refused = loop {
        fixture.files = name(10 + small);
        match fixture.send(None, &tar(1)).await {
            Ok(()) => small += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!((refused.as_str(), small), (full, 2));
    // The controls: another team has its own, and there is room again when some are gone.
    fixture.team = TeamId::random();
    fixture.send(length(&large), &large).await.unwrap();
    fixture.team = own;
    std::fs::remove_file(fixture.uploads.path(&fixture.team, &name(0))).unwrap();
    fixture.send(length(&large), &large).await.unwrap();
}

#[tokio::test]
async fn what_is_on_its_way_counts_for_the_archives_of_a_team() {
    let fixture = Fixture::new();
    let on_their_way: Vec<_> = (0..2)
        .map(|_| {
            let (uploads, team) = (fixture.uploads.clone(), fixture.team.clone());
            let files = fixture.files.clone();
            let upload = Upload {
                announced: Some(1 << 20),
                body: stream::pending().boxed(),
            };
            skep_telemetry::spawn("upload", async move {
                uploads.receive_now(&team, &files, upload).await
            })
        })
        .collect();
    skep_testkit::wait_until(std::time::Duration::from_secs(30), async || {
        match fixture.count() {
            2 => Ok(()),
            count => Err(format!("{count} are on their way")),
        }
    })
    .await;
    let body = tar(1);
    let refused = fixture.send(length(&body), &body).await.unwrap_err();
    assert!(refused.contains("the archives of the team"), "{refused}");
    // The control: nobody sends them any more.
    for receiving in on_their_way {
        receiving.abort();
        receiving.await.unwrap_err();
    }
    fixture.send(length(&body), &body).await.unwrap();
}
