//! `skep template history`

use clap::Args;
use skep_client::VersionSummary;

use super::list::status;
use super::{moment, short, size};
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note, print_table};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep template history app
  skep template history app --json";

/// Arguments of `skep template history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Name of the template
    template: String,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl HistoryArgs {
    pub(super) async fn run(&self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let history = client.templates().history(&self.template).await?;
        if self.output.json {
            print_json(&history)?;
        } else if history.builds.is_empty() {
            print_note(&format!(
                "`{}` is built into the server and has no history",
                self.template
            ));
        } else {
            let header = [
                "build",
                "tags",
                "status",
                "requested (utc)",
                "took",
                "size",
                "content",
            ];
            print_table(&header, history.builds.iter().map(row).collect())?;
            let mut builds = history.builds.iter();
            let failed = builds.find_map(|build| Some((&build.build_id, build.reason.as_ref()?)));
            if let Some((build, reason)) = failed {
                print_note(&format!("the last failure, {build}: {reason}"));
            }
        }
        Ok(0)
    }
}

fn row(build: &VersionSummary) -> Vec<String> {
    let dash = || "-".to_owned();
    let took = match (build.started_at, build.finished_at) {
        (Some(begun), Some(ended)) => {
            format!("{:.1} s", ended.duration_since(begun).as_secs_f64())
        }
        _ => dash(),
    };
    vec![
        build.build_id.clone(),
        if build.tags.is_empty() {
            dash()
        } else {
            build.tags.join(", ")
        },
        status(build.status).to_owned(),
        moment(build.created_at),
        took,
        build.bytes.map_or_else(dash, size),
        build
            .content_id
            .as_deref()
            .map_or_else(dash, |content| short(content).to_owned()),
    ]
}
