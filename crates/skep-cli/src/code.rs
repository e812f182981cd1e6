//! Code of a person in a sandbox: where it runs, what is shown of it, and how it ended.

mod follow;
mod language;
mod painter;
mod pictures;
mod screen;
mod session;
mod signals;
mod traceback;
mod verdict;

pub(crate) use follow::{Ending, Job, follow};
pub(crate) use language::Language;
pub(crate) use painter::{OwnLine, ScreenPainter, Shows, is_broken_pipe};
pub(crate) use pictures::Pictures;
pub use screen::Screen;
pub(crate) use session::Session;
pub use session::SessionArgs;
pub(crate) use signals::{Signalled, Signals};
pub(crate) use verdict::Verdict;
