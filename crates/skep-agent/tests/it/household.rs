//! Answers to a companion of the agent about files that code in the sandbox has planted.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use skep_agent::{Companion, Household, Listen};

use crate::agent::TestAgent;

/// An agent, and what its companion has got.
fn start() -> (TestAgent, Household) {
    let (send, receive) = std::sync::mpsc::channel();
    let companion = Companion {
        listen: Listen::On(TcpListener::bind("127.0.0.1:0").unwrap()),
        routes: Box::new(move |household| {
            send.send(household).unwrap();
            axum::Router::new()
        }),
    };
    let agent = TestAgent::with_options(&json!({}), |options| options.companion = Some(companion));
    (agent, receive.recv().unwrap())
}

fn plain_names(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn links_to_the_agents_own_descriptors_lead_nowhere() {
    let (agent, household) = start();
    let planted = agent.home().join("kernels");
    symlink("/proc/self/fd", &planted).unwrap();
    assert!(plain_names(&planted) > 0, "whoever follows it gets there");
    household.names_in(&planted, 1000).unwrap_err();
    assert_eq!(household.modified(&planted), None);

    let planted = agent.home().join("kernel.json");
    symlink("/proc/self/exe", &planted).unwrap();
    assert!(planted.is_file(), "whoever follows it gets there");
    assert!(!household.is_file(&planted));
    assert_eq!(household.modified(&planted), None);
}

#[test]
fn a_pipe_is_no_file_and_no_folder_and_is_not_waited_for() {
    let (agent, household) = start();
    let pipe = agent.home().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert!(!household.is_file(&pipe));
    household.names_in(&pipe, 1000).unwrap_err();
    household.read_file(&pipe, 1000).unwrap_err();
}

#[test]
fn a_folder_is_read_if_it_holds_few_enough_names() {
    let (agent, household) = start();
    let folder = agent.home().join("folder");
    std::fs::create_dir(&folder).unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(folder.join(name), "").unwrap();
    }
    let mut names = household.names_in(&folder, 3).unwrap();
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
    let error = household.names_in(&folder, 2).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
    // Links that are ordinary are followed, and tell of what they lead to.
    let link = agent.home().join("link");
    symlink("folder/a", &link).unwrap();
    assert!(household.is_file(&link));
    let modified = std::fs::metadata(folder.join("a")).unwrap().modified();
    assert_eq!(household.modified(&link), modified.ok());
}
