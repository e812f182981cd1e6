//! A process that is killed while it writes.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use skep_store::Store;
use skep_types::{EndReason, Ending, ExecutionId, SandboxId, Usage};

use crate::{Record, at, order_for, run, team};

/// Opens the database in the current directory and writes until it is killed. Each line it prints
/// is the id of a sandbox of which everything is recorded.
#[tokio::test]
#[ignore = "run as a process of its own by the test below"]
async fn writes_until_killed() {
    let store = Store::open(Path::new("skep.db")).unwrap();
    let team = store.teams().default_team().await.unwrap().unwrap().id;
    let sandboxes = store.sandboxes();
    loop {
        let order = order_for(&team);
        let id = order.id.clone();
        let ordered = sandboxes.insert(order, None);
        let execution = ExecutionId::random();
        let started = sandboxes.started(id.clone(), run(execution, &id.to_string(), 1, 2));
        let ending = Ending {
            reason: EndReason::Killed,
            usage: Usage::default(),
            at: at(3),
        };
        let ended = sandboxes.ended(id.clone(), ending);
        ordered.recorded().await.unwrap();
        started.recorded().await.unwrap();
        ended.recorded().await.unwrap();
        writeln!(std::io::stdout(), "{id}").unwrap();
    }
}

#[tokio::test]
async fn nothing_that_was_acknowledged_is_lost_when_the_process_is_killed() {
    let record = Record::new().await;
    let directory = record.directory.path();
    record.store.flush().await.unwrap();
    let mut acknowledged = BTreeSet::new();
    for killed_after in [1, 17, 150, 400] {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "killed::writes_until_killed",
                "--ignored",
                "--nocapture",
            ])
            .current_dir(directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut ids = lines.filter_map(|line| line.unwrap().parse::<SandboxId>().ok());
        acknowledged.extend(ids.by_ref().take(killed_after));
        writer.kill().unwrap();
        writer.wait().unwrap();
        // What it had acknowledged by then is still in the pipe.
        acknowledged.extend(ids);
    }
    assert!(acknowledged.len() >= 568, "{}", acknowledged.len());

    let reopened = Store::open(&directory.join("skep.db")).unwrap();
    for id in acknowledged {
        let found = reopened
            .sandboxes()
            .find(id.clone())
            .await
            .unwrap()
            .unwrap_or_else(|| panic!("{id} is lost"));
        assert_eq!(found.run.unwrap().driver_record, id.to_string());
        assert_eq!(found.ending.unwrap().reason, EndReason::Killed);
    }
    // And it goes on as if nothing had happened.
    reopened
        .teams()
        .insert(team("next", false))
        .recorded()
        .await
        .unwrap();
}
