//! Authentication of callers.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use skep_api::Access;
use skep_control::{ApiKey, TeamLimits};
use skep_store::Standing;
use skep_testkit::wait_until;
use tower::ServiceExt as _;

use crate::server::{REQUESTS_PER_TEAM, Server};

const MISSING: &str =
    r#"401 {"code":401,"error_code":"unauthorized","message":"authorization header is missing"}"#;
const INVALID: &str = r#"401 {"code":401,"error_code":"unauthorized","message":"Invalid API key, please check X-API-Key; whoever runs this server makes keys with `skep key create`"}"#;

#[tokio::test]
async fn nobody_without_a_key_learns_what_exists() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let unknown = "e2b_0123456789abcdef0123456789abcdef01234567";
    for line in [
        format!("GET /sandboxes/{id}"),
        "GET /sandboxes/not-there".to_owned(),
        "GET /sandboxes/A-BAD-ID".to_owned(),
        "PUT /sandboxes/not-there/network {}".to_owned(),
        "POST /sandboxes {broken".to_owned(),
        "GET /v2/sandboxes?limit=0".to_owned(),
        "GET /teams".to_owned(),
        "GET /api-keys".to_owned(),
        "GET /templates".to_owned(),
        "POST /v3/templates {}".to_owned(),
        "GET /skep/sandboxes".to_owned(),
        "GET /skep/metrics".to_owned(),
        "GET /skep/doctor".to_owned(),
    ] {
        assert_eq!(server.send_with(&[], &line).await.text(), MISSING, "{line}");
        assert_eq!(
            server.send_as("invalid-api-key", &line).await.text(),
            INVALID,
            "{line}"
        );
        assert_eq!(
            server.send_as(unknown, &line).await.text(),
            INVALID,
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_key_in_the_authorization_header_works_where_there_is_no_other() {
    let server = Server::new().await;
    let bearer = format!("Bearer {}", server.key);
    let answer = server
        .send_with(&[("Authorization", &bearer)], "GET /teams")
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()[0]["apiKey"], server.key);

    // Old command-line clients send a token of their own beside the key.
    let both = [
        ("X-API-KEY", server.key.as_str()),
        ("Authorization", "Bearer sk_e2b_00"),
    ];
    assert_eq!(
        server.send_with(&both, "GET /v2/sandboxes").await.status,
        200
    );
    let token = [("Authorization", "Bearer sk_e2b_00")];
    assert_eq!(server.send_with(&token, "GET /teams").await.text(), INVALID);
}

/// Checks that a route is refused to a key of another team than the operator's.
async fn check_refusal_to_others(server: &Server, line: &str) {
    let (_, other) = server.second_team().await;
    server
        .check_as(
            &other,
            line,
            r#"403 {"code":403,"error_code":"operator_only","message":"only a key of the default team opens this"}"#,
        )
        .await;
}

#[tokio::test]
async fn what_the_server_counts_is_for_its_operator_alone() {
    let server = Server::new().await;
    let counted = server.send("GET /skep/metrics").await;
    assert_eq!((counted.status, counted.body.as_str()), (200, "asked 1\n"));
    check_refusal_to_others(&server, "GET /skep/metrics").await;
}

#[tokio::test]
async fn what_was_found_of_the_host_is_for_its_operator_alone() {
    let server = Server::new().await;
    server
        .check(
            "GET /skep/doctor",
            r#"200 [{"cure":"make some","detail":"there is none","name":"swap","status":"limited"}]"#,
        )
        .await;
    check_refusal_to_others(&server, "GET /skep/doctor").await;
}

#[tokio::test]
async fn the_team_of_the_key_is_shown_with_a_key_that_works() {
    let server = Server::new().await;
    server
        .check(
            "GET /teams",
            r#"200 [{"apiKey":"KEY","isDefault":true,"name":"Default","teamID":"ID"}]"#,
        )
        .await;
}

#[tokio::test]
async fn the_last_use_of_a_key_is_noted() {
    let server = Server::new().await;
    server.send("GET /v2/sandboxes").await;
    wait_until(Duration::from_secs(10), async || {
        let keys = server.send("GET /api-keys").await.json();
        match keys[0]["lastUsed"].as_str() {
            Some(_) => Ok(()),
            None => Err("never used"),
        }
    })
    .await;
}

#[tokio::test]
async fn a_blocked_team_may_look_and_clean_up() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let blocked = Standing::Blocked("unpaid bill".to_owned());
    let setting = server
        .store
        .teams()
        .set_standing(server.team.id.clone(), blocked);
    setting.recorded().await.unwrap();
    let refused =
        r#"403 {"code":403,"error_code":"team_blocked","message":"team is blocked: unpaid bill"}"#;
    for line in [
        r#"POST /sandboxes {"templateID":"nope"}"#.to_owned(),
        r#"POST /v2/sandboxes {"templateID":"base"}"#.to_owned(),
        format!(r#"POST /sandboxes/{id}/timeout {{"timeout":10}}"#),
        r#"POST /sandboxes/unknown/connect {"timeout":10}"#.to_owned(),
        "POST /sandboxes/unknown/resume".to_owned(),
        r#"POST /api-keys {"name":"x"}"#.to_owned(),
    ] {
        // A name that is no id of ours is known not to exist before anybody is asked.
        let line = line.replace("unknown", skep_types::SandboxId::random().as_str());
        server.check(&line, refused).await;
    }
    assert_eq!(server.listed("GET /v2/sandboxes").await.len(), 1);
    server
        .check(&format!("DELETE /sandboxes/{id}"), "204")
        .await;
}

#[tokio::test]
async fn a_banned_team_may_do_nothing() {
    let server = Server::new().await;
    let setting = server
        .store
        .teams()
        .set_standing(server.team.id.clone(), Standing::Banned);
    setting.recorded().await.unwrap();
    let refused = r#"403 {"code":403,"error_code":"team_banned","message":"team is banned"}"#;
    for line in [
        "GET /v2/sandboxes",
        "DELETE /sandboxes/x",
        r#"POST /sandboxes {}"#,
    ] {
        server.check(line, refused).await;
    }
}

#[tokio::test]
async fn a_server_that_trusts_everybody_trusts_no_other_sites_pages() {
    let server = Server::with(TeamLimits::default(), Access::Trusted).await;
    for headers in [
        vec![],
        vec![("X-API-KEY", "anything")],
        vec![("Host", "127.0.0.1:3000")],
        vec![
            ("Host", "api.sandbox.test"),
            ("Origin", "http://localhost:5173"),
        ],
    ] {
        let answer = server.send_with(&headers, "GET /v2/sandboxes").await;
        assert_eq!(answer.status, 200, "{headers:?}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    for headers in [
        [
            ("Host", "127.0.0.1:3000"),
            ("Origin", "https://evil.example"),
        ],
        [("Host", "127.0.0.1:3000"), ("Origin", "null")],
        [("Host", "evil.example:3000"), ("X-API-KEY", "x")],
        // A page that a sandbox serves, and one that does not say where it is from.
        [
            ("Host", "127.0.0.1:3000"),
            ("Origin", "http://8080-i0123456789abcdefghij.localhost:3000"),
        ],
        [("Host", "127.0.0.1:3000"), ("Sec-Fetch-Site", "same-site")],
        [("Host", "127.0.0.1:3000"), ("Sec-Fetch-Site", "cross-site")],
    ] {
        let line = r#"POST /sandboxes {"templateID":"base"}"#;
        let answer = server.send_with(&headers, line).await;
        assert_eq!(
            answer.text(),
            r#"403 {"code":403,"error_code":"not_local","message":"this server asks for no key and therefore answers local callers only"}"#,
            "{headers:?}"
        );
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let line = r#"POST /sandboxes {"templateID":"base"}"#;
        let answer = server.send_with(&[("Content-Type", kind)], line).await;
        assert_eq!(
            answer.text(),
            r#"415 {"code":415,"error_code":"not_json","message":"this server asks for no key and therefore takes bodies of type application/json only"}"#,
        );
    }
    let addressed = "GET https://evil.example:3000/v2/sandboxes";
    assert_eq!(server.send_with(&[], addressed).await.status, 403);
    assert_eq!(server.nodes.count(), 0);
}

#[tokio::test]
async fn one_request_too_many_of_a_team_is_told_so_and_others_are_served() {
    let server = Server::new().await;
    let (_, other) = server.second_team().await;
    // A request is under way as long as its body is.
    let begin = |_| {
        let (sender, body) = tokio::sync::oneshot::channel::<Result<Vec<u8>, Infallible>>();
        let body = futures_util::stream::once(async { body.await.unwrap() });
        let request = Request::post("/sandboxes")
            .header("X-API-KEY", &server.key)
            .body(Body::from_stream(body))
            .unwrap();
        let answer = server.router.clone().oneshot(request);
        (sender, skep_telemetry::spawn("request", answer))
    };
    let waiting: Vec<_> = (0..REQUESTS_PER_TEAM).map(begin).collect();
    wait_until(Duration::from_secs(10), async || {
        let answer = server.send("GET /v2/sandboxes").await;
        match answer.status {
            429 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
    let refused = server.send("GET /v2/sandboxes").await;
    assert_eq!(
        refused.text(),
        r#"429 {"code":429,"error_code":"too_many_requests","message":"your team has 2048 requests under way; wait until one has ended"}"#
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    let listed = server.send_as(&other, "GET /v2/sandboxes").await;
    assert_eq!(listed.status, 200);

    for (sender, answer) in waiting {
        sender.send(Ok(b"nonsense".to_vec())).unwrap();
        let answer = answer.await.unwrap().unwrap().unwrap();
        assert_eq!(answer.status(), 400);
    }
    assert_eq!(server.send("GET /v2/sandboxes").await.status, 200);
}

#[tokio::test]
async fn the_front_door_is_told_of_callers_that_were_let_in() {
    let server = Server::new().await;
    let is_marked = async |key: Option<&str>, path: &str| {
        let mut request = Request::get(path);
        if let Some(key) = key {
            request = request.header("X-API-KEY", key);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = server.router.clone().oneshot(request).await.unwrap();
        let mark = response.extensions().get::<skep_types::Authenticated>();
        mark.is_some()
    };
    let wrong = ApiKey::random();
    assert!(is_marked(Some(&server.key), "/v2/sandboxes").await);
    assert!(is_marked(Some(&server.key), "/sandboxes/unknown").await);
    assert!(!is_marked(Some(wrong.reveal()), "/v2/sandboxes").await);
    assert!(!is_marked(None, "/v2/sandboxes").await);
    // This one asks for no key, so it proves none.
    assert!(!is_marked(Some(&server.key), "/health").await);
}
