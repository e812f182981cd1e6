use std::time::Duration;

use skep_testkit::wait_until;
use tokio::io::AsyncWriteExt as _;

use crate::stage::{DEADLINE, Ending, Stage, accept_head, ending, host, listen, read_until};

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let stage = Stage::with(|config| config.connections = 2).await;
    let api = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut first = stage.say(api).await;
    let mut second = stage.say(api).await;
    read_until(&mut first, "the api").await;
    read_until(&mut second, "the api").await;

    let mut third = stage.say(api).await;
    let answer = read_until(&mut third, "}").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("retry-after: 1"), "{answer}");
    assert_eq!(ending(&mut third).await, Ending::Orderly);

    drop(first);
    wait_until(DEADLINE, || async {
        let mut again = stage.say(api).await;
        let answer = read_until(&mut again, "\r\n\r\n").await;
        if answer.starts_with("HTTP/1.1 200") {
            Ok(())
        } else {
            Err(answer)
        }
    })
    .await;
}

#[tokio::test]
async fn one_request_too_many_for_a_sandbox_is_told_so() {
    let stage = Stage::with(|config| config.requests_per_sandbox = 1).await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let request = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", host(&route, port));
    let client = stage.say(&request).await;
    let service = accept_head(&listener).await;
    let refused = stage.get(&route, port, "/").await;
    assert_eq!(refused.status(), 429);
    assert!(
        refused.body().contains(r#""connectionLimit":1"#),
        "{refused:?}"
    );

    drop((client, service));
    wait_until(DEADLINE, || async {
        match stage.metrics.sandbox_requests_open.get() {
            0 => Ok(()),
            open => Err(format!("{open} requests open")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_head_that_trickles_in_ends_the_connection() {
    let stage = Stage::with(|config| config.head_timeout = Duration::from_millis(200)).await;
    let mut silent = stage.connect().await;
    ending(&mut silent).await;
    let mut slow = stage.say("GET / HTTP/1.1\r\nhost: loc").await;
    ending(&mut slow).await;

    // A second head on a kept connection is no exception.
    let mut second = stage.say("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    read_until(&mut second, "the api").await;
    second.write_all(b"GET / HT").await.unwrap();
    ending(&mut second).await;
    assert_eq!(stage.metrics.connections_expired.get(), 3);
}

#[tokio::test]
async fn a_slow_body_is_nobodys_business() {
    let stage = Stage::with(|config| {
        config.head_timeout = Duration::from_millis(100);
        config.idle_timeout = Duration::from_millis(100);
    })
    .await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let head = format!("POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: 4\r\n\r\n");
    let mut client = stage.say(&head).await;
    let (mut service, _) = accept_head(&listener).await;
    for letter in ["a", "b", "c", "d"] {
        outlast(Duration::from_millis(150)).await;
        client.write_all(letter.as_bytes()).await.unwrap();
        read_until(&mut service, letter).await;
    }
    outlast(Duration::from_millis(150)).await;
    service
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")
        .await
        .unwrap();
    read_until(&mut client, "done").await;
}

/// Lets real time pass, because a limit on real time is what is tested.
async fn outlast(limit: Duration) {
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

#[tokio::test]
async fn an_idle_connection_is_closed_in_order() {
    let stage = Stage::with(|config| config.idle_timeout = Duration::from_millis(200)).await;
    let mut client = stage.say("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    read_until(&mut client, "the api").await;
    assert_eq!(ending(&mut client).await, Ending::Orderly);
}

#[tokio::test]
async fn a_request_may_end_while_the_server_stops() {
    let stage = Stage::with(|config| config.drain = DEADLINE).await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let request = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", host(&route, port));
    let mut client = stage.say(&request).await;
    let (mut service, _) = accept_head(&listener).await;
    stage.shutdown.cancel();
    service
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")
        .await
        .unwrap();
    read_until(&mut client, "done").await;
    assert_eq!(ending(&mut client).await, Ending::Orderly);
    tokio::time::timeout(DEADLINE / 2, stage.served)
        .await
        .expect("the server stops")
        .unwrap();
}
