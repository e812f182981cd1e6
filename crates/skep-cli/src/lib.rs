//! The commands that talk to a server: what they ask, and how they show it.
//!
//! Data goes to standard output, everything else to standard error. An error is followed by
//! hints. `--json` prints for machines.

mod code;
mod console;
mod error;
mod events;
mod key;
mod listener;
mod notebook;
mod output;
mod repl;
mod run;
mod sandbox;
mod secret;
mod suggested;
mod target;
mod template;
mod terminal;
mod transfer;
mod variables;
mod volume;
mod webhook;

pub use code::{Screen, SessionArgs, TEMPLATES};
pub use console::ConsoleArgs;
pub(crate) use error::FileError;
pub use error::{CliError, ExitKind};
pub use events::EventsArgs;
pub use key::KeyCommand;
pub use notebook::{NotebookCommand, NotebookExportArgs, NotebookRunArgs, PreparedNotebook};
pub use output::{
    OutputArgs, print_bytes, print_error_bytes, print_json, print_json_line, print_line,
    print_note, print_table,
};
pub use repl::ReplArgs;
pub use run::{PreparedRun, RunArgs, duration};
pub use sandbox::{
    ConnectArgs, CopyArgs, CreateArgs, ExecArgs, InfoArgs, KillArgs, Level, ListArgs, LogArgs,
    LsArgs, MetricsArgs, NetworkArgs, RequestArgs, RmArgs, SandboxCommand, SleepCommand,
    TimeoutArgs,
};
pub use secret::SecretCommand;
pub use suggested::Suggested;
pub use target::{ChosenServerArgs, DefaultServer, ServerArgs, key_of_host};
pub use template::{
    DeleteArgs, DiffArgs, DockerfileArgs, HistoryArgs, InspectArgs, PruneArgs, PublishArgs,
    TagArgs, TemplateListArgs, TemplateServerCommand, UntagArgs,
};
pub use volume::{VolumeCommand, VolumeCopyArgs};
pub use webhook::WebhookCommand;
