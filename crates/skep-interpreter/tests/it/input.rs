//! Code that asks for input, and callers that answer.

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::caller::{Interpreter, TRAFFIC_TOKEN, interpreter, lines};

/// Runs `ask Name?` up to its question, and returns its id and the rest of its answer.
async fn asked(interpreter: &Interpreter) -> (String, Body) {
    let body = json!({"code": "ask Name?", "skep": {"allow_stdin": true}});
    let response = interpreter.execute(body, None).await;
    let id = response.headers()["x-skep-execution"].to_str().unwrap();
    let (id, mut body) = (id.to_owned(), response.into_body());
    let mut text = String::new();
    while !text.contains("input_request") {
        let frame = body.frame().await.unwrap().unwrap();
        text += std::str::from_utf8(&frame.into_data().unwrap()).unwrap();
    }
    let question = text.lines().last().unwrap();
    let question: Value = serde_json::from_str(question).unwrap();
    let expected = json!({"type": "input_request", "prompt": "Name?", "password": false});
    assert_eq!(question, expected);
    (id, body)
}

async fn answer(interpreter: &Interpreter, id: &str, body: &Value) -> (StatusCode, String) {
    let path = format!("/executions/{id}/input");
    interpreter.call_with("POST", &path, body.to_string()).await
}

#[tokio::test]
async fn a_caller_that_said_so_is_asked_and_answers() {
    let interpreter = interpreter();
    let (id, body) = asked(&interpreter).await;
    let told = answer(&interpreter, &id, &json!({"value": "Ada"})).await;
    assert_eq!(told, (StatusCode::OK, "null".to_owned()));
    assert_eq!(lines(body).await[0]["text"], "got Ada\n");
    let (status, _) = answer(&interpreter, &id, &json!({"value": "Ada"})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn null_is_the_end_of_input() {
    let interpreter = interpreter();
    let (id, body) = asked(&interpreter).await;
    let (status, _) = answer(&interpreter, &id, &json!({"value": null})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(lines(body).await[0]["name"], "EOFError");
}

#[tokio::test]
async fn the_sdks_whose_requests_do_not_say_so_are_refused_as_ever() {
    let said = interpreter().run("ask Name?").await;
    assert_eq!(said[1]["name"], "StdinNotImplementedError");
    assert!(!said.iter().any(|line| line["type"] == "input_request"));
}

#[tokio::test]
async fn an_answer_to_nothing_or_of_the_wrong_shape_is_refused_and_never_shown() {
    let interpreter = interpreter();
    let response = interpreter.execute(json!({"code": "wait"}), None).await;
    let id = response.headers()["x-skep-execution"].to_str().unwrap();
    let (status, text) = answer(&interpreter, id, &json!({"value": "Ada"})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{text}");
    for body in [
        json!({}),
        json!({"value": ["hunter22"]}),
        json!(["hunter22"]),
    ] {
        let (status, text) = answer(&interpreter, id, &body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{text}");
    }
    let (_, text) = answer(&interpreter, id, &json!({"value": ["hunter22"]})).await;
    assert!(!text.contains("hunter22"), "{text}");
}

#[tokio::test]
async fn only_who_may_run_code_may_answer() {
    let interpreter = interpreter();
    let (id, _body) = asked(&interpreter).await;
    for (name, token) in [
        ("x-access-token", "wrong"),
        ("e2b-traffic-access-token", TRAFFIC_TOKEN),
    ] {
        let request = Request::post(format!("/executions/{id}/input"))
            .header(name, token)
            .body(Body::from(r#"{"value":"Eve"}"#))
            .unwrap();
        let response = interpreter.send(request).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    }
}
