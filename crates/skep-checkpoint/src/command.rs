//! Command lines of CRIU, and what its log says when it gives up.

use crate::survey::Survey;

/// Program that CRIU calls at every stage: it writes the stage and the first process to the pipe
/// [`STAGE`], and reads `go` from [`ANSWER`], both in the directory that CRIU works in.
pub const HOOK: &str = include_str!("hook.sh");

/// Name of the pipe of stages.
pub const STAGE: &str = "stage";

/// Name of the pipe of answers.
pub const ANSWER: &str = "answer";

/// Directory in which CRIU finds the cgroups that it is to see, one directory for each hierarchy.
pub const CGROUPS: &str = "/run/cgroups";

/// Largest deleted file that goes into an image.
const DELETED_FILES: &str = "512M";

/// Arguments that both ways have in common. Groups are made by us, connections are cut, and there is nothing
/// to lock in a network that the host's firewall holds.
const COMMON: [&str; 11] = [
    // What the host's own users of CRIU have configured is not for sandboxes.
    "--no-default-config",
    "--tcp-close",
    "--skip-in-flight",
    "--file-locks",
    "--manage-cgroups=none",
    "--cgroup-yard",
    CGROUPS,
    // Its log and its statistics are no part of the image.
    "--work-dir",
    "..",
    "--log-file",
    "criu.log",
];

/// Arguments of a dump of the tree below process `first`, which stands during the hook and goes on
/// afterwards.
pub fn dump_arguments(first: i32, survey: &Survey, hook: &str) -> Vec<String> {
    let mut arguments: Vec<String> = ["dump", "-v1", "--images-dir", ".", "--leave-running"]
        .map(str::to_owned)
        .into();
    arguments.extend(["--tree".into(), first.to_string()]);
    arguments.extend(COMMON.map(str::to_owned));
    arguments.extend(
        [
            "--network-lock",
            "skip",
            "--evasive-devices",
            "--force-irmap",
            "--ghost-limit",
            DELETED_FILES,
            "--action-script",
            hook,
        ]
        .map(str::to_owned),
    );
    for directory in &survey.watched {
        let path = directory.display().to_string();
        arguments.extend(["--irmap-scan-path".into(), path]);
    }
    for mount in &survey.mounts {
        let external = format!("mnt[{}]:{}", mount.point, mount.key);
        arguments.extend(["--external".into(), external]);
    }
    for file in &survey.files {
        arguments.extend(["--external".into(), format!("file[{}]", file.key)]);
    }
    arguments
}

/// Arguments of a restore below `root`. The mounts and files are added by whoever has made them.
pub fn restore_arguments(root: &str, hook: &str) -> Vec<String> {
    let mut arguments: Vec<String> = ["restore", "-v1", "--images-dir", ".", "--restore-detached"]
        .map(str::to_owned)
        .into();
    arguments.extend(["--root".into(), root.to_owned()]);
    arguments.extend(COMMON.map(str::to_owned));
    arguments.extend(["--action-script".into(), hook.to_owned()]);
    arguments
}

/// The first thing that went wrong, from CRIU's log.
pub fn error_in(log: &str) -> &str {
    // It says so, and goes on with fewer descriptors, where root may not raise its own limits.
    let harmless = "RLIMIT_NOFILE for self";
    let mut lines = log.lines();
    let found = lines.find(|line| line.contains("Error (") && !line.contains(harmless));
    found.unwrap_or_default()
}

/// Reason of a failed dump or restore, as a word for counters, from CRIU's log.
pub fn reason_of(log: &str) -> &'static str {
    const REASONS: [(&str, &str); 9] = [
        ("Unseizable non-zombie", "debugger"),
        ("mqueue", "message_queue"),
        ("ctty inheritance", "terminal"),
        ("Can't dump that handle", "watch"),
        ("fsnotify", "watch"),
        ("exceeds ghost limit", "deleted_file"),
        ("ghost file limit", "deleted_file"),
        ("No space left", "no_space"),
        ("Can't lookup mount", "foreign_file"),
    ];
    let found = REASONS.iter().find(|(text, _)| log.contains(text));
    found.map_or("criu", |(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use crate::survey::{ExternalFile, ExternalMount, Origin};

    use super::*;

    #[test]
    fn a_dump_names_all_that_is_not_the_trees_own() {
        let survey = Survey {
            mounts: vec![ExternalMount {
                key: "skep-0".into(),
                point: "/dev".into(),
            }],
            files: vec![ExternalFile {
                key: "1f:2a".into(),
                flags: None,
                origin: Origin::Host("/agent".into()),
            }],
            pipes: Vec::new(),
            watched: vec!["/home/user".into()],
        };
        let arguments = dump_arguments(42, &survey, "/hook").join(" ");
        assert!(arguments.starts_with("dump "), "{arguments}");
        for part in [
            "--tree 42",
            "--external mnt[/dev]:skep-0",
            "--external file[1f:2a]",
            "--irmap-scan-path /home/user",
            "--leave-running",
            "--tcp-close",
        ] {
            assert!(arguments.contains(part), "{part}: {arguments}");
        }
    }

    #[test]
    fn the_first_error_is_told_if_it_is_one() {
        let harmless = "Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self: x";
        let log = format!("{harmless}\n(00.1) Error (a.c:1): first\nError (b.c:1): second\n");
        assert_eq!(error_in(&log), "(00.1) Error (a.c:1): first");
        assert_eq!(error_in(harmless), "");
    }

    #[test]
    fn reasons_are_words() {
        let log = "(00.01) Error (compel/src/lib/infect.c:417): Unseizable non-zombie 7 found";
        assert_eq!(reason_of(log), "debugger");
        assert_eq!(reason_of("anything else"), "criu");
    }
}
