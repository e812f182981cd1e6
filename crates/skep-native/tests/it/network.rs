//! Destinations that a sandbox can reach, with the world replaced by a namespace of the test.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;

use hickory_proto::op::Message;
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};
use ipnet::Ipv4Net;
use skep_isolation::{Isolation, Launched};
use skep_native::Defence;
use skep_types::Egress;

use crate::bench::{Bench, ask};
use crate::uplink::Uplink;

crate::tests![
    the_public_is_reached_and_everything_private_is_not,
    the_machine_is_not_reached_at_any_of_its_addresses,
    neighbours_do_not_reach_each_other,
    a_sandbox_cannot_speak_as_another,
    without_internet_nothing_is_reached_and_the_machine_still_reaches_it,
    names_are_resolved_without_denied_addresses,
    questions_for_names_fill_no_table_of_the_host,
    both_ends_of_a_link_have_addresses_that_nobody_else_chooses,
    a_server_speaks_from_an_address_of_its_own,
];

/// Number of names a sandbox asks for at once, each from a port of its own. Others on the host
/// open far fewer connections meanwhile.
const QUESTIONS: u32 = 2_000;

/// Asserts the answer of a connection that the packet filter rejects at once.
#[track_caller]
pub(crate) fn assert_denied(answer: &str) {
    assert_eq!(answer, "error: HostUnreachable");
}

pub(crate) async fn connect(sandbox: &Launched, address: SocketAddr) -> String {
    ask(sandbox, &format!("work connect={address}")).await
}

async fn the_public_is_reached_and_everything_private_is_not() {
    let uplink = Uplink::new();
    let mirror = Ipv4Net::new(uplink.mirror(), 32).unwrap();
    let bench = Bench::with(|config| config.host.allowed_ranges = vec![mirror]).await;
    let sandbox = bench.launch().await;
    // The world sees the host, not the sandbox.
    let seen = connect(&sandbox, uplink.at(uplink.public())).await;
    assert_eq!(seen, uplink.host().to_string());
    // The operator's exception is reached over the same link as what is denied, so it is the
    // rule that denies, and not a missing route.
    let seen = connect(&sandbox, uplink.at(uplink.mirror())).await;
    assert_eq!(seen, uplink.host().to_string());
    assert_denied(&connect(&sandbox, uplink.at(uplink.private())).await);
    assert_denied(&connect(&sandbox, uplink.at(uplink.metadata())).await);
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn the_machine_is_not_reached_at_any_of_its_addresses() {
    let uplink = Uplink::new();
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let gateway = gateway_of(&sandbox).await;
    for address in [gateway, uplink.host()] {
        assert_denied(&connect(&sandbox, SocketAddr::from((address, port))).await);
        let datagram = format!("work datagram={address}:{port}");
        assert_eq!(ask(&sandbox, &datagram).await, "error: WouldBlock");
    }
    // Its loopback is its own: nobody listens there.
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    assert_eq!(
        connect(&sandbox, loopback).await,
        "error: ConnectionRefused"
    );
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn neighbours_do_not_reach_each_other() {
    let bench = Bench::new().await;
    let other_server = Bench::new().await;
    let sandbox = bench.launch().await;
    let neighbour = bench.launch().await;
    let stranger = other_server.launch().await;
    let agent_of = |other: &Launched| SocketAddr::from((other.address(), crate::agent::PORT));
    assert_denied(&connect(&sandbox, agent_of(&neighbour)).await);
    // Which server's rules say no first is not decided; one of them does.
    let answer = connect(&sandbox, agent_of(&stranger)).await;
    assert!(
        ["error: HostUnreachable", "error: TimedOut"].contains(&answer.as_str()),
        "{answer}"
    );
    for other in [&neighbour, &stranger] {
        assert_eq!(ask(other, "agent pid").await, "1", "the host reaches it");
    }
    for sandbox in [&sandbox, &neighbour, &stranger] {
        sandbox.destroy().await.unwrap();
    }
    drop((sandbox, neighbour, stranger));
    bench.finish().await;
    other_server.finish().await;
}

async fn a_sandbox_cannot_speak_as_another() {
    let uplink = Uplink::new();
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    let pid = first_process(&sandbox);
    // The host's root gives it an address that is not its own, which nobody inside could.
    let false_address = Ipv4Addr::new(198, 51, 100, 251);
    let inside = |arguments: &[&str]| {
        let namespace = format!("--net=/proc/{pid}/ns/net");
        let output = Command::new("nsenter")
            .arg(namespace)
            .args(arguments)
            .output();
        output.unwrap()
    };
    let public = uplink.at(uplink.public()).to_string();
    let executable = std::env::current_exe().unwrap();
    let reach = |question: String| {
        let output = inside(&[executable.to_str().unwrap(), "probe", &question]);
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(
        reach(format!("connect={public}")),
        uplink.host().to_string(),
        "as itself it is heard"
    );
    let false_address = format!("{false_address}/32");
    assert!(
        inside(&["ip", "addr", "add", &false_address, "dev", "eth0"])
            .status
            .success()
    );
    let source = &[
        "ip",
        "route",
        "change",
        "default",
        "via",
        &gateway_of(&sandbox).await.to_string(),
        "dev",
        "eth0",
        "onlink",
        "src",
        &false_address[..false_address.len() - 3],
    ];
    assert!(inside(source).status.success());
    // Packets with a false sender are not even answered.
    assert_eq!(reach(format!("connect={public}")), "error: TimedOut");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn without_internet_nothing_is_reached_and_the_machine_still_reaches_it() {
    let uplink = Uplink::new();
    let bench = Bench::new().await;
    let mut request = bench.request();
    request.egress = Egress::closed();
    let sandbox = bench.native().launch(request).await.unwrap();
    let refused = connect(&sandbox, uplink.at(uplink.public())).await;
    assert_eq!(refused, "error: ConnectionRefused");
    assert_eq!(ask(&sandbox, "agent pid").await, "1");
    let gateway = gateway_of(&sandbox).await;
    let answer = ask(
        &sandbox,
        &format!("work resolve={gateway}:53/example.test."),
    )
    .await;
    assert_eq!(answer, "Refused ");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn names_are_resolved_without_denied_addresses() {
    let resolver = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = resolver.local_addr().unwrap();
    let bench = Bench::with(|config| config.host.resolvers = vec![address]).await;
    let sandbox = bench.launch().await;
    let gateway = gateway_of(&sandbox).await;
    let question = format!("work resolve={gateway}:53/example.test.");
    let (answer, ()) = tokio::join!(ask(&sandbox, &question), answer_once(&resolver));
    assert_eq!(answer, "NoError 198.51.100.7");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn questions_for_names_fill_no_table_of_the_host() {
    let kept = table_after_questions(Vec::new()).await;
    assert!(kept < QUESTIONS / 4, "{kept} entries");
    // Where they are tracked, each leaves an entry.
    let kept = table_after_questions(vec![Defence::UntrackedNames]).await;
    assert!(kept > QUESTIONS / 4 * 3, "{kept} entries");
}

/// Growth of the host's connection table after a sandbox without internet has sent its queries.
async fn table_after_questions(without: Vec<Defence>) -> u32 {
    let bench = Bench::with(|config| config.without = without).await;
    let mut request = bench.request();
    request.egress = Egress::closed();
    let sandbox = bench.native().launch(request).await.unwrap();
    let gateway = gateway_of(&sandbox).await;
    // Both ways of asking are answered.
    let question = format!("work resolve={gateway}:53/example.test.");
    assert_eq!(ask(&sandbox, &question).await, "Refused ");
    let hello = format!("work connect={gateway}:53");
    assert_eq!(ask(&sandbox, &hello).await, "error: WouldBlock");
    let before = connections();
    let flood = format!("work questions={gateway}:53/{QUESTIONS}");
    assert_eq!(ask(&sandbox, &flood).await, QUESTIONS.to_string());
    let kept = connections().saturating_sub(before);
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
    kept
}

fn connections() -> u32 {
    let count = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count");
    count.unwrap().trim().parse().unwrap()
}

/// Answers one question with a public, a private and another sandbox's address.
async fn answer_once(resolver: &tokio::net::UdpSocket) {
    let mut buffer = [0; 4096];
    let (length, client) = resolver.recv_from(&mut buffer).await.unwrap();
    let question = Message::from_vec(&buffer[..length]).unwrap();
    let name = question.queries[0].name().clone();
    let mut answer = question.into_response();
    for address in [[198, 51, 100, 7], [10, 0, 0, 7], [198, 18, 0, 2]] {
        let data = RData::A(A(Ipv4Addr::from(address)));
        answer.add_answer(Record::from_rdata(name.clone(), 60, data));
    }
    let answer = answer.to_vec().unwrap();
    resolver.send_to(&answer, client).await.unwrap();
}

/// udev gives an interface another hardware address if the kernel has made its address up, a moment
/// after it was made: a neighbour that has learned the first one would talk to nobody.
async fn both_ends_of_a_link_have_addresses_that_nobody_else_chooses() {
    let chosen = "3";
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    let left = bench.left();
    let link = left
        .iter()
        .find_map(|thing| thing.strip_prefix("link "))
        .expect("a sandbox has a link");
    let file = |name: &str| format!("/sys/class/net/{link}/{name}");
    let outside = std::fs::read_to_string(file("address")).unwrap();
    assert_eq!(
        std::fs::read_to_string(file("addr_assign_type"))
            .unwrap()
            .trim(),
        chosen
    );
    let inside = |name: &str| format!("agent read=/sys/class/net/eth0/{name}");
    assert_eq!(ask(&sandbox, &inside("addr_assign_type")).await, chosen);
    let there = ask(&sandbox, &inside("address")).await;
    assert_ne!(there, outside.trim());
    for address in [there.as_str(), outside.trim()] {
        let first = u8::from_str_radix(&address[..2], 16).unwrap();
        assert_eq!(first & 0b11, 0b10, "{address} is not one's own choice");
    }
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

/// Without one of its own the kernel took any address of the host, such as the gateway of another
/// server: when that one was taken off the host, connections to our sandboxes hung.
async fn a_server_speaks_from_an_address_of_its_own() {
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    let address = sandbox.address().to_string();
    let output = Command::new("ip").args(["route", "get", &address]).output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    let mut words = said.split_whitespace();
    words.find(|word| *word == "src").expect("it has a source");
    let source = words.next().map(str::to_owned);
    assert_eq!(source, Some(gateway_of(&sandbox).await.to_string()));
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

pub(crate) async fn gateway_of(sandbox: &Launched) -> Ipv4Addr {
    let text = ask(sandbox, "agent read=/etc/resolv.conf").await;
    text.strip_prefix("nameserver ").unwrap().parse().unwrap()
}

pub(crate) fn first_process(sandbox: &Launched) -> i64 {
    let record: serde_json::Value = serde_json::from_str(&sandbox.record().0).unwrap();
    record["pid"].as_i64().unwrap()
}
