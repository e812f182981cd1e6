//! `skep notebook …`

mod cells;
mod file;
mod progress;
mod run;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use skep_client::Client;

use crate::sandbox::{Among, whole_id};
use crate::{ChosenServerArgs, CliError, print_line, print_note};
use file::NotebookFile;
pub(crate) use run::read_notebook;
pub use run::{NotebookRunArgs, PreparedNotebook};

/// Subcommands of `skep notebook`.
#[derive(Debug, Clone, Subcommand)]
pub enum NotebookCommand {
    /// Run a notebook in a sandbox, and save it with its outputs
    ///
    /// Stops at the first error; the outputs until then are saved. If no server runs on this host,
    /// it starts a temporary one, which needs root. Exit codes: 0 all cells ran, 1 one failed, 130
    /// interrupted.
    #[command(after_help = "\
Examples:
  skep notebook run report.ipynb --param year=2026
  skep notebook run report.ipynb --inplace --timeout 10m")]
    Run {
        /// The server to use
        #[command(flatten)]
        server: ChosenServerArgs,
        /// Notebook to run, and its options
        #[command(flatten)]
        run: Box<NotebookRunArgs>,
    },
    /// Export what was run in a context of a sandbox as a notebook
    #[command(after_help = "\
Examples:
  skep notebook export i8f6 -o session.ipynb")]
    Export {
        /// The server to ask
        #[command(flatten)]
        server: ChosenServerArgs,
        /// Notebook to write
        #[command(flatten)]
        export: NotebookExportArgs,
    },
}

/// Arguments of `skep notebook export`.
#[derive(Debug, Clone, Args)]
pub struct NotebookExportArgs {
    /// ID of the sandbox
    #[arg(value_name = "SANDBOX")]
    sandbox: String,

    /// ID of the context [default: the first one, which runs Python]
    #[arg(long, value_name = "ID")]
    context: Option<String>,

    /// File to write; `-` is standard output
    #[arg(long, short = 'o', value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

impl NotebookExportArgs {
    /// Writes the notebook, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`] if there is no such sandbox or context, or it cannot be written.
    pub async fn run(self, client: Client) -> Result<u8, CliError> {
        let id = whole_id(&client, &self.sandbox, Among::Living).await?;
        let sandbox = client.sandbox(&id);
        let contexts = sandbox.contexts().list().await?;
        let chosen = match &self.context {
            Some(wanted) => contexts.iter().find(|context| context.id == *wanted),
            None => contexts.first(),
        };
        let Some(context) = chosen else {
            let ids: Vec<String> = contexts
                .iter()
                .map(|context| format!("{} ({})", context.id, context.language))
                .collect();
            return Err(CliError::input(
                format!("sandbox `{id}` has no such context"),
                format!("it has {}", ids.join(", ")),
            ));
        };
        let text = sandbox.contexts().notebook(&context.id).await?;
        let text = String::from_utf8(text.to_vec()).map_err(CliError::failure)?;
        let file = NotebookFile::at(&self.output)?;
        match &file {
            NotebookFile::StandardOutput => print_line(text.trim_end())?,
            NotebookFile::Path(path) => {
                file.write(&text)?;
                print_note(&format!("wrote {}", path.display()));
            }
        }
        Ok(0)
    }
}
