//! Socket buffers, which bound what the kernel keeps of a connection that one side does not read.
//!
//! The kernel lets a buffer grow with what goes through it, to megabytes, and counts it to the
//! host. Those towards sandboxes are bounded: the way is short, so more would not make it
//! faster. Those of clients are bounded as long as nobody knows who they are, and may grow for
//! callers with a key or token, whose way may be long.

use std::io;

use rustix::net::sockopt;
use tokio::net::{TcpSocket, TcpStream};

/// Buffer size requested for a client that is not authenticated. The kernel takes twice as much,
/// for what it needs itself: 256 KiB.
const ANONYMOUS: usize = 128 * 1024;
/// The same of a buffer towards a sandbox: 1 MiB. Downloads are a tenth slower with half as much.
const UPSTREAM: u32 = 512 * 1024;
/// The same of a caller's buffer that was bounded before: 8 MiB, about what kernels let one grow to.
const RAISED: usize = 4 * 1024 * 1024;

/// State of the buffers of a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientBuffers {
    /// Unchanged: they grow as the kernel likes.
    Kernel,
    /// They are bounded.
    Bounded,
    /// They were bounded, and are not any more.
    Raised,
}

impl ClientBuffers {
    /// Bounds or raises the buffers of a client of whom this much is known.
    pub(crate) fn fit(&mut self, stream: &TcpStream, anonymous: bool, authenticated: bool) {
        let (next, result) = match (*self, anonymous, authenticated) {
            (Self::Kernel, true, false) => (Self::Bounded, bound(stream)),
            (Self::Bounded, _, true) => (Self::Raised, raise(stream)),
            (Self::Kernel | Self::Bounded | Self::Raised, _, _) => return,
        };
        *self = next;
        if let Err(error) = result {
            tracing::debug!(%error, ?next, "socket buffers could not be resized");
        }
    }
}

fn bound(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_send_buffer_size(stream, ANONYMOUS)?;
    Ok(sockopt::set_socket_recv_buffer_size(stream, ANONYMOUS)?)
}

/// Needs the capability that makes networks for sandboxes, since what everybody may ask for is
/// often less than what the kernel gives by itself.
fn raise(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_send_buffer_size_force(stream, RAISED)?;
    Ok(sockopt::set_socket_recv_buffer_size_force(stream, RAISED)?)
}

/// Bounds the buffers of a connection that is yet to be made.
pub(crate) fn bound_upstream(socket: &TcpSocket) -> io::Result<()> {
    socket.set_send_buffer_size(UPSTREAM)?;
    socket.set_recv_buffer_size(UPSTREAM)
}
