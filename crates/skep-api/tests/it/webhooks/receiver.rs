//! A receiver of webhooks, and a clock that can be moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use skep_testkit::wait_until;
use skep_webhooks::Clock;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use super::DEADLINE;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(super) struct Received {
    headers: HeaderMap,
    pub(super) body: String,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap().to_str().unwrap()
    }
}

#[derive(Clone)]
struct Desk {
    seen: Arc<Mutex<Vec<Received>>>,
    status: Arc<AtomicU16>,
}

/// A server on this host that answers as it is told to.
pub(super) struct Receiver {
    desk: Desk,
    port: u16,
}

impl Receiver {
    /// In place of a status: it does not answer.
    pub(super) const SILENCE: u16 = 0;

    pub(super) async fn start(status: u16) -> Self {
        let desk = Desk {
            seen: Arc::default(),
            status: Arc::new(AtomicU16::new(status)),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new().fallback(receive).with_state(desk.clone());
        drop(skep_telemetry::spawn("receiver", async move {
            axum::serve(listener, router).await
        }));
        Self { desk, port }
    }

    /// A URL at which nobody listens, as long as the socket, which has its port, is kept.
    pub(super) fn closed() -> (TcpSocket, String) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = socket.local_addr().unwrap().port();
        (socket, format!("http://127.0.0.1:{port}/"))
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    pub(super) fn answer(&self, status: u16) {
        self.desk.status.store(status, Ordering::Relaxed);
    }

    pub(super) fn seen(&self) -> Vec<Received> {
        self.desk.seen.lock().clone()
    }

    pub(super) async fn wait_for(&self, count: usize) {
        wait_until(DEADLINE, || async {
            match self.seen().len() {
                seen if seen == count => Ok(()),
                seen => Err(format!("{seen} requests")),
            }
        })
        .await;
    }
}

async fn receive(State(desk): State<Desk>, headers: HeaderMap, body: String) -> StatusCode {
    desk.seen.lock().push(Received { headers, body });
    match desk.status.load(Ordering::Relaxed) {
        Receiver::SILENCE => std::future::pending().await,
        status => StatusCode::from_u16(status).unwrap(),
    }
}

/// The host's clock, ahead of itself by as much as it was moved.
#[derive(Debug, Clone)]
pub(super) struct SkewedClock(Arc<watch::Sender<SignedDuration>>);

impl Default for SkewedClock {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(SignedDuration::ZERO)))
    }
}

impl SkewedClock {
    pub(super) fn advance(&self, by: Duration) {
        let by = SignedDuration::try_from(by).unwrap();
        self.0.send_modify(|ahead| *ahead += by);
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        Timestamp::now() + *self.0.borrow()
    }

    fn reached(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let mut moved = self.0.subscribe();
        Box::pin(async move {
            let is_reached = |ahead: &SignedDuration| Timestamp::now() + *ahead >= at;
            moved.wait_for(is_reached).await.unwrap();
        })
    }
}
