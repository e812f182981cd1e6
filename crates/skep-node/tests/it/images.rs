//! Fate of paused sandboxes that are in images.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_isolation::FakeIsolation;
use skep_node::{Journal, MemoryJournal, Noted};
use skep_types::{
    EndReason, Ending, ImageKind, ImagePurpose, KeptIn, Phase, RollBackRequest, SandboxId,
    SandboxRun, TransitionError, Usage,
};

use crate::TestHost;
use crate::copies::copy;
use crate::pause::{HOUR, created, pausing, resume, stored};

#[tokio::test(start_paused = true)]
async fn the_bill_of_a_sandbox_has_all_its_runs_and_each_once() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    let run = |seconds: u64, peak: u64| Usage {
        cpu_time: Duration::from_secs(seconds),
        memory_peak_bytes: peak,
        out_of_memory_kills: 1,
        sent_bytes: 10,
        ..Usage::default()
    };
    let told = |usage: Usage| {
        let seconds = usage.cpu_time.as_secs();
        let kills = usage.out_of_memory_kills;
        (seconds, usage.memory_peak_bytes, kills, usage.sent_bytes)
    };
    host.isolation.set_usage(&id, run(2, 700));
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    assert_eq!(told(node.usage(&id).await.unwrap()), (2, 700, 1, 10));
    stored(&host, &id).await;
    assert_eq!(told(node.usage(&id).await.unwrap()), (2, 700, 1, 10));

    resume(&node, &id, HOUR).await.unwrap();
    // The counters of the host have begun anew.
    host.isolation.set_usage(&id, run(3, 500));
    assert_eq!(told(node.usage(&id).await.unwrap()), (5, 700, 2, 20));
    // A pause in memory alone, and then another image.
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    resume(&node, &id, HOUR).await.unwrap();
    node.pause(&id, pausing(ImageKind::Filesystem))
        .await
        .unwrap();
    assert_eq!(told(node.usage(&id).await.unwrap()), (5, 700, 2, 20));
    node.kill(&id, EndReason::Killed).await.unwrap();
    let bill = host.journal.ending(&id).unwrap().usage;
    assert_eq!(told(bill), (5, 700, 2, 20));
}

#[tokio::test(start_paused = true)]
async fn an_image_that_nobody_asks_for_is_compressed_once() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    stored(&host, &id).await;
    assert_eq!(host.isolation.compressed(), 0);
    tokio::time::advance(HOUR).await;
    skep_testkit::wait_until(Duration::from_secs(10), async || {
        match host.isolation.compressed() {
            1 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    tokio::time::advance(2 * HOUR).await;
    resume(&node, &id, 10 * HOUR).await.unwrap();
    tokio::time::advance(2 * HOUR).await;
    assert_eq!(node.status(&id).unwrap().phase, Phase::Running);
    assert_eq!(host.isolation.compressed(), 1);
}

#[tokio::test(start_paused = true)]
async fn images_that_are_due_at_the_same_moment_are_compressed_one_after_the_other() {
    let host = TestHost::default();
    let node = host.node();
    let ids = [created(&node).await.id, created(&node).await.id];
    for id in &ids {
        node.pause(id, pausing(ImageKind::Memory)).await.unwrap();
    }
    for id in &ids {
        stored(&host, id).await;
    }
    host.isolation.hold_changes();
    tokio::time::advance(HOUR).await;
    host.isolation.held_change().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(host.isolation.held_changes(), 1);
    // Whose turn it is not can be had at any moment.
    host.isolation.release_changes();
    skep_testkit::wait_until(Duration::from_secs(60), async || {
        match host.isolation.compressed() {
            2 => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

/// A journal that knows whether a sandbox stood when it was written down to run.
#[derive(Debug, Clone, Default)]
struct Witness {
    isolation: FakeIsolation,
    journal: MemoryJournal,
    stood: Arc<Mutex<Vec<bool>>>,
}

impl Journal for Witness {
    fn started(&self, id: &SandboxId, run: SandboxRun) -> Noted {
        self.stood.lock().push(self.isolation.is_frozen(id));
        self.journal.started(id, run)
    }

    fn changed(&self, id: &SandboxId, run: SandboxRun) -> Noted {
        self.journal.changed(id, run)
    }

    fn ended(&self, id: &SandboxId, ending: &Ending) -> Noted {
        self.journal.ended(id, ending)
    }

    fn synced(&self) -> BoxFuture<'static, bool> {
        self.journal.synced()
    }
}

/// A restored sandbox writes to the disk of its image. A server that was killed in between
/// had an image whose disk was newer than its memory, and resumed from it.
#[tokio::test(start_paused = true)]
async fn a_sandbox_from_an_image_stands_until_it_is_written_down_that_it_runs() {
    let host = TestHost::default();
    let witness = Witness {
        isolation: host.isolation.clone(),
        ..Witness::default()
    };
    let node = host.node_with_journal(Arc::new(witness.clone()));
    let id = created(&node).await.id;
    assert_eq!(std::mem::take(&mut *witness.stood.lock()), [false]);
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    stored(&host, &id).await;

    resume(&node, &id, HOUR).await.unwrap();

    assert_eq!(*witness.stood.lock(), [true]);
    assert!(!host.isolation.is_frozen(&id), "it goes on");
    let kind = ImageKind::Memory;
    let checkpoint = node.snapshot(&id, kind, ImagePurpose::Keep).await.unwrap();
    let copy = node.create(copy(&checkpoint)).await.unwrap();
    assert!(!host.isolation.is_frozen(&copy.id), "so do copies");
}

/// The image was written down, but not on the disk of the host, when the processes were destroyed: after a
/// loss of power there was neither.
#[tokio::test(start_paused = true)]
async fn processes_stay_until_it_is_certain_that_their_image_is_found_again() {
    let host = TestHost::default();
    let node = host.node();
    let running = created(&node).await;
    let id = &running.id;
    host.journal.set_broken(true);
    let files = pausing(ImageKind::Filesystem);
    let refused = node.pause(id, files).await.unwrap_err();
    assert!(matches!(refused, TransitionError::NoRoom(_)), "{refused}");
    assert_eq!(node.status(id).unwrap(), running, "it runs on");
    assert!(!host.isolation.is_frozen(id) && node.route(id).is_some());
    assert_eq!(host.isolation.image_count(), 0);

    let paused = node.pause(id, pausing(ImageKind::Memory)).await.unwrap();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(host.isolation.is_frozen(id), "it stands as it did");
    assert_eq!(node.status(id).unwrap(), paused);
    assert_eq!(host.isolation.image_count(), 0);

    host.journal.set_broken(false);
    tokio::time::advance(Duration::from_mins(5)).await;
    stored(&host, id).await;
    assert_eq!(host.isolation.image_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_image_stays_until_it_is_certain_that_its_sandbox_is_found_running() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    stored(&host, &id).await;
    let paused = node.status(&id).unwrap();
    host.journal.set_broken(true);
    let refused = resume(&node, &id, HOUR).await.unwrap_err();
    assert!(matches!(refused, TransitionError::NoRoom(_)), "{refused}");
    assert_eq!(host.isolation.image_count(), 1);
    assert!(host.isolation.living().is_empty());
    let still = node.status(&id).unwrap();
    assert_eq!((still.phase, still.paused), (paused.phase, paused.paused));
    assert_eq!(still.ends_at, paused.ends_at);

    host.journal.set_broken(false);
    resume(&node, &id, HOUR).await.unwrap();
    assert_eq!(host.isolation.image_count(), 0);
}

/// It was told to run, its image was deleted, and nothing in it ever went on.
#[tokio::test(start_paused = true)]
async fn a_sandbox_from_an_image_that_does_not_go_on_is_paused_with_what_it_has() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    stored(&host, &id).await;
    // The restore succeeds, and the thaw after it does not.
    host.isolation.fail_next_change();
    let failed = resume(&node, &id, HOUR).await.unwrap_err();
    assert!(matches!(failed, TransitionError::Failed(_)), "{failed}");
    assert_eq!(node.status(&id).unwrap().phase, Phase::Paused);
    assert!(host.isolation.is_frozen(&id));
    assert_eq!(host.isolation.image_count(), 0, "it is older than the disk");
    assert!(node.route(&id).is_none());
    let resumed = resume(&node, &id, HOUR).await.unwrap();
    assert_eq!(resumed.kept_in, Some(KeptIn::Memory));
    assert!(!host.isolation.is_frozen(&id));

    let kind = ImageKind::Memory;
    let checkpoint = node.snapshot(&id, kind, ImagePurpose::Keep).await.unwrap();
    node.pause(&id, pausing(kind)).await.unwrap();
    stored(&host, &id).await;
    host.isolation.fail_next_change();
    let back = RollBackRequest {
        checkpoint,
        lifetime: HOUR,
        restart: None,
    };
    node.roll_back(&id, back).await.unwrap_err();
    assert_eq!(node.status(&id).unwrap().phase, Phase::Paused);
    assert!(host.isolation.living().is_empty());
    assert_eq!(host.isolation.image_count(), 2, "that of before is whole");
    resume(&node, &id, HOUR).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_starts_anew_has_no_silent_agent_any_more() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    host.agents.silence(true);
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    host.isolation.damage_at_next_change();
    stored(&host, &id).await;
    let paused = node.status(&id).unwrap();
    assert_eq!(paused.paused, Some(ImageKind::Filesystem));
    assert!(!paused.agent_was_silent);
    resume(&node, &id, HOUR).await.unwrap();
}
