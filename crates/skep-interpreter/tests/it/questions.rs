//! Questions about code that is not run.

use axum::body::Body;
use http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::caller::{Interpreter, TRAFFIC_TOKEN, interpreter};

const QUESTIONS: [(&str, &str); 4] = [
    ("POST", "complete"),
    ("POST", "inspect"),
    ("POST", "is_complete"),
    ("GET", "info"),
];

async fn context(interpreter: &Interpreter) -> String {
    let (_, body) = interpreter.call("GET", "/contexts").await;
    let contexts: Value = serde_json::from_str(&body).unwrap();
    contexts[0]["id"].as_str().unwrap().to_owned()
}

async fn ask(interpreter: &Interpreter, question: &str, body: Value) -> (StatusCode, Value) {
    let path = format!("/contexts/{}/{question}", context(interpreter).await);
    let method = if question == "info" { "GET" } else { "POST" };
    let (status, text) = interpreter.call_with(method, &path, body.to_string()).await;
    (status, serde_json::from_str(&text).unwrap_or(json!(text)))
}

#[tokio::test]
async fn every_question_has_its_answer() {
    let interpreter = interpreter();
    let code = json!({"code": "re", "cursor": 2});
    assert_eq!(
        ask(&interpreter, "complete", code.clone()).await,
        (
            StatusCode::OK,
            json!({"matches": ["recall", "remember"], "cursor_start": 0, "cursor_end": 2})
        )
    );
    assert_eq!(
        ask(&interpreter, "inspect", code).await,
        (
            StatusCode::OK,
            json!({"found": true, "data": {"text/plain": "an instruction"}})
        )
    );
    assert_eq!(
        ask(&interpreter, "is_complete", json!({"code": "say"})).await,
        (StatusCode::OK, json!({"status": "complete", "indent": ""}))
    );
    let (status, info) = ask(&interpreter, "info", json!(null)).await;
    assert_eq!(
        (status, &info["language"]),
        (StatusCode::OK, &json!("fake"))
    );
}

#[tokio::test]
async fn only_who_may_run_code_may_ask() {
    let interpreter = interpreter();
    let id = context(&interpreter).await;
    for (method, question) in QUESTIONS {
        // The traffic token opens contexts, but to answer a question code may run.
        for token in [None, Some(("e2b-traffic-access-token", TRAFFIC_TOKEN))] {
            let mut request = Request::builder()
                .method(method)
                .uri(format!("/contexts/{id}/{question}"));
            if let Some((name, value)) = token {
                request = request.header(name, value);
            }
            let body = Body::from(r#"{"code": "re"}"#);
            let response = interpreter.send(request.body(body).unwrap()).await;
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{question}");
        }
    }
}

#[tokio::test]
async fn a_question_that_cannot_be_put_is_refused_with_the_reason() {
    let interpreter = interpreter();
    let (status, answer) = ask(&interpreter, "complete", json!({"cursor": 1})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        answer.to_string().contains("missing field `code`"),
        "{answer}"
    );
    let (status, answer) = ask(&interpreter, "complete", json!({"code": "", "curser": 1})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.to_string().contains("curser"), "{answer}");
    let (status, answer) = ask(&interpreter, "complete", json!({"code": "raise"})).await;
    assert_eq!(
        (status, answer),
        (
            StatusCode::UNPROCESSABLE_ENTITY,
            json!({"detail": "ValueError: no"})
        )
    );
    for (method, question) in QUESTIONS {
        let path = format!("/contexts/nowhere/{question}");
        let called = interpreter
            .call_with(method, &path, r#"{"code": ""}"#)
            .await;
        assert_eq!(called.0, StatusCode::NOT_FOUND, "{question}");
    }
}
