//! Messages of Jupyter kernels, and their meaning for one execution.
//!
//! Messages are Jupyter's, whatever transport carries them. A [`Fold`] turns the messages of
//! one execution into [`Output`]s and holds every oddity of the kernels we know. Nothing here
//! waits, reads a clock or knows of processes.

pub mod encoder;
mod fold;
pub mod frame;
mod json_text;
mod message;
mod question;
pub mod signed;
mod transcript;
pub mod zmtp;

pub use fold::{Fold, Output, Raised};
pub use json_text::JsonText;
pub use message::{Bundle, Envelope, InputRequest, Message, Nature, Reply, Stream};
pub use question::{Answer, Completeness, LanguageInfo, Question};
pub use transcript::{Shown, Transcript};
