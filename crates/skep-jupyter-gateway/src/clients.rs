//! The clients of a kernel, and what waits to be sent to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::ws;
use futures_util::future::join_all;
use skep_client::Client as Api;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::message::Message;
use crate::wire::Form;

/// Number of messages that wait for a client to read.
const QUEUE: usize = 256;
/// Size of the messages that wait for a client to read.
const QUEUE_BYTES: usize = 16 << 20;
/// Largest message that is sent. Jupyter's own server breaks the connection above it.
pub(crate) const LARGEST: usize = 10 << 20;
/// Time that a kernel waits for a client to read. Until then its code waits, too; afterwards the
/// client is gone, and what it has not read is not sent again.
const SLOW_TIMEOUT: Duration = Duration::from_secs(30);

/// One WebSocket of a kernel. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    number: u64,
    /// The API as its owner may use it.
    pub(crate) api: Api,
    form: Form,
    queue: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
    closed: CancellationToken,
}

/// A message that waits, with the room that it takes.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) message: ws::Message,
    _room: OwnedSemaphorePermit,
}

/// A message in the forms in which it was asked for already.
#[derive(Debug)]
struct Encoded<'a> {
    message: &'a Message,
    forms: [Option<ws::Message>; 2],
}

impl Client {
    /// A client, and the queue of what is to be sent to it.
    pub(crate) fn new(api: Api, form: Form) -> (Self, mpsc::Receiver<Queued>) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (queue, queued) = mpsc::channel(QUEUE);
        let client = Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            api,
            form,
            queue,
            room: Arc::new(Semaphore::new(QUEUE_BYTES)),
            closed: CancellationToken::new(),
        };
        (client, queued)
    }

    /// Waits until there is room, and queues a message. A client that does not read is closed.
    pub(crate) async fn send(&self, message: &Message) {
        self.queue(Encoded::new(message).in_form(self.form)).await;
    }

    async fn queue(&self, message: ws::Message) {
        let size = length(&message).min(QUEUE_BYTES);
        let permits = u32::try_from(size).expect("the room is smaller than that");
        let queueing = async {
            let acquired = Arc::clone(&self.room).acquire_many_owned(permits).await;
            let queued = Queued {
                message,
                _room: acquired.ok()?,
            };
            self.queue.send(queued).await.ok()
        };
        tokio::select! {
            () = self.closed.cancelled() => {}
            queued = timeout(SLOW_TIMEOUT, queueing) => {
                if !matches!(queued, Ok(Some(()))) {
                    self.close();
                }
            }
        }
    }

    /// Ends its connection.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Returns when it has gone, or is to go.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Returns true if both are the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

/// Sends a message to all of these clients, and waits for the slowest.
pub(crate) async fn send_to_all(clients: &[Client], message: &Message) {
    let mut encoded = Encoded::new(message);
    let queueing = clients
        .iter()
        .map(|client| client.queue(encoded.in_form(client.form)));
    join_all(queueing).await;
}

impl<'a> Encoded<'a> {
    fn new(message: &'a Message) -> Self {
        Self {
            message,
            forms: [None, None],
        }
    }

    /// The message, or what is said in place of one that is too large.
    fn in_form(&mut self, form: Form) -> ws::Message {
        let place = match form {
            Form::Object => &mut self.forms[0],
            Form::Parts => &mut self.forms[1],
        };
        let write = || {
            let written = form.write(self.message);
            let size = length(&written);
            if size > LARGEST {
                form.write(&self.message.too_large(size))
            } else {
                written
            }
        };
        place.get_or_insert_with(write).clone()
    }
}

pub(crate) fn length(message: &ws::Message) -> usize {
    match message {
        ws::Message::Text(text) => text.len(),
        ws::Message::Binary(bytes) | ws::Message::Ping(bytes) | ws::Message::Pong(bytes) => {
            bytes.len()
        }
        ws::Message::Close(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use serde_json::{Value, json};

    use super::*;
    use crate::message::{Channel, nobody};

    fn message_of(kind: &str, text: &str) -> Message {
        let channel = if kind == "stream" {
            Channel::Iopub
        } else {
            Channel::Shell
        };
        let content = json!({"text": text});
        Message::new(&"s".into(), channel, kind, &nobody(), &content)
    }

    fn message(text: &str) -> Message {
        message_of("stream", text)
    }

    fn said(queued: &Queued) -> Value {
        let ws::Message::Text(text) = &queued.message else {
            panic!("{queued:?}");
        };
        serde_json::from_str(text).unwrap()
    }

    #[tokio::test]
    async fn what_is_too_large_is_told_in_a_message_that_is_not() {
        let (client, mut queued) = client();
        let text = "x".repeat(LARGEST);
        client.send(&message_of("complete_reply", &text)).await;
        let reply = said(&queued.recv().await.unwrap());
        assert_eq!(reply["msg_type"], "complete_reply");
        assert_eq!(reply["channel"], "shell");
        assert_eq!(reply["content"]["ename"], "TooLarge");
        client.send(&message_of("input_request", &text)).await;
        let note = said(&queued.recv().await.unwrap());
        assert_eq!(note["msg_type"], "stream");
        assert_eq!(note["channel"], "iopub");
        assert_eq!(note["content"]["name"], "stderr");
        // The control: what is as large as clients take comes as it is.
        let small = "x".repeat(LARGEST - 1000);
        client.send(&message_of("complete_reply", &small)).await;
        let reply = said(&queued.recv().await.unwrap());
        assert_eq!(reply["content"]["text"], small);
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_do_not_read_are_waited_for_together() {
        let (slow, _queues): (Vec<_>, Vec<_>) = (0..8).map(|_| client()).unzip();
        let large = message(&"x".repeat(LARGEST - 1000));
        send_to_all(&slow, &large).await;
        let began = tokio::time::Instant::now();
        send_to_all(&slow, &large).await;
        assert_eq!(began.elapsed().as_secs(), SLOW_TIMEOUT.as_secs());
        assert!(slow.iter().all(|client| client.closed.is_cancelled()));
    }

    fn client() -> (Client, mpsc::Receiver<Queued>) {
        Client::new(Api::new("http://127.0.0.1:1", "").unwrap(), Form::Object)
    }

    #[tokio::test]
    async fn who_reads_slowly_is_waited_for_and_loses_nothing() {
        let (client, mut queued) = client();
        let large = message(&"x".repeat(LARGEST - 1000));
        client.send(&large).await;
        let mut sending = pin!(client.send(&large));
        let mut context = Context::from_waker(Waker::noop());
        assert!(sending.as_mut().poll(&mut context).is_pending());
        assert!(queued.recv().await.is_some());
        sending.await;
        assert!(queued.recv().await.is_some());
        assert!(!client.closed.is_cancelled());
    }

    #[tokio::test]
    async fn a_closed_client_keeps_nobody_waiting() {
        let (client, queued) = client();
        drop(queued);
        client.send(&message("a")).await;
        client.closed().await;
    }
}
