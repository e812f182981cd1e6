//! `skep sandbox ls`

use clap::Args;
use skep_client::{Entry, EntryKind};

use super::list::ListArgs;
use super::place::in_sandbox;
use super::{Among, whole_id};
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_table};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep sandbox ls                    the sandboxes that run
  skep sandbox ls i8f6               the home of the user in that sandbox
  skep sandbox ls i8f6:/etc          a directory of that sandbox";

/// Arguments of `skep sandbox ls`.
#[derive(Debug, Args)]
pub struct LsArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Sandbox, and a path in it [default: the home of its user]
    #[arg(value_name = "SANDBOX[:PATH]")]
    place: Option<String>,
    /// Look as this user
    #[arg(long, short)]
    user: Option<String>,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl LsArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let Some(place) = &self.place else {
            let list = ListArgs {
                server: self.server,
                all: false,
                limit: None,
                output: self.output,
            };
            return list.show(&client).await;
        };
        let (id, path) = in_sandbox(place)?;
        let id = whole_id(&client, id, Among::Living).await?;
        let mut files = client.sandbox(&id).files();
        if let Some(user) = self.user {
            files = files.as_user(user);
        }
        let path = path.unwrap_or(".");
        let found = files.stat(path).await?;
        let mut entries = match found.kind {
            EntryKind::Directory => files.list(path).await?,
            EntryKind::File | EntryKind::Symlink | EntryKind::Other => vec![found],
        };
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        if self.output.json {
            print_json(&entries)?;
        } else {
            let header = ["mode", "owner", "size", "changed (utc)", "name"];
            print_table(&header, entries.iter().map(row).collect())?;
        }
        Ok(0)
    }
}

fn row(entry: &Entry) -> Vec<String> {
    let name = match (&entry.symlink_target, entry.kind) {
        (Some(target), _) => format!("{} -> {target}", entry.name),
        (None, EntryKind::Directory) => format!("{}/", entry.name),
        (None, EntryKind::File | EntryKind::Symlink | EntryKind::Other) => entry.name.clone(),
    };
    let changed = entry.modified_time.as_deref().unwrap_or("-");
    let changed = changed
        .parse::<jiff::Timestamp>()
        .map_or_else(|_| changed.to_owned(), super::moment);
    vec![
        entry.permissions.clone(),
        entry.owner.clone(),
        entry.size.to_string(),
        changed,
        name,
    ]
}
