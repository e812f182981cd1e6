//! `skep run`, against a real server with a real interpreter.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use skep_testkit::wait_for;
use tempfile::TempDir;

use crate::installation::{INTERPRETER, Installation};

const TIMEOUT: Duration = Duration::from_secs(20);

struct World {
    installation: Installation,
    folder: TempDir,
}

/// Output of a command, and its exit code.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

impl World {
    fn new() -> Self {
        Self {
            installation: Installation::start_with_interpreter(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let arguments = [&["run"], arguments].concat();
        let mut command = self.installation.client_command(&arguments);
        if !arguments.contains(&"--sandbox") {
            // Before what is the code's own.
            let own = command
                .get_args()
                .map(ToOwned::to_owned)
                .collect::<Vec<_>>();
            let end = own.iter().position(|argument| argument == "--");
            let (ours, codes) = own.split_at(end.unwrap_or(own.len()));
            let mut whole = Command::new(command.get_program());
            whole
                .args(ours)
                .args(["--template", INTERPRETER])
                .args(codes);
            for (name, value) in command.get_envs() {
                match value {
                    Some(value) => whole.env(name, value),
                    None => whole.env_remove(name),
                };
            }
            command = whole;
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Done {
        self.command(arguments).output().unwrap().into()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[track_caller]
    fn check(&self, arguments: &[&str], code: i32, out: &str, err: &str) {
        let done = self.run(arguments);
        let expected = Done {
            code: Some(code),
            out: out.to_owned(),
            err: err.to_owned(),
        };
        assert_eq!(done, expected, "{arguments:?}");
    }

    fn sandboxes(&self) -> Value {
        let mut command = self
            .installation
            .client_command(&["sandbox", "list", "--json"]);
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
    }
}

#[test]
fn code_runs_in_a_sandbox_as_if_it_ran_here() {
    let world = World::new();
    world.check(&["-c", "print('hi'); 6 * 7"], 0, "hi\n42\n", "");

    world.write(
        "dir/task.py",
        "import sys\nfrom pathlib import Path\n\nif __name__ == '__main__':\n    print(sys.argv[1:], Path('data/a.txt').read_text())\n    print('oops', file=sys.stderr)\n    1 / 0\n",
    );
    world.write("data/a.txt", "content");
    let failed = world.run(&["dir/task.py", "--with", "data", "--", "a b", "it's"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert_eq!(failed.out, "['a b', \"it's\"] content\n");
    assert_eq!(
        failed.err,
        "oops\nFile ~/task.py:7\n      5 print(sys.argv[1:], Path('data/a.txt').read_text())\n      6 print('oops', file=sys.stderr)\n----> 7 1 / 0\n\nZeroDivisionError: division by zero\n"
    );

    world.write("leave.py", "import sys\nsys.exit(7)\n'unseen'");
    world.check(&["leave.py"], 7, "", "");
    world.check(&["-c", "import sys; sys.exit('bye')"], 1, "", "bye\n");
    let late = ["--timeout", "0.5", "-c", "import time; time.sleep(60)"];
    let words = "ExecutionTimeout: The execution took longer than 0.5 s\n";
    world.check(&late, 124, "", words);
    let variables = ["--env", "A=b c", "--cwd", "deep", "-c"];
    let code = "import os; os.environ['A'] + os.getcwd()";
    fs::create_dir(world.folder.path().join("deep")).unwrap();
    let there = [&variables[..], &[code, "--with", "deep"]].concat();
    world.write("deep/deep", "");
    world.check(&there, 0, "b c/home/user/deep\n", "");

    assert_eq!(world.sandboxes(), serde_json::json!([]), "none is left");
}

#[test]
fn every_language_has_its_arguments_its_errors_and_its_exit_codes() {
    let world = World::new();
    world.write(
        "task.js",
        "#!/usr/bin/env node\nconsole.log(process.argv.slice(2));\nnull.x;\n",
    );
    let failed = world.run(&["task.js", "--", "a b"]);
    assert_eq!((failed.code, &*failed.out), (Some(1), "[ 'a b' ]\n"));
    let place = "at task.js:3:";
    assert!(failed.err.contains(place), "{}", failed.err);
    world.write("where.mjs", "console.log(import.meta.url, __filename)");
    let place = "file:///home/user/where.mjs /home/user/where.mjs\n";
    world.check(&["where.mjs"], 0, place, "");
    let typed = "const n: number = 3; process.exit(n)";
    world.check(&["--lang", "ts", "-c", typed], 3, "", "");
    world.write("task", "#!/bin/bash\necho \"$# $1\"\nexit 4\n");
    world.check(&["task", "--", "it's", "b"], 4, "2 it's\n", "");
    let unknown = world.run(&["--lang", "cobol", "-c", "1"]);
    assert_eq!(unknown.code, Some(125), "{unknown:?}");
    assert!(
        unknown
            .err
            .contains("has no cobol kernel; its template has python"),
        "{}",
        unknown.err
    );
}

#[test]
fn output_streams_and_ctrl_c_interrupts_the_code_and_shows_where_it_was() {
    let world = World::new();
    // The second word comes when the code waits, so that it is there that it is interrupted.
    let code = "print('one')\nimport sys, threading, time\nthreading.Timer(0.3, print, ['two'], {'file': sys.stderr}).start()\ntime.sleep(60)";
    let mut child = world
        .command(&[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(code.as_bytes()).unwrap();
    drop(stdin);
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(out.next().unwrap().unwrap(), "one", "while it runs");
    let mut err = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(err.next().unwrap().unwrap(), "two", "while it runs");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = err.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert_eq!(rest[0], "Cell In[1], line 4", "{rest:?}");
    assert_eq!(rest.last().unwrap(), "KeyboardInterrupt", "{rest:?}");

    let stubborn = "import time\nwhile True:\n  try: print('on', flush=True); time.sleep(60)\n  except KeyboardInterrupt: print('no', flush=True)";
    let mut child = world
        .command(&["-c", stubborn])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    for word in ["on", "no"] {
        assert_eq!(out.next().unwrap().unwrap(), word);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    }
    let ended = wait_for(TIMEOUT, || child.try_wait().unwrap().ok_or("it goes on"));
    assert_eq!(ended.code(), Some(130));
    assert_eq!(world.sandboxes(), serde_json::json!([]), "none is left");
}

#[test]
fn pictures_are_kept_and_machines_get_a_line_for_everything() {
    let world = World::new();
    let plot = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show(); print('done')";
    let told = world.run(&["-c", plot]);
    assert!(told.err.contains("`--save-dir DIR` keeps it"), "{told:?}");
    let kept = world.run(&["--save-dir", "plots", "-c", plot]);
    assert_eq!((kept.code, &*kept.out), (Some(0), "done\n"), "{kept:?}");
    assert_eq!(kept.err, "skep: saved plots/plot-1.png\n");
    let png = fs::read(world.folder.path().join("plots/plot-1.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG"));

    let ran = world.run(&["--json", "-c", "print('a'); 1 / 0"]);
    assert_eq!((ran.code, &*ran.err), (Some(1), ""));
    let lines: Vec<Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let types: Vec<_> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        [
            "sandbox",
            "number_of_executions",
            "stdout",
            "error",
            "receipt",
            "end_of_execution",
            "exit"
        ]
    );
    assert_eq!(lines[3]["name"], "ZeroDivisionError");
    assert_eq!(lines[6]["code"], 1);
}

#[test]
fn a_kept_sandbox_is_used_again_and_remembers() {
    let world = World::new();
    let kept = world.run(&["--keep", "-c", "x = 41"]);
    assert_eq!(kept.code, Some(0), "{kept:?}");
    let listed = world.sandboxes();
    let id = listed[0]["sandboxID"].as_str().unwrap();
    assert!(kept.err.contains(id), "{kept:?}");
    world.check(&["--sandbox", id, "-c", "x + 1"], 0, "42\n", "");
    assert_eq!(world.sandboxes()[0]["sandboxID"], id, "it lives on");
    // A reader that has seen enough is no error.
    let mut command = world.command(&["--sandbox", id, "-c", "while True: print(1)"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(141));
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
}
