//! Forks, checkpoints and the way back.

use axum::body::Body;
use http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::caller::{Interpreter, TRAFFIC_TOKEN, interpreter, lines};

async fn context(interpreter: &Interpreter) -> String {
    let (_, body) = interpreter.call("GET", "/contexts").await;
    let contexts: Value = serde_json::from_str(&body).unwrap();
    contexts[0]["id"].as_str().unwrap().to_owned()
}

async fn call(
    interpreter: &Interpreter,
    method: &str,
    path: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let (status, text) = interpreter.call_with(method, path, body).await;
    (status, serde_json::from_str(&text).unwrap_or(json!(text)))
}

async fn recall(interpreter: &Interpreter, context: &str) -> Value {
    let body = json!({"code": "recall", "context_id": context});
    let response = interpreter.execute(body, None).await;
    let lines = lines(response.into_body()).await;
    let printed = lines.iter().find(|line| line["type"] == "stdout");
    printed.map_or(Value::Null, |line| line["text"].clone())
}

#[tokio::test]
async fn a_context_is_forked_kept_and_gone_back_to() {
    let interpreter = interpreter();
    let id = context(&interpreter).await;
    interpreter.run("remember apples").await;
    let path = format!("/contexts/{id}/checkpoints");
    let (status, made) = call(&interpreter, "POST", &path, &Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    let created_at = made["created_at"].as_str().unwrap().to_owned();
    assert!(created_at.as_str() > "2026", "{created_at}");
    let first = |current: bool| json!({"id": "1", "parent_id": null, "created_at": created_at, "current": current, "lost": null});
    assert_eq!(made, first(true));

    interpreter.run("remember pears").await;
    let body = json!({"files": false});
    let fork = format!("/contexts/{id}/fork");
    let (status, fork) = call(&interpreter, "POST", &fork, &body).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&fork["language"], &fork["cwd"]),
        (&json!("python"), &json!("/home/user"))
    );

    let back = format!("/contexts/{id}/rollback");
    let body = json!({"checkpoint_id": "1"});
    let (status, done) = call(&interpreter, "POST", &back, &body).await;
    assert_eq!((status, done), (StatusCode::OK, Value::Null));
    assert_eq!(recall(&interpreter, &id).await, "apples\n");
    let fork = fork["id"].as_str().unwrap();
    assert_eq!(recall(&interpreter, fork).await, "pears\n");

    call(&interpreter, "POST", &path, &Value::Null).await;
    let (_, listed) = call(&interpreter, "GET", &path, &Value::Null).await;
    assert_eq!(listed[0], first(false));
    assert_eq!(
        (&listed[1]["parent_id"], &listed[1]["current"]),
        (&json!("1"), &json!(true))
    );
    interpreter.kernels.kill_newest();
    let (_, listed) = call(&interpreter, "GET", &path, &Value::Null).await;
    assert_eq!(listed[1]["lost"], "killed");
    let (status, told) = call(&interpreter, "POST", &back, &json!({"checkpoint_id": "2"})).await;
    let words = "checkpoint 2 is lost: its process has ended";
    assert_eq!((status, told), (StatusCode::GONE, json!(words)));
    for status in [StatusCode::OK, StatusCode::NOT_FOUND] {
        let removed = call(&interpreter, "DELETE", &format!("{path}/1"), &Value::Null).await;
        assert_eq!(removed.0, status);
    }
    let (_, notebook) = interpreter
        .call("GET", &format!("/contexts/{id}/notebook"))
        .await;
    assert!(
        notebook.contains("rolled back to its checkpoint 1"),
        "{notebook}"
    );
}

#[tokio::test]
async fn what_is_not_copied_is_refused_by_name() {
    let interpreter = interpreter();
    let (_, bash) = call(
        &interpreter,
        "POST",
        "/contexts",
        &json!({"language": "bash"}),
    )
    .await;
    let bash = bash["id"].as_str().unwrap();
    let python = context(&interpreter).await;
    let unsupported =
        "contexts of language bash cannot be forked: their kernel does not copy itself";
    let files =
        "files are not copied with a context: fork, snapshot or roll back the sandbox for that";
    for (context, action, body, status, words) in [
        (
            bash,
            "fork",
            Value::Null,
            StatusCode::NOT_IMPLEMENTED,
            unsupported,
        ),
        (
            bash,
            "checkpoints",
            Value::Null,
            StatusCode::NOT_IMPLEMENTED,
            unsupported,
        ),
        (
            &python,
            "fork",
            json!({"files": true}),
            StatusCode::NOT_IMPLEMENTED,
            files,
        ),
        (
            &python,
            "checkpoints",
            json!({"files": true}),
            StatusCode::NOT_IMPLEMENTED,
            files,
        ),
        (
            &python,
            "rollback",
            json!({"files": true, "checkpoint_id": "1"}),
            StatusCode::NOT_IMPLEMENTED,
            files,
        ),
        (
            &python,
            "rollback",
            json!({"checkpoint_id": "1"}),
            StatusCode::NOT_FOUND,
            "checkpoint 1 not found",
        ),
        (
            "nowhere",
            "fork",
            Value::Null,
            StatusCode::NOT_FOUND,
            "Context nowhere not found",
        ),
    ] {
        let path = format!("/contexts/{context}/{action}");
        let answer = call(&interpreter, "POST", &path, &body).await;
        assert_eq!(answer, (status, json!(words)), "{action}");
    }
    for (action, body) in [
        ("fork", "{"),
        ("checkpoints", r#"{"file": 1}"#),
        ("rollback", ""),
    ] {
        let path = format!("/contexts/{python}/{action}");
        let (status, _) = interpreter.call_with("POST", &path, body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{action}");
    }
}

#[tokio::test]
async fn who_may_use_contexts_may_copy_them() {
    let interpreter = interpreter();
    let id = context(&interpreter).await;
    for (method, action) in [
        ("POST", "fork"),
        ("POST", "checkpoints"),
        ("GET", "checkpoints"),
        ("POST", "rollback"),
        ("DELETE", "checkpoints/1"),
    ] {
        for (token, is_refused) in [("wrong", true), (TRAFFIC_TOKEN, false)] {
            let request = Request::builder()
                .method(method)
                .uri(format!("/contexts/{id}/{action}"))
                .header("e2b-traffic-access-token", token)
                .body(Body::empty());
            let response = interpreter.send(request.unwrap()).await;
            let refused = response.status() == StatusCode::UNAUTHORIZED;
            assert_eq!(refused, is_refused, "{method} {action}");
        }
    }
}
