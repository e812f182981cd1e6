//! Settings of the kernel that are the host's, and that sandboxes need higher, on or off.
//!
//! What a setting was is written down before it is changed, so that
//! the last installation that is taken off the host can put it back. The file is beside the
//! claims of instance numbers: all installations share it, and it goes when the host is
//! restarted, as the changes do.
//!
//! Forwarding of packets is one switch for all interfaces of a network: a packet is forwarded if
//! the interface that it *arrives* on forwards, so the uplink must, or no answer finds its way into
//! a sandbox. Where nothing was forwarded before, the packet filter therefore drops what would now
//! go from one of the host's other networks to another ([`Bystanders`]).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::instance;

/// A setting, as a path below `/proc/sys`, and what it must be at least.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) path: &'static str,
    pub(crate) least: u64,
}

/// Forwarding of IPv4 packets between interfaces.
pub(crate) const FORWARDING: Setting = Setting {
    path: "net/ipv4/ip_forward",
    least: 1,
};

/// Thresholds of the kernel's neighbour table: never collected below the first, collected after a
/// while above the second, full at the third.
///
/// There is one table for all networks of the host, and each sandbox is in it twice: it is
/// the gateway's neighbour and the gateway is its. The usual bound of 1024 is reached by five
/// hundred sandboxes, and from then on some are not reached at random.
pub(crate) const NEIGHBOURS: [Setting; 3] = [
    Setting {
        path: "net/ipv4/neigh/default/gc_thresh1",
        least: 8_192,
    },
    Setting {
        path: "net/ipv4/neigh/default/gc_thresh2",
        least: 16_384,
    },
    Setting {
        path: "net/ipv4/neigh/default/gc_thresh3",
        least: 32_768,
    },
];

/// Makes room for so many sandboxes in the limits on inotify. The kernel counts those for the
/// creator of a user namespace, and so for all sandboxes below it together; the launcher limits
/// each to its part, and the host must have room for all parts.
///
/// # Errors
///
/// If a limit cannot be read or raised.
pub fn raise_inotify_limits(sandboxes: u16) -> io::Result<()> {
    let settings = KernelSettings::open()?;
    for (path, each) in [
        ("fs/inotify/max_user_instances", 128),
        ("fs/inotify/max_user_watches", 131_072),
    ] {
        let least = each * u64::from(sandboxes);
        settings.raise(Setting { path, least })?;
    }
    Ok(())
}

/// Listing of all processes of a memory cgroup in the kernel's log, whenever one of them is killed
/// for want of memory.
///
/// Their names are whatever the sandbox's code likes, and it is killed as often as it likes: one
/// sandbox wrote 14,000 lines in 20 s.
pub(crate) const TASK_DUMPS: &str = "vm/oom_dump_tasks";

/// Interfaces of a network that is not ours: those that were there when forwarding was switched on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bystanders {
    /// All of them.
    pub(crate) all: BTreeSet<String>,
    /// Those on which nothing that arrives was forwarded.
    pub(crate) closed: BTreeSet<String>,
}

/// A setting that some installation has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSetting {
    /// Path below `/proc/sys`.
    pub path: String,
    /// The value before it was changed.
    pub before: u64,
    /// The value that an installation has set.
    pub ours: u64,
    /// The current value, if it could be read.
    pub now: Option<u64>,
    /// Reason for which it would not be restored, if it would not.
    pub kept: Option<KeptSetting>,
}

/// Reason for which a setting is not restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptSetting {
    /// Another installation needs it.
    Needed,
    /// Somebody has changed it since.
    Changed,
    /// These interfaces came later, and may be there for others who forward.
    ReliedOn(Vec<String>),
}

/// The settings of this host, and the record of what they were.
#[derive(Debug, Clone)]
pub(crate) struct KernelSettings {
    root: PathBuf,
    record: PathBuf,
    boot: String,
    network: String,
}

/// One line of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// The network namespace it is a setting of, or [`HOST`].
    scope: String,
    path: String,
    before: u64,
    ours: u64,
}

const HOST: &str = "machine";
const INTERFACES: &str = "net/ipv4/conf";
/// Every server's interfaces start with this.
const OURS: &str = "skep";

impl KernelSettings {
    /// Those of the host and of the network that this process is in.
    pub(crate) fn open() -> io::Result<Self> {
        let network = fs::metadata("/proc/self/ns/net")?;
        Ok(Self {
            root: "/proc/sys".into(),
            record: Path::new(instance::CLAIMS).join("settings"),
            boot: instance::boot()?,
            network: format!("net:{}:{}", network.dev(), network.ino()),
        })
    }

    /// Raises a bound of the host that is lower. One that its owner has raised further stays.
    /// Blocks.
    pub(crate) fn raise(&self, setting: Setting) -> io::Result<()> {
        self.change(setting.path, setting.least, |now| now >= setting.least)
    }

    /// Switches something of the host off that is on. Blocks.
    pub(crate) fn switch_off(&self, path: &str) -> io::Result<()> {
        self.change(path, 0, |now| now == 0)
    }

    fn change(&self, path: &str, value: u64, is_right: impl Fn(u64) -> bool) -> io::Result<()> {
        let mut record = self.lock()?;
        let Some(now) = self.read(path)? else {
            // Only the host's first network namespace has it, and a server may be in another.
            return Ok(());
        };
        if is_right(now) {
            return Ok(());
        }
        // Written down first. An entry about a change that never came is harmless, because the
        // setting is not ours then; a change without an entry could not be undone.
        record.add(HOST, path, now, value);
        record.save(&self.boot)?;
        self.write(path, value)
    }

    /// The networks that must not be joined by our switching forwarding on. To be asked before
    /// that is done, and answered the same after. Blocks.
    pub(crate) fn bystanders(&self) -> io::Result<Bystanders> {
        let mut record = self.lock()?;
        // Only who finds forwarding off can tell how it was: later servers read what that one
        // wrote.
        if self.read(FORWARDING.path)? == Some(0) {
            // What is written down about this network is about another that had its number.
            record.entries.retain(|entry| entry.scope != self.network);
            for name in self.interfaces()? {
                let path = forwarding_of(&name);
                if let Some(before) = self.read(&path)? {
                    record.add(&self.network, &path, before, 1);
                }
            }
            record.add(&self.network, FORWARDING.path, 0, 1);
            record.save(&self.boot)?;
        }
        let mut bystanders = Bystanders::default();
        for entry in record.of(&self.network) {
            if let Some(name) = interface_of(&entry.path).filter(|name| *name != "default") {
                bystanders.all.insert(name.to_owned());
                if entry.before == 0 {
                    bystanders.closed.insert(name.to_owned());
                }
            }
        }
        Ok(bystanders)
    }

    /// Lets this network pass packets on. [`Self::bystanders`] comes first. Blocks.
    pub(crate) fn switch_forwarding_on(&self) -> io::Result<()> {
        if self.read(FORWARDING.path)? != Some(1) {
            self.write(FORWARDING.path, 1)?;
        }
        Ok(())
    }

    /// Lists the changed settings, and for each whether it would be restored. Changes nothing.
    /// Blocks.
    pub(crate) fn changed(&self, is_needed: bool) -> io::Result<Vec<ChangedSetting>> {
        if !self.record.exists() {
            return Ok(Vec::new());
        }
        let record = self.lock()?;
        let entries = record
            .entries
            .iter()
            .filter(|entry| self.is_here(entry) && !is_of_interface(entry));
        entries
            .map(|entry| self.judge(entry, &record, is_needed))
            .collect()
    }

    /// Puts back what was changed, as far as it is still ours and nobody needs it. `is_needed`
    /// is asked when no other installation can change anything. Blocks.
    pub(crate) fn restore(
        &self,
        is_needed: impl FnOnce() -> io::Result<bool>,
    ) -> io::Result<Vec<ChangedSetting>> {
        let mut record = self.lock()?;
        if is_needed()? {
            return Ok(Vec::new());
        }
        let mut settings = Vec::new();
        for entry in record.entries.clone() {
            if !self.is_here(&entry) || is_of_interface(&entry) {
                continue;
            }
            let setting = self.judge(&entry, &record, false)?;
            if setting.kept.is_none() {
                self.write(&entry.path, entry.before)?;
            }
            if entry.path == FORWARDING.path && setting.kept.is_none() {
                // The switch has set all interfaces, also those that did forward.
                for one in record.of(&self.network).filter(|one| is_of_interface(one)) {
                    if one.before == 1 && self.read(&one.path)?.is_some() {
                        self.write(&one.path, 1)?;
                    }
                }
            }
            settings.push(setting);
        }
        record.entries.retain(|entry| !self.is_here(entry));
        record.save(&self.boot)?;
        Ok(settings)
    }

    fn judge(&self, entry: &Entry, record: &Record, is_needed: bool) -> io::Result<ChangedSetting> {
        let now = self.read(&entry.path)?;
        let later = if entry.path == FORWARDING.path {
            self.later_interfaces(record)?
        } else {
            Vec::new()
        };
        let kept = if is_needed {
            Some(KeptSetting::Needed)
        } else if now != Some(entry.ours) {
            Some(KeptSetting::Changed)
        } else if !later.is_empty() {
            Some(KeptSetting::ReliedOn(later))
        } else {
            None
        };
        Ok(ChangedSetting {
            path: entry.path.clone(),
            before: entry.before,
            ours: entry.ours,
            now,
            kept,
        })
    }

    /// Interfaces that forward and were not there when forwarding was switched on.
    fn later_interfaces(&self, record: &Record) -> io::Result<Vec<String>> {
        let known: BTreeSet<&str> = record
            .of(&self.network)
            .filter_map(|entry| interface_of(&entry.path))
            .collect();
        let mut later = Vec::new();
        for name in self.interfaces()? {
            if !known.contains(name.as_str()) && self.read(&forwarding_of(&name))? == Some(1) {
                later.push(name);
            }
        }
        Ok(later)
    }

    /// Every interface that is neither ours nor the loopback, and what new ones begin with.
    fn interfaces(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(INTERFACES))? {
            if let Ok(name) = entry?.file_name().into_string()
                && name != "all"
                && name != "lo"
                && !name.starts_with(OURS)
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn is_here(&self, entry: &Entry) -> bool {
        entry.scope == HOST || entry.scope == self.network
    }

    /// `None` if there is no such setting here.
    fn read(&self, path: &str) -> io::Result<Option<u64>> {
        let text = match fs::read_to_string(self.root.join(path)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        text.trim().parse().map(Some).map_err(io::Error::other)
    }

    fn write(&self, path: &str, value: u64) -> io::Result<()> {
        fs::write(self.root.join(path), value.to_string())
    }

    fn lock(&self) -> io::Result<Record> {
        if let Some(directory) = self.record.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut file = instance::open_private(&self.record)?;
        if !instance::lock_in_time(&file)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let text = instance::read(&mut file)?;
        Ok(Record {
            entries: parse(&text, &self.boot),
            file,
        })
    }
}

/// The record file, parsed and locked against other installations.
#[derive(Debug)]
struct Record {
    entries: Vec<Entry>,
    file: File,
}

impl Record {
    fn of<'a>(&'a self, scope: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries
            .iter()
            .filter(move |entry| entry.scope == scope)
    }

    /// Remembers what a setting was, unless that is known: only the first change counts.
    fn add(&mut self, scope: &str, path: &str, before: u64, ours: u64) {
        let known = self
            .entries
            .iter_mut()
            .find(|entry| entry.scope == scope && entry.path == path);
        match known {
            Some(entry) => entry.ours = ours,
            None => self.entries.push(Entry {
                scope: scope.to_owned(),
                path: path.to_owned(),
                before,
                ours,
            }),
        }
    }

    fn save(&mut self, boot: &str) -> io::Result<()> {
        let lines = self.entries.iter().map(|entry| {
            let Entry {
                scope,
                path,
                before,
                ours,
            } = entry;
            format!("{scope} {path} {before} {ours}\n")
        });
        let text: String = std::iter::once(format!("{boot}\n")).chain(lines).collect();
        instance::write(&mut self.file, &text)
    }
}

/// Parses the entries written since this boot; a line that makes no sense is skipped.
fn parse(text: &str, boot: &str) -> Vec<Entry> {
    let mut lines = text.lines();
    if lines.next() != Some(boot) {
        return Vec::new();
    }
    let entry = |line: &str| {
        let mut words = line.split(' ');
        Some(Entry {
            scope: words.next()?.to_owned(),
            path: words.next()?.to_owned(),
            before: words.next()?.parse().ok()?,
            ours: words.next()?.parse().ok()?,
        })
    };
    lines.filter_map(entry).collect()
}

fn forwarding_of(interface: &str) -> String {
    format!("{INTERFACES}/{interface}/forwarding")
}

fn interface_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(INTERFACES)?.strip_prefix('/')?;
    rest.strip_suffix("/forwarding")
}

fn is_of_interface(entry: &Entry) -> bool {
    interface_of(&entry.path).is_some()
}

#[cfg(test)]
mod tests;
