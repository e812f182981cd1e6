//! A real kernel of somebody else's: `ipykernel`, over ZeroMQ.

mod death;
mod flood;
mod foreign;
mod hostile;
mod input;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};

use skep_jupyter::Output;
use skep_kernels::fake::FakeSettings;
use skep_kernels::{Contexts, ExecuteRequest, Execution, KernelSpecs, Update};

use crate::processes::Children;
use crate::talk::{all, next, request, run};

/// The version in the templates.
const USUAL: &str = "6.31.0";

/// Newer ones publish over another kind of socket.
const NEW: &str = "7.4.0";

static USUAL_ENVIRONMENT: LazyLock<PathBuf> = LazyLock::new(|| environment(USUAL));
static NEW_ENVIRONMENT: LazyLock<PathBuf> = LazyLock::new(|| environment(NEW));

/// An environment with this version, which is made once and kept in the target directory.
fn environment(version: &str) -> PathBuf {
    let targets = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let directory = targets.join(format!("kernels-{version}"));
    let lock = std::fs::File::create(directory.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let is_whole = directory.join("is-whole");
    if !is_whole.exists() {
        let run = |program: &Path, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program:?} {arguments:?}: {said}");
        };
        let path = directory.to_str().unwrap();
        run(Path::new("python3"), &["-m", "venv", "--clear", path]);
        let wanted = format!("ipykernel=={version}");
        let wanted = ["install", "--quiet", &wanted, foreign::PACKAGE];
        run(&directory.join("bin/pip"), &wanted);
        let install = ["-m", "bash_kernel.install", "--prefix", path];
        run(&directory.join("bin/python"), &install);
        std::fs::write(&is_whole, "").unwrap();
    }
    directory
}

struct World {
    children: Arc<Children>,
    settings: Arc<FakeSettings>,
    contexts: Contexts,
    python: String,
    directory: tempfile::TempDir,
}

fn world() -> World {
    world_of(&USUAL_ENVIRONMENT, "signal")
}

fn world_of(environment: &Path, interrupt_mode: &str) -> World {
    world_with(&serde_json::json!({
        "argv": [environment.join("bin/python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "language": "python",
        "interrupt_mode": interrupt_mode,
    }))
}

fn world_with(specification: &serde_json::Value) -> World {
    let directory = tempfile::tempdir().unwrap();
    let python = directory.path().join("python");
    std::fs::create_dir(&python).unwrap();
    let mut specification = specification.clone();
    specification["env"] = serde_json::json!({"IPYTHONDIR": directory.path().join("ipython")});
    std::fs::write(python.join("kernel.json"), specification.to_string()).unwrap();
    let children = Arc::new(Children::default());
    let directories = vec![directory.path().to_owned()];
    let installed = KernelSpecs::new(move || directories.clone(), Arc::clone(&children) as _);
    let settings = Arc::new(FakeSettings::default());
    let around = Arc::clone(&settings) as _;
    let contexts = Contexts::new(Arc::new(installed), around, &["python"]);
    let python = contexts.default_of("python").unwrap();
    World {
        children,
        settings,
        contexts,
        python,
        directory,
    }
}

impl World {
    async fn run(&self, code: &str) -> Vec<String> {
        run(&self.contexts, &self.python, code).await
    }

    fn start(&self, code: &str) -> Execution {
        self.contexts.execute(&self.python, request(code)).unwrap()
    }

    async fn run_with(&self, variables: &[(&str, &str)], code: &str) -> Vec<String> {
        let owned = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let request = ExecuteRequest {
            variables: owned.collect(),
            ..request(code)
        };
        all(self.contexts.execute(&self.python, request).unwrap()).await
    }
}

/// Waits for a line that the code prints.
async fn until_said(execution: &mut Execution, line: &str) {
    while next(execution).await.expect("the code says it") != line {}
}

#[tokio::test]
async fn what_a_cell_produces_arrives_in_order() {
    for environment in [&*USUAL_ENVIRONMENT, &*NEW_ENVIRONMENT] {
        let world = world_of(environment, "signal");
        let code = "import sys, time\nprint('out'); sys.stdout.flush()\nprint('err', file=sys.stderr); sys.stderr.flush()\nshown = display('shown', display_id=True)\nshown.update('again')\n21 * 2";
        assert_eq!(
            world.run(code).await,
            [
                "accepted 1",
                "out",
                "err",
                "value \"'shown'\"",
                "updated",
                "value \"42\"",
                "ended Ok"
            ]
        );
        assert_eq!(
            world.run("print('before')\n1/0").await,
            [
                "accepted 2",
                "before",
                "raised ZeroDivisionError",
                "ended Runtime"
            ]
        );
        assert_eq!(
            world.run("(").await,
            ["accepted 3", "raised SyntaxError", "ended Syntax"]
        );
        assert_eq!(
            world.run("input()").await,
            [
                "accepted 4",
                "raised StdinNotImplementedError",
                "ended Runtime"
            ]
        );
    }
}

#[tokio::test]
async fn tracebacks_have_no_colours_and_values_are_whole() {
    for environment in [&*USUAL_ENVIRONMENT, &*NEW_ENVIRONMENT] {
        let world = world_of(environment, "signal");
        let words = world.run("list(range(1500))").await;
        assert!(words[1].ends_with("1499]\""), "{words:?}");
        let mut execution = world.start("1/0");
        let mut traceback = None;
        while let Some(update) = execution.updates.recv().await {
            if let Update::Output {
                output: Output::Raised(raised),
                ..
            } = update
            {
                traceback = Some(raised.traceback.concat());
            }
        }
        let traceback = traceback.expect("it raised");
        assert!(traceback.contains("ZeroDivisionError"), "{traceback}");
        assert!(!traceback.contains('\u{1b}'), "{traceback}");
    }
}

#[tokio::test]
async fn a_line_arrives_while_the_code_runs() {
    let world = world();
    let directory = world.directory.path().join("go on");
    let code = format!(
        "import os, time\nprint('first')\nwhile not os.path.exists({directory:?}): time.sleep(0.01)\nprint('second')"
    );
    let mut execution = world.start(&code);
    until_said(&mut execution, "first").await;
    std::fs::write(&directory, "").unwrap();
    until_said(&mut execution, "second").await;
    assert_eq!(all(execution).await, ["ended Ok"]);
}

#[tokio::test]
async fn variables_hold_for_one_execution() {
    let world = world();
    let value = "'\"\\\n{}$x\u{2028}😀";
    // Printed as one text: the kernel may be asked for its output between two.
    let code = "import os\nprint(repr(os.environ.get('A')) + f\" {len(os.environ.get('B', ''))}\")";
    let long = "y".repeat(1 << 16);
    let shown = "'\\'\"\\\\\\n{}$x\\u2028😀' 65536";
    assert_eq!(
        world.run_with(&[("A", value), ("B", &long)], code).await,
        ["accepted 1", shown, "ended Ok"]
    );
    assert_eq!(world.run(code).await, ["accepted 2", "None 0", "ended Ok"]);
    // However it ends, and with a cell magic in its first line.
    let magic = "%%time\nimport os\nprint(os.environ['A'])\nraise ValueError";
    let words = world.run_with(&[("A", "once")], magic).await;
    assert!(words[1].starts_with("once\n"), "{words:?}");
    assert_eq!(world.run(code).await[1], "None 0");
}

#[tokio::test]
async fn variables_of_the_sandbox_follow_its_changes() {
    let world = world();
    let set = |entries: &[(&str, &str)]| {
        let owned = entries
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        *world.settings.environment.lock() = owned.collect::<BTreeMap<_, _>>();
    };
    let code = "import os\nprint(os.environ.get('S'), os.environ.get('T'))";
    assert_eq!(world.run(code).await[1], "None None");
    set(&[("S", "'\"\n"), ("T", "t")]);
    assert_eq!(world.run(code).await[1], "'\"\n t");
    set(&[("T", "t")]);
    assert_eq!(world.run_with(&[("T", "once")], code).await[1], "None once");
    assert_eq!(world.run(code).await[1], "None t");
}

#[tokio::test]
async fn a_context_starts_in_its_directory() {
    let world = world();
    let place = world.directory.path().join("it's \"here\" \\ {}");
    std::fs::create_dir(&place).unwrap();
    let place = place.to_str().unwrap();
    let made = world
        .contexts
        .create("python", Some(place.to_owned()))
        .await
        .unwrap();
    let code = "import os\nprint(os.getcwd())";
    let words = run(&world.contexts, &made.id, code).await;
    // Neither the directory nor the variables of an execution leave a trace.
    assert_eq!(words, ["accepted 1", place, "ended Ok"]);
    world.contexts.restart(&made.id).await.unwrap();
    assert_eq!(run(&world.contexts, &made.id, code).await, words);
}

#[tokio::test]
async fn an_interrupt_frees_the_kernel_and_keeps_its_state() {
    for (environment, mode) in [
        (&*USUAL_ENVIRONMENT, "signal"),
        (&*USUAL_ENVIRONMENT, "message"),
        (&*NEW_ENVIRONMENT, "message"),
    ] {
        let world = world_of(environment, mode);
        world.run("kept = 'kept'").await;
        let mut execution = world.start("import time\nprint('go', flush=True)\ntime.sleep(1000)");
        until_said(&mut execution, "go").await;
        drop(execution);
        assert_eq!(
            world.run("print(kept)").await,
            ["accepted 3", "kept", "ended Ok"],
            "{mode}"
        );
    }
}

#[tokio::test]
async fn a_kernel_that_fails_to_start_says_why() {
    let world = world_with(&serde_json::json!({
        "argv": ["python3", "-c", "import sys; sys.exit('there is no such module')", "{connection_file}"],
    }));
    let error = world.contexts.ready().await.unwrap_err();
    let error = format!("{:?}", error);
    assert!(error.contains("there is no such module"), "{error}");
}

#[tokio::test]
async fn the_connection_file_is_told_and_gone_with_its_kernel() {
    let world = world();
    let code = "import ipykernel, os\nfile = ipykernel.get_connection_file()\nprint(file, oct(os.stat(file).st_mode & 0o777))";
    let words = world.run(code).await;
    let (path, mode) = words[1].split_once(' ').unwrap();
    assert_eq!(mode, "0o600");
    assert!(Path::new(path).exists());
    world.contexts.remove(&world.python).await.unwrap();
    assert!(!Path::new(path).parent().unwrap().exists());
}
