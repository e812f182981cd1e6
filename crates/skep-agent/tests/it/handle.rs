//! Answers to a side service of the agent about files that code in the sandbox has planted.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use skep_agent::{AgentHandle, Listen, SideService};
use skep_kernels::Processes;

use crate::agent::TestAgent;

/// An agent, and what its side service has got.
fn start() -> (TestAgent, AgentHandle) {
    let (send, receive) = std::sync::mpsc::channel();
    let side_service = SideService {
        listen: Listen::On(TcpListener::bind("127.0.0.1:0").unwrap()),
        routes: Box::new(move |handle| {
            send.send(handle).unwrap();
            axum::Router::new()
        }),
    };
    let agent = TestAgent::with_options(&json!({}), |options| {
        options.side_service = Some(side_service)
    });
    (agent, receive.recv().unwrap())
}

fn plain_names(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn links_to_the_agents_own_descriptors_lead_nowhere() {
    let (agent, handle) = start();
    let planted = agent.home().join("kernels");
    symlink("/proc/self/fd", &planted).unwrap();
    assert!(plain_names(&planted) > 0, "whoever follows it gets there");
    handle.names_in(&planted, 1000).unwrap_err();
    assert_eq!(handle.modified(&planted), None);

    let planted = agent.home().join("kernel.json");
    symlink("/proc/self/exe", &planted).unwrap();
    assert!(planted.is_file(), "whoever follows it gets there");
    assert!(!handle.is_file(&planted));
    assert_eq!(handle.modified(&planted), None);
}

#[test]
fn a_pipe_is_no_file_and_no_directory_and_is_not_waited_for() {
    let (agent, handle) = start();
    let pipe = agent.home().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert!(!handle.is_file(&pipe));
    handle.names_in(&pipe, 1000).unwrap_err();
    handle.read_file(&pipe, 1000).unwrap_err();
}

#[test]
fn a_directory_is_read_if_it_holds_few_enough_names() {
    let (agent, handle) = start();
    let directory = agent.home().join("directory");
    std::fs::create_dir(&directory).unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(directory.join(name), "").unwrap();
    }
    let mut names = handle.names_in(&directory, 3).unwrap();
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
    let error = handle.names_in(&directory, 2).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
    // Links that are ordinary are followed, and tell of what they lead to.
    let link = agent.home().join("link");
    symlink("directory/a", &link).unwrap();
    assert!(handle.is_file(&link));
    let modified = std::fs::metadata(directory.join("a")).unwrap().modified();
    assert_eq!(handle.modified(&link), modified.ok());
}
