//! The bash kernel of this repository, and the tests that kernels have of their own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use skep_kernels::fake::FakeSettings;
use skep_kernels::{Contexts, ExecuteRequest, KernelSpecs};

use crate::processes::Children;
use crate::talk::{all, next, request, run};

pub(crate) struct World {
    pub(crate) contexts: Contexts,
    pub(crate) bash: String,
    _directory: tempfile::TempDir,
}

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels")
}

pub(crate) fn world() -> World {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("bash");
    std::fs::create_dir(&place).unwrap();
    let specification = serde_json::json!({
        "argv": ["/usr/bin/python3", "-I", "-S", kernels().join("bash/skep_bash/__main__.py")],
        "language": "bash",
        "env": {"HOME": directory.path()},
    });
    std::fs::write(place.join("kernel.json"), specification.to_string()).unwrap();
    let directories = vec![directory.path().to_owned()];
    let installed = KernelSpecs::new(move || directories.clone(), Arc::new(Children::default()));
    let settings = Arc::new(FakeSettings::default());
    let contexts = Contexts::new(Arc::new(installed), settings, &["bash"]);
    let bash = contexts.default_of("bash").unwrap();
    World {
        contexts,
        bash,
        _directory: directory,
    }
}

#[tokio::test]
async fn bash_keeps_its_state_and_tells_its_status() {
    let world = world();
    let with_variables = ExecuteRequest {
        variables: BTreeMap::from([("A".to_owned(), "'\"\n😀".to_owned())]),
        ..request("kept=$A; echo \"${A//$'\\n'/|}\"")
    };
    let execution = world.contexts.execute(&world.bash, with_variables).unwrap();
    assert_eq!(all(execution).await, ["accepted 1", "'\"|😀", "ended Ok"]);
    let code = "[[ $kept = *😀 ]] && echo kept ${A-unset}; (exit 7)";
    assert_eq!(
        run(&world.contexts, &world.bash, code).await,
        ["accepted 2", "kept unset", "raised ", "ended Runtime"]
    );
    let words = run(&world.contexts, &world.bash, "echo 'unfinished").await;
    assert_eq!(words.last().unwrap(), "ended Syntax");
}

#[tokio::test]
async fn an_interrupt_ends_a_loop_of_bash_and_keeps_the_state() {
    let world = world();
    run(&world.contexts, &world.bash, "kept=kept").await;
    for code in [
        "echo go; while :; do :; done",
        "echo go; while :; do sleep 1000; done",
        "(trap '' INT; echo go; sleep 1000)",
    ] {
        let mut execution = world.contexts.execute(&world.bash, request(code)).unwrap();
        while next(&mut execution).await.expect("the code says go first") != "go" {}
        drop(execution);
        let words = run(&world.contexts, &world.bash, "echo ${kept-lost}").await;
        let survives = !code.contains("trap");
        // What ignores interrupts altogether costs the shell its life, and the next cell says so.
        let last = if survives { "kept" } else { "lost" };
        assert_eq!(words[words.len() - 2..], [last, "ended Ok"], "{code}");
    }
}

#[tokio::test]
async fn the_end_of_a_shell_has_a_name() {
    let world = world();
    for (code, words) in [
        ("exit 3", vec!["raised ", "ended Runtime"]),
        ("exit", vec!["ended Ok"]),
        ("kill -9 $$", vec!["failed Died(Signal(9))", "ended Killed"]),
        (
            "kill -9 $PPID; sleep 1000",
            vec!["failed Died(Signal(9))", "ended Killed"],
        ),
    ] {
        let said = run(&world.contexts, &world.bash, code).await;
        assert_eq!(said[said.len() - words.len()..], words, "{code}");
        let next = run(&world.contexts, &world.bash, "echo new").await;
        assert!(next[0].starts_with("lost "), "{code}: {next:?}");
        assert_eq!(next[1..], ["accepted 1", "new", "ended Ok"], "{code}");
    }
}

/// Runs the tests that lie beside a kernel, with nothing but Python's own library.
fn pass_own_tests(kernel: &str) {
    let mut tests = Command::new("python3");
    tests.args(["-m", "unittest", "discover", "-v", "-t", ".", "-s", "tests"]);
    let output = tests.current_dir(kernels().join(kernel)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let is_run = said.contains("\nOK\n") || said.contains("there is no JDK");
    assert!(is_run, "{said}");
}

#[test]
fn the_bash_kernel_passes_its_own_tests() {
    pass_own_tests("bash");
}

#[test]
fn the_java_kernel_passes_its_own_tests_where_there_is_a_jdk() {
    pass_own_tests("java");
}
