//! The context routes.

use std::sync::atomic::Ordering;

use http::StatusCode;
use serde_json::{Value, json};

use crate::caller::{interpreter, lines};

#[tokio::test]
async fn contexts_are_made_listed_restarted_and_removed() {
    let interpreter = interpreter();
    let (status, text) = interpreter
        .call_with("POST", "/contexts", r#"{"cwd":"/root","language":null}"#)
        .await;
    assert_eq!(status, StatusCode::OK);
    let made: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&made["language"], &made["cwd"]),
        (&json!("python"), &json!("/root"))
    );
    let id = made["id"].as_str().unwrap();

    let (_, text) = interpreter.call("GET", "/contexts").await;
    let listed: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!((listed.len(), listed.last()), (2, Some(&made)));

    let code = |code: &str| json!({"code": code, "context_id": id});
    let answer = interpreter.execute(code("remember me"), None).await;
    lines(answer.into_body()).await;
    let path = format!("/contexts/{id}/restart");
    assert_eq!(
        interpreter.call("POST", &path).await,
        (StatusCode::OK, "null".to_owned())
    );
    let answer = interpreter.execute(code("recall"), None).await;
    assert_eq!(lines(answer.into_body()).await[1]["name"], "NameError");

    let path = format!("/contexts/{id}");
    assert_eq!(
        interpreter.call("DELETE", &path).await,
        (StatusCode::OK, "null".to_owned())
    );
    let gone = (StatusCode::NOT_FOUND, format!("Context {id} not found"));
    assert_eq!(interpreter.call("DELETE", &path).await, gone);
    assert_eq!(
        interpreter.execute(code("say a"), None).await.status(),
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_removed_default_context_is_made_again() {
    let interpreter = interpreter();
    let (_, text) = interpreter.call("GET", "/contexts").await;
    let listed: Vec<Value> = serde_json::from_str(&text).unwrap();
    let path = format!("/contexts/{}", listed[0]["id"].as_str().unwrap());
    assert_eq!(interpreter.call("DELETE", &path).await.0, StatusCode::OK);
    assert_eq!(interpreter.run("say a").await[1]["text"], "a\n");
    assert_eq!(
        interpreter.call("DELETE", "/contexts/default").await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn an_unknown_language_is_named() {
    let interpreter = interpreter();
    let expected = "Failed to create context: {\"message\":\"The 'ruby' kernel is not available. Please pick another suitable kernel instead, or install that kernel. Installed: python, bash.\",\"short_message\":\"ruby not found\"}";
    for (path, body) in [
        ("/contexts", r#"{"language":"Ruby"}"#),
        ("/execute", r#"{"code":"","language":"ruby"}"#),
    ] {
        let answer = interpreter.call_with("POST", path, body).await;
        assert_eq!(
            answer,
            (StatusCode::INTERNAL_SERVER_ERROR, expected.to_owned()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn health_waits_for_the_kernel_and_says_why_there_is_none() {
    let interpreter = interpreter();
    assert_eq!(
        interpreter.call("GET", "/health").await,
        (StatusCode::OK, "\"OK\"".to_owned())
    );
    interpreter.kernels.broken.store(true, Ordering::SeqCst);
    interpreter.run("die 1").await;
    let (status, text) = interpreter.call("GET", "/health").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.contains("it is broken"), "{text}");
}
