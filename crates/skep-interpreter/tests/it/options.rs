//! Options beyond the contract.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use skep_kernels::Usage;

use crate::caller::{interpreter, lines, piece};

#[tokio::test(start_paused = true)]
async fn an_execution_over_its_time_ends_with_one_error_and_keeps_its_variables() {
    let interpreter = interpreter();
    interpreter.run("remember me").await;
    let body = json!({"code": "wait", "skep": {"limits": {"time_seconds": 1.5}}});
    let answer = lines(interpreter.execute(body, None).await.into_body()).await;
    assert_eq!(
        answer[1..],
        [
            json!({
                "type": "error",
                "name": "ExecutionTimeout",
                "value": "The execution took longer than 1.5 s",
                "traceback": "",
                "kind": "timeout",
            }),
            json!({"type": "end_of_execution"}),
        ]
    );
    assert_eq!(interpreter.run("recall").await[1]["text"], "me\n");
}

#[tokio::test]
async fn whoever_interrupts_an_execution_reads_how_it_ended() {
    let interpreter = interpreter();
    let response = interpreter.execute(json!({"code": "wait"}), None).await;
    let id = response.headers()["x-skep-execution"].to_str().unwrap();
    let path = format!("/executions/{id}/interrupt");
    let (status, _) = interpreter.call("POST", &path).await;
    assert_eq!(status, StatusCode::OK);
    let answer = lines(response.into_body()).await;
    let error = answer.iter().find(|line| line["type"] == "error").unwrap();
    assert_eq!(error["kind"], "interrupted");
    let (status, _) = interpreter.call("POST", &path).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "it has ended");
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_does_not_yield_says_that_its_variables_are_lost() {
    let interpreter = interpreter();
    let body = json!({"code": "stuck", "skep": {"limits": {"time_seconds": 1}}});
    let answer = lines(interpreter.execute(body, None).await.into_body()).await;
    let error = answer.iter().find(|line| line["type"] == "error").unwrap();
    let lost = error["traceback"].as_str().unwrap();
    assert!(lost.contains("variables are lost"), "{lost}");
    assert_eq!(
        interpreter.run("say a").await[0],
        json!({"type": "context_restarted", "reason": "interrupt_ignored"})
    );
}

#[tokio::test]
async fn what_was_marked_is_masked_in_lines_and_kept_by_nobody_else() {
    let interpreter = interpreter();
    let (status, made) = interpreter
        .call_with(
            "POST",
            "/contexts",
            r#"{"skep":{"secrets":["of-context"]}}"#,
        )
        .await;
    assert_eq!(status, StatusCode::OK);
    let made: Value = serde_json::from_str(&made).unwrap();
    let body = json!({
        "code": "say of-context\nenv KEY\nraise Error of-context",
        "context_id": made["id"],
        "env_vars": {"KEY": "of-execution"},
        "skep": {"secret_envs": ["KEY"]},
    });
    let answer = lines(interpreter.execute(body, None).await.into_body()).await;
    assert_eq!(answer[1]["text"], "***\n");
    assert_eq!(answer[2]["text"], "***\n");
    assert_eq!(answer[3]["value"], "***");
    let default = interpreter.run("say of-context of-execution").await;
    assert_eq!(default[1]["text"], "of-context of-execution\n");
}

#[tokio::test]
async fn a_context_whose_secrets_are_not_accepted_is_not_made() {
    let interpreter = interpreter();
    let (status, _) = interpreter
        .call_with("POST", "/contexts", r#"{"skep":{"secrets":["short"]}}"#)
        .await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let (_, listed) = interpreter.call("GET", "/contexts").await;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed.len(), 1);
}

#[tokio::test]
async fn what_runs_can_be_looked_at_by_whoever_has_the_token() {
    let interpreter = interpreter();
    let running = interpreter.execute(json!({"code": "wait"}), None).await;
    let id = running.headers()["x-skep-execution"]
        .to_str()
        .unwrap()
        .to_owned();
    let mut body = running.into_body();
    piece(&mut body).await;
    let waiting = interpreter.execute(json!({"code": "wait"}), None).await;
    *interpreter.kernels.meter.usage.lock() = Usage {
        processor: Duration::from_millis(250),
        memory: Some(77),
        ..Usage::default()
    };

    let (status, all) = interpreter.call("GET", "/executions").await;
    assert_eq!(status, StatusCode::OK);
    let all: Vec<Value> = serde_json::from_str(&all).unwrap();
    let states = |state: &str| all.iter().filter(|one| one["state"] == state).count();
    assert_eq!((states("running"), states("queued")), (1, 1));

    let (status, one) = interpreter
        .call("GET", &format!("/executions/{id}/usage"))
        .await;
    assert_eq!(status, StatusCode::OK);
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["id"], id.as_str());
    assert_eq!(
        (&one["cpu_us"], &one["memory_bytes"]),
        (&json!(250_000), &json!(77))
    );
    drop((body, waiting));

    let (status, _) = interpreter.call("GET", "/executions/nobody/usage").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let stranger = http::Request::get("/executions").body(axum::body::Body::empty());
    let refused = interpreter.send(stranger.unwrap()).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
}
