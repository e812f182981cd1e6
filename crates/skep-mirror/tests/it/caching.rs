use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use skep_mirror::Access;
use skep_testkit::wait_until;
use tokio::io::AsyncReadExt as _;

use crate::registry::{Answer, Registry};
use crate::site::{LOGIN, Site, received};

pub(crate) const JSON: &str = "application/vnd.pypi.simple.v1+json";
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn sha256(content: &[u8]) -> String {
    hex::encode(digest(&SHA256, content))
}

/// Puts a project with one file into a registry, and returns the file's path at the mirror.
pub(crate) fn put_project(registry: &Registry, content: &[u8], file: Answer) -> String {
    let digest = sha256(content);
    let index = json!({"meta": {"api-version": "1.0"}, "name": "six", "files": [
        {"filename": "six-1.whl", "url": "/files/six-1.whl", "hashes": {"sha256": digest}},
    ]});
    registry.put("/simple/six/", Answer::ok(JSON, index.to_string()));
    registry.put("/files/six-1.whl", file);
    format!("/pypi/files/six/{digest}/six-1.whl")
}

fn octets(content: &[u8]) -> Answer {
    Answer::ok("application/octet-stream", content)
}

#[tokio::test]
async fn a_package_is_fetched_once_and_then_comes_from_the_mirror() {
    let registry = Registry::start().await;
    let content = vec![7; 600_000];
    let path = put_project(&registry, &content, octets(&content));
    let site = Site::new(&registry, 64 << 20, DEADLINE * 10).await;
    let page = site.ask("/pypi/simple/Six/", &[("accept", JSON)]).await;
    let page: Value = serde_json::from_slice(&page.body).unwrap();
    assert_eq!(page["files"][0]["hashes"]["sha256"], sha256(&content));
    let shown = page["files"][0]["url"].as_str().unwrap();
    for path in [path.as_str(), shown, path.as_str()] {
        let file = site.get(path).await;
        assert_eq!((file.status, file.is_whole), (200, true), "{}", file.head);
        assert!(file.body == content);
    }
    let html = site.get("/pypi/simple/six/").await;
    assert!(html.head.contains("text/html"), "{}", html.head);
    assert!(html.text().contains("#sha256="), "{}", html.text());
    for path in ["/simple/six/", "/files/six-1.whl"] {
        assert_eq!(registry.asked(path), 1, "{path}");
    }
    let metrics = site.metrics();
    assert_eq!(metrics.upstream.get(), 2);
    assert!(metrics.hits.get() >= 2);
}

#[tokio::test]
async fn those_who_ask_at_once_share_one_fetch_and_get_the_last_byte_when_it_is_verified() {
    let registry = Registry::start().await;
    let content = vec![3; 400_000];
    let path = put_project(&registry, &content, octets(&content).waiting());
    let site = Arc::new(Site::new(&registry, 64 << 20, DEADLINE * 10).await);
    site.get("/pypi/simple/six/").await;
    let clients: Vec<_> = (0..12)
        .map(|_| {
            let (site, path) = (Arc::clone(&site), path.clone());
            skep_telemetry::spawn("client", async move { site.get(&path).await })
        })
        .collect();
    let metrics = site.metrics();
    wait_until(DEADLINE, || async {
        let joined = metrics.joined.get();
        (joined >= 11).then_some(()).ok_or(joined)
    })
    .await;
    registry.open_gate();
    for client in clients {
        let file = client.await.unwrap().unwrap();
        assert!(file.is_whole && file.body == content, "{}", file.head);
    }
    assert_eq!(registry.asked("/files/six-1.whl"), 1);
}

#[tokio::test]
async fn an_old_index_stands_in_for_a_registry_that_fails_and_is_confirmed_by_one_that_answers() {
    let registry = Registry::start().await;
    let content = b"content";
    put_project(&registry, content, octets(content));
    let site = Site::of(&registry).await;
    let first = site.get("/pypi/simple/six/").await;
    registry.put("/simple/six/", Answer::with(500, &[], ""));
    let second = site.get("/pypi/simple/six/").await;
    assert_eq!((second.status, &second.body), (200, &first.body));
    assert_eq!(site.metrics().stale.get(), 1);
    registry.put("/simple/six/", Answer::with(404, &[], ""));
    assert_eq!(site.get("/pypi/simple/six/").await.status, 404);
    let etag = [("etag", "\"1\""), ("content-type", "text/html")];
    registry.put("/simple/html/", Answer::with(200, &etag, "<a href=x>y</a>"));
    site.get("/pypi/simple/html/").await;
    registry.put("/simple/html/", Answer::with(304, &[], ""));
    assert_eq!(site.get("/pypi/simple/html/").await.status, 200);
    let heads = registry.heads();
    let last = heads.last().unwrap().to_ascii_lowercase();
    assert!(last.contains("if-none-match: \"1\""), "{last}");
}

#[tokio::test]
async fn the_operators_login_is_for_the_registry_and_no_answer_has_it() {
    let registry = Registry::start().await;
    let content = b"content";
    let path = put_project(&registry, content, octets(content));
    let site = Site::of(&registry).await;
    let answers = [site.get("/pypi/simple/six/").await, site.get(&path).await];
    for head in registry.heads() {
        assert!(head.contains(LOGIN), "{head}");
        // What the sandbox says about itself is nobody's affair.
        assert!(!head.contains("mirror.test"), "{head}");
    }
    for answer in answers {
        assert_eq!(answer.status, 200);
        assert!(
            !answer.text().contains("of-the-operator") && !answer.head.contains("of-the-operator")
        );
    }
}

#[tokio::test]
async fn a_sandbox_has_what_its_rules_and_the_operator_say() {
    let registry = Registry::start().await;
    let content = b"content";
    let path = put_project(&registry, content, octets(content));
    let site = Site::of(&registry).await;
    site.allow(Access::Nothing);
    let refused = site.get("/pypi/simple/six/").await;
    assert_eq!(refused.status, 403);
    assert!(
        refused.text().contains("mirror.offline"),
        "{}",
        refused.text()
    );
    site.allow(Access::Cached);
    assert_eq!(site.get("/pypi/simple/six/").await.status, 404);
    assert_eq!(site.get(&path).await.status, 404);
    assert!(registry.heads().is_empty());
    // The control: one that may.
    site.allow(Access::Everything);
    assert_eq!(site.get(&path).await.status, 200);
    let asked = registry.heads().len();
    site.allow(Access::Cached);
    for path in ["/pypi/simple/six/", &path] {
        assert_eq!(site.get(path).await.status, 200, "{path}");
    }
    assert_eq!(registry.heads().len(), asked);
}

#[tokio::test]
async fn a_file_that_makes_room_is_still_read_to_its_end() {
    let registry = Registry::start().await;
    let (first, second) = (vec![1; 6_000_000], vec![2; 6_000_000]);
    let path = put_project(&registry, &first, octets(&first));
    let site = Site::new(&registry, 10_000_000, DEADLINE * 10).await;
    assert!(site.get(&path).await.is_whole);
    let mut reading = site.begin(&path, &[]).await;
    let mut answer = vec![0; 1000];
    reading.read_exact(&mut answer).await.unwrap();
    registry.put("/debian/pool/b.deb", octets(&second));
    assert!(site.get("/debian/pool/b.deb").await.is_whole);
    assert!(site.metrics().evicted.get() > 0);
    reading.read_to_end(&mut answer).await.unwrap();
    let whole = received(&answer);
    assert!(whole.is_whole && whole.body == first);
}

#[tokio::test]
async fn debians_files_are_passed_on_and_one_that_is_of_no_use_is_fetched_anew() {
    let registry = Registry::start().await;
    let site = Site::of(&registry).await;
    let modified = ("last-modified", "Wed, 18 Nov 2026 10:00:00 GMT");
    let release = Answer::with(200, &[modified], "signed");
    registry.put("/debian/dists/trixie/InRelease", release);
    registry.put("/debian/pool/a_1.deb", octets(b"damaged"));
    let path = "/debian/dists/trixie/InRelease";
    assert_eq!(site.get(path).await.text(), "signed");
    let since = [("if-modified-since", modified.1)];
    assert_eq!(site.ask(path, &since).await.status, 304);
    assert_eq!(site.get("/debian/pool/a_1.deb").await.text(), "damaged");
    registry.put("/debian/pool/a_1.deb", octets(b"whole"));
    assert_eq!(site.get("/debian/pool/a_1.deb").await.text(), "damaged");
    let anew = [("cache-control", "no-cache")];
    assert_eq!(
        site.ask("/debian/pool/a_1.deb", &anew).await.text(),
        "whole"
    );
    assert_eq!(site.get("/debian/pool/a_1.deb").await.text(), "whole");
    assert_eq!(site.get("/debian-security/pool/a_1.deb").await.status, 404);
}
