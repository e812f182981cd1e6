use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::process::{WaitOptions, waitpid};

use super::*;

const NOBODY: u32 = 65534;

/// Runs a program as `nobody` with its output in a pipe; answers output and exit code.
fn run(
    programs: &[&str],
    arguments: &[&str],
    directory: &str,
) -> (Result<(), SpawnError>, String, i32) {
    run_in(SpawnSession::Callers, programs, arguments, directory)
}

fn run_in(
    session: SpawnSession,
    programs: &[&str],
    arguments: &[&str],
    directory: &str,
) -> (Result<(), SpawnError>, String, i32) {
    let strings = |list: &[&str]| -> Vec<CString> {
        list.iter()
            .map(|text| CString::new(*text).unwrap())
            .collect()
    };
    let null =
        rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let credentials = Credentials {
        uid: NOBODY,
        gid: NOBODY,
        groups: vec![NOBODY],
    };
    let (programs, arguments) = (strings(programs), strings(arguments));
    let spawning = fork_as(&SpawnAs {
        programs: &programs,
        arguments: &arguments,
        environment: &strings(&["GREETING=hello"]),
        directory: &CString::new(directory).unwrap(),
        credentials: &credentials,
        standard: [null.as_fd(), write.as_fd(), write.as_fd()],
        session,
        cgroups: &[],
        open_files: None,
        raise_oom_score: true,
    })
    .unwrap();
    let pid = spawning.pid;
    let mut report = Vec::new();
    File::from(spawning.report)
        .read_to_end(&mut report)
        .unwrap();
    let confirmed = outcome(&report);
    drop(write);
    let mut output = String::new();
    File::from(read).read_to_string(&mut output).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
    (confirmed, output, status.exit_status().unwrap_or(-1))
}

#[test]
fn a_program_runs_as_the_user_with_nothing_inherited() {
    let script = r#"id -u; id -G; pwd; echo "$GREETING"; umask; ls /proc/self/fd | wc -l
        grep -E 'SigBlk|SigIgn' /proc/self/status; cat /proc/self/oom_score_adj"#;
    let (confirmed, output, code) = run(&["/bin/sh"], &["sh", "-c", script], "/tmp");
    confirmed.unwrap();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(
        lines,
        [
            "65534",
            "65534",
            "/tmp",
            "hello",
            "0022",
            "4",
            "SigBlk:\t0000000000000000",
            "SigIgn:\t0000000000000000",
            "500",
        ],
        "the fourth descriptor is the folder that `ls` reads"
    );
    assert_eq!(code, 0);
}

/// The ids of process, group and session of a shell, as seen by itself.
fn ids(session: SpawnSession) -> [i32; 3] {
    let script = "cut -d' ' -f1,5,6 /proc/$$/stat";
    let (confirmed, output, _) = run_in(session, &["/bin/sh"], &["sh", "-c", script], "/");
    confirmed.unwrap();
    let ids: Vec<i32> = output
        .split_whitespace()
        .map(|id| id.parse().unwrap())
        .collect();
    ids.try_into().unwrap()
}

#[test]
fn a_program_leads_its_session_and_group_only_where_that_is_asked_for() {
    let [process, group, session] = ids(SpawnSession::Own);
    assert_eq!((group, session), (process, process));
    let [process, group, session] = ids(SpawnSession::Callers);
    // Of `/proc` and not of system calls, whose ids must not be 0: whoever runs the tests may be outside of their pid namespace.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ours: Vec<&str> = fields.split(' ').collect();
    let [our_group, our_session] = [2, 3].map(|field| ours[field].parse::<i32>().unwrap());
    assert_eq!(session, our_session);
    assert!(group != process && group != our_group);
    assert_ne!(
        group,
        ids(SpawnSession::Callers)[1],
        "two programs have two groups"
    );
}

#[test]
fn setsid_runs_in_the_process_that_is_waited_for() {
    let arguments = ["setsid", "sh", "-c", "exit 3"];
    let run = |session| run_in(session, &["/usr/bin/setsid"], &arguments, "/").2;
    assert_eq!(run(SpawnSession::Callers), 3);
    assert_eq!(
        run(SpawnSession::Own),
        0,
        "a leader's setsid forks, and does not wait"
    );
}

/// The group's founder is waited for, so that a program which waits for any child sees its own alone.
#[test]
fn no_child_of_its_starting_is_left_to_a_program() {
    let script = "read children </proc/$$/task/$$/children; echo \"[$children]\"";
    let (confirmed, output, _) = run(&["/bin/sh"], &["sh", "-c", script], "/");
    confirmed.unwrap();
    assert_eq!(output, "[]\n");
}

#[test]
fn a_missing_program_is_reported_as_the_failed_exec() {
    let (confirmed, _, code) = run(&["/nonexistent/a", "/nonexistent/b"], &["a"], "/");
    let error = confirmed.unwrap_err();
    assert_eq!(error.step, SpawnStep::Exec);
    assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
    assert_eq!(code, 127);
}

#[test]
fn a_forbidden_candidate_is_told_only_when_no_other_runs() {
    let (confirmed, _, _) = run(&["/etc/passwd", "/nonexistent"], &["x"], "/");
    assert_eq!(
        confirmed.unwrap_err().source.kind(),
        io::ErrorKind::PermissionDenied
    );
    let (confirmed, output, _) = run(&["/etc/passwd", "/bin/echo"], &["echo", "ran"], "/");
    confirmed.unwrap();
    assert_eq!(output, "ran\n");
}

#[test]
fn a_directory_is_entered_as_the_user_not_as_the_caller() {
    let private = std::env::temp_dir().join(format!("spawn-as-{}", std::process::id()));
    std::fs::create_dir(&private).unwrap();
    std::fs::set_permissions(
        &private,
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    let (confirmed, _, _) = run(&["/bin/true"], &["true"], private.to_str().unwrap());
    std::fs::remove_dir(&private).unwrap();
    let error = confirmed.unwrap_err();
    assert_eq!(error.step, SpawnStep::Directory);
    assert_eq!(error.source.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_script_without_an_interpreter_line_is_run_by_sh() {
    let script = std::env::temp_dir().join(format!("spawn-as-script-{}", std::process::id()));
    std::fs::write(&script, "echo \"got $1\"\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (confirmed, output, _) = run(&[script.to_str().unwrap()], &["script", "it"], "/");
    std::fs::remove_file(&script).unwrap();
    confirmed.unwrap();
    assert_eq!(output, "got it\n");
}

/// A child has directories and an executable of whoever starts programs for others, which are not
/// its own to reach; links in procfs lead to them.
#[test]
fn links_into_descriptors_lead_to_no_directory_and_no_program() {
    for directory in [
        "/proc/self/cwd",
        "/proc/self/root",
        "/proc/self/fd/0",
        "/proc/self/root/tmp",
    ] {
        let (confirmed, _, _) = run(&["/bin/true"], &["true"], directory);
        let error = confirmed.expect_err(directory);
        assert_eq!(error.step, SpawnStep::Directory, "{directory}");
        assert_eq!(
            error.source.raw_os_error(),
            Some(libc::ELOOP),
            "{directory}"
        );
    }
    for program in ["/proc/self/exe", "/proc/self/root/bin/true"] {
        let (confirmed, _, _) = run(&[program], &["true"], "/");
        let error = confirmed.expect_err(program);
        assert_eq!(error.step, SpawnStep::Exec, "{program}");
        assert_eq!(error.source.raw_os_error(), Some(libc::ELOOP), "{program}");
    }
}

#[test]
fn a_link_to_a_directory_and_to_a_program_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let at = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink("/bin/pwd", at("program")).unwrap();
    std::os::unix::fs::symlink("/usr", at("directory")).unwrap();
    let (program, directory) = (at("program"), at("directory"));
    let (confirmed, output, _) = run(
        &[program.to_str().unwrap()],
        &["pwd"],
        directory.to_str().unwrap(),
    );
    confirmed.unwrap();
    assert_eq!(output, "/usr\n");
}
