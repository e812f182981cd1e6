use std::net::Ipv4Addr;
use std::time::Duration;

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RecordType};
use skep_proxy::Names;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_util::sync::CancellationToken;

use crate::stage::DEADLINE;

fn question() -> Vec<u8> {
    let mut question = Message::query();
    let name = Name::from_ascii("49983-i0.skep.test.").unwrap();
    question.add_query(Query::query(name, RecordType::A));
    question.to_vec().unwrap()
}

fn address(answer: &[u8]) -> String {
    Message::from_vec(answer).unwrap().answers[0]
        .data
        .to_string()
}

#[tokio::test]
async fn a_resolver_finds_the_front_door_by_datagram_and_by_connection() {
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (by_datagram, by_connection) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let names = Names::new("skep.test", vec![Ipv4Addr::LOCALHOST.into()]).unwrap();
    let served = skep_telemetry::spawn("names", names.serve(udp, tcp, shutdown.clone()));

    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.send_to(b"nonsense", by_datagram).await.unwrap();
    client.send_to(&question(), by_datagram).await.unwrap();
    let mut answer = [0; 512];
    let (length, _) = tokio::time::timeout(DEADLINE, client.recv_from(&mut answer))
        .await
        .expect("no answer")
        .unwrap();
    assert_eq!(address(&answer[..length]), "127.0.0.1");

    let mut stream = TcpStream::connect(by_connection).await.unwrap();
    for _ in 0..2 {
        let question = question();
        stream
            .write_u16(u16::try_from(question.len()).unwrap())
            .await
            .unwrap();
        stream.write_all(&question).await.unwrap();
        let mut answer = vec![0; stream.read_u16().await.unwrap().into()];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(address(&answer), "127.0.0.1");
    }

    shutdown.cancel();
    let stopped = tokio::time::timeout(Duration::from_secs(2), served).await;
    stopped
        .expect("it stops while a connection is open")
        .unwrap();
}
