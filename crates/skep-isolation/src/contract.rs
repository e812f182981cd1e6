//! The contract of every backend, as a test that each runs against itself.

use std::sync::Arc;
use std::time::Duration;

use skep_types::{
    Capability, Checkpoint, Connections, Egress, ImageKind, ImagePurpose, Mount, MountTarget,
    SandboxId, VolumeId,
};

use crate::{
    AdoptError, AfterCheckpoint, ChangeError, Exit, Isolation, LaunchError, LaunchRequest,
    Launched, RestoreRequest, RestoreTarget,
};

/// Time limit for what a contract only says will happen.
const CONTRACT_TIMEOUT: Duration = Duration::from_secs(30);

/// A backend under test, and how to ask it for sandboxes.
pub trait ContractSubject {
    /// The backend under test.
    fn isolation(&self) -> Arc<dyn Isolation>;

    /// A request that this backend can launch; a new id each time.
    fn request(&self) -> LaunchRequest;
}

/// Checks that a backend keeps the promises of [`Isolation`].
///
/// # Panics
///
/// If it breaks one.
pub async fn check_contract(subject: &impl ContractSubject) {
    let isolation = subject.isolation();
    check_life(subject, &isolation).await;
    check_log(subject, &isolation).await;
    check_freeze(subject, &isolation).await;
    for kind in ImageKind::ALL {
        check_checkpoint(subject, &isolation, kind).await;
    }
    check_egress(subject, &isolation).await;
    check_mounts(subject, &isolation).await;
}

async fn check_life(subject: &impl ContractSubject, isolation: &Arc<dyn Isolation>) {
    let request = subject.request();
    let request_limits = request.resources;
    let first = isolation
        .launch(request)
        .await
        .expect("a valid request launches");
    let second = isolation
        .launch(subject.request())
        .await
        .expect("so does the next");

    let adopted = isolation
        .adopt(first.record())
        .await
        .expect("a living sandbox is found again");
    assert_eq!(
        adopted.address(),
        first.address(),
        "adoption finds the same sandbox"
    );

    let usage = first.usage().await.expect("a living sandbox is counted");
    let limit = u64::from(request_limits.memory_mib) << 20;
    assert!(usage.memory_bytes <= limit, "the limit holds: {usage:?}");
    assert!(usage.pids <= request_limits.pids, "so does this: {usage:?}");

    let swept = isolation.sweep().await.expect("sweeping works");
    assert!(
        swept.sandboxes.is_empty(),
        "a sweep spares the living: {swept:?}"
    );

    first.destroy().await.expect("destroying works");
    assert!(
        matches!(adopted.exited().await, Exit::Signal(9) | Exit::Unknown),
        "every handle sees the end"
    );
    first.destroy().await.expect("destroying twice is no error");
    adopted.destroy().await.expect("nor from another handle");
    assert!(
        matches!(
            isolation.adopt(first.record()).await,
            Err(AdoptError::Gone(_))
        ),
        "a destroyed sandbox is not found again"
    );

    second.usage().await.expect("the neighbour still runs");
    second.dispose().await;
    second
        .destroy()
        .await
        .expect("destroying after disposal is no error");
    assert!(
        matches!(
            isolation.adopt(second.record()).await,
            Err(AdoptError::Gone(_))
        ),
        "a sandbox that was disposed of is not found again"
    );
}

async fn launch(subject: &impl ContractSubject, isolation: &Arc<dyn Isolation>) -> Launched {
    let launching = isolation.launch(subject.request());
    launching.await.expect("a valid request launches")
}

async fn check_log(subject: &impl ContractSubject, isolation: &Arc<dyn Isolation>) {
    let request = subject.request();
    let id = request.id.clone();
    let sandbox = isolation.launch(request).await.expect("it launches");
    let living = isolation.log(id.clone()).await;
    living.expect("the log of a living sandbox can be read");
    sandbox.destroy().await.expect("destroying works");
    let ended = isolation.log(id.clone()).await;
    ended.expect("so can that of one that has ended");
    let forgotten = isolation.forget_log(id.clone()).await;
    forgotten.expect("it can be forgotten");
    let empty = isolation.log(id.clone()).await;
    assert_eq!(empty.expect("and is then empty"), Vec::<u8>::new());
    let unknown = isolation.log(SandboxId::random()).await;
    assert_eq!(unknown.expect("as that of no sandbox is"), Vec::<u8>::new());
    let again = isolation.forget_log(id).await;
    again.expect("forgetting twice is no error");
}

async fn check_freeze(subject: &impl ContractSubject, isolation: &Arc<dyn Isolation>) {
    let sandbox = launch(subject, isolation).await;
    if isolation.capabilities().has(Capability::Freeze) {
        sandbox.freeze().await.expect("a running sandbox freezes");
        sandbox.freeze().await.expect("freezing twice is no error");
        let adopted = isolation.adopt(sandbox.record()).await;
        adopted.expect("one that stands is found again");
        sandbox.thaw().await.expect("it goes on");
        sandbox.thaw().await.expect("thawing twice is no error");
        sandbox.freeze().await.expect("it freezes again");
    } else {
        check_unsupported(sandbox.freeze().await, Capability::Freeze);
        check_unsupported(sandbox.thaw().await, Capability::Freeze);
    }
    let destroying = tokio::time::timeout(CONTRACT_TIMEOUT, sandbox.destroy()).await;
    let destroyed = destroying.expect("one that stands is destroyed in time");
    destroyed.expect("destroying works");
}

async fn check_checkpoint(
    subject: &impl ContractSubject,
    isolation: &Arc<dyn Isolation>,
    kind: ImageKind,
) {
    let request = subject.request();
    let (id, egress) = (request.id.clone(), request.egress.clone());
    let sandbox = isolation.launch(request).await.expect("it launches");
    let taken = sandbox.checkpoint(kind, AfterCheckpoint::Continue(ImagePurpose::Keep));
    let needed = Capability::of_image(kind);
    if !isolation.capabilities().has(needed) {
        check_unsupported(taken.await, needed);
        sandbox.destroy().await.expect("destroying works");
        return;
    }
    let snapshot = taken.await.expect("a running sandbox is checkpointed");
    assert_eq!(snapshot.kind, kind, "the image is what was asked for");
    assert!(has(isolation, snapshot.clone()).await, "it is there");
    sandbox.usage().await.expect("and goes on");
    let second = isolation
        .copy_checkpoint(snapshot.clone())
        .await
        .expect("an image is copied");
    assert!(
        second.bytes >= snapshot.bytes / 2,
        "a copy counts as the first does, which may go before it: {second:?} of {snapshot:?}"
    );
    forget(isolation, second).await;
    let copies = [subject.request(), subject.request()].map(|request| {
        isolation.restore(RestoreRequest {
            checkpoint: snapshot.clone(),
            kind,
            target: RestoreTarget::Copy(Box::new(request)),
        })
    });
    for copy in futures_util::future::join_all(copies).await {
        let copy = copy.expect("an image is restored many times, side by side");
        copy.destroy().await.expect("a copy is destroyed like any");
    }
    let image = sandbox
        .checkpoint(kind, AfterCheckpoint::Stand)
        .await
        .expect("it is checkpointed again");
    sandbox.destroy().await.expect("and destroyed as it stands");
    let resume = RestoreRequest {
        checkpoint: image.clone(),
        kind,
        target: RestoreTarget::Same {
            id,
            execution: skep_types::ExecutionId::random(),
            egress,
        },
    };
    let resumed = isolation
        .restore(resume.clone())
        .await
        .expect("the same sandbox goes on");
    resumed.destroy().await.expect("it is destroyed like any");
    for checkpoint in [snapshot, image] {
        forget(isolation, checkpoint).await;
    }
    let image = resume.checkpoint.clone();
    assert!(!has(isolation, image).await, "it is not there any more");
    let forgotten = isolation.restore(resume).await;
    forgotten.expect_err("nothing is made of a forgotten image");
}

async fn has(isolation: &Arc<dyn Isolation>, checkpoint: Checkpoint) -> bool {
    let has = isolation.has_checkpoint(checkpoint).await;
    has.expect("it is known whether an image is there")
}

async fn forget(isolation: &Arc<dyn Isolation>, checkpoint: Checkpoint) {
    for _ in 0..2 {
        let forgotten = isolation.forget_checkpoint(checkpoint.clone()).await;
        forgotten.expect("an image can be forgotten, and forgotten again");
    }
}

async fn check_egress(subject: &impl ContractSubject, isolation: &Arc<dyn Isolation>) {
    for egress in [Egress::closed(), Egress::default()] {
        let request = LaunchRequest {
            egress,
            ..subject.request()
        };
        let sandbox = isolation.launch(request).await.expect("it launches");
        for changed in [Egress::default(), Egress::closed()] {
            let change = sandbox.set_egress(changed, Connections::Cut).await;
            if isolation.capabilities().has(Capability::EgressChange) {
                change.expect("a running sandbox gets another rule");
            } else {
                check_unsupported(change, Capability::EgressChange);
            }
        }
        sandbox.destroy().await.expect("destroying works");
    }
}

async fn check_mounts(subject: &impl ContractSubject, isolation: &Arc<dyn Isolation>) {
    if isolation.capabilities().has(Capability::Mounts) {
        return;
    }
    let request = LaunchRequest {
        mounts: vec![Mount {
            volume: VolumeId::random(),
            name: "none".parse().expect("it is a name"),
            target: MountTarget::new("/mnt/none").expect("it is a place"),
            read_only: true,
        }],
        ..subject.request()
    };
    assert!(
        matches!(
            isolation.launch(request).await,
            Err(LaunchError::Unsupported(_))
        ),
        "a volume is refused, never left out"
    );
}

fn check_unsupported<T: std::fmt::Debug>(answer: Result<T, ChangeError>, capability: Capability) {
    match answer {
        Err(ChangeError::Unsupported(unsupported)) => assert_eq!(unsupported.0, capability),
        Ok(_)
        | Err(
            ChangeError::Unwritable { .. }
            | ChangeError::Failed { .. }
            | ChangeError::Damaged { .. },
        ) => {
            panic!("{capability} is not among the capabilities: {answer:?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use skep_types::{Capabilities, ExecutionId, Redacted, Resources, Sharing, TeamId, TenantId};

    use super::*;
    use crate::FakeIsolation;

    struct Fake(FakeIsolation);

    impl ContractSubject for Fake {
        fn isolation(&self) -> Arc<dyn Isolation> {
            Arc::new(self.0.clone())
        }

        fn request(&self) -> LaunchRequest {
            LaunchRequest {
                id: SandboxId::random(),
                execution: ExecutionId::random(),
                layers: Vec::new(),
                tenant: TenantId::new(&TeamId::random(), Sharing::WithinTeam),
                resources: Resources::default(),
                egress: Egress::default(),
                mounts: Vec::new(),
                becomes_layer: false,
                agent_config: Redacted::new(Vec::new()),
            }
        }
    }

    #[tokio::test]
    async fn the_fake_keeps_the_contract() {
        check_contract(&Fake(FakeIsolation::default())).await;
    }

    #[tokio::test]
    async fn the_fake_keeps_the_contract_without_any_capability() {
        let fake = FakeIsolation::default();
        fake.set_capabilities(Capabilities::default());
        check_contract(&Fake(fake)).await;
    }
}
