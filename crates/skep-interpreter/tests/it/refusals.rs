//! What is refused, and how.

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::json;

use crate::caller::interpreter;

#[tokio::test]
async fn code_is_run_only_for_those_who_have_the_token() {
    let interpreter = interpreter();
    for token in [None, Some(""), Some("sandbox-toke"), Some("other")] {
        let mut request = Request::post("/execute");
        if let Some(token) = token {
            request = request.header("x-access-token", token);
        }
        let body = Body::from(json!({"code": "say a"}).to_string());
        let response = interpreter.send(request.body(body).unwrap()).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{token:?}");
    }
    // The clients do not show it here.
    let request = Request::get("/contexts").body(Body::empty()).unwrap();
    assert_eq!(interpreter.send(request).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn refusals_have_the_shapes_of_the_contract() {
    let interpreter = interpreter();
    for (method, path, body, status, text) in [
        (
            "POST",
            "/execute",
            r#"{"code":"","context_id":"a","language":"python"}"#,
            400,
            "Only one of context_id or language can be provided",
        ),
        (
            "POST",
            "/execute",
            r#"{"code":"","context_id":"a"}"#,
            404,
            "Context a not found",
        ),
        (
            "POST",
            "/execute",
            r#"{"code":5}"#,
            422,
            r#"{"detail":[{"input":5,"loc":["body","code"],"msg":"Input should be a valid string","type":"string_type"}]}"#,
        ),
        (
            "GET",
            "/contexts/a",
            "",
            405,
            r#"{"detail":"Method Not Allowed"}"#,
        ),
        ("GET", "/nothing", "", 404, r#"{"detail":"Not Found"}"#),
        ("HEAD", "/health", "", 405, ""),
        (
            "POST",
            "/contexts/a/restart",
            "",
            404,
            "Context a not found",
        ),
    ] {
        let answer = interpreter.call_with(method, path, body).await;
        let expected = (StatusCode::from_u16(status).unwrap(), text.to_owned());
        assert_eq!(answer, expected, "{method} {path} {body}");
    }
}

#[tokio::test]
async fn a_browser_may_call_from_anywhere() {
    let interpreter = interpreter();
    let request = Request::options("/execute")
        .header("origin", "https://example.com")
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "content-type,x-access-token",
        );
    let response = interpreter.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("access-control-allow-origin"), "*");
    assert_eq!(header("access-control-max-age"), "600");
    assert_eq!(
        header("access-control-allow-headers"),
        "content-type,x-access-token"
    );
    response.into_body().collect().await.unwrap();
}
