//! Stops, upgrades and second servers.

use skep_client::{Client, NewSandbox};

use crate::installation::Installation;
use crate::machine::Traces;
use crate::witness::Witness;

async fn create(client: &Client) -> String {
    let body = NewSandbox {
        template_id: "base".to_owned(),
        timeout: Some(600),
        ..NewSandbox::default()
    };
    let sandbox = client.sandboxes().create(&body).await.unwrap();
    sandbox.id().to_owned()
}

async fn listed(client: &Client) -> Vec<String> {
    let sandboxes = client.sandboxes().list().await.unwrap();
    let ids = sandboxes.into_iter().map(|sandbox| sandbox.sandbox_id);
    ids.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_data_is_refused_and_told_what_to_do() {
    let installation = Installation::start();
    let id = create(&installation.client()).await;
    let second = installation.start_second();
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("another server uses"), "{said}");
    assert!(
        said.contains("hint:") && said.contains("--data-dir"),
        "{said}"
    );
    assert_eq!(listed(&installation.client()).await, [id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_executable_is_replaced_goes_on_and_so_does_the_next() {
    let mut installation = Installation::start();
    let mut witness = Witness::start(&installation.client()).await;
    installation.replace_executable();
    // The old server still serves, from a file that has no name any more.
    let second = create(&installation.client()).await;
    installation.stop();
    witness.check_cut().await;

    installation.restart();
    let client = installation.client();
    let mut ids = listed(&client).await;
    let mut expected = vec![witness.sandbox.id().to_owned(), second];
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected);
    witness.check(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_sandboxes_if_so_configured() {
    let mut installation = Installation::start();
    installation.configure("when_stopped = \"end\"\n");
    let id = create(&installation.client()).await;
    installation.stop();
    // This server was started before the configuration, so it has left its sandbox.
    installation.restart();
    let left = listed(&installation.client()).await;
    assert_eq!(left, std::slice::from_ref(&id));

    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
    installation.restart();
    let client = installation.client();
    let records = client.sandboxes().records(true).await.unwrap();
    let ends: Vec<_> = records
        .iter()
        .map(|record| (record.sandbox_id.as_str(), record.end_reason.as_deref()))
        .collect();
    assert_eq!(ends, [(id.as_str(), Some("server_stopped"))]);
}
