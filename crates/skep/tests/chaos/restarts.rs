//! Stops, upgrades and second servers.

use skep_client::{Client, ClientError, Command, NewSandbox};
use skep_telemetry::Chain;

use crate::installation::Installation;
use crate::machine::Traces;
use crate::witness::Witness;

async fn create(client: &Client) -> String {
    create_with(client, None).await
}

async fn create_with(client: &Client, secure: Option<bool>) -> String {
    let body = NewSandbox {
        template_id: "base".to_owned(),
        timeout: Some(600),
        secure,
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

/// Runs a command in a sandbox without showing its token.
async fn run_without_token(client: &Client, id: &str) -> Result<String, ClientError> {
    let sandbox = client.sandbox(id).with_access_token(None);
    let output = sandbox.commands().run(Command::new("whoami")).await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn is_for_want_of_a_token(error: &ClientError) -> bool {
    let text = Chain(error).to_string();
    text.contains("please provide a valid access token")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_decides_anew_at_each_start_if_open_sandboxes_stay_open() {
    let mut installation = Installation::start();
    let client = installation.client();
    let open = create_with(&client, Some(false)).await;
    let closed = create_with(&client, Some(true)).await;
    for (setting, is_let_in) in [
        ("", true),
        ("[security]\nrequire_tokens = true\n", false),
        ("[security]\nrequire_tokens = false\n", true),
    ] {
        installation.stop();
        installation.configure(setting);
        installation.restart();
        let client = installation.client();
        let said = run_without_token(&client, &open).await;
        match said {
            Ok(name) => assert!(is_let_in && name == "user\n", "{setting}{name:?}"),
            Err(error) => {
                let is_refused = !is_let_in && is_for_want_of_a_token(&error);
                assert!(is_refused, "{setting}{error:?}");
            }
        }
        let refused = run_without_token(&client, &closed).await.unwrap_err();
        assert!(is_for_want_of_a_token(&refused), "{setting}{refused:?}");
        // With the token both answer, whatever is configured.
        for id in [&open, &closed] {
            let whoami = Command::new("whoami");
            let output = client.sandbox(id).commands().run(whoami).await.unwrap();
            assert_eq!(&*output.stdout, b"user\n");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_data_is_refused_and_told_what_to_do() {
    let installation = Installation::start();
    let id = create(&installation.client()).await;
    let second = installation.start_second();
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("another server uses"), "{said}");
    // The servers of these tests are started with `--json`.
    assert!(
        said.contains("hints") && said.contains("--data-dir"),
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
