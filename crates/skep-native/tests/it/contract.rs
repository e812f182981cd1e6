//! The contract that every backend must fulfil.

use std::sync::Arc;

use skep_isolation::{ContractSubject, Isolation, LaunchRequest, check_contract};

use crate::bench::Bench;

crate::tests![the_backend_keeps_the_contract];

struct Subject(Bench);

impl ContractSubject for Subject {
    fn isolation(&self) -> Arc<dyn Isolation> {
        Arc::clone(self.0.native()) as Arc<dyn Isolation>
    }

    fn request(&self) -> LaunchRequest {
        self.0.request()
    }
}

async fn the_backend_keeps_the_contract() {
    let subject = Subject(Bench::new().await);
    check_contract(&subject).await;
    subject.0.finish().await;
}
