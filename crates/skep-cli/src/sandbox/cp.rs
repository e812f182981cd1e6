//! `skep sandbox cp`

mod download;
mod upload;

use std::path::Path;

use clap::Args;
use serde_json::json;
use skep_client::{Client, Files};

use super::place::Place;
use super::{Among, whole_id};
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep sandbox cp data.csv i8f6:               into the home of its user
  skep sandbox cp ./src i8f6:/srv/app          a directory with everything in it
  skep sandbox cp i8f6:plot.png .              out of the sandbox
  skep sandbox cp i8f6:out.txt -               to standard output";

/// Arguments of `skep sandbox cp`.
#[derive(Debug, Args)]
pub struct CopyArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// File or directory to copy; `-` is standard input
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Path to copy it to; a directory that exists takes it in
    #[arg(value_name = "DESTINATION")]
    destination: String,
    /// Read and write in the sandbox as this user
    #[arg(long, short)]
    user: Option<String>,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

/// Number of files and bytes that were copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Copied {
    files: u64,
    bytes: u64,
    /// Links and other things that are no files, which were left out.
    skipped: u64,
}

impl Copied {
    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

impl CopyArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let places = (Place::parse(&self.source), Place::parse(&self.destination));
        let copied = match places {
            (Place::Here(source), Place::Sandbox { id, path }) => {
                let files = self.files(&client, &id).await?;
                upload::upload(&files, &source, &path).await?
            }
            (Place::Sandbox { id, path }, Place::Here(destination)) => {
                let files = self.files(&client, &id).await?;
                download::download(&files, &path, &destination).await?
            }
            (
                Place::Sandbox { id, path },
                Place::Sandbox {
                    id: other,
                    path: destination,
                },
            ) => {
                let from = self.files(&client, &id).await?;
                let to = self.files(&client, &other).await?;
                // By way of this host, whose temporary files are gone afterwards.
                let directory = tempfile::tempdir().map_err(CliError::failure)?;
                let here = directory.path().join(last_part(&path));
                download::download(&from, &path, &here).await?;
                upload::upload(&to, &here, &destination).await?
            }
            (Place::Here(_), Place::Here(_)) => {
                return Err(CliError::input(
                    "neither the source nor the destination is in a sandbox",
                    "write SANDBOX:PATH for what is in one, such as i8f6:/tmp/data",
                ));
            }
        };
        self.tell(copied)?;
        Ok(0)
    }

    async fn files(&self, client: &Client, id: &str) -> Result<Files, CliError> {
        let id = whole_id(client, id, Among::Living).await?;
        let files = client.sandbox(&id).files();
        Ok(match &self.user {
            Some(user) => files.as_user(user),
            None => files,
        })
    }

    fn tell(&self, copied: Copied) -> Result<(), CliError> {
        let is_output = Path::new(&self.destination) == Path::new("-");
        if self.output.json && !is_output {
            return print_json(&json!({
                "files": copied.files,
                "bytes": copied.bytes,
                "skipped": copied.skipped,
            }));
        }
        if copied.skipped > 0 {
            print_note(&format!(
                "left out {} links and others that are no files",
                copied.skipped
            ));
        }
        Ok(())
    }
}

/// The last part of a path in a sandbox.
fn last_part(path: &str) -> &str {
    let name = path.trim_end_matches('/').rsplit('/').next();
    match name.unwrap_or_default() {
        "" | "." | ".." => "files",
        name => name,
    }
}

/// `name` below a directory of a sandbox.
fn below(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        directory => format!("{}/{name}", directory.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_a_sandbox_are_taken_apart_and_put_together() {
        assert_eq!(last_part("/a/b/"), "b");
        assert_eq!(last_part("b"), "b");
        assert_eq!(last_part(""), "files");
        assert_eq!(below("", "a"), "a");
        assert_eq!(below("/", "a"), "/a");
        assert_eq!(below("/srv/", "a"), "/srv/a");
    }
}
