//! Hosts that sandboxes reach by their names, and the ways around that.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ipnet::Ipv4Net;
use skep_isolation::{Isolation, Launched};
use skep_native::Defence;
use skep_testkit::wait_until;
use skep_types::{Connections, Egress, EgressRules, LoggedRequest, SandboxId};

use crate::bench::{Bench, DEADLINE, ask};
use crate::network::{connect, first_process, gateway_of};
use crate::policy::Conversation;
use crate::uplink::{ECHO, Uplink};
use crate::web::{TLS, WEB, hello, resolver};

crate::tests![
    hosts_are_reached_by_the_names_that_rules_have,
    a_request_that_names_another_host_is_refused_wherever_it_hides_the_name,
    a_request_with_a_long_path_is_told_and_ends_nothing,
    names_lead_nowhere_that_no_sandbox_goes,
    exceptions_of_the_operator_open_neither_the_host_nor_sandboxes,
    connections_that_others_on_the_host_redirect_are_not_let_in,
    connections_to_hosts_that_a_changed_policy_does_not_name_are_cut,
    an_adopted_sandbox_reaches_hosts_again_when_its_policy_is_told,
    a_proxy_has_no_rights_and_is_nobody_elses,
    connections_that_say_nothing_hold_up_their_own_sandbox_and_not_for_long,
    heads_that_never_end_are_given_up_and_slow_bodies_hold_up_their_own_sandbox_alone,
    a_redirect_leads_no_further_than_the_rules,
];

/// An address that nobody has: what is led to a proxy does not depend on it.
pub(crate) const NOWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
/// The alert by which access is denied.
const DENIED: &str = "\u{15}\u{3}\u{3}\0\u{2}\u{2}1";

pub(crate) fn only(hosts: &[&str]) -> Egress {
    Egress::new(EgressRules {
        allowed: hosts.iter().map(ToString::to_string).collect(),
        denied: vec!["0.0.0.0/0".into()],
        ..EgressRules::default()
    })
    .unwrap()
}

pub(crate) async fn launch(bench: &Bench, egress: Egress) -> (SandboxId, Launched) {
    let mut request = bench.request();
    request.egress = egress;
    let id = request.id.clone();
    (id, bench.native().launch(request).await.unwrap())
}

/// Says something to the world's address and port, and returns the answer.
pub(crate) async fn say(sandbox: &Launched, port: u16, words: &[u8]) -> String {
    let digits = digits(words);
    ask(sandbox, &format!("work say={NOWHERE}:{port}/{digits}")).await
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn get(sandbox: &Launched, host: &str) -> String {
    let request = format!("GET /x?secret=1 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    say(sandbox, WEB, request.as_bytes()).await
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or(answer)
}

/// A world with a few hosts, and a backend that asks for their names.
async fn world(without: Vec<Defence>) -> (Uplink, Bench) {
    world_with(without, |_| Vec::new()).await
}

/// The same with ranges that the operator allows.
async fn world_with(
    without: Vec<Defence>,
    allowed: impl FnOnce(&Uplink) -> Vec<Ipv4Net>,
) -> (Uplink, Bench) {
    let uplink = Uplink::new();
    let hosts = [
        ("a.test", uplink.public()),
        ("x.b.test", uplink.world()),
        ("c.test", uplink.world()),
        ("private.test", uplink.private()),
        ("metadata.test", uplink.metadata()),
        ("host.test", uplink.host()),
        ("loopback.test", Ipv4Addr::LOCALHOST),
        ("sandbox.test", Ipv4Addr::new(198, 18, 7, 7)),
    ];
    let names = resolver(&hosts).await;
    let allowed = allowed(&uplink);
    let change = |config: &mut skep_native::NativeConfig| {
        config.host.allowed_ranges = allowed;
        config.host.resolvers = vec![names];
        config.without = without;
    };
    (uplink, Bench::with(change).await)
}

/// Waits until the log of a sandbox's requests is as expected.
async fn check_log(bench: &Bench, id: &SandboxId, expected: &[&str]) {
    wait_until(DEADLINE, async || {
        let requests = bench.native().requests(id.clone()).await;
        let told: Vec<_> = requests.iter().map(told).collect();
        if told == expected {
            Ok(())
        } else {
            Err(format!("{told:?}"))
        }
    })
    .await;
}

/// Description of a request: host, method, path, status, rule, and whether it was refused.
pub(crate) fn told(request: &LoggedRequest) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let status = request.status.map(|status| status.to_string());
    let refused = if request.refusal.is_some() {
        " refused"
    } else {
        ""
    };
    format!(
        "{} {} {} {} {}{refused}",
        text(&request.host),
        text(&request.method),
        text(&request.path),
        text(&status),
        text(&request.rule)
    )
}

async fn hosts_are_reached_by_the_names_that_rules_have() {
    let (uplink, bench) = world(Vec::new()).await;
    let (id, sandbox) = launch(&bench, only(&["a.test", "*.B.test"])).await;
    let answer = get(&sandbox, "A.test").await;
    let at = format!("at {}", uplink.public());
    assert!(
        answer.contains(&at) && answer.contains("Host: A.test"),
        "{answer}"
    );
    assert_eq!(status(&get(&sandbox, "x.b.test").await), "200");
    let refused = get(&sandbox, "c.test").await;
    assert!(
        refused.starts_with("HTTP/1.1 403 ")
            && refused.contains("c.test: the sandbox's network rules do not allow this host"),
        "{refused}"
    );
    for (name, is_encrypted, is_passed) in [
        (Some("a.test"), false, true),
        (Some("c.test"), false, false),
        (Some("b.test"), false, false),
        (Some("a.test"), true, false),
        (None, false, false),
    ] {
        let hello = hello(name, is_encrypted);
        let heard = say(&sandbox, TLS, &hello).await;
        let whole: String = hello.iter().map(|byte| char::from(*byte)).collect();
        let expected = if is_passed { &whole } else { DENIED };
        assert_eq!(heard, expected, "{name:?} {is_encrypted}");
    }
    let socket = "GET /socket HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\n\
                  Upgrade: websocket\r\n\r\nsaid in another protocol";
    let heard = say(&sandbox, WEB, socket.as_bytes()).await;
    assert!(
        heard.starts_with("HTTP/1.1 101 ") && heard.ends_with("\r\n\r\nsaid in another protocol"),
        "{heard}"
    );
    // Other ports are for addresses.
    let other = connect(&sandbox, uplink.at(uplink.public())).await;
    assert_eq!(other, "error: ConnectionRefused");
    let expected = [
        "a.test GET /x 200 a.test",
        "x.b.test GET /x 200 *.b.test",
        "c.test GET /x 403 - refused",
        "a.test - - - a.test",
        "c.test - - - - refused",
        "b.test - - - - refused",
        "- - - - - refused",
        "- - - - - refused",
        "a.test GET /socket 101 a.test",
    ];
    check_log(&bench, &id, &expected).await;
    let requests = bench.native().requests(id).await;
    assert!(requests[0].received > 0 && requests[3].sent > 0);
    // A rule may be about another port; there both protocols are spoken.
    let ported = only(&["a.test:7"]);
    sandbox.set_egress(ported, Connections::Cut).await.unwrap();
    for (name, port, is_passed) in [("a.test", ECHO, true), ("c.test", ECHO, false)] {
        let hello = hello(Some(name), false);
        let heard = say(&sandbox, port, &hello).await;
        let whole: String = hello.iter().map(|byte| char::from(*byte)).collect();
        assert_eq!(heard, if is_passed { &whole } else { DENIED }, "{name}");
    }
    let plain = say(&sandbox, ECHO, b"GET / HTTP/1.1\r\nHost: c.test:7\r\n\r\n").await;
    assert_eq!(status(&plain), "403");
    assert_eq!(get(&sandbox, "a.test").await, "error: ConnectionRefused");
    // Where an address is allowed, nobody looks at names.
    let direct = only(&["a.test", &uplink.world().to_string()]);
    sandbox.set_egress(direct, Connections::Cut).await.unwrap();
    let world = SocketAddr::from((uplink.world(), TLS));
    let words = "work say=".to_owned() + &format!("{world}/6869");
    assert_eq!(ask(&sandbox, &words).await, "hi");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn a_request_that_names_another_host_is_refused_wherever_it_hides_the_name() {
    let (_uplink, bench) = world(Vec::new()).await;
    let (_, sandbox) = launch(&bench, only(&["a.test"])).await;
    let head = "GET / HTTP/1.1\r\nHost: a.test\r\n";
    for (request, statuses) in [
        // On one connection, one request after the other.
        (
            format!("{head}\r\nGET / HTTP/1.1\r\nHost: c.test\r\n\r\n"),
            vec!["200", "403"],
        ),
        (format!("{head}Host: c.test\r\n\r\n"), vec!["400"]),
        (
            "GET http://c.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
            vec!["400"],
        ),
        (
            "CONNECT c.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
            vec!["403"],
        ),
        (
            "GET / HTTP/1.1\r\nHost: 192.0.2.7\r\n\r\n".into(),
            vec!["403"],
        ),
        ("GET / HTTP/1.0\r\n\r\n".into(), vec!["403"]),
        // A body that two readers would see end at different places.
        (
            "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nContent-Length: 90\r\n\r\n\
             abcdGET / HTTP/1.1\r\nHost: c.test\r\n\r\n"
                .into(),
            vec!["400"],
        ),
        // In another protocol another host could be named.
        (
            format!(
                "{head}Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n"
            ),
            vec!["200"],
        ),
    ] {
        let heard = say(&sandbox, WEB, request.as_bytes()).await;
        let found: Vec<_> = heard
            .match_indices("HTTP/1.")
            .filter(|(at, _)| heard[..*at].is_empty() || heard[at + 9..].starts_with("40"))
            .map(|(at, _)| &heard[at + 9..at + 12])
            .collect();
        assert_eq!(found, statuses, "{request:?} {heard:?}");
        assert!(!heard.to_lowercase().contains("h2c"), "{heard}");
    }
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
    // It is the judgement of names that refuses: without it the same request is passed on.
    let (_uplink, bench) = world(vec![Defence::NamedHosts]).await;
    let (_, sandbox) = launch(&bench, only(&["a.test"])).await;
    assert_eq!(status(&get(&sandbox, "c.test").await), "200");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn a_request_with_a_long_path_is_told_and_ends_nothing() {
    let (_uplink, bench) = world(Vec::new()).await;
    let (id, sandbox) = launch(&bench, only(&["a.test"])).await;
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    let proxy = proxy_of(&sandbox);
    let path = format!("/{}", "x".repeat(10_000));
    let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    let answer = say(&sandbox, WEB, request.as_bytes()).await;
    assert_eq!(status(&answer), "200");
    wait_until(DEADLINE, async || {
        let log = bench.native().requests(id.clone()).await;
        let told: Vec<_> = log.iter().map(told).collect();
        let told = told.join("\n");
        if told.contains("/xxxx") {
            Ok(())
        } else {
            Err(told)
        }
    })
    .await;
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    assert_eq!(proxy_of(&sandbox), proxy, "it is still the same process");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn exceptions_of_the_operator_open_neither_the_host_nor_sandboxes() {
    let everything = |_: &Uplink| vec!["0.0.0.0/0".parse().unwrap()];
    let (uplink, bench) = world_with(Vec::new(), everything).await;
    let (_, sandbox) = launch(&bench, only(&["*"])).await;
    // An address like those of the host and of sandboxes, that is not denied any more.
    let answer = get(&sandbox, "private.test").await;
    assert!(
        answer.contains(&format!("at {}", uplink.private())),
        "{answer}"
    );
    for name in ["host.test", "loopback.test", "sandbox.test"] {
        let answer = get(&sandbox, name).await;
        assert!(
            answer.contains("has no address that a sandbox may reach"),
            "{answer}"
        );
    }
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn connections_that_others_on_the_host_redirect_are_not_let_in() {
    assert!(!is_let_in(Vec::new()).await);
    assert!(is_let_in(vec![Defence::ClosedHost]).await);
}

/// Returns true if a sandbox gets to a service of the host to which somebody else's rules lead its
/// connections.
async fn is_let_in(without: Vec<Defence>) -> bool {
    const FOREIGN: u16 = 9081;
    let (uplink, bench) = world(without).await;
    let (_, sandbox) = launch(&bench, only(&["a.test"])).await;
    let service = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        // The last one is the test's own, so that the thread ends.
        for client in service.incoming().map(Result::unwrap) {
            if client.peer_addr().unwrap().ip().is_loopback() {
                return;
            }
            let mut said = [0; 5];
            (&client).read_exact(&mut said).unwrap();
            (&client).write_all(b"let in").unwrap();
        }
    });
    let host = uplink.host();
    let table = format!("skep-test-{}", std::process::id());
    nft(&format!(
        "table ip {table} {{\nchain redirecting {{\n\
         type nat hook prerouting priority -100;\n\
         ip daddr {NOWHERE} tcp dport {FOREIGN} dnat to {host}:{port}\n}}\n}}\n"
    ));
    let answer = say(&sandbox, FOREIGN, b"hello").await;
    nft(&format!("delete table ip {table}"));
    drop(std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap());
    serving.join().unwrap();
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
    let is_let_in = answer.contains("let in");
    assert!(is_let_in || answer.starts_with("error"), "{answer}");
    is_let_in
}

fn nft(rules: &str) {
    let output = Command::new("nft").arg(rules).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

async fn names_lead_nowhere_that_no_sandbox_goes() {
    let names = [
        "private.test",
        "metadata.test",
        "host.test",
        "loopback.test",
    ];
    let (_uplink, bench) = world(Vec::new()).await;
    let (_, sandbox) = launch(&bench, only(&["*"])).await;
    for name in names {
        let answer = get(&sandbox, name).await;
        assert!(
            answer.contains("has no address that a sandbox may reach"),
            "{answer}"
        );
    }
    assert_eq!(status(&get(&sandbox, "unknown.test").await), "502");
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
    // It is the look at addresses that keeps them away: without it they are reached.
    let (uplink, bench) = world(vec![Defence::CheckedNames]).await;
    let (_, sandbox) = launch(&bench, only(&["*"])).await;
    for (name, address) in [
        ("private.test", uplink.private()),
        ("metadata.test", uplink.metadata()),
    ] {
        let answer = get(&sandbox, name).await;
        assert!(answer.contains(&format!("at {address}")), "{answer}");
    }
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn connections_to_hosts_that_a_changed_policy_does_not_name_are_cut() {
    let cut = after_change(Vec::new()).await;
    assert_eq!(cut, (false, true));
    // Where nobody cuts them, they go on.
    let kept = after_change(vec![Defence::CutConnections]).await;
    assert_eq!(kept, (true, true));
}

/// Fate of two connections that were there before a policy that denies the first: true for those that
/// go on.
async fn after_change(without: Vec<Defence>) -> (bool, bool) {
    let (_uplink, bench) = world(without).await;
    let (_, sandbox) = launch(&bench, only(&["a.test", "c.test"])).await;
    let begin = |name: &str| {
        let address = SocketAddr::from((NOWHERE, TLS));
        let mut conversation = Conversation::begin(&sandbox, address);
        let words = digits(&hello(Some(name), false));
        assert_eq!(conversation.say(&format!("hex:{words}")), "true");
        conversation
    };
    let (mut denied, mut allowed) = (begin("a.test"), begin("c.test"));
    sandbox
        .set_egress(only(&["c.test"]), Connections::Cut)
        .await
        .unwrap();
    let goes_on = (
        denied.say("again") == "again",
        allowed.say("again") == "again",
    );
    denied.end();
    allowed.end();
    assert_eq!(status(&get(&sandbox, "a.test").await), "403");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
    goes_on
}

async fn an_adopted_sandbox_reaches_hosts_again_when_its_policy_is_told() {
    let (_uplink, mut bench) = world(Vec::new()).await;
    let (_, sandbox) = launch(&bench, only(&["a.test"])).await;
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    let record = sandbox.record();
    drop(sandbox);
    bench.restart().await;
    let sandbox = bench.native().adopt(record).await.unwrap();
    // Until somebody says what its policy is, it reaches nothing.
    assert_eq!(get(&sandbox, "a.test").await, "error: ConnectionRefused");
    sandbox
        .set_egress(only(&["a.test"]), Connections::Cut)
        .await
        .unwrap();
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    assert_eq!(status(&get(&sandbox, "c.test").await), "403");
    // A policy without names needs no proxy.
    sandbox
        .set_egress(Egress::closed(), Connections::Cut)
        .await
        .unwrap();
    assert_eq!(get(&sandbox, "a.test").await, "error: ConnectionRefused");
    wait_until_gone(&sandbox).await;
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

/// The number of the process that is the proxy of a sandbox, if there is one.
pub(crate) fn proxy_of(sandbox: &Launched) -> Option<u32> {
    let address = format!("\"{}\"", sandbox.address());
    let mut numbers = std::fs::read_dir("/proc").unwrap().flatten();
    numbers.find_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let is_proxy = line.contains(skep_egress::EGRESS_PROXY) && line.contains(&address);
        is_proxy.then_some(number)
    })
}

async fn wait_until_gone(sandbox: &Launched) {
    wait_until(DEADLINE, || async {
        proxy_of(sandbox).map_or(Ok(()), |number| Err(format!("process {number} is there")))
    })
    .await;
}

async fn a_proxy_has_no_rights_and_is_nobody_elses() {
    let (_uplink, bench) = world(Vec::new()).await;
    let (_, sandbox) = launch(&bench, only(&["a.test"])).await;
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    let number = proxy_of(&sandbox).expect("it has a proxy");
    let status_of = std::fs::read_to_string(format!("/proc/{number}/status")).unwrap();
    let field = |name: &str| {
        let line = status_of.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for name in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(name), ["0000000000000000"], "{name}");
    }
    assert_eq!(
        (field("NoNewPrivs:"), field("Seccomp:")),
        (vec!["1".into()], vec!["2".into()])
    );
    assert_eq!(field("Groups:"), [""; 0]);
    assert!(
        field("Uid:")
            .iter()
            .all(|id| id.parse::<u32>().unwrap() >= 0x0ff0_0000)
    );
    for name in ["net", "mnt", "ipc", "uts", "cgroup"] {
        let namespace =
            |process: &str| std::fs::read_link(format!("/proc/{process}/ns/{name}")).unwrap();
        assert_ne!(namespace(&number.to_string()), namespace("self"), "{name}");
    }
    let root = std::fs::read_dir(format!("/proc/{number}/root")).unwrap();
    assert_eq!(root.count(), 0, "its file system is empty");
    // Who knows where it listens is not served.
    let left = bench.left();
    let link = left.iter().find_map(|thing| thing.strip_prefix("link "));
    let (table, _) = link.unwrap().split_once('-').unwrap();
    let rules = Command::new("nft")
        .args(["list", "table", "inet", table])
        .output()
        .unwrap();
    let rules = String::from_utf8(rules.stdout).unwrap();
    let gateway = gateway_of(&sandbox).await;
    let (_, port) = rules.split_once(&format!("dnat ip to {gateway}:")).unwrap();
    let port: u16 = port.split_whitespace().next().unwrap().parse().unwrap();
    let (_, neighbour) = launch(&bench, only(&["c.test"])).await;
    for sandbox in [&sandbox, &neighbour] {
        let answer = connect(sandbox, SocketAddr::from((gateway, port))).await;
        assert_eq!(answer, "error: HostUnreachable");
    }
    // Killed, it comes back.
    let killed = Command::new("kill")
        .args(["-9", &number.to_string()])
        .status();
    assert!(killed.unwrap().success());
    wait_until(DEADLINE, || async {
        let answer = get(&sandbox, "a.test").await;
        if status(&answer) == "200" {
            Ok(())
        } else {
            Err(answer)
        }
    })
    .await;
    for sandbox in [&sandbox, &neighbour] {
        sandbox.destroy().await.unwrap();
        wait_until_gone(sandbox).await;
    }
    drop((sandbox, neighbour));
    bench.finish().await;
}

async fn connections_that_say_nothing_hold_up_their_own_sandbox_and_not_for_long() {
    let (_uplink, bench) = world(Vec::new()).await;
    let (_, sandbox) = launch(&bench, only(&["a.test"])).await;
    let (_, neighbour) = launch(&bench, only(&["a.test"])).await;
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    let namespace = format!("--net=/proc/{}/ns/net", first_process(&sandbox));
    let mut flood = Command::new("nsenter")
        .arg(namespace)
        .arg(std::env::current_exe().unwrap())
        .args(["probe", &format!("silent={NOWHERE}:{TLS}/560")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(flood.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line.trim(), "560");
    assert_eq!(status(&get(&neighbour, "a.test").await), "200");
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    flood.kill().unwrap();
    flood.wait().unwrap();
    for sandbox in [&sandbox, &neighbour] {
        sandbox.destroy().await.unwrap();
    }
    drop((sandbox, neighbour));
    bench.finish().await;
}

/// Connections of a sandbox on which a byte comes now and then.
struct Trickle {
    program: Child,
    open: Arc<AtomicUsize>,
}

impl Trickle {
    /// Opens so many of them, each of which begins with these words.
    async fn begin(sandbox: &Launched, port: u16, count: usize, words: &[u8]) -> Self {
        let namespace = format!("--net=/proc/{}/ns/net", first_process(sandbox));
        let question = format!("trickle={NOWHERE}:{port}/{count}/{}", digits(words));
        let mut program = Command::new("nsenter")
            .arg(namespace)
            .arg(std::env::current_exe().unwrap())
            .args(["probe", &question])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let open = Arc::new(AtomicUsize::new(0));
        let (told, lines) = (
            Arc::clone(&open),
            BufReader::new(program.stdout.take().unwrap()).lines(),
        );
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                told.store(line.parse().unwrap(), Ordering::Relaxed);
            }
        });
        let trickle = Self { program, open };
        trickle.wait_for(|open| open == count).await;
        trickle
    }

    async fn wait_for(&self, is_enough: impl Fn(usize) -> bool) {
        wait_until(DEADLINE, async || {
            let open = self.open.load(Ordering::Relaxed);
            if is_enough(open) {
                Ok(())
            } else {
                Err(format!("{open} are open"))
            }
        })
        .await;
    }

    fn end(mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }
}

async fn heads_that_never_end_are_given_up_and_slow_bodies_hold_up_their_own_sandbox_alone() {
    const ENDLESS_HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\nX-Slow: ";
    /// A first message of TLS that says it is very long.
    const ENDLESS_HELLO: &[u8] = &[22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb];
    const SLOW_BODY: &[u8] = b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\n";
    let (_uplink, bench) = world(Vec::new()).await;
    let (_, sandbox) = launch(&bench, only(&["a.test"])).await;
    let (_, neighbour) = launch(&bench, only(&["a.test"])).await;
    // The control: whoever has said what it wants may take its time for the rest.
    let slow = Trickle::begin(&sandbox, WEB, 1, SLOW_BODY).await;
    let floods = [
        Trickle::begin(&sandbox, WEB, 280, ENDLESS_HEAD).await,
        Trickle::begin(&sandbox, TLS, 280, ENDLESS_HELLO).await,
    ];
    assert_eq!(status(&get(&neighbour, "a.test").await), "200");
    for flood in floods {
        flood.wait_for(|open| open == 0).await;
        flood.end();
    }
    assert_eq!(slow.open.load(Ordering::Relaxed), 1);
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    // All places of the sandbox, and more than there are.
    let flood = Trickle::begin(&sandbox, WEB, 560, SLOW_BODY).await;
    assert_eq!(status(&get(&neighbour, "a.test").await), "200");
    flood.end();
    slow.end();
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    for sandbox in [&sandbox, &neighbour] {
        sandbox.destroy().await.unwrap();
    }
    drop((sandbox, neighbour));
    bench.finish().await;
}

async fn a_redirect_leads_no_further_than_the_rules() {
    let (_uplink, bench) = world(Vec::new()).await;
    let (id, sandbox) = launch(&bench, only(&["a.test"])).await;
    let answer = follow(&sandbox, "c.test").await;
    assert_eq!(status(&answer), "403", "{answer}");
    // Whom the sandbox has not asked for was not asked in its name.
    let expected = [
        "a.test GET /to/c.test 302 a.test",
        "c.test GET /x 403 - refused",
    ];
    check_log(&bench, &id, &expected).await;
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
    // Where names are not judged, it leads there.
    let (uplink, bench) = world(vec![Defence::NamedHosts]).await;
    let (_, sandbox) = launch(&bench, only(&["a.test"])).await;
    let answer = follow(&sandbox, "c.test").await;
    assert!(
        answer.contains(&format!("at {}", uplink.world())),
        "{answer}"
    );
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

/// Asks an allowed host to be sent on, and goes where its answer says, as programs do.
async fn follow(sandbox: &Launched, to: &str) -> String {
    let request = format!("GET /to/{to} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    let answer = say(sandbox, WEB, request.as_bytes()).await;
    assert_eq!(status(&answer), "302", "{answer}");
    let mut lines = answer.lines();
    let target = lines.find_map(|line| line.strip_prefix("location: http://"));
    let (host, _path) = target.unwrap().split_once('/').unwrap();
    get(sandbox, host).await
}
