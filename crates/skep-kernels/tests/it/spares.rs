//! Kernels that are started before anybody asks for them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use skep_kernels::fake::FakeSettings;
use skep_kernels::{Contexts, Inherited, KernelSpecs};
use skep_testkit::wait_until;

use crate::processes::Children;
use crate::talk::run;

struct World {
    children: Arc<Children>,
    contexts: Contexts,
    directory: tempfile::TempDir,
}

/// Contexts of the simple kernel, which may have spares; each writes down that it has started.
fn world() -> World {
    let directory = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/simple_kernel.py");
    let starts = directory.path().join("starts");
    std::fs::write(&starts, "").unwrap();
    let kernel = directory.path().join("kernels/simple");
    std::fs::create_dir_all(&kernel).unwrap();
    let command = format!("echo $$ >> {}; exec python3 \"$@\"", starts.display());
    let specification = serde_json::json!({
        "argv": ["sh", "-c", command, "sh", script, "good"],
        "spare": {"reads": [".profile"]},
    });
    std::fs::write(kernel.join("kernel.json"), specification.to_string()).unwrap();
    let children = Arc::new(Children::default());
    *children.inherited.lock() = Inherited {
        directory: directory.path().to_string_lossy().into_owned(),
        ..Inherited::default()
    };
    let directories = vec![directory.path().join("kernels")];
    let installed = KernelSpecs::new(move || directories.clone(), Arc::clone(&children) as _);
    let settings = Arc::new(FakeSettings::default());
    World {
        children,
        contexts: Contexts::new(Arc::new(installed), settings, &[]),
        directory,
    }
}

impl World {
    /// The processes that were started until now, once there are so many.
    async fn started(&self, count: usize) -> Vec<u32> {
        wait_until(Duration::from_secs(20), || async {
            let text = std::fs::read_to_string(self.directory.path().join("starts")).unwrap();
            let pids: Vec<u32> = text.lines().map(|pid| pid.parse().unwrap()).collect();
            match pids.len() {
                found if found == count => Ok(pids),
                found => Err(format!("{found} were started")),
            }
        })
        .await
    }

    /// The process in which a context's code runs.
    async fn process_of(&self, context: &str) -> u32 {
        let said = run(&self.contexts, context, "say(str(os.getpid()))").await;
        said[1].parse().unwrap()
    }

    async fn create(&self) -> String {
        let made = self.contexts.create("simple", None).await;
        made.unwrap().id
    }
}

fn score(pid: u32) -> String {
    let score = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj"));
    score.unwrap().trim().to_owned()
}

#[tokio::test]
async fn the_next_context_gets_the_kernel_that_was_started_for_it() {
    let world = world();
    let first = world.create().await;
    let [own, spare] = world.started(2).await[..] else {
        panic!("there are two");
    };
    assert_eq!(world.process_of(&first).await, own);
    // Until somebody has it, it is what the host kills first.
    wait_until(Duration::from_secs(5), || async {
        let score = score(spare);
        (score == "1000").then_some(()).ok_or(score)
    })
    .await;
    let second = world
        .contexts
        .create("simple", Some("/".to_owned()))
        .await
        .unwrap();
    assert_eq!(world.process_of(&second.id).await, spare);
    assert_eq!(score(spare), score(own));

    let [_, _, next] = world.started(3).await[..] else {
        panic!("there are three");
    };
    world.contexts.restart(&first).await.unwrap();
    assert_eq!(world.process_of(&first).await, next);
}

#[tokio::test]
async fn a_spare_is_not_used_when_another_kernel_would_be_started() {
    let world = world();
    world.create().await;
    world.started(2).await;
    let changed = || {
        let mut inherited = world.children.inherited.lock();
        let variable = ("TOKEN".to_owned(), "new".to_owned());
        inherited.environment.extend([variable]);
    };
    changed();
    let context = world.create().await;
    let fresh = world.started(4).await[2];
    assert_eq!(world.process_of(&context).await, fresh);
    std::fs::write(world.directory.path().join(".profile"), "new").unwrap();
    let context = world.create().await;
    let fresh = world.started(6).await[4];
    assert_eq!(world.process_of(&context).await, fresh);
}

#[tokio::test]
async fn memory_is_for_code_and_not_for_spares() {
    let world = world();
    world.create().await;
    let spare = world.started(2).await[1];
    let short = &world.children.is_short_of_memory;
    short.store(true, Ordering::SeqCst);
    wait_until(Duration::from_secs(10), || async {
        let process = format!("/proc/{spare}");
        let is_there = Path::new(&process).exists();
        (!is_there).then_some(()).ok_or("the spare lives")
    })
    .await;
    let context = world.create().await;
    let own = world.process_of(&context).await;
    short.store(false, Ordering::SeqCst);
    world.contexts.restart(&context).await.unwrap();
    let started = world.started(5).await;
    // The spare of the second context was never started.
    assert_eq!(started[2], own);
    assert_eq!(started[3], world.process_of(&context).await);
}

#[tokio::test]
async fn a_spare_that_was_killed_is_missed_by_nobody() {
    let world = world();
    world.create().await;
    let spare = world.started(2).await[1];
    wait_until(Duration::from_secs(5), || async {
        let score = score(spare);
        (score == "1000").then_some(()).ok_or(score)
    })
    .await;
    skep_kernels::Processes::signal(&*world.children, spare, rustix::process::Signal::KILL)
        .unwrap();
    let context = world.create().await;
    assert_ne!(world.process_of(&context).await, spare);
}
