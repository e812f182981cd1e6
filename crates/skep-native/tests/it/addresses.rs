//! Sockets with the address of a sandbox that goes on at another one.
//!
//! CRIU binds a socket to the address that it had. A sandbox that is restored gets a slot that is free,
//! and so another address, where that would be refused.

use skep_isolation::{AfterCheckpoint, Isolation as _, LaunchRequest, Launched, RestoreTarget};
use skep_testkit::wait_until;
use skep_types::{ImagePurpose, Redacted};

use crate::bench::{Bench, DEADLINE, ask};
use crate::checkpoint::{checkpoints, dump, restore, same, start_work};

crate::tests![
    sockets_with_the_sandboxes_address_go_on_at_another,
    sockets_of_copies_have_the_addresses_of_the_copies,
];

/// Answer of the holder of sockets, as soon as it holds them.
async fn held(sandbox: &Launched) -> String {
    wait_until(DEADLINE, async || {
        let answer = ask(sandbox, "work sockets-held").await;
        if answer.contains("accepted") {
            Ok(answer)
        } else {
            Err(answer)
        }
    })
    .await
}

const WHOLE: &str = "sent accepted alive alive";
const CUT: &str = "sent accepted cut cut";

async fn bench_with_sockets() -> (Bench, LaunchRequest, Launched) {
    let bench = Bench::with(|config| config.checkpoints = Some(checkpoints())).await;
    let request = bench.request();
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    start_work(&sandbox, "hold-sockets").await;
    assert_eq!(held(&sandbox).await, WHOLE);
    (bench, request, sandbox)
}

async fn sockets_with_the_sandboxes_address_go_on_at_another() {
    let (bench, request, mut sandbox) = bench_with_sockets().await;
    // The second time the address that is replaced is itself not the first.
    for _ in 0..2 {
        let before = sandbox.address();
        let image = dump(&sandbox, AfterCheckpoint::Stand).await;
        sandbox.destroy().await.unwrap();
        bench.wait_until_empty().await;
        sandbox = restore(&bench, &image, same(&request)).await;
        bench.native().forget_checkpoint(image).await.unwrap();
        assert_ne!(sandbox.address(), before, "the control");
        assert_eq!(held(&sandbox).await, CUT);
    }
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn sockets_of_copies_have_the_addresses_of_the_copies() {
    let (bench, _, sandbox) = bench_with_sockets().await;
    for purpose in [ImagePurpose::Copy, ImagePurpose::Keep] {
        let image = dump(&sandbox, AfterCheckpoint::Continue(purpose)).await;
        let mut request = bench.request();
        request.agent_config = Redacted::new("copy".into());
        let copy = restore(&bench, &image, RestoreTarget::Copy(Box::new(request))).await;
        assert_eq!(held(&copy).await, CUT);
        assert_eq!(held(&sandbox).await, WHOLE, "the original is as it was");
        copy.destroy().await.unwrap();
        bench.native().forget_checkpoint(image).await.unwrap();
    }
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}
