//! Pausing and resuming, on a host that can and on one that cannot.

use skep_types::Capabilities;

use crate::server::Server;

#[tokio::test]
async fn a_sandbox_is_paused_once_and_resumed_once_where_its_host_can() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let send = async |line: &str| server.send(&format!("POST /sandboxes/{id}/{line}")).await;
    assert_eq!(send("pause").await.text(), "204");
    let again = send(r#"pause {"memory":true}"#).await;
    assert_eq!((again.status, &again.json()["code"]), (409, &409.into()));
    let listed = server.send("GET /v2/sandboxes?state=paused").await;
    assert_eq!(listed.json()[0]["sandboxID"], id.as_str());
    let resumed = send(r#"resume {"timeout":60}"#).await;
    assert_eq!(resumed.status, 201);
    assert_eq!(resumed.json()["sandboxID"], id.as_str());
    assert_eq!(send("resume").await.status, 409);
}

#[tokio::test]
async fn a_host_that_cannot_pause_says_so_and_the_sandbox_runs_on() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    for body in ["", r#" {"memory":true}"#, r#" {"memory":false}"#] {
        let answer = server
            .send(&format!("POST /sandboxes/{id}/pause{body}"))
            .await;
        assert_eq!(answer.status, 501, "{body}");
    }
    let shown = server.send(&format!("GET /sandboxes/{id}")).await;
    assert_eq!(shown.json()["state"], "running");
}
