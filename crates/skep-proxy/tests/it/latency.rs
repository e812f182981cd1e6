#![expect(clippy::print_stderr, reason = "a measurement is read by a person")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::routing::any;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stage::{Stage, host, read_until, serve_app};

const ROUNDS: usize = 2000;

/// Times of `ROUNDS` small requests on one connection, sorted.
async fn times(address: SocketAddr, host: &str) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        stream.write_all(request.as_bytes()).await.unwrap();
        read_until(&mut stream, "\r\n\r\nhello").await;
        times.push(start.elapsed());
    }
    times.sort();
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement; wants a quiet machine"]
async fn the_proxy_adds_less_than_a_millisecond_to_a_request() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let port = serve_app(&route, Router::new().fallback(any(|| async { "hello" }))).await;
    let host = host(&route, port);
    let direct = times(SocketAddr::new(route.address, port), &host).await;
    let proxied = times(stage.address, &host).await;
    for (part, name) in [(2, "median"), (100, "99th percentile")] {
        let at = ROUNDS - ROUNDS / part;
        let added = proxied[at].saturating_sub(direct[at]);
        eprintln!(
            "{name}: direct {:?}, proxied {:?}, added {added:?}",
            direct[at], proxied[at]
        );
    }
    let added = proxied[ROUNDS / 2].saturating_sub(direct[ROUNDS / 2]);
    assert!(added < Duration::from_millis(1), "{added:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement; moves two gigabytes"]
async fn a_gigabyte_passes_in_seconds() {
    const SIZE: u64 = 1 << 30;
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let app = Router::new().fallback(any(|| async {
        let chunk = bytes::Bytes::from(vec![b'x'; 1 << 16]);
        let chunks = (0..SIZE >> 16).map(move |_| Ok::<_, std::convert::Infallible>(chunk.clone()));
        Body::from_stream(futures_util::stream::iter(chunks))
    }));
    let port = serve_app(&route, app).await;
    let host = host(&route, port);
    for (name, address) in [
        ("direct", SocketAddr::new(route.address, port)),
        ("proxied", stage.address),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let start = Instant::now();
        let mut buffer = vec![0; 1 << 18];
        let mut read = 0;
        loop {
            match stream.read(&mut buffer).await.unwrap() {
                0 => break,
                count => read += count as u64,
            }
        }
        assert!(read >= SIZE, "{read}");
        eprintln!("{name}: {:?} for 1 GiB", start.elapsed());
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{:?}",
            start.elapsed()
        );
    }
}
