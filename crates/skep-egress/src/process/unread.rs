//! Connections that nobody reads: they go to the address that the sandbox has connected to, if that is
//! allowed.

use std::io;
use std::sync::Arc;

use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::TcpStream;

use super::desk::{Desk, Destination, Reached};
use super::tls::BUFFER;
use crate::message::{Ended, Refusal, Way};

/// Passes a connection on, without a look at what is said. It comes back if its address is not allowed:
/// a name that is still to be read may be.
pub(super) async fn serve(
    mut stream: TcpStream,
    desk: &Arc<Desk>,
    aim: &Destination,
) -> Option<TcpStream> {
    let mut ended = Ended {
        host: Some(aim.address.to_string()),
        port: aim.port,
        ..Ended::default()
    };
    let mut upstream = match desk.ask(aim, Way::Opaque).await {
        Ok(Reached::Connected(upstream)) => upstream,
        // No rule is about a connection without a name.
        Ok(Reached::Inspect(_)) => return None,
        Err(Refusal::NoName) => return Some(stream),
        Err(refusal) => {
            ended.refusal = Some(refusal);
            desk.note(ended);
            return None;
        }
    };
    ended.rule.clone_from(&upstream.rule);
    let traffic = upstream.traffic();
    let passing = copy_bidirectional_with_sizes(&mut stream, &mut upstream, BUFFER, BUFFER);
    // However it ended, it is over for both sides, and all that is told of it are the bytes.
    let _over: io::Result<(u64, u64)> = passing.await;
    (ended.sent, ended.received) = traffic.so_far();
    desk.note(ended);
    None
}
