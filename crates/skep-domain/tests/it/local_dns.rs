use std::net::Ipv4Addr;
use std::time::Duration;

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RecordType};
use skep_domain::{DnsSockets, LocalDns};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio_util::sync::CancellationToken;

const DEADLINE: Duration = Duration::from_secs(10);

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
async fn a_resolver_finds_this_host_by_datagram_and_by_connection() {
    let sockets = DnsSockets::bind(Ipv4Addr::LOCALHOST.into()).await.unwrap();
    let server = sockets.address().unwrap();
    let shutdown = CancellationToken::new();
    let dns = LocalDns::new("skep.test", vec![Ipv4Addr::LOCALHOST.into()]).unwrap();
    let served = skep_telemetry::spawn("local DNS", dns.serve(sockets, shutdown.clone()));

    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.send_to(b"nonsense", server).await.unwrap();
    client.send_to(&question(), server).await.unwrap();
    let mut answer = [0; 512];
    let (length, _) = tokio::time::timeout(DEADLINE, client.recv_from(&mut answer))
        .await
        .expect("no answer")
        .unwrap();
    assert_eq!(address(&answer[..length]), "127.0.0.1");

    let mut stream = TcpStream::connect(server).await.unwrap();
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
