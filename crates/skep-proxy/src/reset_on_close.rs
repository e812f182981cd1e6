//! Closing a connection with a reset instead of an orderly end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpStream;

/// Says whether a socket is to be closed with a reset, whoever owns it by then.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResetOnClose(Arc<AtomicBool>);

impl ResetOnClose {
    pub(crate) fn arm(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn disarm(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Makes a stream that is about to be dropped close with a reset, if that is wanted.
pub(crate) fn close(stream: &TcpStream, reset: &ResetOnClose) {
    if reset.is_armed()
        && let Err(error) = stream.set_zero_linger()
    {
        tracing::debug!(%error, "connection could not be reset and is closed instead");
    }
}
