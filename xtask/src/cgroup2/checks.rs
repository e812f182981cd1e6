//! The checks, and which machine runs which.

use std::time::Duration;

use super::machine::{Init, Machine};
use super::payload::Built;

/// Something that is run in a machine.
#[derive(Debug, Clone)]
pub(super) struct Check {
    pub(super) name: String,
    /// Test executable that it needs: package and target.
    pub(super) test: Option<&'static str>,
    /// Command for a shell, on one line.
    pub(super) command: String,
    pub(super) limit: Duration,
    /// True if the machine is restarted after it, when it has passed.
    pub(super) restarts: bool,
}

/// Machines that run a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Each of them.
    Everywhere,
    /// Only the first, unless all is asked for: what is tried does not depend on the kernel.
    First,
    /// Each one with systemd; there is one for each kernel.
    Systemd,
    /// None, unless all is asked for: it takes minutes.
    Full,
}

/// A test executable with what is chosen of it.
struct Tests {
    name: &'static str,
    place: Where,
    executable: &'static str,
    arguments: &'static str,
    seconds: u64,
}

/// Name of the check after which the machine is restarted.
const BEFORE_RESTART: &str = "restart-before";

/// The tests, in the order of how much is broken when they fail.
const TESTS: [Tests; 18] = [
    Tests {
        name: "cgroups",
        place: Where::Everywhere,
        executable: "skep-host skep_host",
        arguments: "cgroup:: --test-threads 2",
        seconds: 300,
    },
    Tests {
        name: "launcher",
        place: Where::Systemd,
        executable: "skep-launch it",
        arguments: "--test-threads 2",
        seconds: 400,
    },
    Tests {
        name: "limits-of-groups",
        place: Where::First,
        executable: "skep-native it",
        arguments: "limits:: --test-threads 2",
        seconds: 400,
    },
    Tests {
        name: "links",
        place: Where::First,
        executable: "skep-native it",
        arguments: "network:: --test-threads 2",
        seconds: 400,
    },
    Tests {
        name: "limits-and-clean-up",
        place: Where::Everywhere,
        executable: "skep chaos",
        arguments: "hosts::limits_hold",
        seconds: 400,
    },
    Tests {
        name: "disk-speed",
        place: Where::Systemd,
        executable: "skep chaos",
        arguments: "hosts::the_disk_of_a_sandbox",
        seconds: 300,
    },
    Tests {
        name: "adoption",
        place: Where::Everywhere,
        executable: "skep chaos",
        arguments: "hosts::a_killed_server",
        seconds: 300,
    },
    Tests {
        name: "receipts",
        place: Where::Everywhere,
        executable: "skep chaos",
        arguments: "hosts::executions_have_receipts",
        seconds: 400,
    },
    Tests {
        name: "receipts-of-forks",
        place: Where::Everywhere,
        executable: "skep chaos",
        arguments: "hosts::executions_of_forked_kernels",
        seconds: 400,
    },
    Tests {
        name: "sleep",
        place: Where::First,
        executable: "skep chaos",
        arguments: "hosts::memory::an_interpreter_on_the_disk",
        seconds: 400,
    },
    Tests {
        name: "sleep-of-forks",
        place: Where::Full,
        executable: "skep chaos",
        arguments: "hosts::memory::an_interpreter_that_was_forked",
        seconds: 400,
    },
    Tests {
        name: "unit",
        place: Where::Systemd,
        executable: "skep chaos",
        arguments: "hosts::a_restart_of_the_unit --ignored",
        seconds: 400,
    },
    Tests {
        name: "attacks-on-groups",
        place: Where::Everywhere,
        executable: "skep attacks",
        // Those that look for others, have the host start a program, and nest too deep.
        arguments: "cgroup",
        seconds: 600,
    },
    Tests {
        name: BEFORE_RESTART,
        place: Where::First,
        executable: "skep chaos",
        arguments: "hosts::memory::before_a_restart --ignored",
        seconds: 400,
    },
    Tests {
        name: "restart-after",
        place: Where::First,
        executable: "skep chaos",
        arguments: "hosts::memory::after_the_restart --ignored",
        seconds: 400,
    },
    Tests {
        name: "sleep-and-kills",
        place: Where::Full,
        executable: "skep chaos",
        arguments: "sleep:: --test-threads 1",
        seconds: 1200,
    },
    Tests {
        name: "attack-bombs",
        place: Where::Full,
        executable: "skep attacks",
        arguments: "bombs::",
        seconds: 1800,
    },
    Tests {
        name: "sandboxes",
        place: Where::Full,
        executable: "skep-native it",
        arguments: "--test-threads 2",
        seconds: 1200,
    },
];

/// The checks of a machine.
pub(super) fn of(machine: &Machine, full: bool, built: &Built) -> Vec<Check> {
    let is_run = |place: Where| match place {
        Where::Everywhere => true,
        Where::First => full || machine.is_first,
        Where::Systemd => machine.init == Init::Systemd,
        Where::Full => full,
    };
    let skep = built.skep.display();
    let doctor = Check {
        name: "doctor".to_owned(),
        test: None,
        command: format!(
            "{skep} doctor --data-dir /var/tmp/doctor && {skep} doctor --data-dir /var/tmp/doctor --json > $TMPDIR/said && \
             grep -q '\"v2: ' $TMPDIR/said && grep -q 'goes to disk by criu' $TMPDIR/said"
        ),
        limit: Duration::from_secs(60),
        restarts: false,
    };
    let tests = TESTS
        .iter()
        .filter(|tests| is_run(tests.place))
        .map(|tests| Check {
            name: tests.name.to_owned(),
            test: Some(tests.executable),
            command: command(&built.test(tests.executable), tests.arguments),
            limit: Duration::from_secs(tests.seconds),
            restarts: tests.name == BEFORE_RESTART,
        });
    [doctor].into_iter().chain(tests).collect()
}

/// Runs chosen tests. A choice that no test fits, because one was renamed, is no success.
fn command(executable: &str, arguments: &str) -> String {
    format!(
        "set -o pipefail; SKEP_CACHE_DIR=/var/cache/skep {executable} {arguments} | tee $TMPDIR/said && \
         grep -q 'test result: ok. [1-9]' $TMPDIR/said"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Returns true if a check passes whose test executable says this.
    fn passes(said: &str) -> bool {
        let directory = tempfile::tempdir().unwrap();
        let executable = directory.path().join("tests");
        std::fs::write(&executable, format!("#!/bin/sh\necho '{said}'\n")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&executable, mode).unwrap();
        let command = command(executable.to_str().unwrap(), "hosts::");
        let mut run = std::process::Command::new("bash");
        run.env("TMPDIR", directory.path());
        run.args(["-c", &command])
            .output()
            .unwrap()
            .status
            .success()
    }

    #[test]
    fn a_check_that_chooses_no_test_fails() {
        assert!(passes("test result: ok. 2 passed; 0 failed"));
        assert!(!passes("test result: ok. 0 passed; 0 failed"));
    }
}
