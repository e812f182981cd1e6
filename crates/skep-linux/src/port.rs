//! Ports that somebody was willing to share.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;

use rustix::net::{AddressFamily, SocketAddrV4, SocketFlags, SocketType, bind, ipproto};

/// Bytes of an option that is a number.
const LENGTH: libc::socklen_t = 4;

/// Makes the kernel forget, for a TCP port of this network namespace, that a socket at it was bound
/// to be shared (`SO_REUSEPORT`) and no longer is.
///
/// The kernel keeps that beside the port and asks the socket no more: another one of the same user
/// may join it, and gets its connections. What it keeps is corrected by the next socket that is bound
/// there without sharing, which one in repair may be although the port is taken. No listener is
/// changed, and sockets that are shared stay so.
///
/// # Errors
///
/// `EPERM` without `CAP_NET_ADMIN` over the network namespace.
pub fn forget_sharing(port: u16) -> io::Result<()> {
    let tcp = Some(ipproto::TCP);
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, tcp)?;
    let on: libc::c_int = 1;
    // SAFETY: the pointer and the length describe `on`, which has four bytes, is only read by
    // the kernel and outlives the call; `socket` is open until the end of this function.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_REPAIR,
            std::ptr::from_ref(&on).cast(),
            LENGTH,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bind(
        &socket,
        &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port),
    )?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::net::sockopt::set_socket_reuseport;

    use super::*;

    fn socket() -> OwnedFd {
        rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap()
    }

    fn joins(port: u16) -> bool {
        let joining = socket();
        set_socket_reuseport(&joining, true).unwrap();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        bind(&joining, &address).is_ok() && rustix::net::listen(&joining, 1).is_ok()
    }

    fn shared_listener() -> std::net::TcpListener {
        let listener = socket();
        set_socket_reuseport(&listener, true).unwrap();
        bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        listener.into()
    }

    #[test]
    fn a_port_that_is_no_longer_shared_cannot_be_joined() {
        let listener = shared_listener();
        let address = listener.local_addr().unwrap();
        set_socket_reuseport(&listener, false).unwrap();
        assert!(joins(address.port()), "the control: the kernel remembers");
        forget_sharing(address.port()).unwrap();
        assert!(!joins(address.port()));
        let _connection = std::net::TcpStream::connect(address).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn a_port_that_is_shared_stays_so() {
        let listener = shared_listener();
        let port = listener.local_addr().unwrap().port();
        forget_sharing(port).unwrap();
        assert!(joins(port));
    }
}
