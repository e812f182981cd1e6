//! Any request to the agent, whole, as text.
//!
//! Whatever it is, it is answered in time and in shape. What is refused has changed nothing. And
//! with a token in the way nothing happens at all without it.

use http::Method;
use skep_wire::headers;

use crate::http_text::Message;
use crate::shape;
use crate::stage::{CONTROL_TOKEN, Stage, TOKEN, perform};
use crate::tree::differences;

pub(super) fn check(data: &[u8]) {
    let Some(message) = Message::read(data) else {
        return;
    };
    // What the server may do is another matter.
    let shown = message.parts.headers.get(headers::CONTROL_TOKEN);
    if shown.is_some_and(|shown| shown == CONTROL_TOKEN) {
        return;
    }
    perform(move |stage| {
        guarded(stage, &message);
        open(stage, &message);
    });
}

fn open(stage: &Stage, message: &Message) {
    let agent = stage.agent(false);
    let environment = agent.environment();
    let answer = stage.ask(&agent, message.request());
    shape::check(&message.parts, &answer);
    assert_eq!(agent.environment(), environment, "{:?}", message.parts);
    drop(agent);
    stage.compare(|before, after| {
        let changed = differences(before, after);
        let may_change = answer.status.is_success() && message.parts.method == Method::POST;
        // Several files in one request are written one after another.
        let is_upload = message.parts.uri.path() == "/files";
        assert!(
            changed.is_empty() || may_change || is_upload,
            "{:?} was answered {answer:?} and changed {changed:?}",
            message.parts
        );
    });
}

/// The same request at an agent whose token it does not show.
fn guarded(stage: &Stage, message: &Message) {
    let shown = message.parts.headers.get("x-access-token");
    if shown.is_some_and(|shown| shown == TOKEN) {
        return;
    }
    let agent = stage.agent(true);
    let answer = stage.ask(&agent, message.request());
    shape::check(&message.parts, &answer);
    let is_harmless = match (message.parts.method.as_str(), message.parts.uri.path()) {
        ("GET" | "HEAD", "/health") | ("OPTIONS", _) => true,
        _ => !answer.status.is_success() || is_refused_in_stream(&answer.body),
    };
    assert!(is_harmless, "{:?} was answered {answer:?}", message.parts);
    stage.compare(|before, after| {
        let changed = differences(before, after);
        assert!(
            changed.is_empty(),
            "{:?} changed {changed:?}",
            message.parts
        );
    });
}

/// Streaming calls are told in the stream; gRPC in trailers, without a body.
fn is_refused_in_stream(body: &[u8]) -> bool {
    body.is_empty() || body.windows(15).any(|text| text == b"unauthenticated")
}
