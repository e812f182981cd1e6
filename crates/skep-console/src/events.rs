//! `GET /skep/console/events`: events of the team's sandboxes, as they happen.
//!
//! A browser opens six connections to a host at most, and all tabs share them; sockets are counted
//! apart. Pages learn here what has changed and ask the API for the rest.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use futures_util::StreamExt as _;
use futures_util::stream::SplitStream;
use tokio::time::{MissedTickBehavior, interval};

use crate::Visitor;
use crate::seats::{Seat, Seats};
use crate::socket::{Gone, PING, Sender, full, ping, prepared, send};

pub(crate) async fn follow(
    State(seats): State<Arc<Seats>>,
    Extension(visitor): Extension<Visitor>,
    upgrade: WebSocketUpgrade,
) -> Response {
    match seats.take(&visitor.team) {
        Some(seat) => prepared(upgrade).on_upgrade(move |socket| serve(visitor, socket, seat)),
        None => full(),
    }
}

async fn serve(visitor: Visitor, socket: WebSocket, _seat: Seat) {
    let (mut sender, receiver) = socket.split();
    tokio::select! {
        _ = tell(&visitor, &mut sender) => {}
        () = until_closed(receiver) => {}
    }
}

async fn tell(visitor: &Visitor, sender: &mut Sender) -> Result<(), Gone> {
    let mut feed = match visitor.client.events().follow().await {
        Ok(feed) => feed,
        Err(error) => {
            tracing::debug!(%error, "a page cannot follow events");
            return Err(Gone);
        }
    };
    // Whatever happened before this is in what the page asks for now.
    send(sender, Message::text(r#"{"type":"ready"}"#)).await?;
    let mut alive = interval(PING);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = feed.next() => {
                let Ok(Some(event)) = event else {
                    return Err(Gone);
                };
                let text = serde_json::to_string(&event).expect("text and numbers serialise");
                send(sender, Message::text(text)).await?;
            }
            _ = alive.tick() => ping(sender).await?,
        }
    }
}

async fn until_closed(mut receiver: SplitStream<WebSocket>) {
    while let Some(Ok(_ignored)) = receiver.next().await {}
}
