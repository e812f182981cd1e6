//! The fork server: what becomes of plans when it is hurt, and of plans beside each other.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use skep_launch::{Ended, ForkServer, LaunchedBy, Launcher, SpawnError, Started};

use crate::plan::{Bench, DEADLINE, launcher};

crate::tests![
    a_launcher_that_was_killed_is_replaced_and_no_plan_is_lost,
    a_launcher_that_hangs_is_replaced_and_no_plan_is_lost,
    a_launcher_that_is_killed_in_the_middle_of_a_plan_does_not_end_the_plan,
    a_fork_that_is_killed_in_the_middle_of_its_plan_is_said_to_have_died,
    a_plan_that_takes_too_long_is_given_up_and_its_fork_ended,
    a_plan_that_hangs_does_not_hold_up_the_next_one,
    a_sandbox_inherits_nothing_of_the_one_that_was_launched_before,
    a_network_that_was_made_ahead_is_for_one_sandbox_alone,
    nobody_but_its_own_fork_ever_has_what_a_plan_says,
    what_is_forked_is_reaped,
    a_fork_server_ends_with_its_server,
    a_fork_server_that_cannot_be_started_is_not_missed,
];

/// A server that has a fork server and nothing else to do.
pub(crate) fn serve() -> ExitCode {
    let server = ForkServer::new(launcher());
    let mut out = std::io::stdout();
    writeln!(out, "{}", server.pid().unwrap()).unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    drop(server);
    ExitCode::SUCCESS
}

/// A plan that its launcher begins with and cannot go on with, until it is let go.
///
/// The launcher joins cgroups by writing to a file. Here that is a pipe which is full.
struct Held {
    bench: Bench,
    pipe: std::io::PipeReader,
}

impl Held {
    fn new(questions: &[&str]) -> Self {
        let mut bench = Bench::new(questions);
        let (pipe, full) = std::io::pipe().unwrap();
        let bytes = rustix::pipe::fcntl_getpipe_size(&full).unwrap();
        (&full).write_all(&vec![0; bytes]).unwrap();
        bench.plan.join([full]);
        Self { bench, pipe }
    }
}

type Launch = Result<(Started, LaunchedBy), SpawnError>;

/// Launches a held plan, calls `meanwhile` when its fork has begun, and then lets it go.
fn launch_held(server: &ForkServer, held: Held, meanwhile: impl FnOnce(Pid)) -> (Launch, String) {
    let before = forks(server);
    let Held { bench, mut pipe } = held;
    let (plan, mut output) = (bench.plan, bench.output);
    std::thread::scope(|scope| {
        let launching = scope.spawn(move || server.launch(plan, DEADLINE));
        let fork = skep_testkit::wait_for(DEADLINE, || {
            let mut new = forks(server);
            new.retain(|pid| !before.contains(pid));
            new.pop().ok_or("nothing was forked")
        });
        skep_testkit::wait_for(DEADLINE, || {
            let waits = fs::read_to_string(format!("/proc/{fork}/wchan"))
                .unwrap_or_default()
                .contains("pipe");
            waits.then_some(()).ok_or("it has not begun")
        });
        meanwhile(fork);
        let mut bytes = [0; 4096];
        pipe.read_exact(&mut bytes).unwrap();
        let launched = launching.join().unwrap();
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        (launched, said)
    })
}

fn pid_of(server: &ForkServer) -> Pid {
    Pid::from_raw(server.pid().unwrap().cast_signed()).unwrap()
}

/// Returns the processes that the launcher has forked and not reaped.
fn forks(server: &ForkServer) -> Vec<Pid> {
    let pid = pid_of(server);
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let numbers = children.split_whitespace();
    numbers
        .map(|number| Pid::from_raw(number.parse().unwrap()).unwrap())
        .collect()
}

fn kill(pid: Pid, signal: Signal) {
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Launches and checks that the program runs as it should, by a fork or for this reason not.
#[track_caller]
fn check_launch(server: &ForkServer, refused: Option<&str>) {
    let mut bench = Bench::new(&["pid", "descriptors"]);
    let launched = server.launch(bench.plan, DEADLINE);
    let (mut started, launched_by) = launched.unwrap();
    match (launched_by, refused) {
        (LaunchedBy::Fork, None) => {}
        (LaunchedBy::OwnLauncher { reason }, Some(refused)) if reason.contains(refused) => {}
        (launched_by, refused) => panic!("{launched_by:?}, not {refused:?}"),
    }
    let mut said = String::new();
    bench.output.read_to_string(&mut said).unwrap();
    assert_eq!(said, "pid -> 1\ndescriptors -> 0 1 2\n");
    assert_eq!(started.wait(Some(DEADLINE)).unwrap(), Some(Ended::Code(0)));
}

fn a_launcher_that_was_killed_is_replaced_and_no_plan_is_lost() {
    let server = ForkServer::new(launcher());
    check_launch(&server, None);
    let former = pid_of(&server);
    kill(former, Signal::KILL);
    check_launch(&server, Some("it cannot be spoken to"));
    assert_ne!(pid_of(&server), former);
    check_launch(&server, None);
}

fn a_launcher_that_hangs_is_replaced_and_no_plan_is_lost() {
    let server = ForkServer::new(launcher());
    check_launch(&server, None);
    kill(pid_of(&server), Signal::STOP);
    check_launch(&server, Some("it accepted no plan within 2 s"));
    check_launch(&server, None);
}

fn a_launcher_that_is_killed_in_the_middle_of_a_plan_does_not_end_the_plan() {
    let server = ForkServer::new(launcher());
    let former = pid_of(&server);
    let (launched, said) = launch_held(&server, Held::new(&["pid"]), |_| {
        kill(former, Signal::KILL);
    });
    assert_eq!(said, "pid -> 1\n");
    let (mut started, launched_by) = launched.unwrap();
    assert_eq!(launched_by, LaunchedBy::Fork);
    assert_eq!(started.wait(Some(DEADLINE)).unwrap(), Some(Ended::Code(0)));
}

fn a_fork_that_is_killed_in_the_middle_of_its_plan_is_said_to_have_died() {
    let server = ForkServer::new(launcher());
    let former = pid_of(&server);
    let (launched, said) = launch_held(&server, Held::new(&["pid"]), |fork| {
        kill(fork, Signal::KILL);
    });
    assert_eq!(said, "");
    let error = launched.unwrap_err();
    assert_eq!(error.to_string(), "launcher ended without a report");
    assert_eq!(pid_of(&server), former, "the launcher is as good as before");
    check_launch(&server, None);
}

fn a_plan_that_takes_too_long_is_given_up_and_its_fork_ended() {
    let server = ForkServer::new(launcher());
    let Held { bench, pipe } = Held::new(&["pid"]);
    let short = Duration::from_millis(300);
    let error = server.launch(bench.plan, short);
    assert!(matches!(error, Err(SpawnError::Silent(_))), "{error:?}");
    drop(pipe);
    skep_testkit::wait_for(DEADLINE, || match forks(&server).as_slice() {
        [] => Ok(()),
        left => Err(format!("{left:?} are left")),
    });
    check_launch(&server, None);
}

fn a_plan_that_hangs_does_not_hold_up_the_next_one() {
    let server = ForkServer::new(launcher());
    let (launched, said) = launch_held(&server, Held::new(&["pid"]), |_| {
        check_launch(&server, None);
    });
    assert_eq!(said, "pid -> 1\n");
    launched.unwrap();
}

fn a_sandbox_inherits_nothing_of_the_one_that_was_launched_before() {
    let server = ForkServer::new(launcher());
    let others = || {
        let mut open = descriptors(&server);
        // SpareNetworks come and go, and so do the forks themselves.
        open.retain(|what| !what.starts_with("net:") && what != "anon_inode:[pidfd]");
        open
    };
    check_launch(&server, None);
    let at_first = others();
    // The second one lives until its standard input is closed, longer than the first.
    let mut second = Bench::new(&["wait", "descriptors"]);
    let (stdin, theirs) = std::io::pipe().unwrap();
    second.plan.stdin(stdin);
    let mut lives_on = None;
    let (launched, said) = launch_held(&server, Held::new(&["descriptors"]), |_| {
        let launched = server.launch(second.plan, DEADLINE);
        lives_on = Some(launched.unwrap().0);
    });
    // This was read until its end, so nobody has the other end any more: neither the launcher
    // nor the other sandbox.
    assert_eq!(said, "descriptors -> 0 1 2\n");
    launched.unwrap().0.wait(Some(DEADLINE)).unwrap();
    drop(theirs);
    let mut said = String::new();
    second.output.read_to_string(&mut said).unwrap();
    assert_eq!(said, "descriptors -> 0 1 2\n");
    drop(lives_on);
    skep_testkit::wait_for(DEADLINE, || {
        let open = others();
        let has_no_more = open == at_first;
        has_no_more.then_some(()).ok_or(format!("{open:?}"))
    });
}

fn a_network_that_was_made_ahead_is_for_one_sandbox_alone() {
    let server = ForkServer::new(launcher());
    let host = fs::read_link("/proc/self/ns/net").unwrap();
    let spare = || {
        let mut networks = descriptors(&server);
        networks.retain(|what| what.starts_with("net:") && Path::new(what) != host);
        networks
    };
    let network = || {
        let mut bench = Bench::new(&["link=/proc/self/ns/net"]);
        let launched = server.launch(bench.plan, DEADLINE);
        let mut said = String::new();
        bench.output.read_to_string(&mut said).unwrap();
        launched.unwrap().0.wait(Some(DEADLINE)).unwrap();
        let (_, network) = said.trim().split_once(" -> ").unwrap();
        network.to_owned()
    };
    let made = skep_testkit::wait_for(DEADLINE, || {
        let spare = spare();
        (spare.len() == 4)
            .then_some(spare)
            .ok_or("they are not made")
    });
    // The kernel gives the number of a network that has ended to the next one, unless somebody
    // holds it.
    let is_network = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|what| what.to_string_lossy().starts_with("net:"))
    };
    let networks = files(&server).filter(is_network);
    let held: Vec<_> = networks.map(|path| fs::File::open(path).unwrap()).collect();
    let first = network();
    assert!(made.contains(&first), "{first} was not ready");
    assert!(!spare().contains(&first));
    assert_ne!(first, network());
    drop(held);
}

/// Returns the descriptors that the launcher has open.
fn descriptors(server: &ForkServer) -> Vec<String> {
    let links = files(server).filter_map(|path| fs::read_link(path).ok());
    links.map(|link| link.display().to_string()).collect()
}

/// Paths of the descriptors that the launcher has open.
fn files(server: &ForkServer) -> impl Iterator<Item = PathBuf> {
    let directory = fs::read_dir(format!("/proc/{}/fd", pid_of(server))).unwrap();
    directory.map(|entry| entry.unwrap().path())
}

fn nobody_but_its_own_fork_ever_has_what_a_plan_says() {
    let server = ForkServer::new(launcher());
    let secret = format!("secret-{}-of-a-plan", std::process::id());
    let mut first = Held::new(&["pid"]);
    let environment = &mut first.bench.plan.process.environment;
    environment.push(("TOKEN".into(), secret.clone()));
    let (launched, _) = launch_held(&server, first, |first_fork| {
        assert!(
            remembers(first_fork, &secret),
            "this is how it would be found"
        );
        let (launched, _) = launch_held(&server, Held::new(&["pid"]), |second_fork| {
            assert!(!remembers(second_fork, &secret));
        });
        launched.unwrap();
    });
    launched.unwrap();
    assert!(!remembers(pid_of(&server), &secret));
}

/// Returns true if a process has a text anywhere in the memory that it could write to.
fn remembers(pid: Pid, text: &str) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    maps.lines()
        .filter(|line| line.contains(" rw"))
        .any(|line| {
            let (range, _) = line.split_once(' ').unwrap();
            let (first, last) = range.split_once('-').unwrap();
            let [first, last] =
                [first, last].map(|number| u64::from_str_radix(number, 16).unwrap());
            let mut bytes = vec![0; usize::try_from(last - first).unwrap()];
            // Not all that is mapped can be read.
            memory.read_exact_at(&mut bytes, first).is_ok()
                && bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
        })
}

fn what_is_forked_is_reaped() {
    let server = ForkServer::new(launcher());
    for _ in 0..3 {
        check_launch(&server, None);
    }
    skep_testkit::wait_for(DEADLINE, || match forks(&server).as_slice() {
        [] => Ok(()),
        left => Err(format!("{left:?} are left")),
    });
}

fn a_fork_server_ends_with_its_server() {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .arg("server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let launcher = format!("/proc/{}", line.trim());
    assert!(fs::exists(&launcher).unwrap());
    server.kill().unwrap();
    server.wait().unwrap();
    skep_testkit::wait_for(DEADLINE, || {
        // It may be that nobody reaps what was left by the server.
        let status = fs::read_to_string(format!("{launcher}/status")).unwrap_or_default();
        let is_gone = status.is_empty() || status.contains("State:\tZ");
        is_gone.then_some(()).ok_or("it lives on")
    });
}

fn a_fork_server_that_cannot_be_started_is_not_missed() {
    let missing = ForkServer::new(Launcher::new("/nonexistent/skep", ["launch"]));
    let bench = Bench::new(&["pid"]);
    let error = missing.launch(bench.plan, DEADLINE);
    assert_eq!(
        error.unwrap_err().to_string(),
        "cannot start the launcher `/nonexistent/skep`"
    );
}
