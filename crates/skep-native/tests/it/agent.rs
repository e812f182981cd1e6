//! The agent of a test: answers one question per connection.

mod forks;

use std::ffi::CString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::process::{DumpableBehavior, WaitOptions};
use skep_agent_protocol::fds;
use skep_linux::spawn_as::{Credentials, SpawnAs, SpawnSession, fork_as};

pub(crate) const PORT: u16 = 49_983;

/// Starts as the real agent does, and then does as the test says.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    skep_linux::protect_first_process().unwrap();
    let position = arguments.iter().position(|argument| argument == "--fds");
    let table = &arguments[position.unwrap() + 1];
    let all = |name: &str| -> Vec<OwnedFd> {
        let rows = table.split(',').filter_map(|row| row.split_once('='));
        rows.filter(|(known, _)| *known == name)
            .map(|(_, number)| skep_linux::take_inherited(number.parse().unwrap()).unwrap())
            .collect()
    };
    let one = |name: &str| all(name).pop();
    let mut config = String::new();
    let mut config_file = File::from(one(fds::CONFIG).unwrap());
    config_file.read_to_string(&mut config).unwrap();
    let mut ready = File::from(one(fds::READY).unwrap());
    let mut forks = one(fds::FORKS);
    let mut remembered = String::new();
    let work = all(fds::WORK_CGROUP);

    match config.as_str() {
        "silent" => loop {
            std::thread::park();
        },
        "crash" => {
            // What an agent says before it ends is kept.
            std::io::stderr().write_all(b"cannot go on\n").unwrap();
            return ExitCode::from(3);
        }
        _ => {}
    }
    let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
    ready.write_all(&[1]).unwrap();
    drop(ready);
    loop {
        let (stream, _) = listener.accept().unwrap();
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let mut question = String::new();
        BufReader::new(&stream).read_line(&mut question).unwrap();
        let question = question.trim();
        if question == "exit" {
            return ExitCode::from(5);
        }
        let answer = match question.split_once(' ') {
            Some(("work", question)) => {
                start(question, &work, &stream);
                continue;
            }
            Some(("fork", question)) => match &forks {
                Some(server) => match forks::ask(server, question, &stream) {
                    Some(refused) => refused,
                    None => continue,
                },
                None => "nobody to ask".into(),
            },
            Some(("agent", question)) => crate::probe::answer(question),
            Some(("remember", text)) => {
                text.clone_into(&mut remembered);
                "done".into()
            }
            Some(("go-on", new)) => {
                set_dumpable(DumpableBehavior::NotDumpable);
                new.clone_into(&mut config);
                "done".into()
            }
            _ if question.starts_with("fork-") => {
                forks::nonsense(forks.as_ref().unwrap(), question)
            }
            _ if question == "config" => config.clone(),
            _ if question == "remembered" => remembered.clone(),
            _ if question == "prepare" => {
                forks = None;
                set_dumpable(DumpableBehavior::Dumpable);
                "done".into()
            }
            _ => format!("no such question: {question}"),
        };
        (&stream).write_all(answer.as_bytes()).unwrap();
    }
}

fn set_dumpable(behaviour: DumpableBehavior) {
    rustix::process::set_dumpable_behavior(behaviour).unwrap();
}

/// Starts a user's program that answers on the connection; nobody waits for it.
fn start(question: &str, work: &[OwnedFd], stream: &TcpStream) {
    let null = File::open("/dev/null").unwrap();
    let cgroups: Vec<_> = work.iter().map(AsFd::as_fd).collect();
    let arguments = ["probe", "probe", question].map(|text| CString::new(text).unwrap());
    fork_as(&SpawnAs {
        programs: &[c"/probe".to_owned()],
        arguments: &arguments,
        environment: &[],
        directory: c"/",
        credentials: &Credentials {
            uid: 1000,
            gid: 1000,
            groups: Vec::new(),
        },
        standard: [null.as_fd(), stream.as_fd(), stream.as_fd()],
        session: SpawnSession::Own,
        cgroups: &cgroups,
        open_files: None,
        raise_oom_score: true,
    })
    .unwrap();
}
