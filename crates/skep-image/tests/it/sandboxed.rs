//! The real `base` as a sandbox has it: with users of its own, who own nothing on the host.

use std::fs;
use std::io::{self, Read};
use std::time::Duration;

use skep_launch::{Descriptors, Ended, LaunchPlan, Launcher, Process, Program, Root, Top, Users};

use crate::base::{BASE, base_layers};

crate::tests! {
    the_template_works_for_users_that_own_nothing_on_the_host,
}

fn the_template_works_for_users_that_own_nothing_on_the_host() {
    let script = "id -u; sudo -n id -u; sudo touch /etc/by-root; touch ~/by-user; \
                  rm -r /usr/local/lib/node_modules/npm; mkdir /usr/local/lib/node_modules/npm; \
                  ls /usr/local/lib/node_modules/npm; stat -c %U /etc/by-root ~/by-user /usr";
    let place = tempfile::tempdir().unwrap();
    let directory = |name: &str| {
        let path = place.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let (mut reader, writer) = io::pipe().unwrap();
    let arguments = [
        "/usr/sbin/runuser",
        "-s",
        "/bin/bash",
        "user",
        "--",
        "-l",
        "-c",
        script,
    ];
    let root = Root {
        staging: directory("staging"),
        layers: base_layers(),
        below: Vec::new(),
        top: Top::Directories {
            upper: directory("upper"),
            work: directory("work"),
        },
    };
    let program = Program::Path(arguments[0].to_owned());
    let mut process = Process::new(program, arguments.map(str::to_owned));
    process.environment = BASE.env.clone();
    process.working_directory = "/home/user".to_owned();
    let users = Users::Range {
        first: 1_700_000,
        count: 65_536,
    };
    let mut plan = LaunchPlan::new(Descriptors::default(), users, root, process);
    plan.hostname = "e2b.local".to_owned();
    plan.output(writer);
    let launcher = Launcher::new(std::env::current_exe().unwrap(), ["launch"]);
    let deadline = Duration::from_secs(60);
    let mut started = launcher.launch(plan, deadline).unwrap();
    let mut printed = String::new();
    reader.read_to_string(&mut printed).unwrap();
    let ended = started.wait(Some(deadline)).unwrap();
    assert_eq!(printed, "1000\n0\nroot\nuser\nroot\n");
    assert_eq!(ended, Some(Ended::Code(0)));
}
