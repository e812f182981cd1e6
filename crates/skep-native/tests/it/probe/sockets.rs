//! A user's program with sockets that have the sandbox's own address.

use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};

use super::ANSWER_TIMEOUT;

const HOLDER: &str = "/run/lock/sockets";

/// An address for documentation: a datagram socket is bound by being connected to it, and nothing
/// is sent.
const ELSEWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 53);

/// A datagram socket as a resolver has it: connected, and so bound to the address of now.
fn resolver() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(ELSEWHERE)?;
    Ok(socket)
}

/// Two ends of a connection, from the sandbox's own address to it.
fn connection(listener: &TcpListener) -> io::Result<(TcpStream, TcpStream)> {
    let client = TcpStream::connect(listener.local_addr()?)?;
    client.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let (server, _) = listener.accept()?;
    Ok((client, server))
}

/// Sockets of every kind that the kernel binds to the sandbox's own address.
struct Sockets {
    resolver: UdpSocket,
    receiver: UdpSocket,
    /// Connected to the receiver, so both of its addresses are the sandbox's own.
    sender: UdpSocket,
    /// As Java has them: of IPv6, with an address of IPv4 in it.
    mapped: UdpSocket,
    listener: TcpListener,
    established: (TcpStream, TcpStream),
    half_closed: (TcpStream, TcpStream),
}

impl Sockets {
    fn open() -> io::Result<Self> {
        let resolver = resolver()?;
        let own = resolver.local_addr()?.ip();
        let IpAddr::V4(address) = own else {
            return Err(io::Error::other("the sandbox has no address of IPv4"));
        };
        let listener = TcpListener::bind((own, 0))?;
        let receiver = UdpSocket::bind((own, 0))?;
        receiver.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let sender = UdpSocket::bind((own, 0))?;
        sender.connect(receiver.local_addr()?)?;
        let half_closed = connection(&listener)?;
        half_closed.0.shutdown(Shutdown::Write)?;
        Ok(Self {
            established: connection(&listener)?,
            half_closed,
            mapped: UdpSocket::bind((address.to_ipv6_mapped(), 0))?,
            resolver,
            receiver,
            sender,
            listener,
        })
    }

    /// Says which sockets have another address than that of now, and which connections are alive.
    fn look(&self) -> io::Result<String> {
        let own = resolver()?.local_addr()?.ip();
        let mut seen = String::new();
        let bound = [
            ("resolver", self.resolver.local_addr()?),
            ("receiver", self.receiver.local_addr()?),
            ("sender", self.sender.local_addr()?),
            ("sender's other end", self.sender.peer_addr()?),
            ("mapped", self.mapped.local_addr()?),
            ("listener", self.listener.local_addr()?),
        ];
        for (name, address) in bound {
            if address.ip().to_canonical() != own {
                write!(seen, "{name} at another address, ").map_err(io::Error::other)?;
            }
        }
        self.sender.send(b"sent")?;
        let mut buffer = [0; 8];
        let length = self.receiver.recv(&mut buffer)?;
        let sent = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let (mut client, mut server) = connection(&self.listener)?;
        server.write_all(b"accepted")?;
        client.read_exact(&mut buffer)?;
        let accepted = String::from_utf8_lossy(&buffer);
        write!(seen, "{sent} {accepted}").map_err(io::Error::other)?;
        for (near, far) in [&self.established, &self.half_closed] {
            seen.push_str(if is_alive(near, far) {
                " alive"
            } else {
                " cut"
            });
        }
        Ok(seen)
    }
}

fn is_alive(mut near: &TcpStream, mut far: &TcpStream) -> bool {
    let mut byte = [0];
    far.write_all(b"x").is_ok() && near.read_exact(&mut byte).is_ok()
}

/// Holds sockets, and says what became of them to whoever connects.
pub(super) fn hold() -> ! {
    let sockets = Sockets::open().unwrap();
    let asked = UnixListener::bind(HOLDER).unwrap();
    loop {
        let (mut stream, _) = asked.accept().unwrap();
        let seen = super::said(sockets.look());
        stream.write_all(seen.as_bytes()).ok();
    }
}

/// Asks who holds them.
pub(super) fn held() -> io::Result<String> {
    let mut stream = UnixStream::connect(HOLDER)?;
    let mut line = String::new();
    stream.read_to_string(&mut line)?;
    Ok(line)
}
