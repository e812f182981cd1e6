//! Speaking Connect by hand, so that every byte is what a client would send.

use bytes::{BufMut, Bytes, BytesMut};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use crate::agent::{Answer, TestAgent, whole};

const END: u8 = 2;

impl TestAgent {
    /// A unary call in JSON.
    pub(crate) async fn call(&self, method: &str, request: Value) -> Answer {
        self.call_with(method, request, &[]).await
    }

    pub(crate) async fn call_with(
        &self,
        method: &str,
        request: Value,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut all = vec![("content-type", "application/json")];
        all.extend(headers);
        self.post(&format!("/{method}"), &all, request.to_string())
            .await
    }

    /// The answer of a unary call that must succeed.
    pub(crate) async fn ask(&self, method: &str, request: Value) -> Value {
        let answer = self.call(method, request).await;
        assert_eq!(answer.status, StatusCode::OK, "{method}: {}", answer.text());
        answer.json()
    }

    /// The error of a unary call, as `404 not_found file not found: x`.
    pub(crate) async fn refused(&self, method: &str, request: Value) -> String {
        let answer = self.call(method, request).await;
        let body = answer.json();
        format!(
            "{} {} {}",
            answer.status.as_u16(),
            text(&body["code"]),
            text(&body["message"])
        )
    }

    /// A call that is answered by a stream, in JSON.
    pub(crate) async fn stream(&self, method: &str, request: Value) -> Events {
        self.stream_with(method, request, &[]).await
    }

    pub(crate) async fn stream_with(
        &self,
        method: &str,
        request: Value,
        headers: &[(&str, &str)],
    ) -> Events {
        let mut all = vec![("content-type", "application/connect+json")];
        all.extend(headers);
        let body = envelope(0, request.to_string().as_bytes());
        let response = self
            .send(Method::POST, &format!("/{method}"), &all, whole(body))
            .await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(
            response.headers()["content-type"],
            "application/connect+json"
        );
        Events {
            body: response.into_body(),
            buffer: BytesMut::new(),
        }
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn envelope(flags: u8, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(flags);
    bytes.put_u32(u32::try_from(payload.len()).unwrap());
    bytes.put_slice(payload);
    bytes.freeze()
}

/// The messages of a stream.
pub(crate) struct Events {
    body: Incoming,
    buffer: BytesMut,
}

/// One of them.
#[derive(Debug)]
pub(crate) enum Message {
    Event(Value),
    /// The end, with the error if it was one.
    End(Value),
}

impl Events {
    pub(crate) fn of(body: Incoming) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
        }
    }

    pub(crate) async fn next(&mut self) -> Message {
        loop {
            if let Some((flags, payload)) = self.take() {
                let value = serde_json::from_slice(&payload).unwrap();
                return if flags & END == 0 {
                    Message::Event(value)
                } else {
                    Message::End(value)
                };
            }
            let frame = self
                .body
                .frame()
                .await
                .expect("a stream ends with its end message")
                .unwrap();
            self.buffer.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    fn take(&mut self) -> Option<(u8, Bytes)> {
        let length = u32::from_be_bytes(self.buffer.get(1..5)?.try_into().unwrap()) as usize;
        if self.buffer.len() < 5 + length {
            return None;
        }
        let mut message = self.buffer.split_to(5 + length).freeze();
        let flags = message[0];
        Some((flags, message.split_off(5)))
    }

    /// The next event; the end is a failure.
    pub(crate) async fn event(&mut self) -> Value {
        match self.next().await {
            Message::Event(value) => value,
            Message::End(value) => panic!("the stream ended: {value}"),
        }
    }

    /// All events to the end, and the end.
    pub(crate) async fn rest(mut self) -> (Vec<Value>, Value) {
        let mut events = Vec::new();
        loop {
            match self.next().await {
                Message::Event(value) => events.push(value),
                Message::End(value) => return (events, value),
            }
        }
    }
}
