use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::routing::any;
use parking_lot::Mutex;
use skep_testkit::wait_until;
use skep_wire::headers::REQUEST_NAME;
use skep_wire::interpreter::{CANCEL_PATH, INTERPRETER_PORT};
use tokio::io::AsyncWriteExt as _;

use crate::stage::{
    DEADLINE, Ending, Stage, accept_head, ending, host, listen, read_until, serve_app_at,
};

#[tokio::test]
async fn a_client_that_leaves_before_the_answer_closes_the_services_connection() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let request = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", host(&route, port));
    let client = stage.say(&request).await;
    let (mut service, _) = accept_head(&listener).await;
    let start = Instant::now();
    drop(client);
    ending(&mut service).await;
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(stage.metrics.hangups.get(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_a_silent_stream_closes_the_services_connection() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let request = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", host(&route, port));
    let mut client = stage.say(&request).await;
    let (mut service, _) = accept_head(&listener).await;
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n";
    service.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut client, "x\r\n").await;
    let start = Instant::now();
    drop(client);
    ending(&mut service).await;
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_client_that_leaves_during_its_upload_closes_the_services_connection() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let head = format!("POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1000\r\n\r\nsome");
    let client = stage.say(&head).await;
    let (mut service, _) = accept_head(&listener).await;
    drop(client);
    ending(&mut service).await;
}

/// Number of connections to a port on this host that nobody owns but the kernel.
fn orphans(address: std::net::SocketAddr) -> usize {
    const FIN_WAIT1: &str = "04";
    let std::net::SocketAddr::V4(address) = address else {
        panic!("{address} is not of IPv4");
    };
    let ip = u32::from_ne_bytes(address.ip().octets());
    let remote = format!("{ip:08X}:{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|row| row.split_whitespace());
    rows.filter(|row| {
        let mut columns = row.clone().skip(2);
        columns.next() == Some(&remote) && columns.next() == Some(FIN_WAIT1)
    })
    .count()
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing_in_the_kernel() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    // More than the service's socket takes, and less than makes anybody wait.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let host = host(&route, port);
    let head = format!("POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1000000\r\n\r\n");
    let mut client = stage.say(&head).await;
    let (mut service, _) = accept_head(&listener).await;
    client.write_all(&[b'a'; 100_000]).await.unwrap();
    drop(client);
    wait_until(DEADLINE, || async {
        let open = stage.metrics.connections_open.get();
        (open == 0).then_some(()).ok_or("still there")
    })
    .await;
    assert_eq!(ending(&mut service).await, Ending::Reset);
    assert_eq!(orphans(listener.local_addr().unwrap()), 0);
}

/// The control: a connection that is closed in order stays until all of it is read.
#[tokio::test]
async fn what_is_closed_in_order_is_the_kernels_until_it_is_read() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    let _service = listener.accept().await.unwrap();
    client.write_all(&[b'a'; 100_000]).await.unwrap();
    drop(client);
    assert_eq!(orphans(address), 1);
}

/// An interpreter that never ends its answers, and what it was asked.
async fn interpreter(stage: &Stage) -> (Arc<skep_proxy::Route>, Arc<Mutex<Vec<String>>>) {
    let route = stage.sandbox();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let app = Router::new().fallback(any(move |request: Request| async move {
        let name = request.headers().get(REQUEST_NAME).cloned().unwrap();
        let line = format!("{} {}", request.uri().path(), name.to_str().unwrap());
        log.lock().push(line);
        if request.uri().path() != "/execute" {
            return Body::empty();
        }
        let first = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from("begun"))]);
        let silence = futures_util::stream::pending();
        Body::from_stream(futures_util::StreamExt::chain(first, silence))
    }));
    serve_app_at(&route, INTERPRETER_PORT, app).await;
    (route, asked)
}

async fn execute(stage: &Stage, route: &skep_proxy::Route) -> tokio::net::TcpStream {
    let host = host(route, INTERPRETER_PORT);
    // The name a caller gives itself does not count.
    let request = format!(
        "POST /execute HTTP/1.1\r\nhost: {host}\r\nx-skep-request: mine\r\ncontent-length: 0\r\n\r\n"
    );
    let mut client = stage.say(&request).await;
    read_until(&mut client, "begun").await;
    client
}

#[tokio::test]
async fn an_interpreter_is_told_which_execution_lost_its_caller() {
    let stage = Stage::new().await;
    let (route, asked) = interpreter(&stage).await;
    drop(execute(&stage, &route).await);
    let lines = wait_until(DEADLINE, || async {
        let asked = asked.lock().clone();
        if asked.len() == 2 {
            Ok(asked)
        } else {
            Err(format!("{asked:?}"))
        }
    })
    .await;
    let name = lines[0].strip_prefix("/execute ").unwrap();
    assert_eq!(name.len(), 32, "{lines:?}");
    assert_eq!(lines[1], format!("{CANCEL_PATH} {name}"));
}

#[tokio::test]
async fn callers_cannot_cancel_for_one_another() {
    let stage = Stage::new().await;
    let (route, asked) = interpreter(&stage).await;
    let answer = stage.get(&route, INTERPRETER_PORT, CANCEL_PATH).await;
    assert_eq!(answer.status(), 404);
    assert_eq!(*asked.lock(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_stops_cancels_nothing() {
    let stage = Stage::new().await;
    let (route, asked) = interpreter(&stage).await;
    let mut client = execute(&stage, &route).await;
    stage.shutdown.cancel();
    ending(&mut client).await;
    stage.served.await.unwrap();
    let asked = asked.lock().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
}
