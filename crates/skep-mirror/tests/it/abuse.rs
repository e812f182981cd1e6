//! Registries that lie, and sandboxes that ask for what is not theirs. Beside each is its control.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA512, digest};
use serde_json::{Value, json};
use skep_testkit::wait_until;

use crate::caching::{DEADLINE, JSON, put_project, sha256};
use crate::registry::{Answer, Registry};
use crate::site::Site;

const OCTETS: &str = "application/octet-stream";

#[tokio::test]
async fn a_file_that_is_not_what_its_index_promises_is_cut_and_not_kept() {
    let content = vec![5; 300_000];
    let mut poisoned = content.clone();
    poisoned[1000] = 6;
    for (file, is_right) in [(&poisoned, false), (&content, true)] {
        let registry = Registry::start().await;
        let path = put_project(&registry, &content, Answer::ok(OCTETS, file));
        let site = Site::of(&registry).await;
        let got = site.get(&path).await;
        assert_eq!(got.is_file(), is_right, "{} {}", got.head, got.body.len());
        // The index, and the file if it is right.
        assert_eq!(site.files(), 1 + usize::from(is_right));
        assert_eq!(site.metrics().rejected.get(), u64::from(!is_right));
    }
}

#[tokio::test]
async fn an_archive_of_npm_is_what_its_document_promises() {
    let content = b"archive".to_vec();
    let integrity = format!(
        "sha512-{}",
        BASE64_STANDARD.encode(digest(&SHA512, &content))
    );
    for (file, is_right) in [(&b"Archive"[..], false), (&content, true)] {
        let registry = Registry::start().await;
        let tarball = registry.url("/@a/b/-/b-1.0.0.tgz");
        let document = json!({"name": "@a/b", "versions": {"1.0.0":
            {"dist": {"tarball": tarball, "integrity": integrity}}}});
        registry.put(
            "/@a%2Fb",
            Answer::ok("application/json", document.to_string()),
        );
        registry.put("/@a/b/-/b-1.0.0.tgz", Answer::ok(OCTETS, file));
        let site = Site::of(&registry).await;
        // Whatever a client calls the mirror: others get the same.
        let forged = site.ask("/npm/@a%2fb", &[("host", "evil.test")]).await;
        let shown: Value = serde_json::from_slice(&forged.body).unwrap();
        let shown = shown["versions"]["1.0.0"]["dist"]["tarball"]
            .as_str()
            .unwrap();
        let place = format!("http://{}", site.address());
        let path = shown.strip_prefix(&place).unwrap();
        assert_eq!(site.get(path).await.is_file(), is_right, "{path}");
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_registry_that_breaks_off() {
    let registry = Registry::start().await;
    let content = vec![9; 2_000_000];
    let torn = Answer::announcing(200, &[], content.len(), &content[..1_000_000]);
    let path = put_project(&registry, &content, torn);
    let site = Site::of(&registry).await;
    assert!(!site.get(&path).await.is_file());
    assert_eq!(site.files(), 1);
    let torn = Answer::announcing(200, &[("content-type", JSON)], 1000, "{\"files\": []}");
    registry.put("/simple/torn/", torn);
    assert_eq!(site.get("/pypi/simple/torn/").await.status, 502);
    assert_eq!(site.files(), 1);
    // The control: the same, whole.
    registry.put("/files/six-1.whl", Answer::ok(OCTETS, &content));
    assert!(site.get(&path).await.is_file());
}

#[tokio::test]
async fn no_registry_leads_the_server_into_the_hosts_network() {
    let (registry, private) = (Registry::start().await, Registry::start().await);
    let content = b"content";
    private.put("/secret", Answer::ok(OCTETS, content));
    let site = Site::of(&registry).await;
    let digest = sha256(content);
    let path = format!("/pypi/files/six/{digest}/six-1.whl");
    let index_naming = |url: &str| {
        let index = json!({"files": [
            {"filename": "six-1.whl", "url": url, "hashes": {"sha256": digest}},
        ]});
        registry.put("/simple/six/", Answer::ok(JSON, index.to_string()));
    };
    let by_name = format!("http://localhost:{}/secret", private.address.port());
    for url in [private.url("/secret"), by_name] {
        index_naming(&url);
        assert_eq!(site.get(&path).await.status, 502, "{url}");
    }
    // The same by a redirect, of a file and of an index.
    let location = private.url("/secret");
    let redirect = || Answer::with(302, &[("location", &location)], "");
    index_naming("/files/six-1.whl");
    registry.put("/files/six-1.whl", redirect());
    registry.put("/simple/other/", redirect());
    assert_eq!(site.get(&path).await.status, 502);
    assert_eq!(site.get("/pypi/simple/other/").await.status, 502);
    assert!(private.heads().is_empty());
    // The control: a redirect to the registry itself.
    let own = Answer::with(302, &[("location", "/moved")], "");
    registry.put("/files/six-1.whl", own);
    registry.put("/moved", Answer::ok(OCTETS, content));
    assert_eq!(site.get(&path).await.status, 200);
}

#[tokio::test]
async fn a_sandbox_asks_a_registry_for_names_and_for_nothing_else() {
    let registry = Registry::start().await;
    registry.put("/secret", Answer::ok(OCTETS, "secret"));
    let site = Site::of(&registry).await;
    let digest = "0".repeat(64);
    for path in [
        "/pypi/simple/../../secret".to_owned(),
        "/pypi/simple/..%2f..%2fsecret/".to_owned(),
        "/npm/..%2fsecret".to_owned(),
        "/npm/secret%3fx".to_owned(),
        "/debian/../secret".to_owned(),
        "/debian/pool/../../secret".to_owned(),
        "/debian/pool/%2e%2e/%2e%2e/secret".to_owned(),
        format!("/pypi/files/..%2f..%2fsecret/{digest}/x"),
        "/secret".to_owned(),
        format!("http://{}/secret", registry.address),
    ] {
        let answer = site.get(&path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    assert!(registry.heads().is_empty(), "{:?}", registry.heads());
    // The control: a name.
    assert_eq!(site.get("/pypi/simple/secret/").await.status, 404);
    assert_eq!(registry.asked("/simple/secret/"), 1);
}

#[tokio::test]
async fn an_index_has_an_end() {
    let registry = Registry::start().await;
    let site = Site::of(&registry).await;
    let huge = vec![b' '; (64 << 20) + 1];
    registry.put("/simple/huge/", Answer::ok(JSON, huge));
    assert_eq!(site.get("/pypi/simple/huge/").await.status, 502);
    assert_eq!(site.files(), 0);
}

#[tokio::test]
async fn a_fetch_for_which_nobody_waits_ends() {
    let registry = Registry::start().await;
    let content = vec![1; 2_000_000];
    let path = put_project(&registry, &content, Answer::ok(OCTETS, &content).waiting());
    let site = Site::of(&registry).await;
    let client = site.begin(&path, &[]).await;
    wait_until(DEADLINE, || async {
        let asked = registry.asked("/files/six-1.whl");
        (asked == 1 && site.files() == 2).then_some(()).ok_or(asked)
    })
    .await;
    drop(client);
    wait_until(DEADLINE, || async {
        let files = site.files();
        (files == 1).then_some(()).ok_or(files)
    })
    .await;
    registry.open_gate();
    assert!(site.get(&path).await.is_file());
}

#[tokio::test]
async fn one_client_does_not_take_all_connections_for_itself() {
    let registry = Registry::start().await;
    let site = Site::of(&registry).await;
    let mut held = Vec::new();
    for _ in 0..64 {
        held.push(
            tokio::net::TcpStream::connect(site.address())
                .await
                .unwrap(),
        );
    }
    let metrics = site.metrics();
    wait_until(DEADLINE, || async {
        let open = metrics.connections.get();
        (open == 64).then_some(()).ok_or(open)
    })
    .await;
    assert_eq!(site.get("/pypi/simple/six/").await.status, 0);
    drop(held);
    wait_until(DEADLINE, || async {
        let open = metrics.connections.get();
        (open == 0).then_some(()).ok_or(open)
    })
    .await;
    assert_eq!(site.get("/pypi/simple/six/").await.status, 404);
}
