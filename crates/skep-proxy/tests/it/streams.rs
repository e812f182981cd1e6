use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::any;
use skep_testkit::wait_until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::stage::{
    DEADLINE, Ending, Stage, accept_head, ending, host, listen, read_until, serve_app,
};

const CHUNK: usize = 64 * 1024;

/// An endless body that counts what was taken from it.
fn endless(taken: Arc<AtomicU64>) -> Body {
    let chunks = futures_util::stream::repeat_with(move || {
        taken.fetch_add(CHUNK as u64, Ordering::Relaxed);
        Ok::<_, Infallible>(Bytes::from(vec![b'x'; CHUNK]))
    });
    Body::from_stream(chunks)
}

#[tokio::test]
async fn each_event_arrives_when_it_was_sent_not_when_the_answer_ends() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let request = format!(
        "GET /events HTTP/1.1\r\nhost: {}\r\n\r\n",
        host(&route, port)
    );
    let mut client = stage.say(&request).await;
    let (mut service, _) = accept_head(&listener).await;
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    service.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut client, "text/event-stream").await;
    for event in ["data: one", "data: two", "data: three"] {
        let chunk = format!("{:x}\r\n{event}\n\n\r\n", event.len() + 2);
        service.write_all(chunk.as_bytes()).await.unwrap();
        read_until(&mut client, event).await;
    }
}

#[tokio::test]
async fn an_upload_reaches_the_service_while_the_client_is_still_sending() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let head = format!("POST / HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\n");
    let mut client = stage.say(&head).await;
    let (mut service, _) = accept_head(&listener).await;
    for part in ["first", "second"] {
        let chunk = format!("{:x}\r\n{part}\r\n", part.len());
        client.write_all(chunk.as_bytes()).await.unwrap();
        read_until(&mut service, part).await;
    }
    // An answer may come before the request is complete.
    service
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nearly")
        .await
        .unwrap();
    read_until(&mut client, "early").await;
}

#[tokio::test]
async fn a_slow_client_slows_the_service_and_fills_no_memory() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    let app = Router::new().fallback(any(move || async move { endless(count) }));
    let port = serve_app(&route, app).await;
    let request = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", host(&route, port));
    let mut client = stage.say(&request).await;
    read_until(&mut client, "200 OK").await;

    // The producer comes to rest: what it has made fits in the buffers of two connections.
    let mut before = 0;
    let mut quiet = 0;
    let rest = wait_until(DEADLINE, || {
        let now = taken.load(Ordering::Relaxed);
        quiet = if now == before && now > 0 {
            quiet + 1
        } else {
            0
        };
        before = now;
        async move {
            if quiet > 40 {
                Ok(now)
            } else {
                Err(format!("{now} bytes and going on"))
            }
        }
    })
    .await;
    assert!(rest < 32 << 20, "{rest} bytes were made for nobody");

    // It goes on when the client does.
    let mut buffer = vec![0; 1 << 20];
    let mut read = 0;
    while read < rest + (8 << 20) {
        let count = client.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the stream ended");
        read += count as u64;
    }
    assert!(taken.load(Ordering::Relaxed) > rest);
}

#[tokio::test]
async fn large_bodies_pass_in_both_directions_with_flat_memory() {
    const SIZE: u64 = 256 << 20;
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let app = Router::new().fallback(any(|body: Body| async move { body }));
    let port = serve_app(&route, app).await;
    let host = host(&route, port);
    let head = format!("POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: {SIZE}\r\n\r\n");
    let (mut reader, mut writer) = stage.say(&head).await.into_split();
    let upload = skep_telemetry::spawn("upload", async move {
        let chunk = vec![b'y'; CHUNK];
        for _ in 0..SIZE / CHUNK as u64 {
            writer.write_all(&chunk).await.unwrap();
        }
        writer
    });
    let before = resident();
    read_until(&mut reader, "\r\n\r\n").await;
    let mut buffer = vec![0; 1 << 20];
    let (mut read, mut most) = (0, 0);
    while read < SIZE - (1 << 20) {
        read += reader.read(&mut buffer).await.unwrap() as u64;
        most = most.max(resident());
    }
    drop(upload.await.unwrap());
    // Other tests of this process run meanwhile, so the bound is generous; the body is larger.
    assert!(most < before + SIZE / 2, "{before} grew to {most} bytes");
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let number = line.split_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_taken_for_complete() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let request = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", host(&route, port));
    let mut client = stage.say(&request).await;
    let (mut service, _) = accept_head(&listener).await;
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf";
    service.write_all(half).await.unwrap();
    read_until(&mut client, "half").await;
    drop(service);
    assert_eq!(ending(&mut client).await, Ending::Reset);
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let app = Router::new().fallback(any(|| async { http::StatusCode::NO_CONTENT }));
    let port = serve_app(&route, app).await;
    let answer = stage.get(&route, port, "/").await;
    assert_eq!(answer.status(), 204);
    assert_eq!(answer.body(), "");
}
