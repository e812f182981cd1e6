//! `skep template list`

use clap::Args;
use skep_client::{BuildStatus, Template};

use super::moment;
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note, print_table};

/// Arguments of `skep template list`.
#[derive(Debug, Args)]
pub struct TemplateListArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl TemplateListArgs {
    /// Returns true if JSON is asked for.
    pub fn json(&self) -> bool {
        self.output.json
    }

    /// Shows the templates that the team can use.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(&self, default: &DefaultServer) -> Result<u8, CliError> {
        let templates = self
            .server
            .client(default)?
            .templates()
            .list()
            .await
            .map_err(|error| {
                let is_unreachable = error.is_unreachable();
                let error = CliError::from(error);
                if is_unreachable {
                    error.hint(
                        "`--cache-dir DIR` lists what is built on this host, without a server",
                    )
                } else {
                    error
                }
            })?;
        if self.output.json {
            print_json(&templates)?;
        } else if templates.is_empty() {
            print_note("no templates yet; `skep template build` builds the first");
        } else {
            let header = [
                "name",
                "id",
                "status",
                "cpus",
                "memory",
                "builds",
                "updated (utc)",
            ];
            print_table(&header, templates.iter().map(row).collect())?;
        }
        Ok(0)
    }
}

fn row(template: &Template) -> Vec<String> {
    vec![
        template.names.join(", "),
        template.template_id.clone(),
        status(template.build_status).to_owned(),
        template.cpu_count.to_string(),
        format!("{} MiB", template.memory_mb),
        template.build_count.to_string(),
        moment(template.updated_at),
    ]
}

pub(super) fn status(status: BuildStatus) -> &'static str {
    match status {
        BuildStatus::Waiting => "waiting",
        BuildStatus::Building => "building",
        BuildStatus::Ready => "ready",
        BuildStatus::Error => "failed",
    }
}
