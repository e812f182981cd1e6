//! Failure of a step, small enough to be sent.

use std::io;

use rustix::io::Errno;

/// Error of a system call, and the object it was about.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) errno: i32,
    pub(crate) thing: Option<String>,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self {
            // What is no system error is a value that does not fit.
            errno: error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()),
            thing: error.raw_os_error().is_none().then(|| error.to_string()),
        }
    }
}

impl From<Errno> for Trouble {
    fn from(error: Errno) -> Self {
        Self {
            errno: error.raw_os_error(),
            thing: None,
        }
    }
}

impl From<std::ffi::NulError> for Trouble {
    fn from(error: std::ffi::NulError) -> Self {
        Self::from(io::Error::other(error))
    }
}

/// Says what an operation was about.
pub(crate) trait On<T> {
    fn on(self, thing: impl FnOnce() -> String) -> Result<T, Trouble>;
}

impl<T, E: Into<Trouble>> On<T> for Result<T, E> {
    fn on(self, thing: impl FnOnce() -> String) -> Result<T, Trouble> {
        self.map_err(|error| Trouble {
            thing: Some(thing()),
            ..error.into()
        })
    }
}
