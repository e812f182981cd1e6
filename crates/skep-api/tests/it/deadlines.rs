//! Lifetimes and deadlines of sandboxes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use skep_api::Access;
use skep_control::TeamLimits;

use crate::server::Server;

#[track_caller]
fn about(left: Duration, seconds: u64) {
    let expected = Duration::from_secs(seconds);
    assert!(
        left <= expected && left + Duration::from_secs(20) > expected,
        "{left:?} left, not about {expected:?}"
    );
}

#[tokio::test]
async fn a_timeout_is_counted_from_now_and_may_shorten_or_extend() {
    let server = Server::new().await;
    let id = server
        .create(r#"{"templateID":"base","timeout":300}"#)
        .await;
    about(server.left(&id).await, 300);
    server
        .check(
            &format!(r#"POST /sandboxes/{id}/timeout {{"timeout":1000}}"#),
            "204",
        )
        .await;
    about(server.left(&id).await, 1000);
    server
        .check(
            &format!(r#"POST /sandboxes/{id}/timeout {{"timeout":30}}"#),
            "204",
        )
        .await;
    about(server.left(&id).await, 30);
}

#[tokio::test]
async fn no_time_or_less_ends_a_sandbox() {
    let server = Server::new().await;
    for timeout in [0, -1, i64::MIN] {
        let id = server.create(r#"{"templateID":"base"}"#).await;
        let line = format!(r#"POST /sandboxes/{id}/timeout {{"timeout":{timeout}}}"#);
        server.check(&line, "204").await;
        let shown = server.send(&format!("GET /sandboxes/{id}")).await;
        assert_eq!(shown.status, 404, "{timeout}");
    }
}

#[tokio::test]
async fn refreshing_and_connecting_only_extend() {
    let server = Server::new().await;
    let id = server
        .create(r#"{"templateID":"base","timeout":600}"#)
        .await;
    let end = server.end_at(&id).await;
    for line in [
        format!("POST /sandboxes/{id}/refreshes"),
        format!(r#"POST /sandboxes/{id}/refreshes {{"duration":60}}"#),
        format!(r#"POST /sandboxes/{id}/connect {{"timeout":15}}"#),
        format!("POST /v2/sandboxes/{id}/connect {{}}"),
        format!(r#"POST /v2/sandboxes/{id}/connect {{"timeout":50,"memory":false}}"#),
    ] {
        let answer = server.send(&line).await;
        assert!(
            [200, 204].contains(&answer.status),
            "{line}: {}",
            answer.body
        );
        assert_eq!(server.end_at(&id).await, end, "{line}");
    }
    server
        .check(
            &format!(r#"POST /sandboxes/{id}/refreshes {{"duration":900}}"#),
            "204",
        )
        .await;
    about(server.left(&id).await, 900);
    let answer = server
        .send(&format!(
            r#"POST /sandboxes/{id}/connect {{"timeout":1200}}"#
        ))
        .await;
    assert_eq!(answer.status, 200);
    about(server.left(&id).await, 1200);
}

#[tokio::test]
async fn a_short_refresh_gives_fifteen_seconds() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base","timeout":1}"#).await;
    server
        .check(
            &format!(r#"POST /sandboxes/{id}/refreshes {{"duration":1}}"#),
            "204",
        )
        .await;
    about(server.left(&id).await, 15);
}

#[tokio::test]
async fn connecting_extends_by_five_minutes_when_a_new_client_says_nothing() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base","timeout":1}"#).await;
    server
        .check(
            &format!("POST /v2/sandboxes/{id}/connect"),
            r#"200 {"alias":"base","clientID":"6532622b","domain":"sandbox.test","envdAccessToken":"TOKEN","envdVersion":"0.6.13","sandboxID":"SANDBOX","templateID":"ID","trafficAccessToken":"TOKEN"}"#,
        )
        .await;
    about(server.left(&id).await, 300);
}

#[tokio::test]
async fn nothing_lives_longer_than_the_team_may_have_it() {
    let limits = TeamLimits {
        lifetime: Duration::from_hours(1),
        ..TeamLimits::default()
    };
    let server = Server::with(limits, Access::Keys).await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let ago = |seconds| Timestamp::now() - SignedDuration::from_secs(seconds);
    server.nodes.set_started_at(&id, ago(3000));
    server
        .check(
            &format!(r#"POST /sandboxes/{id}/timeout {{"timeout":3600}}"#),
            "204",
        )
        .await;
    about(server.left(&id).await, 600);
    server
        .check(
            &format!(r#"POST /sandboxes/{id}/refreshes {{"duration":3600}}"#),
            "204",
        )
        .await;
    about(server.left(&id).await, 600);

    server.nodes.set_started_at(&id, ago(4000));
    server
        .check(
            &format!(r#"POST /sandboxes/{id}/timeout {{"timeout":10}}"#),
            r#"400 {"code":400,"error_code":"max_length_exceeded","message":"Max instance length exceeded"}"#,
        )
        .await;
    let end = server.end_at(&id).await;
    server
        .check(&format!("POST /sandboxes/{id}/refreshes"), "204")
        .await;
    assert_eq!(server.end_at(&id).await, end);
}

#[tokio::test]
async fn a_bad_time_is_refused_and_too_long_a_one_before_the_sandbox_is_looked_for() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let validation = "validation_error";
    for (line, code, message) in [
        (
            format!("POST /sandboxes/{id}/timeout {{}}"),
            validation,
            "validation error: missing field `timeout` at line 1 column 2",
        ),
        (
            format!(r#"POST /sandboxes/{id}/refreshes {{"duration":3601}}"#),
            validation,
            "validation error: duration must be from 0 to 3600",
        ),
        (
            format!("POST /sandboxes/{id}/connect {{}}"),
            validation,
            "validation error: missing field `timeout`",
        ),
        (
            r#"POST /sandboxes/unknown/connect {"timeout":259200}"#.to_owned(),
            "invalid_timeout",
            "Timeout cannot be greater than 24 hours",
        ),
        (
            r#"POST /v2/sandboxes/unknown/connect {"timeout":259200}"#.to_owned(),
            "invalid_timeout",
            "Timeout cannot be greater than 24 hours",
        ),
    ] {
        let answer = server.send(&line).await;
        let body = answer.json();
        assert_eq!(answer.status, 400, "{line}");
        assert_eq!(
            (body["error_code"].as_str(), body["message"].as_str()),
            (Some(code), Some(message)),
            "{line}"
        );
    }
    for line in [
        r#"POST /sandboxes/unknown/timeout {"timeout":1}"#,
        "POST /sandboxes/unknown/refreshes",
        r#"POST /sandboxes/unknown/connect {"timeout":1}"#,
        "POST /sandboxes/unknown/resume",
    ] {
        assert_eq!(server.send(line).await.status, 404, "{line}");
    }
}

#[tokio::test]
async fn resuming_what_runs_is_a_conflict() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let answer = server.send(&format!("POST /sandboxes/{id}/resume")).await;
    assert_eq!(answer.status, 409);
    assert_eq!(
        answer.json()["message"],
        format!("Sandbox {id} is already running")
    );
}

#[tokio::test]
async fn a_deadline_is_in_the_record_when_it_is_acknowledged() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    server
        .check(
            &format!(r#"POST /sandboxes/{id}/timeout {{"timeout":999}}"#),
            "204",
        )
        .await;
    let shown = server.end_at(&id).await;
    let record = server.store.sandboxes().find(id).await.unwrap().unwrap();
    assert_eq!(record.run.unwrap().ends_at, shown);
}
