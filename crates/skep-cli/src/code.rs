//! Code of a person in a sandbox: where it runs, what is shown of it, and how it ended.

mod asking;
mod follow;
mod language;
mod painter;
mod pictures;
mod question;
mod screen;
mod session;
mod signals;
mod traceback;
mod verdict;

pub(crate) use follow::{Ending, Job, follow};
pub use language::TEMPLATES;
pub(crate) use language::{LANGUAGES, Language, USUAL_TEMPLATE};
pub(crate) use painter::{OwnLine, ScreenPainter, Shows};
pub(crate) use pictures::Pictures;
pub(crate) use question::Question;
pub use screen::Screen;
pub use session::SessionArgs;
pub(crate) use session::{Session, no_sandbox};
pub(crate) use signals::{Signalled, Signals};
pub(crate) use verdict::Verdict;
