//! Everything that is not about any one route.

use axum::body::Body;
use axum::http::Request;

use crate::server::Server;

#[tokio::test]
async fn health_needs_no_key() {
    let server = Server::new().await;
    let answer = server.send_with(&[], "GET /health").await;
    assert_eq!(answer.text(), "200 Health check successful");
}

#[tokio::test]
async fn what_is_wrong_with_the_server_is_told_to_its_operator_and_only_that_something_is_to_others()
 {
    let server = Server::new().await;
    let json = ("Accept", "application/json");
    let (_team, other) = server.second_team().await;
    for headers in [vec![json], vec![json, ("X-API-Key", &other)]] {
        let answer = server.send_with(&headers, "GET /health").await;
        assert_eq!(answer.text(), r#"200 {"status":"degraded"}"#);
    }
    let headers = [json, ("X-API-Key", &server.key)];
    let answer = server.send_with(&headers, "GET /health").await;
    assert_eq!(
        answer.text(),
        r#"200 {"problems":[{"code":"record_not_written","message":"the disk is full"}],"status":"degraded"}"#
    );
    // The SDKs' text does not change with it.
    let answer = server.send("GET /health").await;
    assert_eq!(answer.text(), "200 Health check successful");
}

#[tokio::test]
async fn every_failure_has_a_json_body_that_repeats_the_status() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let pause = format!(
        r#"501 {{"code":501,"error_code":"not_implemented","message":"POST /sandboxes/{id}/pause is not available on this server yet"}}"#
    );
    for (line, expected) in [
        (
            "GET /nowhere".to_owned(),
            r#"404 {"code":404,"error_code":"not_found","message":"there is no such route"}"#,
        ),
        (
            "GET /".to_owned(),
            r#"404 {"code":404,"error_code":"not_found","message":"there is no such route"}"#,
        ),
        (
            format!("PATCH /sandboxes/{id} {{}}"),
            r#"405 {"code":405,"error_code":"method_not_allowed","message":"the route does not have this method"}"#,
        ),
        (format!("POST /sandboxes/{id}/pause"), &pause),
        (
            r#"POST /sandboxes ["base"]"#.to_owned(),
            r#"400 {"code":400,"error_code":"validation_error","message":"validation error: the body must be an object"}"#,
        ),
        (
            "POST /sandboxes".to_owned(),
            r#"400 {"code":400,"error_code":"invalid_json","message":"Error when parsing request: EOF while parsing a value at line 1 column 0"}"#,
        ),
        (
            "POST /templates {}".to_owned(),
            r#"400 {"code":400,"error_code":"docker_build_unsupported","message":"building from a pushed Docker image is not supported; use `template create`"}"#,
        ),
    ] {
        let answer = server.send(&line).await;
        assert_eq!(
            answer.header("content-type"),
            Some("application/json"),
            "{line}"
        );
        assert_eq!(answer.text(), expected, "{line}");
    }
}

#[tokio::test]
async fn what_is_not_there_yet_says_so_on_every_such_route() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    for line in [
        format!(r#"POST /sandboxes/{id}/pause {{"memory":true}}"#),
        format!("POST /sandboxes/{id}/fork {{}}"),
        format!("POST /sandboxes/{id}/snapshots {{}}"),
        format!("PUT /sandboxes/{id}/network {{}}"),
    ] {
        let answer = server.send(&line).await;
        assert_eq!(answer.status, 501, "{line}");
        assert_eq!(answer.json()["code"], 501, "{line}");
    }
}

#[tokio::test]
async fn a_snapshot_that_is_not_there_is_told_so_with_an_escaped_slash_in_its_name() {
    let server = Server::new().await;
    let answer = server.send("DELETE /templates/team%2Fsnap%3Adefault").await;
    assert_eq!((answer.status, &answer.json()["code"]), (404, &404.into()));
    assert_eq!(server.send("GET /snapshots").await.text(), "200 []");
}

#[tokio::test]
async fn a_body_may_be_sixteen_mebibytes_and_no_more() {
    let server = Server::new().await;
    let request = |size: usize| {
        let filler = "x".repeat(size);
        Request::builder()
            .method("POST")
            .uri("/v2/sandboxes")
            .header("X-API-KEY", &server.key)
            .body(Body::from(format!(
                r#"{{"templateID":"base","unknown":"{filler}"}}"#
            )))
            .unwrap()
    };
    let answer = server.run(request(15 << 20)).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    let answer = server.run(request(16 << 20)).await;
    assert_eq!(
        answer.text(),
        r#"413 {"code":413,"error_code":"body_too_large","message":"the request body is larger than 16 MiB"}"#
    );
}

#[tokio::test]
async fn a_browser_is_told_what_it_may_do() {
    let server = Server::new().await;
    let preflight = [
        ("Origin", "https://app.example"),
        ("Access-Control-Request-Method", "POST"),
        (
            "Access-Control-Request-Headers",
            "x-api-key,content-type,sdk_runtime",
        ),
    ];
    let answer = server.send_with(&preflight, "OPTIONS /v2/sandboxes").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let methods = answer.header("access-control-allow-methods").unwrap();
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
        assert!(methods.contains(method), "{methods}");
    }
    let allowed = answer.header("access-control-allow-headers").unwrap();
    for header in [
        "x-api-key",
        "content-type",
        "sdk_runtime",
        "lang_version",
        "authorization",
    ] {
        assert!(allowed.contains(header), "{allowed}");
    }

    // The answer itself, also a refusal, is readable for the page.
    let headers = [("Origin", "https://app.example")];
    let answer = server.send_with(&headers, "GET /v2/sandboxes").await;
    assert_eq!(answer.status, 401);
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let exposed = answer.header("access-control-expose-headers").unwrap();
    for header in ["x-next-token", "x-total-running", "retry-after"] {
        assert!(exposed.contains(header), "{exposed}");
    }
}
