//! The world outside, as a namespace of the test: it answers as public, private and metadata
//! addresses, so no packet of a test ever leaves the host.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::secure::AUTHORITY;

/// Port of the service that sends everything back.
pub(crate) const ECHO: u16 = 7;

/// The world outside.
#[derive(Debug)]
pub(crate) struct Uplink {
    name: String,
    number: u16,
    server: Child,
    port: u16,
}

/// Numbers of uplinks, which are a part of their addresses.
const NUMBERS: u16 = 240;

/// Makes a network namespace that nobody else has, for tests beside this one and in other processes.
fn free_namespace() -> (u16, String) {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = u16::try_from(std::process::id() % u32::from(NUMBERS)).unwrap();
    (0..NUMBERS)
        .map(|_| (process + NEXT.fetch_add(1, Ordering::Relaxed)) % NUMBERS)
        .map(|number| (number, format!("skt-up{number}")))
        .find(|(_, name)| {
            let added = Command::new("ip").args(["netns", "add", name]).output();
            added.unwrap().status.success()
        })
        .expect("a free namespace")
}

impl Uplink {
    pub(crate) fn new() -> Self {
        Self::showing(&AUTHORITY.arguments())
    }

    /// A world whose hosts show this certificate, where they speak TLS.
    pub(crate) fn showing(certificate: &[String; 2]) -> Self {
        let (number, name) = free_namespace();
        ip(&[
            "link", "add", &name, "type", "veth", "peer", "name", "world", "netns", &name,
        ]);
        let mut uplink = Self {
            server: serve_showing(&name, certificate),
            name,
            number,
            port: 0,
        };
        uplink.port = read_port(&mut uplink.server);
        uplink.configure();
        uplink
    }

    fn configure(&self) {
        let name = self.name.as_str();
        let (host, world) = (self.host().to_string(), self.world().to_string());
        ip(&["addr", "add", &host, "peer", &world, "dev", name]);
        ip(&["link", "set", name, "up"]);
        let inside = |arguments: &[&str]| {
            ip(&[&["-n", name], arguments].concat());
        };
        inside(&["addr", "add", &world, "peer", &host, "dev", "world"]);
        inside(&["link", "set", "world", "up"]);
        inside(&["link", "set", "lo", "up"]);
        for address in [
            self.public(),
            self.private(),
            self.metadata(),
            self.mirror(),
        ] {
            let address = format!("{address}/32");
            inside(&["addr", "add", &address, "dev", "lo"]);
            ip(&["route", "add", &address, "dev", name]);
        }
    }

    /// The host's own address towards the world.
    pub(crate) fn host(&self) -> Ipv4Addr {
        self.address([198, 51], 0)
    }

    /// Another address that anybody may reach.
    pub(crate) fn world(&self) -> Ipv4Addr {
        self.address([198, 51], 1)
    }

    /// An address that anybody may reach.
    pub(crate) fn public(&self) -> Ipv4Addr {
        self.address([198, 51], 2)
    }

    pub(crate) fn private(&self) -> Ipv4Addr {
        self.address([10, 77], 2)
    }

    /// An address in the range of the clouds' metadata services.
    pub(crate) fn metadata(&self) -> Ipv4Addr {
        self.address([169, 254], 2)
    }

    /// A private address that the operator allows.
    pub(crate) fn mirror(&self) -> Ipv4Addr {
        self.address([172, 17], 3)
    }

    fn address(&self, range: [u8; 2], last: u8) -> Ipv4Addr {
        let [high, low] = (self.number * 4).to_be_bytes();
        // The second half of the range that is set aside for documentation.
        let third = if range == [198, 51] { 100 } else { 200 + high };
        let [.., fourth] = (u16::from(low) + u16::from(last)).to_be_bytes();
        Ipv4Addr::new(range[0], range[1], third, fourth)
    }

    /// The service that sends everything back, at an address of the world.
    pub(crate) fn echo(address: Ipv4Addr) -> SocketAddr {
        SocketAddr::from((address, ECHO))
    }

    pub(crate) fn at(&self, address: Ipv4Addr) -> SocketAddr {
        SocketAddr::from((address, self.port))
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
        ip(&["link", "delete", &self.name]);
        ip(&["netns", "delete", &self.name]);
    }
}

pub(crate) fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {output:?}");
}

pub(crate) fn serve_in(namespace: &str) -> Child {
    serve_showing(namespace, &AUTHORITY.arguments())
}

fn serve_showing(namespace: &str, certificate: &[String; 2]) -> Child {
    Command::new("ip")
        .args(["netns", "exec", namespace])
        .arg(std::env::current_exe().unwrap())
        .arg("serve")
        .args(certificate)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(crate) fn read_port(server: &mut Child) -> u16 {
    let mut line = String::new();
    let output = server.stdout.as_mut().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    line.trim().parse().unwrap()
}

/// Tells everybody who connects what their address is, and sends back what it is sent at another
/// port.
pub(crate) fn serve(arguments: &[String]) -> ExitCode {
    let echo = TcpListener::bind(("0.0.0.0", ECHO));
    if let Ok(echo) = echo {
        std::thread::spawn(move || {
            for stream in echo.incoming() {
                let stream = stream.unwrap();
                std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream).ok());
            }
        });
    }
    crate::web::serve(arguments);
    crate::socks_server::serve();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut out = std::io::stdout();
    out.write_all(format!("{port}\n").as_bytes()).unwrap();
    out.flush().unwrap();
    loop {
        let (mut stream, client) = listener.accept().unwrap();
        stream.write_all(client.ip().to_string().as_bytes()).ok();
    }
}
