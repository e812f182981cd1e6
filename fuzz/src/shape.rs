//! The form that every answer of the agent must have, whatever was asked.

use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::Value;

use crate::stage::Answer;

/// Codes of the Connect protocol that mean that we, not the caller, have failed.
const OUR_FAILURES: [&str; 4] = ["unknown", "internal", "data_loss", "unavailable"];

/// The one mistake of callers that the Connect protocol itself wants to be called internal.
const COMPRESSED: &str = "received compressed message without";

/// Panics unless `answer` is a proper answer to a request with this head.
pub(crate) fn check(asked: &Parts, answer: &Answer) {
    let status = answer.status;
    if status.is_server_error() {
        let is_contract = match status {
            StatusCode::NOT_IMPLEMENTED | StatusCode::INSUFFICIENT_STORAGE => true,
            StatusCode::GATEWAY_TIMEOUT => ["connect-timeout-ms", "grpc-timeout"]
                .iter()
                .any(|name| asked.headers.contains_key(*name)),
            _ => false,
        };
        assert!(is_contract, "{asked:?} was answered {answer:?}");
    }
    let kind = answer.headers.get(http::header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    if kind.starts_with(b"application/connect+") {
        assert_eq!(status, StatusCode::OK, "streams say what went wrong inside");
        stream(answer);
    } else if kind.starts_with(b"application/grpc") {
        assert_eq!(
            status,
            StatusCode::OK,
            "gRPC says what went wrong in trailers"
        );
    } else if (status.is_client_error() || status.is_server_error()) && asked.method != Method::HEAD
    {
        error(asked, answer);
    }
}

/// `{"code": 404, "message": "…"}`, or `{"code": "not_found"}` from a procedure.
fn error(asked: &Parts, answer: &Answer) {
    let body: Value = serde_json::from_slice(&answer.body)
        .unwrap_or_else(|error| panic!("{asked:?} was answered {answer:?}: {error}"));
    match &body["code"] {
        Value::Number(code) => {
            assert_eq!(code.as_u64(), Some(answer.status.as_u16().into()));
            assert!(body["message"].is_string(), "{body}");
        }
        // The library calls some mistakes of callers unknown, but with the right status.
        Value::String(code) if answer.status.is_client_error() => assert!(!code.is_empty()),
        Value::String(code) => is_not_our_failure(code, &body),
        _ => panic!("an error without a code: {answer:?}"),
    }
}

fn is_not_our_failure(code: &str, body: &Value) {
    if body["message"]
        .as_str()
        .is_some_and(|text| text.contains(COMPRESSED))
    {
        return;
    }
    assert!(!OUR_FAILURES.contains(&code), "{body}");
    assert!(
        body["message"].is_string() || body["message"].is_null(),
        "{body}"
    );
}

/// Whole envelopes, of which the last one, and no other, ends the stream.
fn stream(answer: &Answer) {
    let mut rest = &answer.body[..];
    let mut has_ended = false;
    while !rest.is_empty() {
        assert!(!has_ended, "something follows the end: {answer:?}");
        let (head, behind) = rest
            .split_first_chunk::<5>()
            .unwrap_or_else(|| panic!("half an envelope: {answer:?}"));
        let [flags, length @ ..] = *head;
        let length = u32::from_be_bytes(length) as usize;
        let payload = behind
            .get(..length)
            .unwrap_or_else(|| panic!("half an envelope: {answer:?}"));
        rest = &behind[length..];
        has_ended = flags & 2 != 0;
        if has_ended {
            let end: Value = serde_json::from_slice(payload).expect("an end is JSON");
            if let Some(code) = end["error"]["code"].as_str() {
                is_not_our_failure(code, &end["error"]);
            }
        }
    }
    assert_eq!(has_ended, answer.is_complete, "the end is said: {answer:?}");
}
