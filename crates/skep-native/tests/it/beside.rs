//! Sandboxes on a host whose packets others filter, too: Docker, ufw, firewalld. The host, the
//! world outside it and a container beside us are namespaces of the test, and the rules are those
//! that these programs load.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use skep_native::Defence;
use skep_testkit::wait_for;

use crate::bench::{Bench, DEADLINE, ask, block_on};
use crate::crash::say;
use crate::uplink::{ip, read_port, serve_in};

crate::tests![
    sandboxes_reach_the_world_beside_docker,
    sandboxes_reach_the_world_beside_ufw,
    sandboxes_reach_the_world_beside_firewalld_that_was_told,
    what_the_operator_forbids_to_all_is_forbidden_to_sandboxes,
    a_filter_that_comes_later_does_not_cut_sandboxes_off,
    rules_that_somebody_removes_come_back,
];

const DOCKER: &str = include_str!("beside/docker.nft");
const UFW: &str = include_str!("beside/ufw.nft");
const FIREWALLD: &str = include_str!("beside/firewalld.nft");
/// The same after `firewall-cmd --zone=trusted --add-interface=skep+`.
const FIREWALLD_TOLD: &str = include_str!("beside/firewalld-told.nft");

const HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const WORLD: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
/// An address of the world that the operator keeps everybody from.
const FORBIDDEN: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 3);
/// An address of the world that no sandbox may reach.
const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const BRIDGE: &str = "docker0";

/// Time limit for a sandbox to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

const USUAL: &str = "usual";
const WITHOUT: &str = "without";

/// A backend with one sandbox, in a process of its own and in whatever network that is. Asks the
/// sandbox what its standard input says, and is taken down when that ends.
pub(crate) fn serve(arguments: &[String]) -> ExitCode {
    let without = match arguments {
        [kind] if kind == USUAL => Vec::new(),
        [kind] if kind == WITHOUT => vec![Defence::SharedFilter],
        _ => return ExitCode::FAILURE,
    };
    block_on(async {
        let bench = Bench::with(|config| config.without = without).await;
        let sandbox = bench.launch().await;
        say("ready");
        while let Some(question) = next_line().await {
            // A connection that began while nobody tracked connections is lost when somebody does.
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, ask(&sandbox, &question)).await;
            say(answer.as_deref().unwrap_or("silence"));
        }
        sandbox.destroy().await.unwrap();
        drop(sandbox);
        bench.finish().await;
    });
    ExitCode::SUCCESS
}

async fn next_line() -> Option<String> {
    let line = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
    line.await.unwrap().map(Result::unwrap)
}

/// A host with a world outside and a container at Docker's bridge.
struct Host {
    name: String,
    world: Child,
    port: u16,
}

impl Host {
    fn new() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("skt-by{}-{number}", std::process::id());
        let (outside, container) = (format!("{name}w"), format!("{name}c"));
        for name in [&name, &outside, &container] {
            ip(&["netns", "add", name]);
            ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        let inside = |arguments: &[&str]| ip(&[&["-n", &name], arguments].concat());
        let veth = ["type", "veth", "peer", "name", "net0", "netns"];
        inside(&[&["link", "add", "up0"], &veth[..], &[&outside]].concat());
        inside(&[&["link", "add", "vethc"], &veth[..], &[&container]].concat());
        inside(&["addr", "add", &format!("{HOST}/24"), "dev", "up0"]);
        inside(&["link", "add", BRIDGE, "type", "bridge"]);
        inside(&["addr", "add", "172.17.0.1/16", "dev", BRIDGE]);
        inside(&["link", "set", "vethc", "master", BRIDGE]);
        for link in ["up0", "vethc", BRIDGE] {
            inside(&["link", "set", link, "up"]);
        }
        let private = format!("{PRIVATE}/32");
        inside(&["route", "add", &private, "via", &WORLD.to_string()]);
        for address in [format!("{WORLD}/24"), format!("{FORBIDDEN}/24"), private] {
            ip(&["-n", &outside, "addr", "add", &address, "dev", "net0"]);
        }
        let address = ["addr", "add", "172.17.0.2/16", "dev", "net0"];
        ip(&[&["-n", &container], &address[..]].concat());
        for place in [&outside, &container] {
            ip(&["-n", place, "link", "set", "net0", "up"]);
        }
        let route = ["route", "add", "default", "via", "172.17.0.1"];
        ip(&[&["-n", &container], &route[..]].concat());
        let mut world = serve_in(&outside);
        let port = read_port(&mut world);
        let host = Self { name, world, port };
        // As Docker does.
        let on = host.exec("", &["sysctl", "-q", "net.ipv4.ip_forward=1"]);
        assert!(on.status.success(), "{on:?}");
        host
    }

    /// Runs a command in the namespace with this suffix.
    fn exec(&self, suffix: &str, command: &[&str]) -> Output {
        let place = format!("{}{suffix}", self.name);
        let inside = ["netns", "exec", &place];
        let output = Command::new("ip").args(inside).args(command).output();
        output.unwrap()
    }

    fn load(&self, rules: &str) {
        let mut nft = Command::new("ip")
            .args(["netns", "exec", &self.name, "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = nft.stdin.take().unwrap();
        input.write_all(rules.as_bytes()).unwrap();
        drop(input);
        assert!(nft.wait().unwrap().success(), "nft refused the rules");
    }

    /// All rules of the host, without their counters.
    fn rules(&self) -> String {
        let listed = self.exec("", &["nft", "--stateless", "list", "ruleset"]);
        assert!(listed.status.success(), "{listed:?}");
        String::from_utf8(listed.stdout).unwrap()
    }

    fn container_reaches_the_world(&self) -> bool {
        let script = format!("read -r seen < /dev/tcp/{WORLD}/{}; echo $seen", self.port);
        let reached = self.exec("c", &["timeout", "5", "bash", "-c", &script]);
        String::from_utf8(reached.stdout).unwrap().trim() == HOST.to_string()
    }

    fn start(&self, kind: &str) -> Server<'_> {
        // `ip netns exec` would hide the cgroups.
        let mut process = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{}", self.name))
            .arg(std::env::current_exe().unwrap())
            .args(["beside", kind])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Server {
            host: self,
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
        };
        assert_eq!(server.line(), "ready");
        server
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.world.kill().unwrap();
        self.world.wait().unwrap();
        for suffix in ["", "w", "c"] {
            ip(&["netns", "delete", &format!("{}{suffix}", self.name)]);
        }
    }
}

/// A server on that host, with one sandbox.
struct Server<'a> {
    host: &'a Host,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server<'_> {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, question: &str) -> String {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{question}\n").as_bytes()).unwrap();
        self.line()
    }

    /// Connects from the sandbox to an address of the world.
    fn connect(&mut self, address: Ipv4Addr) -> String {
        let address = SocketAddr::from((address, self.host.port));
        self.ask(&format!("work connect={address}"))
    }

    /// Asks for a name from the sandbox. Nobody knows it, but the server says so.
    fn resolve(&mut self) -> String {
        let resolver = self.ask("agent read=/etc/resolv.conf");
        let gateway = resolver.strip_prefix("nameserver ").unwrap();
        self.ask(&format!("work resolve={gateway}:53/example.test."))
    }

    /// Everything that works where nobody else filters.
    fn check(&mut self) {
        assert_eq!(self.connect(WORLD), HOST.to_string());
        assert_eq!(self.connect(PRIVATE), "error: HostUnreachable");
        assert_eq!(self.resolve(), "ServFail");
    }

    fn finish(mut self) {
        drop(self.input.take());
        assert!(self.process.wait().unwrap().success());
    }
}

async fn sandboxes_reach_the_world_beside_docker() {
    let host = Host::new();
    host.load(DOCKER);
    assert!(host.container_reaches_the_world());
    let before = host.rules();
    let mut control = host.start(WITHOUT);
    assert_eq!(control.connect(WORLD), "error: TimedOut", "the control");
    control.finish();
    let mut server = host.start(USUAL);
    server.check();
    assert!(host.container_reaches_the_world(), "beside us");
    server.finish();
    assert_eq!(host.rules(), before, "nothing of ours is left");
}

async fn sandboxes_reach_the_world_beside_ufw() {
    let host = Host::new();
    host.load(UFW);
    let before = host.rules();
    let mut control = host.start(WITHOUT);
    assert_eq!(control.connect(WORLD), "error: TimedOut", "the control");
    assert_eq!(control.resolve(), "error: WouldBlock", "the control");
    control.finish();
    let mut server = host.start(USUAL);
    server.check();
    server.finish();
    assert_eq!(host.rules(), before, "nothing of ours is left");
}

/// firewalld's table is its own, and what it lets through is for its operator to say.
async fn sandboxes_reach_the_world_beside_firewalld_that_was_told() {
    let host = Host::new();
    host.load(FIREWALLD);
    let mut control = host.start(USUAL);
    assert_eq!(control.connect(WORLD), "error: HostUnreachable");
    assert_ne!(control.resolve(), "ServFail");
    control.finish();
    host.load("flush ruleset");
    host.load(FIREWALLD_TOLD);
    let mut server = host.start(USUAL);
    server.check();
    server.finish();
}

async fn what_the_operator_forbids_to_all_is_forbidden_to_sandboxes() {
    let host = Host::new();
    host.load(DOCKER);
    host.load(&format!(
        "insert rule ip filter DOCKER-USER ip daddr {FORBIDDEN} drop"
    ));
    let mut server = host.start(USUAL);
    assert_eq!(server.connect(WORLD), HOST.to_string());
    assert_eq!(server.connect(FORBIDDEN), "error: TimedOut");
    server.finish();
}

async fn a_filter_that_comes_later_does_not_cut_sandboxes_off() {
    let host = Host::new();
    let mut server = host.start(USUAL);
    server.check();
    host.load(DOCKER);
    wait_for(DEADLINE, || is(server.connect(WORLD), &HOST.to_string()));
    server.finish();
}

/// `systemctl reload nftables` begins so.
async fn rules_that_somebody_removes_come_back() {
    let host = Host::new();
    let mut server = host.start(USUAL);
    host.load("flush ruleset");
    // Only our rules say no at once; without them it would be reached.
    wait_for(DEADLINE, || {
        is(server.connect(PRIVATE), "error: HostUnreachable")
    });
    server.check();
    server.finish();
}

fn is(answer: String, expected: &str) -> Result<(), String> {
    if answer == expected {
        Ok(())
    } else {
        Err(answer)
    }
}
