//! Hosts of the world outside, and the names that lead to them.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};
use tokio::net::UdpSocket;

use crate::secure::Hosts;

pub(crate) const WEB: u16 = 80;
pub(crate) const TLS: u16 = 443;

/// Serves at the ports of the web, where that is possible: one tells what it was asked, the other
/// sends everything back.
pub(crate) fn serve(arguments: &[String]) {
    let (Ok(web), Ok(tls)) = (
        TcpListener::bind(("0.0.0.0", WEB)),
        TcpListener::bind(("0.0.0.0", TLS)),
    ) else {
        return;
    };
    std::thread::spawn(move || {
        for stream in web.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || answer(&stream).ok());
        }
    });
    let hosts = Arc::new(Hosts::new(arguments));
    std::thread::spawn(move || {
        for stream in tls.incoming() {
            let stream = stream.unwrap();
            let hosts = Arc::clone(&hosts);
            std::thread::spawn(move || hosts.serve(stream));
        }
    });
}

/// Answers every request with its head, as it has arrived, and the address that it came to. On a
/// connection that goes on as a WebSocket everything is sent back.
fn answer(stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        if head.to_ascii_lowercase().contains("upgrade: websocket") {
            let switched = "HTTP/1.1 101 Switching Protocols\r\n\
                            connection: upgrade\r\nupgrade: websocket\r\n\r\n";
            (&*stream).write_all(switched.as_bytes())?;
            std::io::copy(&mut reader, &mut &*stream)?;
            return Ok(());
        }
        if let Some(host) = sent_on_to(&head) {
            write!(
                &*stream,
                "HTTP/1.1 302 Found\r\nlocation: http://{host}/x\r\ncontent-length: 0\r\n\r\n"
            )?;
            continue;
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse::<usize>().ok())?
        });
        let mut body = vec![0; length.unwrap_or_default()];
        reader.read_exact(&mut body)?;
        let at = stream.local_addr()?.ip();
        let body = String::from_utf8_lossy(&body);
        let said = format!("at {at}\n{}{body}", head.replace('\r', ""));
        let length = said.len();
        write!(
            &*stream,
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{said}"
        )?;
    }
}

/// The host to which a request asks to be sent on: `GET /to/HOST`.
pub(crate) fn sent_on_to(head: &str) -> Option<&str> {
    let (_, target) = head.lines().next()?.split_once(" /to/")?;
    target.split(' ').next()
}

/// A resolver that knows these hosts, until the test ends.
pub(crate) async fn resolver(hosts: &[(&str, Ipv4Addr)]) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let hosts: HashMap<_, _> = hosts
        .iter()
        .map(|(name, at)| (format!("{name}."), *at))
        .collect();
    drop(skep_telemetry::spawn("resolver", async move {
        let mut buffer = [0; 4096];
        loop {
            let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
            let question = Message::from_vec(&buffer[..length]).unwrap();
            let name = question.queries[0].name().clone();
            let mut answer = question.into_response();
            match hosts.get(&name.to_ascii()) {
                Some(address) => {
                    let data = RData::A(A(*address));
                    answer.add_answer(Record::from_rdata(name, 60, data));
                }
                None => answer.metadata.response_code = ResponseCode::NXDomain,
            }
            socket
                .send_to(&answer.to_vec().unwrap(), client)
                .await
                .unwrap();
        }
    }));
    address
}

/// The first message of TLS, with the name of a host or without, with an encrypted one or without.
pub(crate) fn hello(name: Option<&str>, is_encrypted: bool) -> Vec<u8> {
    let sized = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap();
        [&length.to_be_bytes()[..], bytes].concat()
    };
    let mut extensions = Vec::new();
    if let Some(name) = name {
        let entry = [&[0][..], &sized(name.as_bytes())].concat();
        extensions.extend([&[0, 0][..], &sized(&sized(&entry))].concat());
    }
    if is_encrypted {
        extensions.extend([&[0xfe, 0x0d][..], &sized(&[0; 40])].concat());
    }
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &sized(&[0x13, 0x01]),
        &[1, 0],
        &sized(&extensions),
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    [&[22, 3, 1][..], &sized(&message)].concat()
}
