//! `skep template tag|untag|delete|publish`

use clap::Args;
use serde_json::json;

use super::reference::without_tag;
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note};

pub(super) const TAG_EXAMPLES: &str = "\
Examples:
  skep template tag app:v2 default stable        two tags mean what v2 means
  skep template tag app@8f14e45fceea default     roll back to what was";
pub(super) const UNTAG_EXAMPLES: &str = "\
Examples:
  skep template untag app v1";
pub(super) const DELETE_EXAMPLES: &str = "\
Examples:
  skep template delete app
  skep template delete app:0b7b5b4e-58b1-4c62-9a5c-1a2b3c4d5e6f";
pub(super) const PUBLISH_EXAMPLES: &str = "\
Examples:
  skep template publish app
  skep template publish app --private";

/// Arguments of `skep template tag`.
#[derive(Debug, Args)]
pub struct TagArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Version: `app:v1`, `app:BUILD`, `app@CONTENT`
    target: String,
    /// Tags that it is to have
    #[arg(required = true, value_name = "TAG")]
    tags: Vec<String>,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl TagArgs {
    pub(super) async fn run(&self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let tags: Vec<_> = self.tags.iter().map(String::as_str).collect();
        let assigned = client.templates().assign_tags(&self.target, &tags).await?;
        if self.output.json {
            print_json(&assigned)?;
        } else {
            let name = without_tag(&self.target);
            for tag in &assigned.tags {
                print_note(&format!("`{name}:{tag}` means {} now", assigned.build_id));
            }
        }
        Ok(0)
    }
}

/// Arguments of `skep template untag`.
#[derive(Debug, Args)]
pub struct UntagArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Name of the template
    template: String,
    /// Tags that it is to lose
    #[arg(required = true, value_name = "TAG")]
    tags: Vec<String>,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl UntagArgs {
    pub(super) async fn run(&self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let tags: Vec<_> = self.tags.iter().map(String::as_str).collect();
        client
            .templates()
            .remove_tags(&self.template, &tags)
            .await?;
        if self.output.json {
            print_json(&json!({ "template": self.template, "removed": self.tags }))?;
        } else {
            let tags = self.tags.join(", ");
            print_note(&format!("took {tags} off `{}`", self.template));
        }
        Ok(0)
    }
}

/// Arguments of `skep template delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Template, or one version of it by its build: `app`, `app:BUILD`
    template: String,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl DeleteArgs {
    pub(super) async fn run(&self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let templates = client.templates();
        let name = without_tag(&self.template);
        if name == self.template {
            templates.delete(name).await?;
        } else {
            let version = templates.version(&self.template).await?;
            let build = &version.version.build_id;
            // A tag may mean another version tomorrow, so it names none to delete.
            if self.template != format!("{name}:{build}") {
                return Err(CliError::input(
                    format!("`{}` is a tag and not a version", self.template),
                    format!(
                        "`skep template untag` takes a tag off; the version is `{name}:{build}`"
                    ),
                ));
            }
            templates.delete_version(name, build).await?;
        }
        if self.output.json {
            print_json(&json!({ "template": self.template, "deleted": true }))?;
        } else {
            print_note(&format!("deleted `{}`", self.template));
        }
        Ok(0)
    }
}

/// Arguments of `skep template publish`.
#[derive(Debug, Args)]
pub struct PublishArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Name of the template
    template: String,
    /// Keep it to the team again
    #[arg(long)]
    private: bool,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl PublishArgs {
    pub(super) async fn run(&self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let is_public = !self.private;
        let names = client
            .templates()
            .publish(&self.template, is_public)
            .await?;
        if self.output.json {
            print_json(&json!({ "names": names, "public": is_public }))?;
        } else if is_public {
            print_note(&format!("other teams find it as {}", names.join(", ")));
        } else {
            print_note(&format!("`{}` is your team's alone", self.template));
        }
        Ok(0)
    }
}
