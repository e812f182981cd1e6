//! Notebooks as files: nbformat 4, read and written without losing anything.
//!
//! A notebook is kept as it was read ([`Notebook`]): what nobody asks about stays the text it was,
//! so neither a number with forty digits nor a key that is not in the standard changes. What is run
//! gets new outputs, made from the [`Transcript`](skep_jupyter::Transcript) of an execution. Nothing
//! here reads a file, waits or knows a clock.

mod cell;
mod language;
mod notebook;
mod object;
mod output;
mod parameters;
mod pretty;

pub use cell::{Cell, CellKind, Timing};
pub use language::Language;
pub use notebook::{Notebook, NotebookError};
pub use output::read_output;
pub use parameters::{Parameter, ParameterError};
