//! A host with two networks does not become a router between them because sandboxes are there.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};

use skep_native::{Defence, Native, NativeConfig};

use crate::bench::block_on;
use crate::crash::say;
use crate::uplink::{ip, read_port, serve_in};

crate::tests![
    two_networks_of_a_machine_stay_apart,
    a_machine_that_is_a_router_stays_one,
];

const APART: &str = "apart";
const JOINED: &str = "joined";

/// A backend in a process of its own, in whatever network that is. Taken down when its standard
/// input ends.
pub(crate) fn route(arguments: &[String]) -> ExitCode {
    let [data_dir, kind] = arguments else {
        return ExitCode::FAILURE;
    };
    let mut config = NativeConfig::new(data_dir, std::env::current_exe().unwrap());
    if kind == JOINED {
        config.without = vec![Defence::ApartNetworks];
    }
    block_on(async {
        let native = Native::start(config).await.unwrap();
        say("ready");
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()).unwrap())
            .await
            .unwrap();
        native.dismantle().await.unwrap();
    });
    ExitCode::SUCCESS
}

/// A host with two networks, and one neighbour in each; all are namespaces of the test.
struct Host {
    name: String,
    neighbour: Child,
    port: u16,
}

impl Host {
    fn new(name: &str) -> Self {
        let name = format!("skt-{name}{}", std::process::id());
        let names = [name.clone(), format!("{name}a"), format!("{name}b")];
        names.iter().for_each(|name| ip(&["netns", "add", name]));
        for (side, far) in [("left", &names[1]), ("right", &names[2])] {
            let subnet = if side == "left" {
                "192.0.2"
            } else {
                "203.0.113"
            };
            let near = ["link", "add", side, "netns", &name, "type", "veth"];
            ip(&[&near[..], &["peer", "name", "net0", "netns", far]].concat());
            for (place, interface, last) in [(&name, side, 1), (far, "net0", 2)] {
                let address = format!("{subnet}.{last}/24");
                ip(&["-n", place, "addr", "add", &address, "dev", interface]);
                ip(&["-n", place, "link", "set", interface, "up"]);
            }
            let gateway = format!("{subnet}.1");
            ip(&["-n", far, "route", "add", "default", "via", &gateway]);
        }
        let mut neighbour = serve_in(&names[2]);
        let port = read_port(&mut neighbour);
        let host = Self {
            name,
            neighbour,
            port,
        };
        host.set_forwarding("0");
        host
    }

    fn set_forwarding(&self, value: &str) {
        let setting = format!("net.ipv4.ip_forward={value}");
        let set = self.exec(&self.name, &["sysctl", "-q", &setting]);
        assert!(set.status.success(), "{set:?}");
    }

    fn forwarding(&self) -> String {
        let read = self.exec(&self.name, &["cat", "/proc/sys/net/ipv4/ip_forward"]);
        String::from_utf8(read.stdout).unwrap().trim().to_owned()
    }

    /// Returns true if the neighbour on the left reaches the one on the right through the host.
    fn is_router(&self) -> bool {
        let place = format!("{}a", self.name);
        let script = format!("exec 3<>/dev/tcp/203.0.113.2/{}", self.port);
        let reached = self.exec(&place, &["timeout", "2", "bash", "-c", &script]);
        reached.status.success()
    }

    fn exec(&self, place: &str, command: &[&str]) -> std::process::Output {
        let inside = ["netns", "exec", place];
        let output = Command::new("ip").args(inside).args(command).output();
        output.unwrap()
    }

    /// Starts a backend on the host, looks, and takes it down.
    fn with_backend<T>(&self, kind: &str, look: impl FnOnce(&Self) -> T) -> T {
        let data = tempfile::tempdir().unwrap();
        // `ip netns exec` would hide the cgroups.
        let mut server = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{}", self.name))
            .arg(std::env::current_exe().unwrap())
            .arg("route")
            .arg(data.path())
            .arg(kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = server.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let seen = look(self);
        drop(server.stdin.take());
        assert!(server.wait().unwrap().success());
        seen
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.neighbour.kill().unwrap();
        self.neighbour.wait().unwrap();
        for suffix in ["", "a", "b"] {
            ip(&["netns", "delete", &format!("{}{suffix}", self.name)]);
        }
    }
}

async fn two_networks_of_a_machine_stay_apart() {
    let host = Host::new("two");
    assert!(!host.is_router(), "it was none before");
    let look = |host: &Host| (host.forwarding(), host.is_router());
    let apart = host.with_backend(APART, look);
    assert_eq!(apart, ("1".to_owned(), false));
    // Others may run on this host, and what is put back depends on that; apart from that it
    // is as it was.
    host.set_forwarding("0");
    let joined = host.with_backend(JOINED, look);
    assert_eq!(joined, ("1".to_owned(), true), "the control");
}

async fn a_machine_that_is_a_router_stays_one() {
    let host = Host::new("rou");
    host.set_forwarding("1");
    assert!(host.is_router());
    assert!(host.with_backend(APART, Host::is_router));
    assert_eq!(host.forwarding(), "1");
}
