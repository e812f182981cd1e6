//! Kernel resources that are counted for the host as a whole, with the bound on one sandbox's
//! share.
//!
//! Such a number is a way from one sandbox to all others: whoever uses it up takes it from
//! everybody. So each that a sandbox can reach is a row here, with what bounds it or why nothing
//! does. `skep doctor` reads the rows to say what this host cannot bound, and
//! `docs/reference/machine-limits.md` is written from them.

#[cfg(test)]
mod page;
mod rows;

use std::fs;
use std::path::Path;

pub(crate) use rows::COUNTERS;

/// One thing that the host has a number of for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counter {
    /// The counted resource, as a noun in the plural.
    pub(crate) what: &'static str,
    /// The sysctl or file that holds the host's limit.
    pub(crate) kept_in: &'static str,
    pub(crate) bound: Bound,
    /// Requirement on the host without which the bound does not hold.
    pub(crate) needs: Needs,
}

/// Limit on one sandbox's share of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A sandbox gets none at all, by the means in `by`.
    Nothing { by: &'static str },
    /// Up to `most`, enforced by `by`.
    AtMost {
        most: &'static str,
        by: &'static str,
    },
    /// All there is, with an argument why that is borne, and what it costs.
    Unbounded { because: &'static str },
}

/// Requirement of a bound on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No more than a launch needs anyway.
    Nothing,
    /// A setting of the kernel that is high enough for many sandboxes at their bounds.
    AtLeast(&'static str, u64),
    /// A setting of the kernel that is low enough for the bound to be held at little cost.
    AtMost(&'static str, u64),
    /// A file in the memory group of a sandbox on cgroup v1; v2 counts without being asked.
    MemoryFile(&'static str),
    /// A kernel that was not started with this option, which takes the count away.
    NotStartedWith(&'static str),
    /// No swap, or a kernel that counts it.
    CountedSwap,
}

/// A requirement that the host does not meet, with a hint for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lack {
    pub(crate) detail: String,
    pub(crate) hint: String,
}

/// The host's settings, or those of a test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Host<'a> {
    /// Mount point of procfs, `/proc` outside of tests.
    pub(crate) proc: &'a Path,
    /// Mount point of the cgroup hierarchies, `/sys/fs/cgroup` outside of tests.
    pub(crate) cgroups: &'a Path,
}

impl Counter {
    /// Returns the requirement that `host` does not meet. A setting that is not there limits
    /// nobody, and so is not too low.
    pub(crate) fn lack(&self, host: Host<'_>) -> Option<Lack> {
        let v1 = host.cgroups.join("memory");
        let is_unified = host.cgroups.join("cgroup.controllers").exists();
        let read = |path: &str| fs::read_to_string(host.proc.join(path)).unwrap_or_default();
        let number = |setting: &str| -> Option<u64> {
            let text = read(&format!("sys/{}", setting.replace('.', "/")));
            text.trim().parse().ok()
        };
        match self.needs {
            Needs::Nothing => None,
            Needs::AtMost(setting, most) => {
                let now = number(setting)?;
                (now > most).then(|| Lack {
                    detail: format!("{setting} is {now}: bounds are held at a cost"),
                    hint: format!("sysctl {setting}={most}"),
                })
            }
            Needs::AtLeast(setting, least) => {
                let now = number(setting)?;
                (now < least).then(|| Lack {
                    detail: format!("{setting} is {now} for all sandboxes together"),
                    hint: format!("sysctl {setting}={least}"),
                })
            }
            Needs::MemoryFile(name) => {
                let is_there = is_unified || v1.join(name).exists();
                (!is_there).then(|| Lack {
                    detail: format!("there is no {name}"),
                    hint: "use cgroup v2, which counts it without being asked".into(),
                })
            }
            Needs::NotStartedWith(option) => {
                let line = read("cmdline");
                let options = line
                    .split_whitespace()
                    .filter_map(|word| word.strip_prefix("cgroup.memory="))
                    .flat_map(|list| list.split(','));
                options
                    .into_iter()
                    .any(|given| given == option)
                    .then(|| Lack {
                        detail: format!("the kernel was started with cgroup.memory={option}"),
                        hint: "start it without that option".into(),
                    })
            }
            Needs::CountedSwap => {
                // The first line is a heading.
                let has_swap = read("swaps").lines().nth(1).is_some();
                let is_counted = is_unified || v1.join("memory.memsw.limit_in_bytes").exists();
                (has_swap && !is_counted).then(|| Lack {
                    detail: "there is swap, and the kernel does not count it".into(),
                    hint: "swapoff -a, or start the kernel with swapaccount=1".into(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Settings(tempfile::TempDir);

    impl Settings {
        /// A host with these files.
        fn new(files: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = directory.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(directory)
        }

        fn lack(&self, needs: Needs) -> Option<String> {
            let counter = Counter {
                what: "things",
                kept_in: "nowhere",
                bound: Bound::Nothing { by: "a test" },
                needs,
            };
            let host = Host {
                proc: &self.0.path().join("proc"),
                cgroups: &self.0.path().join("cgroup"),
            };
            counter.lack(host).map(|lack| lack.hint)
        }
    }

    #[test]
    fn every_row_names_a_bound_or_argues_why_there_is_none() {
        for counter in COUNTERS {
            let words = |text: &str| text.split_whitespace().count();
            let Counter { what, kept_in, .. } = counter;
            assert!(!what.is_empty() && !kept_in.is_empty(), "{counter:?}");
            match counter.bound {
                Bound::Nothing { by } => assert!(words(by) > 1, "{what}: {by}"),
                Bound::AtMost { most, by } => {
                    assert!(words(by) > 1 && !most.is_empty(), "{what}: {by}");
                }
                Bound::Unbounded { because } => {
                    assert!(
                        words(because) > 15,
                        "{what}: argue, do not assert: {because}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_row_is_there_twice() {
        let mut names: Vec<_> = COUNTERS.iter().map(|counter| counter.what).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_setting_that_is_too_low_is_named_with_one_that_is_not() {
        let needs = Needs::AtLeast("kernel.pid_max", 4_194_304);
        let low = Settings::new(&[("proc/sys/kernel/pid_max", "32768\n")]);
        let hint = "sysctl kernel.pid_max=4194304";
        assert_eq!(low.lack(needs).as_deref(), Some(hint));
        let high = Settings::new(&[("proc/sys/kernel/pid_max", "4194304\n")]);
        assert_eq!(high.lack(needs), None);
    }

    #[test]
    fn a_setting_that_is_too_high_is_named_with_one_that_is_not() {
        let needs = Needs::AtMost("net.core.rmem_max", 1_048_576);
        let high = Settings::new(&[("proc/sys/net/core/rmem_max", "4194304\n")]);
        let hint = "sysctl net.core.rmem_max=1048576";
        assert_eq!(high.lack(needs).as_deref(), Some(hint));
        let low = Settings::new(&[("proc/sys/net/core/rmem_max", "212992\n")]);
        assert_eq!(low.lack(needs), None);
    }

    #[test]
    fn a_count_that_a_machine_does_not_keep_is_missed_on_v1_only() {
        let needs = Needs::MemoryFile("memory.kmem.tcp.limit_in_bytes");
        let there = ("cgroup/memory/memory.kmem.tcp.limit_in_bytes", "1");
        assert_eq!(Settings::new(&[there]).lack(needs), None);
        let unified = ("cgroup/cgroup.controllers", "cpu memory pids");
        assert_eq!(Settings::new(&[unified]).lack(needs), None);
        assert!(Settings::new(&[]).lack(needs).is_some());
    }

    #[test]
    fn a_kernel_that_was_told_not_to_count_is_named() {
        let needs = Needs::NotStartedWith("nokmem");
        let told = ("proc/cmdline", "quiet cgroup.memory=nosocket,nokmem ro\n");
        assert!(Settings::new(&[told]).lack(needs).is_some());
        let other = ("proc/cmdline", "quiet cgroup.memory=nosocket nokmem\n");
        assert_eq!(Settings::new(&[other]).lack(needs), None);
    }

    #[test]
    fn swap_that_nobody_counts_is_named() {
        let heading = "Filename Type Size Used Priority\n";
        let some = format!("{heading}/dev/vdb partition 1 0 -2\n");
        let swap = ("proc/swaps", some.as_str());
        assert!(Settings::new(&[swap]).lack(Needs::CountedSwap).is_some());
        let counted = ("cgroup/memory/memory.memsw.limit_in_bytes", "1");
        assert_eq!(
            Settings::new(&[swap, counted]).lack(Needs::CountedSwap),
            None
        );
        let none = ("proc/swaps", heading);
        assert_eq!(Settings::new(&[none]).lack(Needs::CountedSwap), None);
    }
}
