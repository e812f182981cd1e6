//! The JavaScript kernel of this repository, as a process on the installed Node.js.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};

use skep_kernels::fake::FakeSettings;
use skep_kernels::{Contexts, ExecuteRequest, KernelSpecs};

use crate::processes::Children;
use crate::talk::{all, next, request, run};

/// The kernel with its packages, which are installed once and kept in the target directory.
static KERNEL: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/javascript");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("javascript-kernel");
    let lock = std::fs::File::create(directory.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    std::fs::create_dir_all(&directory).unwrap();
    let packages = "package-lock.json";
    let wanted = std::fs::read(source.join(packages)).unwrap();
    let has_packages = std::fs::read(directory.join(packages)).is_ok_and(|lock| lock == wanted)
        && directory.join("node_modules/acorn").is_dir();
    let sources = ["skep-javascript-kernel", "package.json", packages, "src"];
    let copy = sources.map(|name| source.join(name));
    succeed(Command::new("cp").arg("-r").args(copy).arg(&directory));
    if !has_packages {
        let arguments = ["ci", "--no-audit", "--no-fund", "--loglevel", "error"];
        succeed(Command::new("npm").args(arguments).current_dir(&directory));
    }
    directory.join("skep-javascript-kernel")
});

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

pub(crate) struct World {
    pub(crate) contexts: Contexts,
    pub(crate) javascript: String,
    _directory: tempfile::TempDir,
}

pub(crate) fn world() -> World {
    let directory = tempfile::tempdir().unwrap();
    for language in ["javascript", "typescript"] {
        let place = directory.path().join(language);
        std::fs::create_dir(&place).unwrap();
        let specification = serde_json::json!({
            "argv": [&*KERNEL, "--language", language],
            "language": language,
        });
        std::fs::write(place.join("kernel.json"), specification.to_string()).unwrap();
    }
    let directories = vec![directory.path().to_owned()];
    let installed = KernelSpecs::new(move || directories.clone(), Arc::new(Children::default()));
    let settings = Arc::new(FakeSettings::default());
    let contexts = Contexts::new(Arc::new(installed), settings, &["javascript"]);
    let javascript = contexts.default_of("javascript").unwrap();
    World {
        contexts,
        javascript,
        _directory: directory,
    }
}

#[tokio::test]
async fn javascript_keeps_what_it_declares_and_takes_it_anew() {
    let world = world();
    let with_variables = ExecuteRequest {
        variables: BTreeMap::from([("A".to_owned(), "'\"\n😀".to_owned())]),
        ..request("const kept = process.env.A; console.log(kept)")
    };
    let execution = world
        .contexts
        .execute(&world.javascript, with_variables)
        .unwrap();
    assert_eq!(all(execution).await, ["accepted 1", "'\"\n😀", "ended Ok"]);
    let code = "console.log(kept.length, process.env.A); const kept = await 5; console.log(kept)";
    assert_eq!(
        run(&world.contexts, &world.javascript, code).await,
        ["accepted 2", "5 undefined", "5", "ended Ok"]
    );
}

#[tokio::test]
async fn typescript_is_a_language_of_its_own() {
    let world = world();
    let context = world.contexts.create("typescript", None).await.unwrap();
    let code = "enum Colour { Red = 3 }; const red: Colour = Colour.Red; console.log(red)";
    assert_eq!(
        run(&world.contexts, &context.id, code).await,
        ["accepted 1", "3", "ended Ok"]
    );
    let words = run(&world.contexts, &context.id, "let x: = 5").await;
    assert_eq!(words.last().unwrap(), "ended Syntax");
}

#[tokio::test]
async fn an_interrupt_ends_a_loop_of_javascript_and_keeps_the_state() {
    let world = world();
    run(&world.contexts, &world.javascript, "let kept = 'kept'").await;
    for code in [
        "console.log('go'); for (;;);",
        "await null; console.log('go'); for (;;);",
        "console.log('go'); require('child_process').execSync('sleep 1000')",
    ] {
        let mut execution = world
            .contexts
            .execute(&world.javascript, request(code))
            .unwrap();
        while next(&mut execution).await.expect("the code says go first") != "go" {}
        drop(execution);
        let words = run(&world.contexts, &world.javascript, "console.log(kept)").await;
        assert_eq!(words[1..], ["kept", "ended Ok"], "{code}");
    }
}

#[tokio::test]
async fn the_exit_of_a_cell_is_the_end_of_its_kernel() {
    let world = world();
    let code = "for (let n = 0; n < 1000; n++) console.log(n); process.exit(3)";
    let words = run(&world.contexts, &world.javascript, code).await;
    assert_eq!(words.len(), 1003, "{:?}", words.last());
    assert_eq!(
        words[1000..],
        ["999", "failed Died(Code(3))", "ended KernelDied"]
    );
}

#[tokio::test]
async fn failures_of_javascript_have_their_outcomes() {
    let world = world();
    for (code, outcome) in [
        ("let x = ;", "ended Syntax"),
        ("null.x", "ended Runtime"),
        ("await Promise.reject(1)", "ended Runtime"),
        ("Promise.reject(new Error('lost')); 5", "ended Runtime"),
        (
            "require('fs').writeFileSync('/dev/full', 'x')",
            "ended DiskFull",
        ),
        ("new ArrayBuffer(2 ** 52)", "ended OutOfMemory"),
    ] {
        let words = run(&world.contexts, &world.javascript, code).await;
        assert_eq!(words.last().unwrap(), outcome, "{code}: {words:?}");
    }
}
