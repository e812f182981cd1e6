//! Answers of `POST /execute`, line by line.

use std::sync::atomic::Ordering;

use http::StatusCode;
use serde_json::{Value, json};

use crate::caller::{interpreter, lines, piece};

const NAME: &str = "0123456789abcdef0123456789abcdef";

fn end() -> Value {
    json!({"type": "end_of_execution"})
}

#[tokio::test]
async fn an_execution_is_answered_line_by_line() {
    let interpreter = interpreter();
    assert_eq!(
        interpreter.run("say a\nvalue 'it'").await,
        [
            json!({"type": "number_of_executions", "execution_count": 1}),
            json!({"type": "stdout", "text": "a\n", "timestamp": "1970-01-01T00:00:01+00:00"}),
            json!({"type": "result", "text": "it", "extra": {}, "is_main_result": true}),
            end(),
        ]
    );
}

#[tokio::test]
async fn an_exception_is_data() {
    let interpreter = interpreter();
    assert_eq!(
        interpreter
            .run("raise NameError name 'x' is not defined")
            .await[1..],
        [
            json!({
                "type": "error",
                "name": "NameError",
                "value": "name 'x' is not defined",
                "traceback": "NameError: name 'x' is not defined",
                "kind": "runtime",
            }),
            end(),
        ]
    );
}

#[tokio::test]
async fn the_receipt_stands_before_the_end() {
    let interpreter = interpreter();
    let (status, text) = interpreter
        .call_with("POST", "/execute?source=ci", r#"{"code":"say a"}"#)
        .await;
    assert_eq!(status, StatusCode::OK);
    let line: Vec<&str> = text.lines().collect();
    let receipt: Value = serde_json::from_str(line[line.len() - 2]).unwrap();
    assert_eq!(receipt["type"], "receipt");
    assert_eq!(receipt["outcome"], "ok");
    assert_eq!(receipt["cpu_us"], 1000);
    assert!(receipt["wall_us"].is_u64() && receipt["queued_us"].is_u64());
}

#[tokio::test]
async fn the_death_of_a_kernel_is_one_error_and_the_next_answer_says_what_was_lost() {
    let interpreter = interpreter();
    let answer = interpreter.run("say bye\ndie 3").await;
    let errors: Vec<_> = answer
        .iter()
        .filter(|line| line["type"] == "error")
        .collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0]["name"], "ContextRestarting");
    assert_eq!(errors[0]["value"], "Context was restarted");
    assert_eq!(errors[0]["kind"], "kernel_died");
    assert_eq!(answer.last(), Some(&end()));
    assert_eq!(
        interpreter.run("say a").await[..2],
        [
            json!({"type": "context_restarted", "reason": "kernel_died"}),
            json!({"type": "number_of_executions", "execution_count": 1}),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_or_waiting_execution_gives_signs_of_life() {
    let interpreter = interpreter();
    let first = interpreter.execute(json!({"code": "wait"}), None).await;
    let second = interpreter.execute(json!({"code": "say a"}), None).await;
    let (mut first, mut second) = (first.into_body(), second.into_body());
    assert!(piece(&mut first).await.contains("number_of_executions"));
    for _ in 0..3 {
        assert_eq!(piece(&mut first).await, "{\"type\":\"keepalive\"}\n");
        assert_eq!(piece(&mut second).await, "{\"type\":\"keepalive\"}\n");
    }
    drop(first);
    assert_eq!(lines(second).await.last(), Some(&end()));
}

#[tokio::test]
async fn the_proxy_cancels_by_name_and_frees_the_context() {
    let interpreter = interpreter();
    interpreter.run("remember me").await;
    let answer = interpreter
        .execute(json!({"code": "wait"}), Some(NAME))
        .await;
    let mut body = answer.into_body();
    piece(&mut body).await;
    // The connection breaks first, and only the proxy knows why.
    drop(body);
    let request = http::Request::post("/skep/cancel").header("x-skep-request", NAME);
    let cancel = || request.body(axum::body::Body::empty()).unwrap();
    assert_eq!(
        interpreter.send(cancel()).await.status(),
        StatusCode::NO_CONTENT
    );
    let answer = interpreter.run("recall").await;
    assert_eq!(answer[1]["text"], "me\n");
    assert_eq!(interpreter.kernels.starts.load(Ordering::SeqCst), 1);
    assert_eq!(
        interpreter.call("POST", "/skep/cancel").await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn variables_are_given_for_one_execution() {
    let interpreter = interpreter();
    let value = "'\"\\\n\u{2028}😀";
    let body = json!({"code": "env A", "env_vars": {"A": value}, "context_id": null});
    let answer = interpreter.execute(body, None).await;
    assert_eq!(
        lines(answer.into_body()).await[1]["text"],
        format!("{value}\n")
    );
    assert_eq!(interpreter.run("env A").await[1]["text"], "unset\n");
}

#[tokio::test]
async fn a_caller_whose_connection_broke_can_ask_for_the_rest() {
    let interpreter = interpreter();
    let answer = interpreter
        .execute(json!({"code": "wait"}), Some(NAME))
        .await;
    let id = answer.headers()["x-skep-execution"]
        .to_str()
        .unwrap()
        .to_owned();
    let mut body = answer.into_body();
    piece(&mut body).await;
    drop(body);
    let (_, listed) = interpreter.call("GET", "/contexts").await;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let restart = format!("/contexts/{}/restart", listed[0]["id"].as_str().unwrap());
    interpreter.call("POST", &restart).await;
    let path = format!("/executions/{id}");
    let (status, rest) = interpreter.call("GET", &path).await;
    assert_eq!(status, StatusCode::OK);
    assert!(rest.contains("UnexpectedEndOfExecution"), "{rest}");
    let gone = (StatusCode::NOT_FOUND, format!("Execution {id} not found"));
    assert_eq!(interpreter.call("GET", &path).await, gone);
}
