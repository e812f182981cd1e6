//! Parts that both sockets share.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::SinkExt as _;
use futures_util::stream::SplitSink;
use tokio::time::timeout;

use crate::seats::SEATS_PER_TEAM;

/// The protocol that pages ask for, beside the one that only carries their key.
const PROTOCOL: &str = "skep.v1";
/// Interval of signs of life.
pub(crate) const PING: Duration = Duration::from_secs(15);
/// Time limit for a page to take a message. One that does not read is gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest message of a page: what somebody pastes into a terminal.
const LONGEST_MESSAGE: usize = 1 << 20;

/// The sending half of a socket.
pub(crate) type Sender = SplitSink<WebSocket, Message>;

/// The page has gone, or does not read.
#[derive(Debug)]
pub(crate) struct Gone;

pub(crate) fn prepared(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade
        .protocols([PROTOCOL])
        .max_message_size(LONGEST_MESSAGE)
        .max_frame_size(LONGEST_MESSAGE)
}

pub(crate) fn full() -> Response {
    let message =
        format!("{SEATS_PER_TEAM} terminals and pages of your team are open; close one\n");
    (StatusCode::TOO_MANY_REQUESTS, message).into_response()
}

pub(crate) async fn send(sender: &mut Sender, message: Message) -> Result<(), Gone> {
    let sent = timeout(SEND_TIMEOUT, sender.send(message)).await;
    sent.map_err(|_elapsed| Gone)?.map_err(|_closed| Gone)
}

pub(crate) async fn ping(sender: &mut Sender) -> Result<(), Gone> {
    send(sender, Message::Ping(Bytes::new())).await
}
