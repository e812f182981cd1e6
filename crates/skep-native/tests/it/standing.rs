//! Processes that stand while an image is made or used, although its agent goes on.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_host::PageOut;
use skep_isolation::{AfterCheckpoint, Isolation, Launched, RestoreRequest};
use skep_native::{CheckpointConfig, CheckpointedAgents};
use skep_types::{ImageKind, Redacted, SandboxId};

use crate::bench::{Bench, DEADLINE, ask, ask_at, has_unified_cgroups};
use crate::checkpoint::{checkpoints, dump, same, start_work};

crate::tests![
    nothing_that_was_paused_runs_while_the_agent_prepares,
    a_sandbox_whose_agent_alone_goes_on_is_killed_at_once,
    what_was_restored_stands_until_it_is_let_go_on,
    a_frozen_sandbox_is_paged_out_and_goes_on_as_it_was,
];

/// Time in which work that is not held back has used the processor.
const WHILE: Duration = Duration::from_millis(300);

/// Processor time of what user code has started, as the kernel writes it.
fn work_time(bench: &Bench, id: &SandboxId) -> String {
    let number = fs::read_to_string(bench.config.host.data_dir.join("instance")).unwrap();
    let (top, file) = if has_unified_cgroups() {
        ("/sys/fs/cgroup", "cpu.stat")
    } else {
        ("/sys/fs/cgroup/cpuacct", "cpuacct.usage")
    };
    let group = Path::new(top).join(format!("skep-{number}/{id}/work"));
    let text = fs::read_to_string(group.join(file)).unwrap();
    let line = text.lines().next().unwrap_or_default();
    line.to_owned()
}

/// Asks the agent for a while, and says whether anything else ran meanwhile.
async fn runs_beside(bench: &Bench, id: &SandboxId, address: IpAddr) -> bool {
    let start = Instant::now();
    let before = work_time(bench, id);
    while start.elapsed() < WHILE {
        let answered = ask_at(address, "config").await;
        assert_eq!(answered.unwrap(), "normal", "the agent goes on");
    }
    work_time(bench, id) != before
}

/// A look at a sandbox at a moment that its test does not see.
type Look = Box<dyn Fn(IpAddr) -> BoxFuture<'static, ()> + Send>;

/// Agents that refuse to be prepared, after a look.
#[derive(Clone, Default)]
struct Unwilling {
    look: Arc<Mutex<Option<Look>>>,
}

impl std::fmt::Debug for Unwilling {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Unwilling")
    }
}

impl CheckpointedAgents for Unwilling {
    fn prepare<'a>(
        &'a self,
        address: IpAddr,
        _: &'a Redacted<Vec<u8>>,
    ) -> BoxFuture<'a, io::Result<()>> {
        let looking = self.look.lock().as_ref().map(|look| look(address));
        async move {
            if let Some(looking) = looking {
                looking.await;
            }
            Err(io::Error::other("it does not want to"))
        }
        .boxed()
    }

    fn go_on<'a>(
        &'a self,
        _: IpAddr,
        _: &'a Redacted<Vec<u8>>,
        _: Option<&'a Redacted<Vec<u8>>>,
    ) -> BoxFuture<'a, io::Result<()>> {
        async { Ok(()) }.boxed()
    }
}

/// A backend with agents that refuse, and a sandbox in which something runs all the time.
async fn busy() -> (Arc<Bench>, Unwilling, SandboxId, Launched) {
    let unwilling = Unwilling::default();
    let agents = Arc::new(unwilling.clone());
    let checkpoints = CheckpointConfig {
        agents,
        ..checkpoints()
    };
    let bench = Bench::with(|config| config.checkpoints = Some(checkpoints)).await;
    let request = bench.request();
    let id = request.id.clone();
    let sandbox = bench.native().launch(request).await.unwrap();
    assert_eq!(ask(&sandbox, "work restless=4").await, "ok");
    (Arc::new(bench), unwilling, id, sandbox)
}

async fn finish(bench: Arc<Bench>) {
    let bench = Arc::into_inner(bench).expect("nobody looks any more");
    bench.finish().await;
}

/// All of a frozen sandbox ran on for as long as its agent took to prepare for the image.
async fn nothing_that_was_paused_runs_while_the_agent_prepares() {
    let (bench, unwilling, id, sandbox) = busy().await;
    let ran = Arc::new(Mutex::new(None));
    let look: Look = {
        let (bench, id, ran) = (Arc::clone(&bench), id.clone(), Arc::clone(&ran));
        Box::new(move |address| {
            let (bench, id, ran) = (Arc::clone(&bench), id.clone(), Arc::clone(&ran));
            async move {
                let found = runs_beside(&bench, &id, address).await;
                *ran.lock() = Some(found);
            }
            .boxed()
        })
    };
    unwilling.look.lock().replace(look);
    let checkpoint = || sandbox.checkpoint(ImageKind::Memory, AfterCheckpoint::Stand);

    checkpoint().await.unwrap_err();
    assert_eq!(ran.lock().take(), Some(true), "the control: it runs");
    sandbox.freeze().await.unwrap();
    checkpoint().await.unwrap_err();
    assert_eq!(ran.lock().take(), Some(false));

    // It stands as it did, the agent as well, and all of it goes on afterwards.
    let asking = tokio::time::timeout(WHILE, ask(&sandbox, "config"));
    asking.await.unwrap_err();
    sandbox.thaw().await.unwrap();
    assert!(runs_beside(&bench, &id, sandbox.address()).await);
    sandbox.destroy().await.unwrap();
    drop((sandbox, unwilling.look.lock().take()));
    finish(bench).await;
}

/// A frozen process does not die on v1 when the rest of its sandbox does.
async fn a_sandbox_whose_agent_alone_goes_on_is_killed_at_once() {
    let (bench, unwilling, _, sandbox) = busy().await;
    let killed = Arc::new(Mutex::new(None));
    let look: Look = {
        let (sandbox, killed) = (Arc::clone(&sandbox), Arc::clone(&killed));
        Box::new(move |_| {
            let (sandbox, killed) = (Arc::clone(&sandbox), Arc::clone(&killed));
            async move {
                let start = Instant::now();
                sandbox.destroy().await.unwrap();
                *killed.lock() = Some(start.elapsed());
            }
            .boxed()
        })
    };
    unwilling.look.lock().replace(look);
    sandbox.freeze().await.unwrap();
    let gone = sandbox.checkpoint(ImageKind::Memory, AfterCheckpoint::Stand);
    gone.await.unwrap_err();
    let took = killed.lock().take().expect("it was killed");
    assert!(took < Duration::from_secs(1), "{took:?}");
    unwilling.look.lock().take();
    drop(sandbox);
    finish(bench).await;
}

/// A server that was killed after a restore and before it had written that down left an image whose
/// disk was newer than its memory.
async fn what_was_restored_stands_until_it_is_let_go_on() {
    let bench = Bench::with(|config| config.checkpoints = Some(checkpoints())).await;
    let request = bench.request();
    let id = request.id.clone();
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    start_work(&sandbox, "processor=600000").await;
    skep_testkit::wait_until(DEADLINE, async || {
        let ran = runs_beside(&bench, &id, sandbox.address()).await;
        if ran { Ok(()) } else { Err("it stands") }
    })
    .await;
    let image = dump(&sandbox, AfterCheckpoint::Stand).await;
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    let restoring = bench.native().restore(RestoreRequest {
        checkpoint: image.clone(),
        kind: ImageKind::Memory,
        target: same(&request),
    });
    let restored = restoring.await.unwrap();

    assert!(!runs_beside(&bench, &id, restored.address()).await);
    restored.thaw().await.unwrap();
    assert!(runs_beside(&bench, &id, restored.address()).await);

    restored.destroy().await.unwrap();
    drop(restored);
    bench.native().forget_checkpoint(image).await.unwrap();
    bench.finish().await;
}

async fn a_frozen_sandbox_is_paged_out_and_goes_on_as_it_was() {
    let paged = Bench::with(|config| config.host.page_out = PageOut::Always).await;
    let never = Bench::with(|config| config.host.page_out = PageOut::Never).await;
    for (bench, is_paged) in [(paged, true), (never, false)] {
        let sandbox = bench.launch().await;
        assert_eq!(ask(&sandbox, "remember 41").await, "done");
        assert_eq!(ask(&sandbox, "work restless=4").await, "ok");
        assert_eq!(sandbox.page_out().await.unwrap(), 0, "one that runs is not");
        sandbox.freeze().await.unwrap();
        let bytes = sandbox.page_out().await.unwrap();
        assert_eq!(bytes > 0, is_paged, "{bytes}");
        let asking = tokio::time::timeout(WHILE, ask(&sandbox, "config"));
        asking.await.unwrap_err();
        sandbox.thaw().await.unwrap();
        assert_eq!(ask(&sandbox, "remembered").await, "41");
        sandbox.freeze().await.unwrap();
        // One that is thawed meanwhile does not wait for it.
        let (paging, thawing) = tokio::join!(sandbox.page_out(), sandbox.thaw());
        paging.unwrap();
        thawing.unwrap();
        assert_eq!(ask(&sandbox, "remembered").await, "41");
        sandbox.destroy().await.unwrap();
        drop(sandbox);
        bench.finish().await;
    }
}
