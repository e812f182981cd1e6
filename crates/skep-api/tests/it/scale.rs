//! Many sandboxes and a long past.

use std::collections::BTreeSet;

use skep_types::EndReason;

use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_sandboxes_are_made_at_once_listed_and_counted() {
    let server = Server::new().await;
    let bodies = [r#"{"templateID":"base"}"#; 1000];
    let creating = bodies.iter().map(|body| server.create(body));
    let ids: BTreeSet<_> = futures_util::future::join_all(creating)
        .await
        .into_iter()
        .collect();
    assert_eq!(ids.len(), 1000);

    // One more is one too many, however many ask at once.
    let line = r#"POST /v2/sandboxes {"templateID":"base"}"#;
    let refused = futures_util::future::join_all((0..20).map(|_| server.send(line))).await;
    assert!(refused.iter().all(|answer| answer.status == 429));
    assert_eq!(server.nodes.count(), 1000);

    let mut seen = BTreeSet::new();
    let mut next = String::new();
    loop {
        let answer = server
            .send(&format!("GET /v2/sandboxes?nextToken={next}"))
            .await;
        assert_eq!(answer.header("x-total-running"), Some("1000"));
        seen.extend(answer.ids());
        match answer.header("x-next-token") {
            Some(token) => next = token.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, ids.iter().map(ToString::to_string).collect());

    // All of them end; only the database still knows them, and there is room again.
    for id in &ids {
        server.nodes.end(id, EndReason::Timeout).await;
    }
    assert_eq!(server.listed("GET /sandboxes").await, [""; 0]);
    assert_eq!(
        server.listed("GET /skep/sandboxes?all=true").await.len(),
        100
    );
    server.create(r#"{"templateID":"base"}"#).await;
}
