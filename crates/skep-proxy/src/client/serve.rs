//! Serves one client connection from its first byte to its last.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout, timeout_at};

use crate::client::admission::ConnectionPermit;
use crate::client::connection::{ActivityTracker, ClientConnection, Expired, Times};
use crate::client::protocol::{Opening, Protocols};
use crate::client::socket::ClientSocket;
use crate::refusal::Refusal;
use crate::refusal::error_format::ErrorFormat;
use crate::request::answer::answer;
use crate::reset_on_close::ResetOnClose;
use crate::shared::Shared;

/// The largest head of a request. A client that sends half of one holds as much memory.
const HEAD_MAX: usize = 64 * 1024;
/// The most headers of a request.
const HEADERS_MAX: usize = 512;
/// Requests at a time on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1000;
/// Flow-control window of one HTTP/2 request body.
const STREAM_WINDOW: u32 = 1 << 20;
/// Flow-control window of all HTTP/2 request bodies of a connection together.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Limit on the bytes of one HTTP/2 answer that are kept until the client makes room for them.
const SEND_BUFFER: usize = 64 * 1024;
/// Interval of HTTP/2 pings, and time limit for their answers.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a client that does not speak TLS to say something and to be told so.
const NOT_TLS_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves a connection that was just accepted, until it ends or its place is given away.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    protocols: Protocols,
    permit: ConnectionPermit,
) {
    let evicted = permit.evicted();
    let metrics = Arc::clone(&shared.metrics);
    tokio::select! {
        biased;
        () = evicted.cancelled() => metrics.connections_evicted.add_one(),
        () = serve_accepted(shared, stream, peer, protocols, permit) => {}
    }
}

async fn serve_accepted(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    protocols: Protocols,
    permit: ConnectionPermit,
) {
    let accepted = Instant::now();
    let deadline = tokio::time::Instant::from_std(accepted + shared.config.head_timeout);
    let opening = tokio::select! {
        biased;
        opening = timeout_at(deadline, protocols.open(&stream)) => opening,
        // A client that is silent as yet has nothing to lose.
        () = shared.stopping.cancelled() => return,
    };
    let tls = match opening {
        Ok(Opening::ClearText) => None,
        Ok(Opening::Tls(tls)) => Some(tls),
        Ok(Opening::NotTls) => {
            shared.metrics.handshakes_failed.add_one();
            return answer_in_clear_text(stream, &Refusal::NotTls).await;
        }
        Ok(Opening::Gone) => return,
        Err(_) => {
            shared.metrics.connections_expired.add_one();
            return;
        }
    };
    let reset = ResetOnClose::default();
    let activity = Arc::new(ActivityTracker::new(accepted, permit));
    let socket = match ClientSocket::new(stream, reset.clone(), Arc::clone(&activity)) {
        Ok(socket) => socket,
        Err(error) => {
            // The client left between the handshake of TCP and now.
            tracing::debug!(%error, "connection could not be prepared");
            return;
        }
    };
    let metrics = Arc::clone(&shared.metrics);
    let secure = tls.is_some();
    let connection = Arc::new(ClientConnection::new(
        peer, secure, reset, activity, metrics,
    ));
    let Some(tls) = tls else {
        return speak(shared, connection, socket).await;
    };
    match timeout_at(deadline, tls.accept(socket)).await {
        Ok(Ok(stream)) => speak(shared, connection, stream).await,
        Ok(Err(error)) => {
            shared.metrics.handshakes_failed.add_one();
            tracing::debug!(%error, "TLS handshake failed");
        }
        Err(_) => shared.metrics.handshakes_failed.add_one(),
    }
}

/// Refuses a connection before anything was read from it, if it asks anything.
async fn answer_in_clear_text(mut stream: TcpStream, refusal: &Refusal) {
    let told = timeout(NOT_TLS_TIMEOUT, async {
        // Closing with the request unread would destroy the answer on its way.
        let mut request = [0; 4096];
        if stream.read(&mut request).await? == 0 {
            return Ok(());
        }
        let answer = in_clear_text(&refusal.render(&ErrorFormat::Json));
        stream.write_all(&answer).await?;
        stream.shutdown().await?;
        while stream.read(&mut request).await? > 0 {}
        io::Result::Ok(())
    });
    if !matches!(told.await, Ok(Ok(()))) {
        tracing::debug!("client gone before the refusal was delivered");
    }
}

/// An answer as HTTP/1.1 has it on the wire, after which the connection closes.
fn in_clear_text(response: &Response<Bytes>) -> Vec<u8> {
    let (status, body) = (response.status(), response.body());
    let mut wire = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for (name, value) in response.headers() {
        wire.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    let length = body.len();
    wire.extend(format!("content-length: {length}\r\nconnection: close\r\n\r\n").bytes());
    wire.extend(body);
    wire
}

/// Speaks HTTP until the client, the sandbox it waits for, or the server has had enough.
async fn speak<I>(shared: Arc<Shared>, connection: Arc<ClientConnection>, io: I)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let builder = builder();
    let service = {
        let (shared, connection) = (Arc::clone(&shared), Arc::clone(&connection));
        service_fn(move |request| answer(&shared, &connection, request))
    };
    let http = builder.serve_connection_with_upgrades(TokioIo::new(io), service);
    tokio::pin!(http);
    let times = Times::of(&shared.config);
    let mut clock = interval(times.interval());
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let cut_off = shared.tasks.stopping();
    let ended = connection.sandbox_ended();
    tokio::pin!(ended);
    let mut leaving = false;
    let mut idle_since = None::<Instant>;
    loop {
        tokio::select! {
            biased;
            // Before HTTP, which would close the connection in good order: the Python SDK
            // takes only a reset for the end of its sandbox.
            () = &mut ended => {
                shared.metrics.cut_by_end.add_one();
                connection.reset.arm();
                return;
            }
            result = http.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "client connection broke");
                }
                return;
            }
            () = cut_off.cancelled() => return,
            () = shared.stopping.cancelled(), if !leaving => {
                leaving = true;
                http.as_mut().graceful_shutdown();
            }
            _ = clock.tick() => match connection.activity.expired(Instant::now(), &times) {
                Some(Expired::Head) => {
                    shared.metrics.connections_expired.add_one();
                    return;
                }
                Some(Expired::Idle) if idle_since.is_none() => {
                    shared.metrics.connections_expired.add_one();
                    idle_since = Some(Instant::now());
                    leaving = true;
                    http.as_mut().graceful_shutdown();
                }
                // What is left of an answer that nobody reads is not waited for.
                Some(Expired::Idle) if idle_since.is_some_and(|since| since.elapsed() >= times.head) => {
                    connection.reset.arm();
                    return;
                }
                Some(Expired::Stalled) => {
                    shared.metrics.connections_stalled.add_one();
                    connection.reset.arm();
                    return;
                }
                Some(Expired::Idle) | None => {}
            },
        }
    }
}

pub(crate) fn builder() -> auto::Builder<TrackedExecutor> {
    let mut builder = auto::Builder::new(TrackedExecutor);
    // How long a head may take is decided by the activity of the connection: hyper's own clock
    // would also run while the connection is idle.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(HEAD_MAX)
        .max_headers(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(HEAD_MAX).expect("64 KiB"))
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// Runs the requests of an HTTP/2 connection as tasks that keep their span and report a panic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrackedExecutor;

impl<F> Executor<F> for TrackedExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        skep_telemetry::spawn("request", future);
    }
}
