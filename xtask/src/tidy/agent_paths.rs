//! No path reaches the kernel from the agent but through its module `rootfs`.
//!
//! The agent opens files of a sandbox with root's rights, for callers and beside code that
//! changes the tree under it. One module knows how to do that; a call with a path anywhere else
//! in the crate is a hole, however harmless its path looks today. Names of `rustix::fs` are
//! therefore allowed one by one, and whoever needs another one reads its manual page first.

mod uses;

use super::Violation;
use crate::tree::{TextFile, Tree};
use uses::{Use, uses};

const RULE: &str = "agent-paths";
const CRATE: &str = "crates/skep-agent/src/";
const HOME: &str = "rootfs";

/// Functions and modules that take a path, or lead to things that do, by the start of their full
/// names.
const FORBIDDEN: &[&str] = &[
    "glob",
    "libc",
    "nix",
    "rustix::fs",
    "rustix::mount",
    "rustix::net::SocketAddrUnix",
    "rustix::process::chdir",
    "rustix::process::chroot",
    "rustix::process::pivot_root",
    "rustix::pty::openpt",
    "rustix::shm",
    "std::env::set_current_dir",
    "std::fs",
    "std::os::unix::fs",
    "std::os::unix::net",
    "std::path",
    "std::process::Command",
    "tokio::fs",
    "tokio::net::UnixDatagram",
    "tokio::net::UnixListener",
    "tokio::net::UnixStream",
    "tokio::net::unix::pipe::OpenOptions",
    "tokio::process",
    "walkdir",
];

/// Types that begin so, of which no function takes a path.
const TYPES: &[&str] = &[
    "rustix::fs::FallocateFlags",
    "rustix::fs::FileType",
    "rustix::fs::Gid",
    "rustix::fs::MemfdFlags",
    "rustix::fs::Mode",
    "rustix::fs::OFlags",
    "rustix::fs::SealFlags",
    "rustix::fs::Stat",
    "rustix::fs::Uid",
    "rustix::fs::XattrFlags",
    "rustix::fs::inotify::CreateFlags",
    "rustix::fs::inotify::ReadFlags",
    "rustix::fs::inotify::WatchFlags",
    "std::os::unix::fs::FileExt",
    "std::os::unix::fs::MetadataExt",
];

/// Exceptions: names that begin so and work on a descriptor.
const CALLS: &[&str] = &[
    "rustix::fs::copy_file_range",
    "rustix::fs::fallocate",
    "rustix::fs::fchown",
    "rustix::fs::fcntl_add_seals",
    "rustix::fs::flistxattr",
    "rustix::fs::fremovexattr",
    "rustix::fs::fsetxattr",
    "rustix::fs::fstat",
    "rustix::fs::inotify",
    "rustix::fs::inotify::init",
    "rustix::fs::inotify::remove_watch",
    "rustix::fs::memfd_create",
    "std::fs::File",
    "std::fs::File::from",
    "std::os::unix::fs::fchown",
];

/// Methods of `Path` that ask the file system. Those whose names other types have too are
/// looked for only where a `Path` can be.
const METHODS: &[&str] = &[
    "canonicalize",
    "exists",
    "read_dir",
    "read_link",
    "symlink_metadata",
    "try_exists",
];
const AMBIGUOUS_METHODS: &[&str] = &["is_dir", "is_file", "is_symlink", "metadata"];

/// A file in which something forbidden, and what is below it, is right.
struct Exception {
    file: &'static str,
    name: &'static str,
    /// Argument that no path of a caller, and no link of a sandbox, can be meant.
    #[expect(dead_code, reason = "for whoever reads the list")]
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        file: "process/cgroups.rs",
        name: "rustix::fs::openat",
        reason: "names that the kernel or this file chose, in a cgroup that only the agent has",
    },
    Exception {
        file: "process/cgroups.rs",
        name: "rustix::fs::mkdirat",
        reason: "`kernel-<number>`, with a bound, in a cgroup that only the agent has",
    },
    Exception {
        file: "handle/processes.rs",
        name: "std::path::Path",
        reason: "a type of its interface; what it names is opened by `rootfs`",
    },
    Exception {
        file: "handle/processes.rs",
        name: "std::path::PathBuf",
        reason: "a type of its interface; what it names is opened by `rootfs`",
    },
    Exception {
        file: "options.rs",
        name: "std::path::PathBuf",
        reason: "where the accounts are; opened by `rootfs`",
    },
    Exception {
        file: "sandbox/users.rs",
        name: "std::path::Path",
        reason: "where the accounts are; opened by `rootfs`",
    },
    Exception {
        file: "sandbox/users.rs",
        name: "std::path::PathBuf",
        reason: "where the accounts are; opened by `rootfs`",
    },
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    check_with(tree, EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[Exception]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut is_used = vec![false; exceptions.len()];
    for (file, name) in tree.rust_files().filter_map(of_agent) {
        let uses = match uses(&file.text) {
            Ok(uses) => uses,
            Err(error) => {
                let message = format!("cannot be read: {error}");
                violations.push(Violation::new(RULE, &file.path, message));
                continue;
            }
        };
        let has_paths = uses.iter().any(|found| begins(&found.name, "std::path"));
        for found in uses {
            let place = || format!("{}:{}", file.path, found.line);
            if !is_wrong(&found, has_paths) {
                continue;
            }
            let matches = |exception: &Exception| {
                exception.file == name && begins(&found.name, exception.name)
            };
            match exceptions.iter().position(matches) {
                Some(exception) => is_used[exception] = true,
                None => violations.push(Violation::new(
                    RULE,
                    place(),
                    format!(
                        "`{}` takes a path, or may; files of a sandbox are reached through `{HOME}`",
                        found.name
                    ),
                )),
            }
        }
    }
    let has_crate = tree.rust_files().any(|file| file.path.starts_with(CRATE));
    for (exception, _) in exceptions
        .iter()
        .zip(is_used)
        .filter(|(_, used)| has_crate && !used)
    {
        violations.push(Violation::new(
            RULE,
            format!("{CRATE}{}", exception.file),
            format!(
                "does not use `{}` any more; take it off the list",
                exception.name
            ),
        ));
    }
    violations
}

/// A file of the agent that is neither the module nor a test, and its name in the crate.
fn of_agent(file: &TextFile) -> Option<(&TextFile, &str)> {
    let name = file.path.strip_prefix(CRATE)?;
    let is_home = name == "rootfs.rs" || name.starts_with("rootfs/");
    let is_test = name.ends_with("/tests.rs");
    (!is_home && !is_test).then_some((file, name))
}

fn is_wrong(found: &Use, has_paths: bool) -> bool {
    if found.is_method {
        let name = found.name.as_str();
        return METHODS.contains(&name) || (has_paths && AMBIGUOUS_METHODS.contains(&name));
    }
    let name = found.name.as_str();
    let is_below = |list: &[&str]| list.iter().any(|start| begins(name, start));
    is_below(FORBIDDEN) && !is_below(TYPES) && !CALLS.contains(&name)
}

/// Returns true if a full name is this one, or one below it.
fn begins(name: &str, start: &str) -> bool {
    name.strip_prefix(start)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(source: &str) -> Vec<String> {
        found_in("crates/skep-agent/src/http/files/x.rs", source)
    }

    fn found_in(path: &str, source: &str) -> Vec<String> {
        let violations = check_with(&Tree::of(&[(path, source)]), &[]).into_iter();
        let name = |violation: Violation| {
            let line = violation.place.rsplit(':').next().unwrap_or_default();
            let name = violation.message.split('`').nth(1).unwrap_or_default();
            format!("{line} {name}")
        };
        violations.map(name).collect()
    }

    #[test]
    fn calls_with_a_path_are_found_however_they_are_named() {
        assert_eq!(wrong("fn f() { std::fs::read(p); }"), ["1 std::fs::read"]);
        assert_eq!(
            wrong("use std::fs;\nfn f() { fs::write(p, c); }"),
            ["1 std::fs", "2 std::fs::write"]
        );
        assert_eq!(
            wrong("use std::fs::File as F;\nfn f() { F::open(p); }"),
            ["2 std::fs::File::open"]
        );
        assert_eq!(
            wrong("use rustix::{\n fs::{\n  Mode, stat as look, openat},\n io::Errno};"),
            ["3 rustix::fs::stat", "3 rustix::fs::openat"]
        );
        assert_eq!(wrong("use rustix::fs::*;"), ["1 rustix::fs::*"]);
        assert_eq!(wrong("use rustix::fs::{self};"), ["1 rustix::fs"]);
        assert_eq!(
            wrong("use rustix::fs::inotify;\nfn f() { inotify::add_watch(q, p, m); }"),
            ["2 rustix::fs::inotify::add_watch"]
        );
        assert_eq!(
            wrong("fn f() { vec![::tokio::fs::read(p)]; }"),
            ["1 tokio::fs::read"]
        );
        assert_eq!(wrong("use rustix::fs::CWD;"), ["1 rustix::fs::CWD"]);
        assert_eq!(
            wrong("use rustix::pty::{openpt, unlockpt};"),
            ["1 rustix::pty::openpt"]
        );
    }

    #[test]
    fn methods_of_a_path_are_found() {
        assert_eq!(wrong("fn f() { p.exists(); }"), ["1 exists"]);
        assert_eq!(wrong("fn f() { kind.is_dir(); }"), [""; 0]);
        assert_eq!(
            wrong("use std::path::Path;\nfn f(p: &Path) { p.is_dir(); }"),
            ["1 std::path::Path", "2 is_dir"]
        );
    }

    #[test]
    fn what_works_on_descriptors_is_fine() {
        let source = "use std::fs::File;\nuse rustix::fs::{Mode, OFlags, fchown, fstat};\n\
                      fn f() { File::from(d); fstat(&d); OFlags::RDONLY; Mode::from_raw_mode(0); }";
        assert_eq!(wrong(source), [""; 0]);
    }

    #[test]
    fn tests_the_module_and_other_crates_may() {
        let source = "fn f() {}\n#[cfg(test)]\nmod tests { fn g() { std::fs::read(p); } }";
        assert_eq!(wrong(source), [""; 0]);
        let call = "fn f() { std::fs::read(p); }";
        for path in [
            "crates/skep-agent/src/rootfs.rs",
            "crates/skep-agent/src/rootfs/remove.rs",
            "crates/skep-agent/src/process/cgroups/tests.rs",
            "crates/skep-agent/tests/it/files.rs",
            "crates/skep-node/src/lib.rs",
        ] {
            assert_eq!(found_in(path, call), [""; 0], "{path}");
        }
        assert_eq!(found_in("crates/skep-agent/src/rootfs2.rs", call).len(), 1);
    }

    #[test]
    fn an_exception_is_for_one_name_in_one_file_and_must_be_needed() {
        let exception = || {
            [Exception {
                file: "a.rs",
                name: "rustix::fs::openat",
                reason: "",
            }]
        };
        let check = |path: &str, source: &str| {
            let tree = Tree::of(&[(path, source)]);
            check_with(&tree, &exception()).len()
        };
        let call = "fn f() { rustix::fs::openat(d, n, f, m); }";
        assert_eq!(check("crates/skep-agent/src/a.rs", call), 0);
        assert_eq!(check("crates/skep-agent/src/b.rs", call), 2);
        assert_eq!(check("crates/skep-agent/src/a.rs", "fn f() {}"), 1);
    }
}
