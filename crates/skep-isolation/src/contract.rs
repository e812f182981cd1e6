//! The contract of every backend, as a test that each runs against itself.

use std::sync::Arc;

use crate::{AdoptError, Exit, Isolation, LaunchRequest};

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

    let request = subject.request();
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

#[cfg(test)]
mod tests {
    use skep_types::{
        Egress, ExecutionId, Redacted, Resources, SandboxId, Sharing, TeamId, TenantId,
    };

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
                egress: Egress::Internet,
                agent_config: Redacted::new(Vec::new()),
            }
        }
    }

    #[tokio::test]
    async fn the_fake_keeps_the_contract() {
        check_contract(&Fake(FakeIsolation::default())).await;
    }
}
