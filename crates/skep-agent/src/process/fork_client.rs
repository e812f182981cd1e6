//! Kernels that the server forks into this sandbox, so that they need not be started.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::Pid;
use skep_agent_protocol::fork::{ForkAnswer, ForkRequest, GO, MAX_ANSWER};
use skep_linux::packet;

/// Time limit for an answer of the server. Starting a kernel takes about as long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);

/// The server, as far as it forks kernels.
#[derive(Debug)]
pub(crate) struct ForkClient {
    /// Held from a question to its answer. Empty when an answer did not come: a late one would
    /// be taken for that to the next question.
    server: Mutex<Option<OwnedFd>>,
}

/// A kernel that waits for its first word.
#[derive(Debug)]
pub(crate) struct Forked {
    pub(crate) pid: Pid,
    go: OwnedFd,
}

impl ForkClient {
    pub(crate) fn new(server: OwnedFd) -> Self {
        Self {
            server: Mutex::new(Some(server)),
        }
    }

    /// Lets go of the server, which is asked for nothing more. Blocks until it has answered what it
    /// was asked.
    pub(crate) fn close(&self) {
        *self.server.lock() = None;
    }

    /// Asks for a kernel with these standard descriptors, which are nobody else's afterwards:
    /// others have had them, whatever the answer. Blocks.
    ///
    /// # Errors
    ///
    /// If there is none to be had; the caller starts one.
    pub(crate) fn ask(
        &self,
        request: &ForkRequest,
        standard: [OwnedFd; 3],
        join_fds: &[OwnedFd],
    ) -> io::Result<Forked> {
        // The server takes no other: a sealed file neither changes after it was checked nor makes
        // its reader wait.
        let file = skep_linux::sealed_file("fork-request", &serde_json::to_vec(request)?)?;
        let mut descriptors = vec![file.as_fd()];
        descriptors.extend(standard.iter().map(AsFd::as_fd));
        descriptors.extend(join_fds.iter().map(AsFd::as_fd));
        let mut slot = self.server.lock();
        let server = slot.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let answer = packet::send(server, b"f", &descriptors)
            .and_then(|()| packet::receive(server, MAX_ANSWER, Instant::now() + ANSWER_TIMEOUT));
        let answer = match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                *slot = None;
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Err(error) => {
                *slot = None;
                return Err(error);
            }
        };
        drop(slot);
        match serde_json::from_slice(&answer.bytes)? {
            ForkAnswer::Forked { pid } => Ok(Forked {
                pid: Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?,
                go: answer
                    .descriptors
                    .into_iter()
                    .next()
                    .ok_or(io::ErrorKind::InvalidData)?,
            }),
            ForkAnswer::Refused => Err(io::Error::other("the server forks no kernel")),
        }
    }
}

impl Forked {
    /// Lets the kernel begin.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub(crate) fn go(self) -> io::Result<()> {
        packet::send(&self.go, GO, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ForkRequest {
        ForkRequest {
            uid: 1000,
            gid: 1000,
            groups: Vec::new(),
            environment: std::collections::BTreeMap::new(),
            directory: "/".into(),
        }
    }

    fn ask(client: &ForkClient) -> io::Result<Forked> {
        let null = || std::fs::File::open("/dev/null").unwrap().into();
        client.ask(&request(), [null(), null(), null()], &[])
    }

    #[test]
    fn a_server_that_is_gone_is_asked_once() {
        let (server, ours) = packet::pair().unwrap();
        drop(server);
        let client = ForkClient::new(ours);
        assert_eq!(ask(&client).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(
            ask(&client).unwrap_err().kind(),
            io::ErrorKind::NotConnected
        );
    }

    #[test]
    fn nobody_is_asked_after_the_end() {
        let (server, ours) = packet::pair().unwrap();
        let client = ForkClient::new(ours);
        client.close();
        assert_eq!(
            ask(&client).unwrap_err().kind(),
            io::ErrorKind::NotConnected
        );
        let soon = Instant::now() + ANSWER_TIMEOUT;
        let heard = packet::receive(&server, MAX_ANSWER, soon).unwrap();
        assert!(heard.is_none(), "the server sees the end");
    }

    #[test]
    fn a_kernel_begins_when_it_is_told_to() {
        let (server, ours) = packet::pair().unwrap();
        let (go, kernel) = packet::pair().unwrap();
        let answer = ForkAnswer::Forked { pid: 42 };
        packet::send(
            &server,
            &serde_json::to_vec(&answer).unwrap(),
            &[go.as_fd()],
        )
        .unwrap();
        let forked = ask(&ForkClient::new(ours)).unwrap();
        assert_eq!(forked.pid.as_raw_nonzero().get(), 42);
        forked.go().unwrap();
        let soon = Instant::now() + ANSWER_TIMEOUT;
        assert_eq!(
            packet::receive(&kernel, 8, soon).unwrap().unwrap().bytes,
            GO
        );
    }
}
