//! `skep template inspect`

use clap::Args;
use skep_client::{BuildStep, TemplateVersion};

use super::list::status;
use super::{moment, size};
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_table};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep template inspect app
  skep template inspect app:v1
  skep template inspect app@8f14e45fceea --json";

/// Arguments of `skep template inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Template, with a tag, a build or a content if need be: `app`, `app:v1`, `app:BUILD`, `app@CONTENT`
    template: String,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl InspectArgs {
    pub(super) async fn run(&self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let version = client.templates().version(&self.template).await?;
        if self.output.json {
            print_json(&version)?;
        } else {
            print_table(&["field", "value"], rows(&version))?;
        }
        Ok(0)
    }
}

fn rows(found: &TemplateVersion) -> Vec<Vec<String>> {
    let version = &found.version;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            rows.push(vec![name.to_owned(), value]);
        }
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    add("names", found.names.join(", "));
    add("id", found.template_id.clone());
    add("build", version.build_id.clone());
    add("content", text(&version.content_id));
    add("tags", version.tags.join(", "));
    add("status", status(version.status).to_owned());
    add("reason", text(&version.reason));
    add("requested (utc)", moment(version.created_at));
    add(
        "finished (utc)",
        version.finished_at.map(moment).unwrap_or_default(),
    );
    add("public", if found.public { "yes" } else { "no" }.to_owned());
    let limits = format!(
        "{} CPUs, {} MiB memory, {} MiB disk",
        version.cpu_count, version.memory_mb, version.disk_size_mb
    );
    add("limits", limits);
    add("from image", text(&found.from_image));
    add("from template", text(&found.from_template));
    add("user", text(&found.user));
    add("directory", text(&found.workdir));
    add("start command", text(&found.start_cmd));
    add("ready command", text(&found.ready_cmd));
    for (name, value) in &found.env_vars {
        add(&format!("env {name}"), value.clone());
    }
    for (number, step) in (1..).zip(&found.steps) {
        add(&format!("step {number}"), words(step));
    }
    let all: u64 = found.layers.iter().map(|layer| layer.bytes).sum();
    let count = found.layers.len();
    add("layers", format!("{count}, together {}", size(all)));
    if let Some(bytes) = version.bytes {
        add("size beyond its base", size(bytes));
    }
    rows
}

/// A step in words, as a client sent it.
pub(super) fn words(step: &BuildStep) -> String {
    let args: Vec<_> = step
        .args
        .as_deref()
        .unwrap_or_default()
        .iter()
        .map(String::as_str)
        .filter(|word| !word.is_empty())
        .collect();
    let args = args.join(" ");
    let files = step.files_hash.as_deref().unwrap_or_default();
    match files.get(..12) {
        Some(files) => format!("{} {args} (files {files})", step.kind),
        None => format!("{} {args}", step.kind),
    }
}
