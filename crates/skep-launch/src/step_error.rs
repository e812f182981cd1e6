//! The error of a step, small enough to be sent.

use std::io;

use rustix::io::Errno;

/// Error of a system call, and the object it was about.
#[derive(Debug)]
pub(crate) struct StepError {
    pub(crate) errno: i32,
    pub(crate) thing: Option<String>,
}

impl From<io::Error> for StepError {
    fn from(error: io::Error) -> Self {
        Self {
            // What is no system error is a value that does not fit.
            errno: error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()),
            thing: error.raw_os_error().is_none().then(|| error.to_string()),
        }
    }
}

impl From<Errno> for StepError {
    fn from(error: Errno) -> Self {
        Self {
            errno: error.raw_os_error(),
            thing: None,
        }
    }
}

impl From<std::ffi::NulError> for StepError {
    fn from(error: std::ffi::NulError) -> Self {
        Self::from(io::Error::other(error))
    }
}

/// Adds the object of an operation to its error.
pub(crate) trait About<T> {
    fn about(self, thing: impl FnOnce() -> String) -> Result<T, StepError>;
}

impl<T, E: Into<StepError>> About<T> for Result<T, E> {
    fn about(self, thing: impl FnOnce() -> String) -> Result<T, StepError> {
        self.map_err(|error| StepError {
            thing: Some(thing()),
            ..error.into()
        })
    }
}
