//! Locks on files, which no cgroup counts and no limit bounds.
//!
//! A lock is 192 bytes of the kernel's memory, and a process may have millions. Those on one
//! inode are a list that is walked by whoever closes it, and the inode of event and timer
//! descriptors is the same for the whole host. The filter cannot tell: databases and package
//! managers lock, and a filter cannot count. So the beginning of the kernel's list is read now and
//! then, and when it is long, whoever holds too many is named.
//!
//! The list names the process that made a lock, but that may be gone, its number somebody else's,
//! and the lock with whoever has got the descriptor. So the list says only where to look first:
//! locks are counted at descriptors, at a sample of them, since a sandbox may have a million, and
//! never more of a kind than the list has. Nobody is blamed for a lock that was not seen to be its
//! own.
//!
//! In a pid namespace other than the host's first, the list leaves out locks whose makers are gone. A
//! server in a container therefore looks at descriptors whatever the list says.
//!
//! Whoever makes a lock takes processor time for it. As long as no sandbox runs, somebody looks only now and
//! then, for what a sample did not show, so that hundreds of idle sandboxes cost nothing.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use skep_types::SandboxId;

use crate::descriptor_tables::{Owners, Shares, namespace, sampled_descriptors, shares};
use crate::pace::has_run;

/// The locks of a sandbox that are nobody's business: 800 KiB.
const ALLOWED: usize = 4096;
/// Those on the inode that all event descriptors of the host share. Nobody needs one.
const ALLOWED_ON_SHARED_INODE: usize = 255;
/// The locks that sandboxes have on average, and much more, before anybody looks closer.
const USUAL: usize = 64;
/// The lines of the kernel's list that are read then. Reading takes the square of it.
const MOST_READ: usize = 32_768;
/// The number that the kernel gives for a process that is gone, outside of the first namespace.
const GONE: u32 = 0;
/// The descriptors that are looked at in one look, of all sandboxes.
const DESCRIPTORS: usize = 8192;
/// Limit on the bytes read from one `fdinfo` file: some ten thousand locks.
const LONGEST: u64 = 1 << 20;
/// Minimum interval between two reads of the list of locks. In a second a sandbox makes locks of 30
/// MiB.
const INTERVAL: Duration = Duration::from_secs(1);
/// The part of one processor's time that looking takes, as long as that is possible: a long list,
/// whoever made it, must not keep anybody from looking.
const SHARE: u32 = 20;
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between two looks while no sandbox runs.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);

/// Finds the sandboxes that hold too many locks.
#[derive(Debug)]
pub(crate) struct LockWatch {
    /// The inode that event descriptors share, as the kernel's list writes it.
    shared_inode: Option<String>,
    schedule: Mutex<Schedule>,
    shares: Shares,
    /// True if the list has locks of processes that are gone.
    lists_all: bool,
}

impl LockWatch {
    pub(crate) fn new() -> Self {
        let shared_inode = shared_inode().inspect_err(|error| {
            tracing::warn!(%error, "cannot tell which inode event descriptors share");
        });
        Self {
            shared_inode: shared_inode.ok(),
            schedule: Mutex::new(Schedule::new(Instant::now())),
            shares,
            lists_all: is_first_namespace(),
        }
    }

    /// The sandboxes that hold too many locks, of those that `sandboxes` names with their first
    /// processes, if it is time to look. `used` is the processor time of all sandboxes, if that is known.
    pub(crate) fn look(
        &self,
        sandboxes: impl FnOnce() -> Vec<(SandboxId, i32)>,
        used: Option<Duration>,
    ) -> io::Result<Vec<SandboxId>> {
        let mut schedule = self.schedule.lock();
        let began = Instant::now();
        if !schedule.is_due(began, used) {
            return Ok(Vec::new());
        }
        let found = self.find(Path::new("/proc"), &sandboxes());
        schedule.looked(Instant::now(), began.elapsed(), used);
        found
    }

    fn find(&self, proc: &Path, sandboxes: &[(SandboxId, i32)]) -> io::Result<Vec<SandboxId>> {
        let shared = self.shared_inode.as_deref();
        let many = ALLOWED + USUAL * sandboxes.len();
        let seen = Seen::read(proc, shared, many)?;
        let is_few = seen.locks < many && seen.on_shared_inode <= ALLOWED_ON_SHARED_INODE;
        if is_few && self.lists_all {
            return Ok(Vec::new());
        }
        let listed = Seen::read(proc, shared, MOST_READ)?;
        let held = sample(&Owners::new(proc, sandboxes, self.shares), &listed)?;
        let found = held.into_iter().filter_map(|(id, locks)| {
            let held = listed.confirm(&locks, shared, self.lists_all);
            held.is_too_much().then(|| id.clone())
        });
        Ok(found.collect())
    }
}

/// Schedule of looks.
#[derive(Debug)]
struct Schedule {
    /// Time before which no look is taken.
    earliest: Instant,
    /// Time at which a look is taken although no sandbox has run.
    latest: Instant,
    /// Processor time that all sandboxes had used before the last look, if that was known.
    used: Option<Duration>,
}

impl Schedule {
    fn new(now: Instant) -> Self {
        Self {
            earliest: now,
            latest: now,
            used: None,
        }
    }

    /// Returns true if it is time to look, at sandboxes that have used so much processor time.
    fn is_due(&self, now: Instant, used: Option<Duration>) -> bool {
        now >= self.earliest && (has_run(self.used, used) || now >= self.latest)
    }

    /// Remembers a look that took so long, at sandboxes that had used so much processor time.
    fn looked(&mut self, ended: Instant, took: Duration, used: Option<Duration>) {
        self.earliest = ended + (took * SHARE).clamp(INTERVAL, LONGEST_INTERVAL);
        self.latest = ended + IDLE_INTERVAL;
        self.used = used;
    }
}

/// A number of locks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    locks: usize,
    on_shared_inode: usize,
}

impl Held {
    fn is_too_much(&self) -> bool {
        self.locks > ALLOWED || self.on_shared_inode > ALLOWED_ON_SHARED_INODE
    }
}

/// The maker of a lock, as far as the kernel tells, and its inode: what the list and a descriptor
/// say alike.
type Kind = (Option<u32>, String);

/// Adds the locks at a descriptor. Those of a process are shown at each of its descriptors of that
/// inode and counted at the first; those of an open file description are at its own alone.
fn add_descriptor(held: &mut HashMap<Kind, usize>, text: &str, counted: &mut HashSet<String>) {
    let mut new = HashSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("lock:")) {
        let Some(inode) = inode(line) else {
            continue;
        };
        let is_of_process = line.split_whitespace().any(|word| word == "POSIX");
        if is_of_process && counted.contains(inode) {
            continue;
        }
        if is_of_process {
            new.insert(inode.to_owned());
        }
        *held.entry((process(line), inode.to_owned())).or_default() += 1;
    }
    counted.extend(new);
}

/// The beginning of the kernel's list.
#[derive(Debug, Default)]
struct Seen {
    locks: usize,
    on_shared_inode: usize,
    kinds: HashMap<Kind, usize>,
}

impl Seen {
    fn read(proc: &Path, shared_inode: Option<&str>, most: usize) -> io::Result<Self> {
        let mut seen = Self::default();
        let list = BufReader::new(File::open(proc.join("locks"))?);
        for line in list.lines().take(most) {
            let line = line?;
            let inode = inode(&line);
            seen.locks += 1;
            seen.on_shared_inode += usize::from(inode.is_some() && inode == shared_inode);
            if let Some(inode) = inode {
                let kind = (process(&line), inode.to_owned());
                *seen.kinds.entry(kind).or_default() += 1;
            }
        }
        Ok(seen)
    }

    /// The locks that were seen at descriptors, but of each kind no more than there are: many
    /// descriptors may be of one open file. Kinds that the list leaves out are believed.
    fn confirm(
        &self,
        locks: &HashMap<Kind, usize>,
        shared_inode: Option<&str>,
        lists_all: bool,
    ) -> Held {
        let mut held = Held::default();
        for (kind, seen) in locks {
            let is_left_out = kind.0 == Some(GONE) && !lists_all;
            let listed = self.kinds.get(kind).copied().unwrap_or_default();
            let locks = if is_left_out {
                *seen
            } else {
                listed.min(*seen)
            };
            held.locks += locks;
            if Some(kind.1.as_str()) == shared_inode {
                held.on_shared_inode += locks;
            }
        }
        held
    }

    /// The processes that the list names.
    fn processes(&self) -> HashSet<String> {
        let named = self.kinds.keys().filter_map(|(process, _)| *process);
        named.map(|process| process.to_string()).collect()
    }
}

/// Counts the locks at a sample of all descriptors of sandboxes: all, if there are few. Those
/// of processes that the list names come first.
fn sample<'a>(
    owners: &Owners<'a>,
    listed: &Seen,
) -> io::Result<HashMap<&'a SandboxId, HashMap<Kind, usize>>> {
    let mut processes = owners.processes()?;
    let named = listed.processes();
    processes.sort_by_key(|(pid, _)| !named.contains(pid));
    let mut held: HashMap<&SandboxId, HashMap<Kind, usize>> = HashMap::new();
    let mut left = DESCRIPTORS;
    for (pid, owner) in processes {
        let held = held.entry(owner).or_default();
        let mut counted = HashSet::new();
        for thread in owners.threads(&pid).directories {
            for descriptor in sampled_descriptors(&thread, left) {
                left -= 1;
                if let Some(text) = beginning(&thread.join("fdinfo").join(descriptor)) {
                    add_descriptor(held, &text, &mut counted);
                }
            }
        }
        if left == 0 {
            break;
        }
    }
    Ok(held)
}

/// The beginning of a small file of the kernel's; `None` if it is not there any more.
fn beginning(path: &Path) -> Option<String> {
    let mut text = String::new();
    let read = File::open(path)
        .ok()?
        .take(LONGEST)
        .read_to_string(&mut text);
    read.is_ok().then_some(text)
}

/// The device and inode in a line of the kernel's list.
fn inode(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    words.find(|word| word.bytes().filter(|byte| *byte == b':').count() == 2)
}

/// The process in a line of the kernel's list: the word before the inode. Locks of open file
/// descriptions have -1 there.
fn process(line: &str) -> Option<u32> {
    let words: Vec<_> = line.split_whitespace().collect();
    let inode = inode(line)?;
    let index = words.iter().position(|word| *word == inode)?;
    words.get(index.checked_sub(1)?)?.parse().ok()
}

/// Returns true in the host's first pid namespace, whose number is the kernel's own choice.
fn is_first_namespace() -> bool {
    const FIRST: &str = "pid:[4026531836]";
    namespace(Path::new("/proc"), "self").is_some_and(|link| link == Path::new(FIRST))
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
    use std::fs;

    use super::*;

    /// A host of two sandboxes, one with two processes, and one process beside them.
    struct Host {
        proc: tempfile::TempDir,
        sandboxes: [(SandboxId, i32); 2],
        lists_all: bool,
    }

    const SHARED: &str = "00:10:1059";
    const INODE: &str = "00:2e:5";
    const MANY: usize = ALLOWED + 2 * USUAL;

    impl Host {
        fn new() -> Self {
            let host = Self {
                proc: tempfile::tempdir().unwrap(),
                sandboxes: [(SandboxId::random(), 7), (SandboxId::random(), 9)],
                lists_all: true,
            };
            for (pid, namespace) in [(1, 1), (7, 2), (8, 2), (9, 3)] {
                let directory = host.proc.path().join(pid.to_string());
                let thread = directory.join(format!("task/{pid}"));
                fs::create_dir_all(directory.join("ns")).unwrap();
                fs::create_dir_all(thread.join("fdinfo")).unwrap();
                fs::write(thread.join("status"), "Name:\tx\nFDSize:\t64\n").unwrap();
                let link = format!("pid:[{namespace}]");
                std::os::unix::fs::symlink(link, directory.join("ns/pid")).unwrap();
            }
            host.lists("");
            host
        }

        fn lines(number: usize, pid: i32, inode: &str) -> String {
            Self::lines_of("POSIX", number, pid, inode)
        }

        fn lines_of(kind: &str, number: usize, pid: i32, inode: &str) -> String {
            let mut text = String::new();
            for at in 0..number {
                writeln!(text, "1: {kind}  ADVISORY  WRITE {pid} {inode} {at} {at}").unwrap();
            }
            text
        }

        fn lists(&self, text: &str) {
            fs::write(self.proc.path().join("locks"), text).unwrap();
        }

        fn holds(&self, pid: u32, thread: u32, descriptor: u32, locks: &str) {
            let prefixed: String = locks
                .lines()
                .map(|line| format!("lock:\t{line}\n"))
                .collect();
            let directory = self.proc.path().join(format!("{pid}/task/{thread}/fdinfo"));
            fs::create_dir_all(&directory).unwrap();
            let status = directory.parent().unwrap().join("status");
            fs::write(status, "FDSize:\t64\n").unwrap();
            let text = format!("pos:\t0\nflags:\t02\n{prefixed}");
            fs::write(directory.join(descriptor.to_string()), text).unwrap();
        }

        #[track_caller]
        fn check(&self, expected: &[usize]) {
            let watch = LockWatch {
                shared_inode: Some(SHARED.to_owned()),
                schedule: Mutex::new(Schedule::new(Instant::now())),
                shares: |_, _| false,
                lists_all: self.lists_all,
            };
            let found = watch.find(self.proc.path(), &self.sandboxes).unwrap();
            let expected: Vec<_> = (expected.iter())
                .map(|index| self.sandboxes[*index].0.clone())
                .collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn sandboxes_that_do_not_run_are_seldom_looked_at() {
        let start = Instant::now();
        let used = |milliseconds| Some(Duration::from_millis(milliseconds));
        let mut schedule = Schedule::new(start);
        assert!(schedule.is_due(start, used(7)), "the first look");
        schedule.looked(start, Duration::ZERO, used(7));
        let soon = start + INTERVAL;
        assert!(!schedule.is_due(soon, used(7)));
        assert!(schedule.is_due(soon, used(8)));
        assert!(schedule.is_due(soon, None), "nobody knows");
        assert!(schedule.is_due(start + IDLE_INTERVAL, used(7)));
        // A look that takes long is not taken at once again, whoever runs.
        schedule.looked(start, Duration::from_millis(100), used(8));
        assert!(!schedule.is_due(soon, used(9)));
        assert!(schedule.is_due(start + 2 * INTERVAL, used(9)));
    }

    #[test]
    fn whoever_has_too_many_is_named() {
        let host = Host::new();
        let many = Host::lines(MANY, 8, INODE);
        host.holds(8, 8, 3, &many);
        host.lists(&Host::lines(MANY - 1, 8, INODE));
        host.check(&[]);
        host.lists(&many);
        host.check(&[0]);
        host.lists(&Host::lines(MANY, 1, INODE));
        host.check(&[]);
    }

    #[test]
    fn a_number_that_was_somebody_elses_blames_nobody() {
        let host = Host::new();
        for kind in ["POSIX", "FLOCK"] {
            let made = Host::lines_of(kind, MANY, 9, SHARED);
            host.lists(&made);
            // The maker is gone. One who has its number now has a lock of its own.
            host.holds(9, 9, 3, &Host::lines_of(kind, 1, 9, SHARED));
            host.check(&[]);
            // Whoever was left with the descriptors is to blame.
            host.holds(8, 8, 3, &made);
            host.check(&[0]);
            host.holds(8, 8, 3, "");
        }
    }

    #[test]
    fn what_the_list_leaves_out_is_found_at_descriptors() {
        let mut host = Host::new();
        host.lists("");
        let made = Host::lines_of("FLOCK", 1, 0, SHARED);
        for descriptor in 0..=60 {
            host.holds(8, 8, descriptor, &made.repeat(ALLOWED_ON_SHARED_INODE / 60));
        }
        host.check(&[]);
        host.lists_all = false;
        host.check(&[]);
        host.holds(8, 8, 61, &made.repeat(ALLOWED_ON_SHARED_INODE));
        host.check(&[0]);
    }

    #[test]
    fn locks_of_open_files_are_counted_at_every_descriptor() {
        let host = Host::new();
        let few = ALLOWED_ON_SHARED_INODE / 60 + 1;
        let locks = Host::lines_of("FLOCK", few, 4711, SHARED);
        for descriptor in 0..60 {
            host.holds(8, 8, descriptor, &locks);
        }
        host.lists(&Host::lines_of("FLOCK", few * 60, 4711, SHARED));
        host.check(&[0]);
        // As many descriptors of one open file, in each of its processes, have its locks together.
        host.holds(9, 9, 3, &locks);
        host.lists(&Host::lines_of("FLOCK", MANY, 1, INODE));
        host.check(&[]);
    }

    #[test]
    fn what_the_list_does_not_tell_is_found_at_descriptors_of_any_thread() {
        let host = Host::new();
        let hidden = Host::lines(MANY, -1, INODE);
        host.lists(&hidden);
        // Somebody on the host may have them, and an innocent one has a lock of its own.
        host.holds(9, 9, 3, &Host::lines(1, -1, INODE));
        host.check(&[]);
        host.holds(8, 4711, 3, &hidden);
        host.check(&[0]);
    }

    #[test]
    fn locks_of_one_inode_are_counted_once_for_each_process() {
        let host = Host::new();
        host.lists(&Host::lines(MANY, -1, INODE));
        let half = Host::lines(ALLOWED / 2 + 1, -1, INODE);
        for descriptor in 3..9 {
            host.holds(8, 8, descriptor, &half);
        }
        host.check(&[]);
        host.holds(7, 7, 3, &half);
        host.check(&[0]);
    }

    #[test]
    fn the_inode_that_all_share_has_a_bound_of_its_own() {
        let host = Host::new();
        host.holds(8, 8, 3, &Host::lines(MANY, 8, SHARED));
        host.lists(&Host::lines(ALLOWED_ON_SHARED_INODE, 8, SHARED));
        host.check(&[]);
        host.lists(&Host::lines(ALLOWED_ON_SHARED_INODE + 1, 8, SHARED));
        host.check(&[0]);
    }

    #[test]
    fn a_large_table_of_descriptors_is_sampled() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("status"), "FDSize:\t1048576\n").unwrap();
        let sampled = sampled_descriptors(directory.path(), 100);
        assert_eq!(sampled.len(), 100);
        assert!(sampled.iter().any(|number| number.len() > 3), "{sampled:?}");
        assert!(sampled_descriptors(&directory.path().join("gone"), 100).is_empty());
    }

    #[test]
    fn the_lists_of_this_kernel_are_understood() {
        let file = tempfile::tempfile().unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let ends = format!(":{}", file.metadata().unwrap().ino());
        let listed = fs::read_to_string("/proc/locks").unwrap();
        let line = (listed.lines())
            .find(|line| inode(line).is_some_and(|inode| inode.ends_with(&ends)))
            .unwrap();
        assert_eq!(process(line), Some(std::process::id()), "{line}");
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file).to_string();
        let own = Path::new("/proc/thread-self");
        assert!(sampled_descriptors(own, usize::MAX).contains(&descriptor));
        let text = beginning(&own.join("fdinfo").join(descriptor)).unwrap();
        let mut held = HashMap::new();
        add_descriptor(&mut held, &text, &mut HashSet::new());
        let kind = (process(line), inode(line).unwrap().to_owned());
        assert_eq!(held, HashMap::from([(kind, 1)]), "{text}");
    }
}
