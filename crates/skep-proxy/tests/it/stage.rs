//! A proxy, a fake API and fake sandboxes, each test with its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use skep_proxy::{FakeRoutes, Listener, Metrics, Proxy, ProxyConfig, Route};
use skep_testkit::wait_until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
pub(crate) const AGENT_PORT: u16 = 49983;
pub(crate) const DOMAIN: &str = "skep.test";

/// A running frontend. Dropping it stops the server.
pub(crate) struct Stage {
    pub(crate) address: SocketAddr,
    pub(crate) routes: Arc<FakeRoutes>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) served: tokio::task::JoinHandle<Option<()>>,
    _stop: DropGuard,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ProxyConfig)) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        Self::listening(Listener::plain(tcp), address, change)
    }

    pub(crate) fn listening(
        listener: Listener,
        address: SocketAddr,
        change: impl FnOnce(&mut ProxyConfig),
    ) -> Self {
        let mut config = ProxyConfig::new(DOMAIN);
        config.drain = Duration::from_millis(200);
        change(&mut config);
        let api = Router::new().fallback(any(fake_api));
        let routes = Arc::new(FakeRoutes::default());
        let front = Proxy::new(config, api, Arc::clone(&routes) as _);
        let metrics = front.metrics();
        let shutdown = CancellationToken::new();
        let served = skep_telemetry::spawn("front", front.serve(vec![listener], shutdown.clone()));
        Self {
            address,
            routes,
            metrics,
            served,
            _stop: shutdown.clone().drop_guard(),
            shutdown,
        }
    }

    /// A sandbox with an address of its own, so that fixed ports of it are free.
    pub(crate) fn sandbox(&self) -> Arc<Route> {
        self.sandbox_as(|_| {})
    }

    pub(crate) fn sandbox_as(&self, change: impl FnOnce(&mut Route)) -> Arc<Route> {
        self.routes.publish_as(|route| {
            route.address = unique_loopback();
            change(route);
        })
    }

    /// Sends a request on a connection of its own and reads the whole answer.
    pub(crate) async fn ask(&self, mut request: Request<Full<Bytes>>) -> Response<String> {
        let localhost = HeaderValue::from_static("localhost");
        request.headers_mut().entry(HOST).or_insert(localhost);
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(1 << 20)
            .handshake(TokioIo::new(self.connect().await))
            .await
            .unwrap();
        skep_telemetry::spawn("client", connection);
        let response = sender.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(parts, String::from_utf8_lossy(&body).into_owned())
    }

    /// `GET path` at a port of a sandbox, named by the host.
    pub(crate) async fn get(&self, route: &Route, port: u16, path: &str) -> Response<String> {
        self.ask(get(route, port, path)).await
    }

    /// A connection from another address of this host.
    pub(crate) async fn connect_from(&self, address: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(address.into(), 0)).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Opens a connection and writes `request` on it.
    pub(crate) async fn say(&self, request: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

/// The key that the fake API knows.
pub(crate) const KEY: &str = "e2b_0123456789abcdef0123456789abcdef01234567";

/// A request to the API with its key.
pub(crate) fn with_key() -> String {
    format!("GET / HTTP/1.1\r\nhost: localhost\r\nx-api-key: {KEY}\r\n\r\n")
}

async fn fake_api(headers: http::HeaderMap) -> Response<axum::body::Body> {
    let mut response = Response::new("the api".into());
    if headers.get("x-api-key").is_some_and(|key| key == KEY) {
        response.extensions_mut().insert(skep_types::Authenticated);
    }
    response
}

/// A request for a port of a sandbox, named by the host.
pub(crate) fn get(route: &Route, port: u16, path: &str) -> Request<Full<Bytes>> {
    Request::get(path)
        .header("host", host(route, port))
        .body(Full::default())
        .unwrap()
}

pub(crate) fn host(route: &Route, port: u16) -> String {
    format!("{port}-{}.{DOMAIN}", route.id)
}

/// Serves `app` at a free port of a sandbox's address.
pub(crate) async fn serve_app(route: &Route, app: Router) -> u16 {
    serve_app_at(route, 0, app).await
}

/// Serves `app` at a port of a sandbox's address.
pub(crate) async fn serve_app_at(route: &Route, port: u16, app: Router) -> u16 {
    let listener = TcpListener::bind((route.address, port)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    skep_telemetry::spawn("app", async move { axum::serve(listener, app).await });
    port
}

/// A bare listener at a port of a sandbox's address, for services that speak byte by byte.
pub(crate) async fn listen(route: &Route) -> (TcpListener, u16) {
    let listener = TcpListener::bind((route.address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Accepts one connection and reads the head of a request from it.
pub(crate) async fn accept_head(listener: &TcpListener) -> (TcpStream, String) {
    let accepted = tokio::time::timeout(DEADLINE, listener.accept()).await;
    let (mut stream, _) = accepted.expect("nobody connected").unwrap();
    let head = read_until(&mut stream, "\r\n\r\n").await;
    (stream, head)
}

/// Reads until what was read contains `end`.
pub(crate) async fn read_until(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
    end: &str,
) -> String {
    let mut seen = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&seen).contains(end) {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(
                count > 0,
                "ended after {:?}",
                String::from_utf8_lossy(&seen)
            );
            seen.extend(&buffer[..count]);
        }
    };
    let read = tokio::time::timeout(DEADLINE, read).await;
    let text = String::from_utf8_lossy(&seen).into_owned();
    assert!(read.is_ok(), "no {end:?} in {text:?}");
    text
}

/// The end of a connection, after whatever was still to be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Orderly,
    Reset,
}

pub(crate) async fn ending(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Ending {
    let mut buffer = vec![0; 1 << 16];
    let read = async {
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) => return Ending::Orderly,
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
                    return Ending::Reset;
                }
            }
        }
    };
    let ended = tokio::time::timeout(DEADLINE, read).await;
    ended.expect("the connection stays open")
}

/// Lets real time pass, because a limit on real time is what is tested.
pub(crate) async fn outlast(limit: Duration) {
    let start = std::time::Instant::now();
    wait_until(DEADLINE, || async move {
        let elapsed = start.elapsed();
        if elapsed > limit {
            Ok(())
        } else {
            Err(format!("{elapsed:?} passed"))
        }
    })
    .await;
}

/// An address of this host's loopback that no other test has.
fn unique_loopback() -> IpAddr {
    let random: [u8; 3] = skep_types::random_bytes();
    let [a, b, c] = random;
    IpAddr::V4(Ipv4Addr::new(127, a | 1, b, c.clamp(1, 254)))
}
