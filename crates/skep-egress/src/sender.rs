//! The other process of a sandbox: gets requests that were read, puts headers into them, and speaks
//! with hosts.
//!
//! It never hears the sandbox, and what reads the sandbox never sees a value: between the two are
//! frames ([`crate::pipe`]). It asks the server about every request, and gets the values for that
//! request alone.

mod desk;
mod exchange;
#[cfg(feature = "fuzzing")]
pub(crate) use exchange::fuzzing;
mod host;
mod meter;
mod upstream;

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use skep_launch::{RelayLimits, confine_relay};

use crate::channel::{Channel, OF_REQUESTS};
use crate::message::ToSender;
use crate::process::MOST_CONNECTIONS;
use desk::Desk;
use host::Client;

/// A pipe and a connection for each, and a few of its own.
const OPEN_FILES: u64 = 2 * MOST_CONNECTIONS as u64 + 32;
/// Address space.
const MEMORY: u64 = 1 << 30;
/// The largest file with certificates of authorities.
const MOST_ROOTS: u64 = 16 << 20;

/// Serves the other process. The server is at the standard input, and a file with certificates of
/// authorities at the standard output.
pub(crate) fn serve(user: u32) -> io::Result<()> {
    let channel = io::stdin().as_fd().try_clone_to_owned()?;
    let roots = io::stdout().as_fd().try_clone_to_owned()?;
    // Before it is confined: it makes nothing of what strangers say.
    let client = Client::new(read_roots(roots)?).map_err(io::Error::other)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    confine_relay(RelayLimits {
        user,
        memory: MEMORY,
        open_files: OPEN_FILES,
    })
    .map_err(io::Error::other)?;
    runtime.block_on(async {
        let channel = Channel::new(channel, OF_REQUESTS)?;
        let desk = Desk::new(channel);
        let client = Arc::new(client);
        tokio::select! {
            ended = hear(&desk, &client) => ended,
            ended = desk.tell() => ended,
        }
    })
}

/// Hears the server, until it is gone.
async fn hear(desk: &Arc<Desk>, client: &Arc<Client>) -> io::Result<()> {
    while let Some((message, descriptors)) = desk.channel().receive::<ToSender>().await? {
        match message {
            ToSender::Route(route) => {
                let sockets: [OwnedFd; 2] = descriptors
                    .try_into()
                    .map_err(|_| io::ErrorKind::InvalidData)?;
                let serving = exchange::serve(Arc::clone(desk), Arc::clone(client), route, sockets);
                drop(skep_telemetry::spawn("route", serving));
            }
            ToSender::Go {
                request,
                headers,
                pace,
            } => desk.answer(request, Ok((headers, pace))),
            ToSender::Stop { request, refusal } => desk.answer(request, Err(refusal)),
        }
    }
    Ok(())
}

/// The authorities by which hosts are verified.
fn read_roots(file: OwnedFd) -> io::Result<RootCertStore> {
    let mut text = Vec::new();
    let mut file = File::from(file);
    file.rewind()?;
    file.take(MOST_ROOTS).read_to_end(&mut text)?;
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(&text).filter_map(Result::ok);
    // Some hosts have old ones among theirs that cannot be read; the others count.
    let (_added, _left_out) = roots.add_parsable_certificates(certificates);
    Ok(roots)
}
