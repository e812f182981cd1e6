//! The state of a kernel, as lists and messages tell it.

use jiff::Timestamp;

/// State of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Busy,
}

/// State of a kernel, and the time of its last change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Activity {
    pub(crate) state: State,
    pub(crate) last: Timestamp,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
        }
    }
}

/// A time as Jupyter writes it. Its clients read at most six digits after the point.
pub(crate) fn written(time: Timestamp) -> String {
    format!("{time:.6}")
}
