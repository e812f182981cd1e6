use std::time::Duration;

use axum::Router;
use axum::routing::any;
use skep_testkit::wait_until;
use skep_types::AccessToken;
use tokio::io::AsyncWriteExt as _;

use crate::stage::{
    DEADLINE, Ending, KEY, Stage, accept_head, ending, host, listen, outlast, read_until,
    serve_app, with_key,
};

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let stage = Stage::with(|config| config.connections = 2).await;
    let api = &with_key();
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
async fn strangers_leave_room_in_a_sandbox_for_its_owner() {
    let stage = Stage::with(|config| config.anonymous_requests_per_sandbox = 1).await;
    let token = AccessToken::random();
    let route = stage.sandbox_as(|route| route.access_token = Some(token.clone()));
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let in_flight = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let stranger = stage.say(&in_flight).await;
    let service = accept_head(&listener).await;
    let refused = stage.get(&route, port, "/").await;
    assert_eq!(refused.status(), 429);
    let token = token.reveal();
    let owned = format!("GET / HTTP/1.1\r\nhost: {host}\r\nx-access-token: {token}\r\n\r\n");
    for _ in 0..3 {
        let owner = stage.say(&owned).await;
        accept_head(&listener).await;
        drop(owner);
    }
    drop((stranger, service));
    wait_until(DEADLINE, || async {
        let stranger = stage.say(&in_flight).await;
        let reached = tokio::time::timeout(Duration::from_millis(200), listener.accept()).await;
        drop(stranger);
        reached.map(drop).map_err(|_| "refused")
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

#[tokio::test]
async fn an_idle_connection_is_closed_in_order() {
    let stage = Stage::with(|config| config.idle_timeout = Duration::from_millis(200)).await;
    let mut client = stage.say(&with_key()).await;
    read_until(&mut client, "the api").await;
    assert_eq!(ending(&mut client).await, Ending::Orderly);
}

#[tokio::test]
async fn only_who_has_shown_a_key_or_token_is_waited_for() {
    let idle = Duration::from_millis(200);
    let stage = Stage::with(|config| config.anonymous_idle_timeout = idle).await;
    let token = AccessToken::random();
    let route = stage.sandbox_as(|route| route.access_token = Some(token.clone()));
    let port = serve_app(&route, Router::new().fallback(any(|| async { "hello" }))).await;
    let in_flight = |token: &str| {
        let host = host(&route, port);
        format!("GET / HTTP/1.1\r\nhost: {host}\r\nx-access-token: {token}\r\n\r\n")
    };
    let wrong = AccessToken::random();
    let anonymous = [
        "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        with_key().replace(KEY, "e2b_wrong"),
        in_flight(wrong.reveal()),
    ];
    let known = [with_key(), in_flight(token.reveal())];
    let mut kept = Vec::new();
    for request in &known {
        let mut client = stage.say(request).await;
        read_until(&mut client, "\r\n\r\n").await;
        kept.push(client);
    }
    for request in &anonymous {
        let mut client = stage.say(request).await;
        read_until(&mut client, "\r\n\r\n").await;
        assert_eq!(ending(&mut client).await, Ending::Orderly, "{request}");
    }
    outlast(2 * idle).await;
    for (mut client, request) in kept.into_iter().zip(&known) {
        client.write_all(request.as_bytes()).await.unwrap();
        read_until(&mut client, "HTTP/1.1 200").await;
    }
}

#[tokio::test]
async fn a_head_of_more_than_64_kib_is_refused_however_it_is_cut() {
    let stage = Stage::new().await;
    let head = |size: usize| {
        let padding = "a".repeat(size);
        format!("GET / HTTP/1.1\r\nhost: localhost\r\nx-padding: {padding}\r\n\r\n")
    };
    let mut fits = stage.say(&head(60 << 10)).await;
    read_until(&mut fits, "the api").await;
    let mut large = stage.say(&head(70 << 10)).await;
    read_until(&mut large, "HTTP/1.1 431").await;
    let many = "x: 1\r\n".repeat(20_000);
    let request = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    let mut many = stage.say(&request).await;
    read_until(&mut many, "HTTP/1.1 431").await;
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
