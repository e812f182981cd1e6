//! Locks on files, which no cgroup counts and no limit bounds.
//!
//! A lock is 192 bytes of the kernel's memory, and a process may have millions. Those on one
//! inode are a list that is walked by whoever closes it, and the inode of event and timer
//! descriptors is the same for the whole host. The filter cannot tell: databases and package
//! managers lock, and a filter cannot count. So the kernel's list is read now and then, and when
//! it is long, whoever holds too many is named.
//!
//! The list names a process for some locks only, and that may have passed its descriptors on. So
//! locks are counted where they are held: at the descriptors of each process.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use skep_types::SandboxId;

/// The locks of a sandbox that are nobody's business: 800 KiB.
const ALLOWED: usize = 4096;
/// Those on the inode that all event descriptors of the host share. Nobody needs one.
const ALLOWED_ON_SHARED_INODE: usize = 256;
/// The locks that sandboxes have on average, and much more, before anybody looks closer.
const USUAL: usize = 64;
/// The lines of the kernel's list that are read when it is not known who has them. Reading takes
/// the square of it.
const MOST_READ: usize = 65_536;
/// The part of one processor's time that looking takes at most.
const SHARE: u32 = 20;

/// Finds the sandboxes that hold too many locks.
#[derive(Debug)]
pub(crate) struct LockWatch {
    /// The inode that event descriptors share, as the kernel's list writes it.
    shared_inode: Option<String>,
    /// Nobody looks before this.
    next: Mutex<Instant>,
}

impl LockWatch {
    pub(crate) fn new() -> Self {
        let shared_inode = shared_inode().inspect_err(|error| {
            tracing::warn!(%error, "cannot tell which inode event descriptors share");
        });
        Self {
            shared_inode: shared_inode.ok(),
            next: Mutex::new(Instant::now()),
        }
    }

    /// The sandboxes that hold too many locks, of those that are given with their first processes.
    /// Looks at most for a part of the time.
    pub(crate) fn look(&self, sandboxes: &[(SandboxId, i32)]) -> io::Result<Vec<SandboxId>> {
        let mut next = self.next.lock().expect("no holder panics");
        let began = Instant::now();
        if began < *next {
            return Ok(Vec::new());
        }
        let found = self.find(Path::new("/proc"), sandboxes);
        *next = Instant::now() + (began.elapsed() * SHARE).min(Duration::from_secs(10));
        found
    }

    fn find(&self, proc: &Path, sandboxes: &[(SandboxId, i32)]) -> io::Result<Vec<SandboxId>> {
        let shared = self.shared_inode.as_deref();
        let many = ALLOWED + USUAL * sandboxes.len();
        let seen = Seen::read(proc, shared, many)?;
        if seen.locks < many && seen.on_shared_inode < ALLOWED_ON_SHARED_INODE {
            return Ok(Vec::new());
        }
        let held = held(proc, shared, sandboxes)?;
        let mut found: Vec<_> = held
            .iter()
            .filter(|(_, held)| held.is_too_much())
            .map(|(id, _)| id.clone())
            .collect();
        if found.is_empty() && seen.locks >= many {
            // Locks of a description that is on its way through a socket are at no descriptor.
            let known: usize = held.values().map(|held| held.of_descriptions).sum();
            let all = Seen::read(proc, shared, MOST_READ)?.of_descriptions;
            if all.saturating_sub(known) > ALLOWED {
                let sending = held.iter().filter(|(_, held)| held.in_sockets > 0);
                found.extend(sending.map(|(id, _)| id.clone()));
            }
        }
        Ok(found)
    }
}

/// The beginning of the kernel's list.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    locks: usize,
    on_shared_inode: usize,
    /// Those that belong to an open file description instead of a process.
    of_descriptions: usize,
}

impl Seen {
    fn read(proc: &Path, shared_inode: Option<&str>, most: usize) -> io::Result<Self> {
        let mut seen = Self::default();
        for line in BufReader::new(File::open(proc.join("locks"))?)
            .lines()
            .take(most)
        {
            let line = line?;
            seen.locks += 1;
            seen.on_shared_inode +=
                usize::from(shared_inode.is_some() && inode(&line) == shared_inode);
            seen.of_descriptions += usize::from(line.contains(" OFDLCK "));
        }
        Ok(seen)
    }
}

/// The locks of one sandbox.
#[derive(Debug, Default)]
struct Held {
    locks: usize,
    on_shared_inode: usize,
    of_descriptions: usize,
    /// Descriptors on their way through its sockets.
    in_sockets: usize,
}

impl Held {
    fn is_too_much(&self) -> bool {
        self.locks > ALLOWED || self.on_shared_inode > ALLOWED_ON_SHARED_INODE
    }

    /// Adds what a descriptor holds, unless the locks on its inode are counted already.
    fn add(&mut self, text: &str, shared_inode: Option<&str>, counted: &mut HashSet<String>) {
        let mut is_new = None;
        for line in text.lines() {
            if let Some(number) = line.strip_prefix("scm_fds:") {
                self.in_sockets += number.trim().parse::<usize>().unwrap_or_default();
            }
            let Some(lock) = line.strip_prefix("lock:") else {
                continue;
            };
            let of_description = lock.contains(" OFDLCK ");
            self.of_descriptions += usize::from(of_description);
            // Each descriptor of an inode shows all locks that its process has on it.
            let is_new = of_description
                || *is_new.get_or_insert_with(|| {
                    inode(lock).is_some_and(|inode| counted.insert(inode.to_owned()))
                });
            if is_new {
                self.locks += 1;
                self.on_shared_inode +=
                    usize::from(shared_inode.is_some() && inode(lock) == shared_inode);
            }
        }
    }
}

/// Counts the locks at the descriptors of all processes of sandboxes.
fn held(
    proc: &Path,
    shared_inode: Option<&str>,
    sandboxes: &[(SandboxId, i32)],
) -> io::Result<HashMap<SandboxId, Held>> {
    let namespace = |pid: &str| fs::read_link(proc.join(pid).join("ns/pid")).ok();
    let owners: HashMap<_, _> = sandboxes
        .iter()
        .filter_map(|(id, pid)| Some((namespace(&pid.to_string())?, id)))
        .collect();
    let mut held: HashMap<SandboxId, Held> = HashMap::new();
    for entry in fs::read_dir(proc)? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else {
            continue;
        };
        let Some(owner) = namespace(pid).and_then(|namespace| owners.get(&namespace)) else {
            continue;
        };
        let of_sandbox = held.entry((*owner).clone()).or_default();
        let mut counted = HashSet::new();
        // A process that ends meanwhile holds nothing.
        let Ok(descriptors) = fs::read_dir(proc.join(pid).join("fdinfo")) else {
            continue;
        };
        for descriptor in descriptors.flatten() {
            if of_sandbox.is_too_much() {
                break;
            }
            if let Ok(text) = fs::read_to_string(descriptor.path()) {
                of_sandbox.add(&text, shared_inode, &mut counted);
            }
        }
    }
    Ok(held)
}

/// The device and inode in a line of the kernel's list.
fn inode(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    words.find(|word| word.bytes().filter(|byte| *byte == b':').count() == 2)
}

/// The inode that event descriptors share, in the form of the kernel's list.
fn shared_inode() -> io::Result<String> {
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
    let metadata = File::from(event).metadata()?;
    let device = metadata.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    Ok(format!("{major:02x}:{minor:02x}:{}", metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// A host of one sandbox and one process beside it.
    struct Host(tempfile::TempDir);

    const SHARED: &str = "00:10:1059";

    impl Host {
        fn new() -> Self {
            let host = Self(tempfile::tempdir().unwrap());
            for (pid, namespace) in [(1, 1), (7, 2), (8, 2)] {
                let folder = host.0.path().join(pid.to_string());
                fs::create_dir_all(folder.join("ns")).unwrap();
                fs::create_dir_all(folder.join("fdinfo")).unwrap();
                let link = format!("pid:[{namespace}]");
                std::os::unix::fs::symlink(link, folder.join("ns/pid")).unwrap();
            }
            host.lists(0, "00:2e:5");
            host
        }

        fn lines(number: usize, kind: &str, inode: &str) -> String {
            let mut text = String::new();
            for at in 0..number {
                writeln!(text, "1: {kind}  ADVISORY  WRITE 8 {inode} {at} {at}").unwrap();
            }
            text
        }

        fn lists(&self, number: usize, inode: &str) {
            let text = Self::lines(number, "POSIX", inode);
            fs::write(self.0.path().join("locks"), text).unwrap();
        }

        fn holds(&self, pid: u32, descriptor: u32, locks: &str) {
            let prefixed: String = locks
                .lines()
                .map(|line| format!("lock:\t{line}\n"))
                .collect();
            let text = format!("pos:\t0\nflags:\t02\n{prefixed}");
            let path = format!("{pid}/fdinfo/{descriptor}");
            fs::write(self.0.path().join(path), text).unwrap();
        }

        fn found(&self) -> usize {
            let watch = LockWatch {
                shared_inode: Some(SHARED.to_owned()),
                next: Mutex::new(Instant::now()),
            };
            let sandboxes = [(SandboxId::random(), 7)];
            watch.find(self.0.path(), &sandboxes).unwrap().len()
        }
    }

    #[test]
    fn whoever_holds_too_many_is_found_at_its_descriptors() {
        let host = Host::new();
        let many = Host::lines(ALLOWED + 1, "POSIX", "00:2e:5");
        host.holds(8, 3, &many);
        assert_eq!(host.found(), 0, "nobody looks while the list is short");
        host.lists(ALLOWED + USUAL, "00:2e:5");
        assert_eq!(host.found(), 1);
        host.holds(8, 3, "");
        host.holds(1, 3, &many);
        assert_eq!(host.found(), 0, "the host may do as it likes");
    }

    #[test]
    fn locks_of_one_inode_are_counted_once_for_each_process() {
        let host = Host::new();
        host.lists(ALLOWED + USUAL, "00:2e:5");
        let half = Host::lines(ALLOWED / 2 + 1, "POSIX", "00:2e:5");
        for descriptor in 3..9 {
            host.holds(8, descriptor, &half);
        }
        assert_eq!(host.found(), 0);
        host.holds(7, 3, &half);
        assert_eq!(host.found(), 1, "two processes hold theirs");
    }

    #[test]
    fn the_inode_that_all_share_has_a_bound_of_its_own() {
        let host = Host::new();
        host.lists(ALLOWED_ON_SHARED_INODE, SHARED);
        host.holds(8, 3, &Host::lines(ALLOWED_ON_SHARED_INODE, "POSIX", SHARED));
        assert_eq!(host.found(), 0);
        host.holds(7, 3, &Host::lines(1, "FLOCK", SHARED));
        assert_eq!(host.found(), 1);
    }

    #[test]
    fn locks_on_their_way_through_a_socket_are_blamed_on_whoever_has_such_a_socket() {
        let host = Host::new();
        let hidden = Host::lines(2 * ALLOWED, "OFDLCK", "00:2e:5");
        fs::write(host.0.path().join("locks"), hidden).unwrap();
        assert_eq!(host.found(), 0, "somebody on the host may have them");
        fs::write(host.0.path().join("8/fdinfo/4"), "pos:\t0\nscm_fds: 1\n").unwrap();
        assert_eq!(host.found(), 1);
    }

    #[test]
    fn the_lists_of_this_kernel_are_understood() {
        let file = tempfile::tempfile().unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let metadata = file.metadata().unwrap();
        let listed = fs::read_to_string("/proc/locks").unwrap();
        let ends = format!(":{}", metadata.ino());
        assert!(
            listed
                .lines()
                .any(|line| inode(line).is_some_and(|inode| inode.ends_with(&ends)))
        );
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).unwrap();
        let mut held = Held::default();
        held.add(&text, None, &mut HashSet::new());
        assert_eq!(held.locks, 1, "{text}");
    }
}
