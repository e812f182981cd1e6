//! Things of the host that no attack may reach.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::{Child, Command};

use tempfile::TempDir;

use crate::world;

/// Text that every sentinel holds or sends; the attacks know it, too.
const TEXT: &str = "a sentinel of the machine";
/// A length of sleep that nobody else on the host asks for.
const SLEEP: &str = "86398.5";

/// A file, a process, a disk, shared memory and services of the host.
#[derive(Debug)]
pub(crate) struct Sentinels {
    folder: TempDir,
    shared: PathBuf,
    process: Child,
    disk: String,
    segment: String,
    surroundings: BTreeMap<String, String>,
}

impl Sentinels {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let file = folder.path().join("sentinel");
        // As long as a block of a disk, because it is one, too.
        fs::write(&file, format!("{TEXT:<4096}")).unwrap();
        // Not by the number of this process, which is the first of its namespace in every suite.
        let unique = folder.path().file_name().unwrap().to_str().unwrap();
        let shared = PathBuf::from(format!("/dev/shm/skep-sentinel-{unique}"));
        fs::write(&shared, TEXT).unwrap();
        let disk = said(&[
            "losetup",
            "--find",
            "--show",
            "--read-only",
            file.to_str().unwrap(),
        ]);
        let device = fs::metadata(&disk).unwrap().rdev();
        let process = Command::new("sleep").arg(SLEEP).spawn().unwrap();
        let made = said(&["ipcmk", "--shmem", "4096"]);
        let segment = made.rsplit(' ').next().unwrap().to_owned();
        let name = format!("skep-sentinel-{}", std::process::id());

        let surroundings = [
            ("FILE", file.display().to_string()),
            ("SHARED", shared.display().to_string()),
            ("PID", process.id().to_string()),
            ("SLEEP", SLEEP.to_owned()),
            ("DEVICE", disk.clone()),
            ("MAJOR", rustix::fs::major(device).to_string()),
            ("MINOR", rustix::fs::minor(device).to_string()),
            ("SEGMENT", segment.clone()),
            ("MACHINE", world::MACHINE.to_string()),
            ("PORT", serve_everywhere().to_string()),
            ("LOOPBACK_PORT", serve_on_loopback().to_string()),
            ("ABSTRACT", serve_by_name(&name)),
            ("BOOT_ID", boot_id()),
            ("MEMORY", memory()),
        ];
        Self {
            folder,
            shared,
            process,
            disk,
            segment,
            surroundings: surroundings
                .map(|(name, value)| (format!("ATTACK_{name}"), value))
                .into(),
        }
    }

    /// Environment that tells attacks where the sentinels are. Knowing where to look must not help.
    pub(crate) fn surroundings(&self) -> BTreeMap<String, String> {
        self.surroundings.clone()
    }

    /// Checks that no attack has changed anything.
    pub(crate) fn check(&mut self) {
        let file = fs::read_to_string(self.folder.path().join("sentinel")).unwrap();
        assert_eq!(file.trim(), TEXT);
        assert_eq!(fs::read_to_string(&self.shared).unwrap(), TEXT);
        assert!(self.process.try_wait().unwrap().is_none());
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        said(&["losetup", "--detach", &self.disk]);
        said(&["ipcrm", "--shmem-id", &self.segment]);
        fs::remove_file(&self.shared).unwrap();
    }
}

fn said(command: &[&str]) -> String {
    let output = Command::new(command[0])
        .args(&command[1..])
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    id.trim().to_owned()
}

/// Kibibytes of memory of the machine.
fn memory() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    text.split_whitespace().nth(1).unwrap().to_owned()
}

fn greet(stream: &mut impl Write) {
    // Whoever hangs up early has proved enough.
    stream.write_all(TEXT.as_bytes()).ok();
}

/// Answers on every address of the host, over TCP and UDP.
fn serve_everywhere() -> u16 {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        loop {
            let (_, client) = socket.recv_from(&mut buffer).unwrap();
            socket.send_to(TEXT.as_bytes(), client).ok();
        }
    });
    std::thread::spawn(move || {
        listener
            .incoming()
            .flatten()
            .for_each(|mut stream| greet(&mut stream));
    });
    port
}

fn serve_on_loopback() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        listener
            .incoming()
            .flatten()
            .for_each(|mut stream| greet(&mut stream));
    });
    port
}

/// A socket that has a name in the network namespace and no file.
fn serve_by_name(name: &str) -> String {
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    std::thread::spawn(move || {
        listener
            .incoming()
            .flatten()
            .for_each(|mut stream| greet(&mut stream));
    });
    name.to_owned()
}
