//! `GET api/kernels/{id}/channels`: the messages of a kernel, on a WebSocket.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, Stream, StreamExt as _};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::Visitor;
use crate::clients::{Client, LARGEST, Queued, length};
use crate::failure::Failure;
use crate::gateway::Gateway;
use crate::kernel::{Joined, Kernel, MOST_CLIENTS};
use crate::message::Channel;
use crate::wire::{Form, PARTS_PROTOCOL};

/// Interval of signs of life.
const PING: Duration = Duration::from_secs(15);
/// Time limit for a client to take a message. One that does not read is gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a client to agree to the end of its connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest message of a client: the code of a cell.
const LARGEST_MESSAGE: usize = 16 << 20;

/// Size of what the socket holds back: the largest message, and signs of life.
const WRITE_BUFFER: usize = LARGEST + (1 << 20);
/// Time without a word of a client, not even an answer to a sign of life, after which it is gone.
const SILENCE: Duration = PING.saturating_mul(3);

type Sender = SplitSink<WebSocket, Message>;

/// Content of an `input_reply`.
#[derive(Default, Deserialize)]
struct Answer {
    #[serde(default)]
    value: String,
}

/// The client has gone, or does not read.
struct Gone;

pub(crate) async fn open(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<String>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Failure> {
    let kernel = gateway.find(&visitor, &id).await?;
    let upgrade = upgrade
        .protocols([PARTS_PROTOCOL])
        .max_write_buffer_size(WRITE_BUFFER)
        .max_message_size(LARGEST_MESSAGE)
        .max_frame_size(LARGEST_MESSAGE);
    let form = match upgrade.selected_protocol() {
        Some(_parts) => Form::Parts,
        None => Form::Object,
    };
    let (client, queued) = Client::new(visitor.client, form);
    let Some(joined) = kernel.join(client.clone()) else {
        let message = format!("this kernel has {MOST_CLIENTS} clients; close one");
        return Err(Failure::new(StatusCode::TOO_MANY_REQUESTS, message));
    };
    let serving =
        move |socket| async move { serve(socket, &kernel, client, form, queued, joined).await };
    Ok(upgrade.on_upgrade(serving).into_response())
}

async fn serve(
    socket: WebSocket,
    kernel: &Kernel,
    client: Client,
    form: Form,
    queued: mpsc::Receiver<Queued>,
    _joined: Joined,
) {
    let (sender, receiver) = socket.split();
    tokio::select! {
        // First: a client that says more than it is told keeps the others busy for ever.
        biased;
        () = over(kernel) => {}
        () = client.closed() => {}
        _gone = write(kernel, sender, queued) => {}
        () = read(kernel, &client, form, receiver) => {}
    }
}

/// Returns when the kernel has ended, and its clients have had the time to be told.
async fn over(kernel: &Kernel) {
    kernel.ended().await;
    sleep(SEND_TIMEOUT + CLOSE_TIMEOUT).await;
}

/// Sends what is queued, until the kernel has ended or the client has gone.
async fn write(
    kernel: &Kernel,
    mut sender: Sender,
    mut queued: mpsc::Receiver<Queued>,
) -> Result<(), Gone> {
    let mut alive = interval(PING);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            waiting = queued.recv() => match waiting {
                Some(waiting) => send(&mut sender, waiting.message).await?,
                None => return Ok(()),
            },
            () = kernel.ended() => {
                let close = CloseFrame {
                    code: close_code::NORMAL,
                    reason: "the kernel has ended".into(),
                };
                send(&mut sender, Message::Close(Some(close))).await?;
                // The client answers, and its reader ends with that.
                sleep(CLOSE_TIMEOUT).await;
                return Ok(());
            }
            _ = alive.tick() => send(&mut sender, Message::Ping(Bytes::new())).await?,
        }
    }
}

/// Passes on what the client says, until it says something that is no message, or has gone.
async fn read(
    kernel: &Kernel,
    client: &Client,
    form: Form,
    mut receiver: impl Stream<Item = Result<Message, axum::Error>> + Unpin,
) {
    while let Ok(Some(Ok(message))) = timeout(SILENCE, receiver.next()).await {
        let request = match form.read(&message) {
            Ok(Some(request)) => request,
            Ok(None) => continue,
            Err(error) => {
                tracing::debug!(%error, "a client of a kernel is let go");
                return;
            }
        };
        match request.channel {
            Channel::Shell => kernel.ask(client, request, length(&message)).await,
            Channel::Control => kernel.control(client, &request).await,
            Channel::Stdin => {
                if request.kind == "input_reply" {
                    let answer: Answer = request.read().unwrap_or_default();
                    kernel.answer_input(client, answer.value);
                }
            }
            // Nobody publishes but the kernel.
            Channel::Iopub => {}
        }
    }
}

async fn send(sender: &mut Sender, message: Message) -> Result<(), Gone> {
    let sent = timeout(SEND_TIMEOUT, sender.send(message)).await;
    sent.map_err(|_elapsed| Gone)?.map_err(|_closed| Gone)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use skep_client::Client as Api;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_answers_no_sign_of_life_is_gone() {
        let url = "http://127.0.0.1:1";
        let kernel = Kernel::at(url);
        let (client, _queue) = Client::new(Api::direct(url, "").unwrap(), Form::Object);
        let began = Instant::now();
        let pongs = stream::iter([Ok(Message::Pong(Bytes::new()))]).chain(stream::pending());
        read(&kernel, &client, Form::Object, pongs).await;
        assert_eq!(began.elapsed().as_secs(), SILENCE.as_secs());
    }
}
