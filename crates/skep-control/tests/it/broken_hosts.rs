//! Hosts that do not do as they are told.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use skep_control::{
    Admitted, CreateError, FakeNodes, ListQuery, NodeCreateError, Nodes, StopError,
};
use skep_testkit::wait_until;
use skep_types::{
    Capabilities, Checkpoint, DeadlineMode, Egress, EndReason, ImageKind, ImagePurpose, KillError,
    LogEntry, LoggedRequest, NodeId, NotHere, PauseRequest, Phase, Placement, Resources,
    ResumeRequest, Resumed, RollBackRequest, SandboxId, SandboxKind, SandboxSpec, SandboxStatus,
    TransitionError, Usage,
};
use tempfile::TempDir;

use crate::{anybody, control, fake, request, store};

/// Fault of a fake node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    PanicsOnCreate,
    CannotKill,
}

#[derive(Debug)]
struct Broken {
    fault: Fault,
    whole: Arc<FakeNodes>,
}

impl Nodes for Broken {
    fn place<'a>(&'a self, kind: &'a SandboxKind) -> BoxFuture<'a, Placement> {
        self.whole.place(kind)
    }

    fn warm(&self, kind: SandboxKind) {
        self.whole.warm(kind);
    }

    fn warm_built(&self, kind: SandboxKind) {
        self.whole.warm_built(kind);
    }

    fn capabilities<'a>(&'a self, node: &'a NodeId) -> BoxFuture<'a, Capabilities> {
        self.whole.capabilities(node)
    }

    fn admit<'a>(
        &'a self,
        id: &'a SandboxId,
        resources: Resources,
    ) -> BoxFuture<'a, Result<Admitted, NodeCreateError>> {
        self.whole.admit(id, resources)
    }

    fn create(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxStatus, NodeCreateError>> {
        async move {
            assert_ne!(self.fault, Fault::PanicsOnCreate, "as intended");
            Nodes::create(&*self.whole, spec).await
        }
        .boxed()
    }

    fn kill(&self, id: SandboxId) -> BoxFuture<'_, Result<(), KillError>> {
        match self.fault {
            Fault::CannotKill => async { Err(KillError::Stuck) }.boxed(),
            Fault::PanicsOnCreate => self.whole.kill(id),
        }
    }

    fn set_lifetime(
        &self,
        id: SandboxId,
        lifetime: Duration,
        mode: DeadlineMode,
    ) -> BoxFuture<'_, Result<SandboxStatus, NotHere>> {
        self.whole.set_lifetime(id, lifetime, mode)
    }

    fn status<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<SandboxStatus>> {
        self.whole.status(id)
    }

    fn pause(
        &self,
        id: SandboxId,
        request: PauseRequest,
    ) -> BoxFuture<'_, Result<SandboxStatus, TransitionError>> {
        self.whole.pause(id, request)
    }

    fn resume(
        &self,
        id: SandboxId,
        request: ResumeRequest,
    ) -> BoxFuture<'_, Result<Resumed, TransitionError>> {
        self.whole.resume(id, request)
    }

    fn roll_back(
        &self,
        id: SandboxId,
        request: RollBackRequest,
    ) -> BoxFuture<'_, Result<SandboxStatus, TransitionError>> {
        self.whole.roll_back(id, request)
    }

    fn snapshot(
        &self,
        id: SandboxId,
        kind: ImageKind,
        purpose: ImagePurpose,
    ) -> BoxFuture<'_, Result<Checkpoint, TransitionError>> {
        self.whole.snapshot(id, kind, purpose)
    }

    fn forget_checkpoint(&self, node: NodeId, checkpoint: Checkpoint) -> BoxFuture<'_, ()> {
        self.whole.forget_checkpoint(node, checkpoint)
    }

    fn set_egress(
        &self,
        id: SandboxId,
        egress: Egress,
    ) -> BoxFuture<'_, Result<(), TransitionError>> {
        self.whole.set_egress(id, egress)
    }

    fn usage(&self, id: SandboxId) -> BoxFuture<'_, Result<Usage, NotHere>> {
        self.whole.usage(id)
    }

    fn kept_logs(&self) -> BoxFuture<'_, io::Result<Vec<(SandboxId, u64)>>> {
        self.whole.kept_logs()
    }

    fn forget_log(&self, id: SandboxId) -> BoxFuture<'_, ()> {
        self.whole.forget_log(id)
    }

    fn requests(&self, id: SandboxId) -> BoxFuture<'_, Vec<LoggedRequest>> {
        self.whole.requests(id)
    }

    fn logs(&self, id: SandboxId) -> BoxFuture<'_, Vec<LogEntry>> {
        self.whole.logs(id)
    }
}

#[tokio::test]
async fn a_host_that_panics_fails_one_request_and_keeps_no_quota() {
    let directory = TempDir::new().unwrap();
    let store = store(directory.path());
    let nodes = Broken {
        fault: Fault::PanicsOnCreate,
        whole: fake(&store),
    };
    let control = control(&store, Arc::new(nodes)).await;
    let caller = anybody(&control).await;
    // More often than the team may have sandboxes.
    for _ in 0..3 {
        let error = control.create(&caller, request()).await.unwrap_err();
        assert!(matches!(error, CreateError::BrokeOff), "{error:?}");
    }
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_killed_is_still_shown() {
    let directory = TempDir::new().unwrap();
    let store = store(directory.path());
    let nodes = Broken {
        fault: Fault::CannotKill,
        whole: fake(&store),
    };
    let control = control(&store, Arc::new(nodes)).await;
    let caller = anybody(&control).await;
    let created = control.create(&caller, request()).await.unwrap();
    let error = control.kill(&caller, &created.id).await.unwrap_err();
    assert!(matches!(error, StopError::Node(_)), "{error:?}");
    assert_eq!(
        control
            .list(&caller, &ListQuery::everything())
            .await
            .items
            .len(),
        1
    );
}

#[tokio::test]
async fn a_sandbox_of_which_something_is_left_keeps_its_place_in_the_quota() {
    let directory = TempDir::new().unwrap();
    let store = store(directory.path());
    let whole = fake(&store);
    let nodes = Broken {
        fault: Fault::CannotKill,
        whole: whole.clone(),
    };
    let control = control(&store, Arc::new(nodes)).await;
    let caller = anybody(&control).await;
    let limit = usize::try_from(caller.limits.sandboxes).unwrap();
    let mut created = Vec::new();
    for _ in 0..limit {
        created.push(control.create(&caller, request()).await.unwrap());
    }
    let stuck = &created[0].id;
    for _ in 0..2 {
        let error = control.kill(&caller, stuck).await.unwrap_err();
        assert!(matches!(error, StopError::Node(_)), "{error:?}");
        whole.set_phase(stuck, Phase::Stuck);
    }
    control.find(&caller, stuck).await.unwrap_err();
    let listed = control.list(&caller, &ListQuery::everything()).await.items;
    assert_eq!(listed.len(), limit - 1);
    let error = control.create(&caller, request()).await.unwrap_err();
    assert!(matches!(error, CreateError::QuotaReached(_)), "{error:?}");
    whole.end(stuck, EndReason::Killed).await;
    control.create(&caller, request()).await.unwrap();
}

#[tokio::test]
async fn a_host_that_takes_too_long_is_given_up_and_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let store = store(directory.path());
    let nodes = fake(&store);
    let control = control(&store, nodes.clone()).await;
    let caller = anybody(&control).await;
    nodes.hold();
    let a_minute_later = async {
        wait_until(Duration::from_secs(10), async || match nodes.waiting() {
            0 => Err("nobody asked the host"),
            _ => Ok(()),
        })
        .await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        tokio::time::resume();
    };
    let (created, ()) = tokio::join!(control.create(&caller, request()), a_minute_later);
    let error = created.unwrap_err();
    assert!(matches!(error, CreateError::Late(_)), "{error:?}");
    nodes.release();
    assert_eq!(nodes.count(), 0);
    assert_eq!(
        store
            .sandboxes()
            .living(skep_types::NodeId::local())
            .await
            .unwrap(),
        []
    );
    let query = skep_control::RecordQuery {
        ended: true,
        limit: 10,
        after: None,
    };
    let records = control.records(&caller, query).await.unwrap().items;
    let reasons: Vec<_> = records
        .iter()
        .map(|(record, _)| record.ending.as_ref().unwrap().reason)
        .collect();
    assert_eq!(reasons, [EndReason::StartFailed]);
}
