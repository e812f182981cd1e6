//! Memory that the server and the kernel hold of an answer that its client stops reading.

use std::time::Duration;

use skep_types::AccessToken;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::stage::{Stage, accept_head, host, listen, read_until};

/// Bytes that the client reads before it stops, so that buffers grow that can.
const READ: usize = 64 << 20;
/// Buffers of the two ends themselves, which are not the server's.
const ENDS: usize = 16 << 10;
/// Time without progress after which nothing more is taken.
const STUCK: Duration = Duration::from_secs(1);

/// Bytes of an answer taken from a service beyond what its client has read.
async fn held(with_token: bool) -> usize {
    let stage = Stage::new().await;
    let token = AccessToken::random();
    let route = stage.sandbox_as(|route| route.access_token = Some(token.clone()));
    let (listener, port) = listen(&route).await;
    let mut client = stage.connect().await;
    let host = host(&route, port);
    let shown = if with_token {
        format!("x-access-token: {}\r\n", token.reveal())
    } else {
        String::new()
    };
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n{shown}\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut service, _) = accept_head(&listener).await;
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
    service.write_all(head).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;

    let reading = async {
        let mut buffer = vec![0; 1 << 20];
        let mut read = 0;
        while read < READ {
            read += client.read(&mut buffer).await.unwrap();
        }
        read
    };
    let writing = async {
        let data = vec![b'a'; 1 << 20];
        let mut written = 0;
        while written < READ {
            written += service.write(&data).await.unwrap();
        }
        written
    };
    let (read, mut written) = tokio::join!(reading, writing);
    rustix::net::sockopt::set_socket_recv_buffer_size(&client, ENDS).unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&service, ENDS).unwrap();
    let data = vec![b'a'; 1 << 16];
    while let Ok(count) = tokio::time::timeout(STUCK, service.write(&data)).await {
        written += count.unwrap();
    }
    written - read
}

#[tokio::test]
async fn little_is_held_of_what_a_stranger_does_not_read() {
    let (stranger, caller) = tokio::join!(held(false), held(true));
    assert!(stranger < 5 << 19, "{} KiB are held", stranger >> 10);
    // The control: for a caller the kernel keeps as much as it thinks is fast.
    assert!(caller > 3 << 20, "{} KiB are held", caller >> 10);
}
