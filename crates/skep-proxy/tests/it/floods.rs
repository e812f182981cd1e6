//! Services that send more than anybody can use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use skep_testkit::wait_until;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::stage::{DEADLINE, Stage, accept_head, get, listen, read_until};

const INTERIM: &str = "HTTP/1.1 103 E\r\n\r\n";

/// Answers one request with `piece`, again and again, until nobody reads any more.
async fn flood(listener: &TcpListener, piece: &str) {
    let (mut service, _) = accept_head(listener).await;
    while service.write_all(piece.as_bytes()).await.is_ok() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_interim_answers_are_no_answer() {
    const VISITORS: usize = 8;
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let piece = INTERIM.repeat(4000);
    let floods = join_all((0..VISITORS).map(|_| flood(&listener, &piece)));
    let visits = join_all((0..VISITORS).map(|_| stage.get(&route, port, "/")));
    let both = async { tokio::join!(floods, visits) };
    let (_, answers) = tokio::time::timeout(DEADLINE, both).await.unwrap();
    for answer in answers {
        assert_eq!(answer.status(), 502);
        assert!(answer.body().contains("without an answer"), "{answer:?}");
    }
}

/// The control: hyper alone reads them for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_a_bound_reads_endless_interim_answers() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let piece = INTERIM.repeat(4000);
    let stream = TcpStream::connect((route.address, port)).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let mut request = get(&route, port, "/").map(|_| Empty::<Bytes>::new());
    let count = Arc::clone(&seen);
    hyper::ext::on_informational(&mut request, move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let many = wait_until(DEADLINE, || async {
        match seen.load(Ordering::Relaxed) {
            100_000.. => Ok(()),
            fewer => Err(format!("{fewer} answers")),
        }
    });
    tokio::select! {
        () = many => {}
        () = flood(&listener, &piece) => panic!("the client gave up"),
        answer = sender.send_request(request) => panic!("{answer:?}"),
        ended = connection => panic!("{ended:?}"),
    }
}

#[tokio::test]
async fn interim_answers_before_each_answer_do_no_harm() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n".repeat(60);
    let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let service = async {
        let (mut service, _) = accept_head(&listener).await;
        for more in [true, true, false] {
            // The answer comes apart from what is before it.
            service.write_all(hints.as_bytes()).await.unwrap();
            service.flush().await.unwrap();
            tokio::task::yield_now().await;
            service.write_all(answer.as_bytes()).await.unwrap();
            if more {
                read_until(&mut service, "\r\n\r\n").await;
            }
        }
        service
    };
    let client = async {
        for _ in 0..3 {
            assert_eq!(stage.get(&route, port, "/").await.body(), "ok");
        }
    };
    tokio::join!(service, client);
    assert_eq!(stage.metrics.upstream_reused.get(), 2);
}

#[tokio::test]
async fn a_head_larger_than_any_service_needs_is_no_answer() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let service = async {
        let (mut service, _) = accept_head(&listener).await;
        let head = format!("HTTP/1.1 200 OK\r\nx-large: {}", "a".repeat(300_000));
        service.write_all(head.as_bytes()).await.unwrap();
        service
    };
    let (answer, _service) = tokio::join!(stage.get(&route, port, "/"), service);
    assert_eq!(answer.status(), 502);
}
