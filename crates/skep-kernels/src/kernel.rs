//! The interface between a kernel and the context that owns it.

use std::io;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use skep_jupyter::frame::Request;
use skep_jupyter::{Envelope, Question};

use crate::meter::Meter;

/// A running kernel. Dropping it kills it.
pub trait Kernel: Send {
    /// Takes over a request. It is sent while the kernel is listened to.
    fn send(&mut self, request: &Request<'_>);

    /// Takes over a question under an id. Its answer, [`Message::Answer`] or a failed
    /// [`Message::Reply`], names that id as its parent.
    ///
    /// [`Message::Answer`]: skep_jupyter::Message::Answer
    /// [`Message::Reply`]: skep_jupyter::Message::Reply
    fn ask(&mut self, id: &str, question: &Question) {
        self.send(&question.request(id));
    }

    /// Waits for the next thing that happens. After [`Event::Ended`] nothing more does.
    ///
    /// Whoever does not call this does not read from the kernel, which then waits with its
    /// next output: that is how a slow client slows down the code.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when this is dropped.
    fn receive(&mut self) -> BoxFuture<'_, Event>;

    /// Interrupts what the kernel is doing, as Ctrl-C would.
    ///
    /// # Errors
    ///
    /// If it cannot be reached; it has probably ended.
    fn interrupt(&mut self) -> io::Result<()>;

    /// Ends the kernel and what it started, without asking. [`Event::Ended`] follows.
    fn kill(&mut self);

    /// Makes a spare ([`Command::is_spare`]) a kernel like any other.
    ///
    /// # Errors
    ///
    /// If it has ended.
    ///
    /// [`Command::is_spare`]: crate::Command::is_spare
    fn keep(&mut self) -> io::Result<()>;

    /// Forks a copy of the kernel, which stands still until it is sent [`Request::Continue`]. It
    /// does not end with its origin. Must not be called during an execution; what the kernel says
    /// meanwhile is lost.
    ///
    /// # Errors
    ///
    /// [`ForkError`]. The kernel itself goes on, unless it has ended.
    fn fork(&mut self) -> BoxFuture<'_, Result<Box<dyn Kernel>, ForkError>> {
        async { Err(ForkError::Unsupported) }.boxed()
    }

    /// Returns the meter that measures and limits it from outside. It is of use after the end of
    /// the kernel too.
    fn meter(&self) -> Arc<dyn Meter>;

    /// Memory in bytes at which the language's own runtime aborts the kernel, if it does that.
    fn heap_limit(&self) -> Option<u64> {
        None
    }
}

/// Events that a kernel reports to its owner.
#[derive(Debug)]
pub enum Event {
    /// It says something.
    Message(Envelope),
    /// It has ended.
    Ended(Exit),
}

/// Exit status of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// The kernel of the host killed it because there was no memory left.
    OutOfMemory,
    /// It said something that no kernel says, and was killed for it.
    Confused,
    /// The status could not be found out.
    Unknown,
}

impl Exit {
    /// Describes the end of a process by the code that it returned or the signal that ended it.
    pub fn of(code: Option<i32>, signal: Option<i32>) -> Self {
        match (code, signal) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

/// A source of kernels.
pub trait Launcher: Send + Sync + 'static {
    /// The languages for which there are kernels, the default first.
    fn languages(&self) -> Vec<String>;

    /// Starts a kernel and waits until it listens.
    fn start<'a>(&'a self, language: &'a str)
    -> BoxFuture<'a, Result<Box<dyn Kernel>, StartError>>;

    /// Hints that a caller may soon ask for another kernel of this language, so that one may be
    /// started now. Must be called within the runtime.
    fn anticipate(&self, language: &str);
}

/// Errors of forking a kernel.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// Kernels of this kind do not fork.
    #[error("this kernel does not fork")]
    Unsupported,
    /// Something in the kernel would not be in a copy, such as a thread.
    #[error("{reason}")]
    Refused {
        /// Reason in the words of the kernel.
        reason: String,
    },
    /// No copy appeared in time.
    #[error("there was no copy of the kernel within {seconds} s")]
    Silent {
        /// Time limit that passed.
        seconds: u64,
    },
    /// The kernel has ended.
    #[error("the kernel has ended ({0:?})")]
    Ended(Exit),
    /// The process that said hello is not a copy of the kernel.
    #[error("something else than a copy of the kernel answered")]
    Impostor,
    /// Its process cannot be taken over.
    #[error("the copy's process cannot be taken over")]
    Process(#[source] io::Error),
}

/// Errors of starting a kernel.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This template has no kernel for the language.
    #[error("there is no kernel for '{language}'")]
    NotInstalled {
        /// Language that was asked for.
        language: String,
        /// Languages that have a kernel here.
        installed: Vec<String>,
    },
    /// The process was not started at all.
    #[error("the kernel's process cannot be started")]
    Process(#[source] io::Error),
    /// It ended before it listened. What it wrote last says why.
    #[error("the kernel ended before it was ready ({exit:?}): {kernel_stderr}")]
    Ended {
        /// Its exit status.
        exit: Exit,
        /// The end of what it wrote to its standard error.
        kernel_stderr: String,
    },
    /// It did not say hello in time.
    #[error("the kernel was not ready within {seconds} s")]
    Silent {
        /// Time limit that passed.
        seconds: u64,
    },
    /// It speaks another version of the protocol.
    #[error("the kernel speaks version {found} of the protocol, not {expected}")]
    Version {
        /// Protocol version of the kernel.
        found: u64,
        /// Protocol version of this crate.
        expected: u64,
    },
}
