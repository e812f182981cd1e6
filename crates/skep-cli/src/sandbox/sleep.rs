//! `skep sandbox pause`, `resume`, `snapshot`, `fork` and `rollback`

use std::time::Duration;

use clap::Subcommand;
use serde_json::json;
use skep_client::{ForkedSandbox, Kept, SandboxState, Snapshot};

use super::{Among, moment, whole_id};
use crate::run::duration;
use crate::{
    CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_line, print_note,
    print_table,
};

/// Subcommands for sandboxes that sleep, are kept and copied.
#[derive(Debug, Subcommand)]
pub enum SleepCommand {
    /// Pause sandboxes: they keep their memory, or their files alone
    #[command(after_help = "\
Examples:
  skep sandbox pause i8f6
  skep sandbox pause i8f6 --files-only")]
    Pause {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Keep the files alone; processes end
        #[arg(long)]
        files_only: bool,
        /// IDs of the sandboxes
        #[arg(required = true)]
        ids: Vec<String>,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Let paused sandboxes go on
    #[command(after_help = "\
Examples:
  skep sandbox resume i8f6
  skep sandbox resume i8f6 --files-only --timeout 1h")]
    Resume {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Start anew on the files, without the memory
        #[arg(long)]
        files_only: bool,
        /// Let them live for at least this time, such as 90s, 5m or 1h 30m; without it, for as long as
        /// they were created with, and five minutes at least
        #[arg(long, value_name = "TIME", value_parser = duration)]
        timeout: Option<Duration>,
        /// IDs of the sandboxes
        #[arg(required = true)]
        ids: Vec<String>,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Keep a sandbox as it is now, as a template
    #[command(after_help = "\
Examples:
  skep sandbox snapshot i8f6 --name trained:v2 --files-only")]
    Snapshot {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the sandbox
        id: String,
        /// Name of the snapshot, with a tag after a colon if you like
        #[arg(long, short)]
        name: Option<String>,
        /// Keep the files alone
        #[arg(long)]
        files_only: bool,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List snapshots, or delete some
    #[command(after_help = "\
Examples:
  skep sandbox snapshots
  skep sandbox snapshots --delete trained")]
    Snapshots {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Delete this snapshot with all its tags, and list the others; sandboxes of it go on
        #[arg(long, value_name = "SNAPSHOT")]
        delete: Vec<String>,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Make copies of a running sandbox, with its memory
    #[command(after_help = "\
Examples:
  skep sandbox fork i8f6 --count 3")]
    Fork {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the sandbox
        id: String,
        /// Number of copies
        #[arg(long, short, default_value_t = 1)]
        count: u32,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Put a sandbox back to a snapshot, in place
    #[command(after_help = "\
Examples:
  skep sandbox rollback i8f6 trained:v1")]
    Rollback {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the sandbox
        id: String,
        /// Snapshot to go back to
        snapshot: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl SleepCommand {
    /// Does it, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        match self {
            Self::Pause {
                server,
                files_only,
                ids,
                output,
            } => {
                let client = server.client(default)?;
                let mut paused = Vec::new();
                for text in ids {
                    let id = whole_id(&client, &text, Among::Living).await?;
                    client.sandbox(&id).pause(!files_only).await?;
                    if !output.json {
                        print_note(&format!("paused {id}"));
                    }
                    paused.push(json!({ "sandboxID": id, "state": SandboxState::Paused }));
                }
                if output.json {
                    print_json(&paused)?;
                }
            }
            Self::Resume {
                server,
                files_only,
                timeout,
                ids,
                output,
            } => {
                let client = server.client(default)?;
                let mut resumed = Vec::new();
                for text in ids {
                    let id = whole_id(&client, &text, Among::Living).await?;
                    let kept = if files_only {
                        client.sandbox(&id).start_anew(timeout).await?
                    } else {
                        client.sandbox(&id).resume(timeout).await?
                    };
                    if !output.json {
                        print_note(&format!("runs: {id}{}", not_kept(kept.as_ref())));
                    }
                    let state = SandboxState::Running;
                    resumed.push(json!({ "sandboxID": id, "state": state, "kept": kept }));
                }
                if output.json {
                    print_json(&resumed)?;
                }
            }
            Self::Snapshot {
                server,
                id,
                name,
                files_only,
                output,
            } => {
                let client = server.client(default)?;
                let id = whole_id(&client, &id, Among::Living).await?;
                let sandbox = client.sandbox(&id);
                let taken = sandbox.snapshot(name.as_deref(), !files_only).await?;
                show(&[taken], output)?;
            }
            Self::Snapshots {
                server,
                delete,
                output,
            } => {
                let client = server.client(default)?;
                for snapshot in delete {
                    client.forget_snapshot(&snapshot).await?;
                    if !output.json {
                        print_note(&format!("deleted {snapshot}"));
                    }
                }
                let snapshots = client.snapshots().await?;
                if snapshots.is_empty() && !output.json {
                    print_note("no snapshots");
                } else {
                    show(&snapshots, output)?;
                }
            }
            Self::Fork {
                server,
                id,
                count,
                output,
            } => {
                let client = server.client(default)?;
                let id = whole_id(&client, &id, Among::Living).await?;
                let copies = client.sandbox(&id).fork(count).await?;
                return show_copies(&copies, output);
            }
            Self::Rollback {
                server,
                id,
                snapshot,
                output,
            } => {
                let client = server.client(default)?;
                let id = whole_id(&client, &id, Among::Living).await?;
                client.sandbox(&id).roll_back(&snapshot).await?;
                if output.json {
                    print_json(&json!({ "sandboxID": id, "snapshot": snapshot }))?;
                } else {
                    print_note(&format!("{id} is back at {snapshot}"));
                }
            }
        }
        Ok(0)
    }
}

/// Names the things that a resumed sandbox lacks, as the end of a sentence.
fn not_kept(kept: Option<&Kept>) -> String {
    let lost = kept.filter(|kept| !kept.lost.is_empty());
    lost.map_or_else(String::new, |kept| {
        let lost = kept.lost.join(", ").replace('_', " ");
        format!(" (kept in: {}; not kept: {lost})", kept.kept_in)
    })
}

fn show(snapshots: &[Snapshot], output: OutputArgs) -> Result<(), CliError> {
    if output.json {
        return print_json(&snapshots);
    }
    let rows = snapshots.iter().map(|snapshot| {
        vec![
            snapshot.snapshot_id.clone(),
            snapshot.sandbox_id.clone(),
            if snapshot.memory { "memory" } else { "files" }.to_owned(),
            format!("{} MiB", snapshot.size_bytes >> 20),
            moment(snapshot.created_at),
        ]
    });
    print_table(
        &["snapshot", "sandbox", "keeps", "size", "taken (utc)"],
        rows.collect(),
    )
}

/// Shows the copies, and returns 1 if one of them is not there.
fn show_copies(copies: &[ForkedSandbox], output: OutputArgs) -> Result<u8, CliError> {
    if output.json {
        print_json(&copies)?;
    }
    let mut missing = false;
    for copy in copies {
        match copy {
            ForkedSandbox::Sandbox(sandbox) if !output.json => {
                print_line(&sandbox.sandbox_id)?;
            }
            ForkedSandbox::Sandbox(_) => {}
            ForkedSandbox::Error(error) => {
                missing = true;
                print_note(&format!("no copy: {}", error.message));
            }
        }
    }
    Ok(u8::from(missing))
}
