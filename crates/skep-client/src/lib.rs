//! A client of a Skep server: its REST API and, through its proxy, the commands, files, terminals
//! and interpreters of sandboxes.
//!
//! ```no_run
//! use skep_client::{Client, ClientError, ContextRef, NewSandbox, RunOptions};
//!
//! # async fn example() -> Result<(), ClientError> {
//! let client = Client::new("http://127.0.0.1:3000", "e2b_…")?;
//! let sandbox = client
//!     .sandboxes()
//!     .create(&NewSandbox {
//!         template_id: "code-interpreter-slim".to_owned(),
//!         ..NewSandbox::default()
//!     })
//!     .await?;
//!
//! let output = sandbox.commands().run("echo hello from $(hostname)").await?;
//! println!("{} {}", output.code, output.stdout_text());
//!
//! sandbox.files().write("notes.txt", "first, look around\n").await?;
//! let notes = sandbox.files().read("notes.txt").await?;
//!
//! let python = sandbox.interpreter(ContextRef::Language("python"));
//! let mut execution = python.execute("print(6 * 7)", &RunOptions::default()).await?;
//! while let Some(line) = execution.next().await? {
//!     println!("{line:?}");
//! }
//!
//! sandbox.kill().await
//! # }
//! ```
//!
//! It speaks the same wire as the official SDKs, so it works against every server that does, and
//! it knows nothing of the server's crates. What only Skep has says so. Every error names the
//! operation and the thing, and [`ClientError::cause`] is what a program branches on.
//!
//! `examples/sandbox.rs` is this page as a program. [`ServerCommand`] starts a server of one's own,
//! for tests and benchmarks.

mod answers;
mod client;
mod command_stream;
mod commands;
mod connect;
mod console;
mod copies;
mod directories;
mod error;
mod events;
mod execution;
mod files;
mod interpreter;
mod keys;
mod port;
mod sandbox;
mod sandboxes;
mod secrets;
mod server;
mod sleep;
mod template_build;
mod templates;
mod terminals;
mod volumes;
mod webhooks;

pub use client::Client;
pub use command_stream::{CommandEvent, CommandOutput, CommandStream};
pub use commands::{Command, CommandSignal, Commands};
pub use directories::{Entry, EntryKind};
pub use error::{Cause, ClientError, Origin};
pub use events::{EventFeed, Events};
pub use execution::{Execution, ExecutionOutput};
pub use files::{FileStream, Files};
pub use interpreter::{ContextRef, Contexts, Executions, Interpreter, RunOptions};
pub use keys::ApiKeys;
pub use port::Port;
pub use sandbox::{LONGEST_EXTENSION, LogQuery, Sandbox};
pub use sandboxes::Sandboxes;
pub use secrets::Secrets;
pub use server::{ServerCommand, ServerError, ServerProcess};
pub use skep_http::is_localhost;
pub use skep_wire::interpreter::{
    AnswerLine, Completeness, CompletenessAnswer, Completions, Context, ContextOptions,
    ExecuteOptions, Inspection, KernelInfo, LimitOptions, Outcome, OutputForm, RaisedError,
    RawJson, ResultLine, Usage,
};
pub use skep_wire::rest::{
    ApiKey, AssignedTags, BuildLogEntry, BuildReason, BuildStatus, BuildStep, CreatedApiKey,
    FileUpload, ForkedSandbox, IdentityRequest, IdentityToken, Kept, ListedSandbox, LogEntry,
    LogLevel, Metric, Network, NetworkLimits, NetworkRequests, NetworkRule, NetworkRules,
    NetworkTransform, NetworkUpdate, NewSandbox, NewTemplate, NewVolume, SandboxDetail,
    SandboxOptions, SandboxRecord, SandboxRecordState, SandboxRequest, SandboxState, SandboxUsage,
    Snapshot, StartBuild, Template, TemplateTag, TemplateVersion, TemplateVersions, VersionFile,
    VersionFileKind, VersionFiles, VersionLayer, VersionSummary, Volume, VolumeAndToken,
    VolumeDetail, VolumeEntry, VolumeEntryChange, VolumeEntryKind, VolumeMount, VolumeOptions,
};
pub use template_build::{TemplateBuild, TemplateBuildLog};
pub use templates::Templates;
pub use terminals::{TerminalSize, Terminals};
pub use volumes::{VolumeFiles, VolumeStream, Volumes};
pub use webhooks::Webhooks;
