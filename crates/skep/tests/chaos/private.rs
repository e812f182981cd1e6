//! `skep run` on a host where no server runs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use skep_testkit::wait_for;
use tempfile::TempDir;

use crate::installation::{INTERPRETER, INTERPRETERS};

/// Time limit for a server to leave the host as it was.
const CLEAN_UP: Duration = Duration::from_secs(30);

/// A host without a server: nothing listens where one would.
struct Alone {
    folder: TempDir,
}

impl Alone {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = "listen = \"127.0.0.1:9\"\n";
        fs::write(folder.path().join("skep.toml"), nowhere).unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        Self { folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
        command
            .arg("--config")
            .arg(self.folder.path().join("skep.toml"))
            .args(["run", "--template", INTERPRETER])
            .args(arguments)
            .env("SKEP_CACHE_DIR", &*INTERPRETERS)
            .env("TMPDIR", self.temporary())
            .env_remove("SKEP_SERVER")
            .env_remove("E2B_API_KEY")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn temporary(&self) -> std::path::PathBuf {
        self.folder.path().join("tmp")
    }

    /// Waits until nothing of a server is left: no data, no mount, no process, no group.
    fn wait_until_clean(&self, instance: Option<&str>) {
        let temporary = self.temporary();
        wait_for(CLEAN_UP, || {
            let left: Vec<_> = names(&temporary);
            if !left.is_empty() {
                return Err(format!("there is still {left:?}"));
            }
            let users = processes_with(&temporary);
            if !users.is_empty() {
                return Err(format!("there are still processes: {users:?}"));
            }
            match instance.filter(|number| has_group(number)) {
                Some(number) => Err(format!("there is still the group skep-{number}")),
                None => Ok(()),
            }
        });
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Processes that were told of this directory.
fn processes_with(folder: &Path) -> Vec<String> {
    let name = folder.to_str().unwrap().as_bytes();
    let mentions = |text: &[u8]| text.windows(name.len()).any(|part| part == name);
    let of = |pid: &String| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let all = names(Path::new("/proc")).into_iter();
    all.filter(|pid| pid.parse::<u32>().is_ok() && mentions(&of(pid)))
        .collect()
}

fn has_group(number: &str) -> bool {
    let root = Path::new("/sys/fs/cgroup");
    let group = format!("skep-{number}");
    let hierarchies = names(root).into_iter().map(|name| root.join(name));
    hierarchies
        .chain([root.to_owned()])
        .any(|parent| parent.join(&group).exists())
}

#[test]
fn without_a_server_one_is_started_and_leaves_nothing_behind() {
    let alone = Alone::new();
    let output = alone.command(&["-c", "6 * 7"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n");
    // By now, not some day: it was waited for.
    assert_eq!(names(&alone.temporary()), [""; 0]);
    alone.wait_until_clean(None);

    let kept = alone.command(&["--keep", "-c", "1"]).output().unwrap();
    assert_eq!(kept.status.code(), Some(125));
    let errors = String::from_utf8_lossy(&kept.stderr);
    assert!(
        errors.contains("hint: ") && errors.contains("skep up"),
        "{errors}"
    );
}

#[test]
fn a_command_that_is_killed_takes_its_server_with_it() {
    let alone = Alone::new();
    let code = "import time; print('runs', flush=True); time.sleep(600)";
    let mut child = alone.command(&["-c", code]).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = out.next().map(Result::unwrap);
    assert_eq!(first.as_deref(), Some("runs"));
    let data = alone.temporary().join(&names(&alone.temporary())[0]);
    let instance = fs::read_to_string(data.join("instance")).unwrap();
    assert!(
        has_group(instance.trim()),
        "it is looked for in the right place"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    alone.wait_until_clean(Some(instance.trim()));
}
