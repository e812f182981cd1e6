//! The commands that talk to a server: what they ask, and how they show it.
//!
//! Data goes to standard output, everything else to standard error. An error is followed by
//! hints. `--json` prints for machines.

mod code;
mod error;
mod key;
mod listener;
mod notebook;
mod output;
mod repl;
mod run;
mod sandbox;
mod target;
mod terminal;

pub use code::{Screen, SessionArgs};
pub(crate) use error::FileError;
pub use error::{CliError, ExitKind};
pub use key::KeyCommand;
pub use notebook::{NotebookCommand, NotebookExportArgs, NotebookRunArgs, PreparedNotebook};
pub use output::{OutputArgs, print_json, print_line, print_note, print_table};
pub use repl::ReplArgs;
pub use run::{PreparedRun, RunArgs};
pub use sandbox::{Level, LogArgs, SandboxCommand};
pub use target::{ChosenServerArgs, ServerArgs};
