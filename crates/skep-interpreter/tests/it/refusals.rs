//! Refusals, and their form.

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::caller::{Interpreter, TOKEN, TRAFFIC_TOKEN, interpreter, open_interpreter};

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
}

#[tokio::test]
async fn a_body_is_not_waited_for_before_the_token_is_known() {
    let endless = || {
        Body::from_stream(futures_util::stream::pending::<
            Result<Vec<u8>, std::io::Error>,
        >())
    };
    let soon = std::time::Duration::from_secs(20);
    for path in ["/execute", "/contexts"] {
        let request = Request::post(path).body(endless()).unwrap();
        let (stranger, owner) = (interpreter(), open_interpreter());
        let refused = tokio::time::timeout(soon, stranger.send(request)).await;
        assert_eq!(
            refused.unwrap().status(),
            StatusCode::UNAUTHORIZED,
            "{path}"
        );
        // Whoever may come in is listened to.
        let request = Request::post(path).body(endless()).unwrap();
        let waiting = owner.send(request);
        tokio::select! {
            _ = waiting => panic!("{path} answered without a body"),
            () = tokio::task::yield_now() => {}
        }
    }
}

/// Tries everything that can be done to contexts, and returns the statuses and whether what was
/// remembered in the default context is still there.
async fn attack_contexts(
    interpreter: &Interpreter,
    shown: &[(&str, &str)],
) -> (Vec<StatusCode>, bool) {
    interpreter.run("remember me").await;
    let (_, listed) = interpreter.call("GET", "/contexts").await;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    let mut statuses = Vec::new();
    for (method, path) in [
        ("GET", "/contexts".to_owned()),
        ("POST", "/contexts".to_owned()),
        ("POST", format!("/contexts/{id}/restart")),
        ("DELETE", format!("/contexts/{id}")),
    ] {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in shown {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from("{}")).unwrap();
        statuses.push(interpreter.send(request).await.status());
    }
    let lines = interpreter.run("recall").await;
    (statuses, lines[1]["name"] != "NameError")
}

#[tokio::test]
async fn contexts_are_opened_by_a_token_alone() {
    let refused = (vec![StatusCode::UNAUTHORIZED; 4], true);
    let done = (vec![StatusCode::OK; 4], false);
    for shown in [
        &[][..],
        &[("x-access-token", "")],
        &[("e2b-traffic-access-token", "")],
        &[("e2b-traffic-access-token", "traffic-toke")],
        // Each token in the other's place.
        &[("x-access-token", TRAFFIC_TOKEN)],
        &[("e2b-traffic-access-token", TOKEN)],
    ] {
        let answer = attack_contexts(&interpreter(), shown).await;
        assert_eq!(answer, refused, "{shown:?}");
    }
    for shown in [
        ("x-access-token", TOKEN),
        ("e2b-traffic-access-token", TRAFFIC_TOKEN),
    ] {
        let answer = attack_contexts(&interpreter(), &[shown]).await;
        assert_eq!(answer, done, "{shown:?}");
    }
    assert_eq!(attack_contexts(&open_interpreter(), &[]).await, done);
}

#[tokio::test]
async fn the_traffic_token_runs_no_code_and_reads_none() {
    let interpreter = interpreter();
    let (_, listed) = interpreter.call("GET", "/contexts").await;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let notebook = format!("/contexts/{}/notebook", listed[0]["id"].as_str().unwrap());
    for (method, path) in [
        ("POST", "/execute"),
        ("GET", "/executions"),
        ("GET", "/executions/a"),
        ("GET", "/executions/a/usage"),
        ("POST", "/executions/a/interrupt"),
        ("GET", &notebook),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("e2b-traffic-access-token", TRAFFIC_TOKEN)
            .body(Body::from(json!({"code": "say a"}).to_string()))
            .unwrap();
        let status = interpreter.send(request).await.status();
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
    }
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

#[tokio::test]
async fn a_sandbox_without_an_interpreter_says_so_whatever_is_asked() {
    let ask = async |routes: axum::Router, method: &str, path: &str| {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("x-access-token", TOKEN)
            .body(Body::from(json!({"code": "say a"}).to_string()));
        let response = tower::ServiceExt::oneshot(routes, request.unwrap()).await;
        let (parts, body) = response.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, String::from_utf8(body.to_vec()).unwrap())
    };
    for (method, path) in [
        ("POST", "/execute"),
        ("GET", "/contexts"),
        ("POST", "/contexts"),
        ("GET", "/health"),
        ("POST", "/skep/cancel"),
    ] {
        let (status, body) = ask(skep_interpreter::absent(), method, path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{method} {path}");
        assert!(body.contains("has no interpreter"), "{body}");
    }
}
