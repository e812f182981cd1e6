//! `skep template prune`

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use skep_client::{BuildStatus, TemplateVersions, VersionSummary};

use super::{moment, size};
use crate::run::duration;
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note, print_table};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep template prune --dry-run              what would go, of all templates
  skep template prune app --keep 3
  skep template prune --older-than 72h";

/// Arguments of `skep template prune`.
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Name of the template [default: all of the team]
    template: Option<String>,
    /// Number of the newest versions of a template that stay, tagged or not
    #[arg(long, value_name = "N", default_value_t = 1)]
    keep: usize,
    /// Delete only versions that were requested before this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    older_than: Option<Duration>,
    /// Show what would go, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

/// A version that goes, or would.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Pruned {
    template: String,
    #[serde(rename = "buildID")]
    build_id: String,
    created_at: Timestamp,
    bytes: Option<u64>,
    deleted: bool,
    /// Reason for which it is kept.
    reason: Option<String>,
}

impl PruneArgs {
    pub(super) async fn run(&self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let templates = client.templates();
        let names = match &self.template {
            Some(name) => vec![name.clone()],
            None => {
                let listed = templates.list().await?.into_iter();
                listed.map(|template| template.template_id).collect()
            }
        };
        let mut pruned = Vec::new();
        for name in names {
            let history = templates.history(&name).await?;
            for mut candidate in self.candidates(&history, Timestamp::now()) {
                if !self.dry_run {
                    let deleting = templates.delete_version(&name, &candidate.build_id);
                    match deleting.await {
                        Ok(()) => candidate.deleted = true,
                        Err(error) if error.is_conflict() => {
                            candidate.reason = Some(error.cause().to_string());
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                pruned.push(candidate);
            }
        }
        self.show(&pruned)
    }

    /// The versions of a template that nothing names any more.
    fn candidates(&self, history: &TemplateVersions, now: Timestamp) -> Vec<Pruned> {
        let is_old = |build: &VersionSummary| {
            let age = now.duration_since(build.created_at).unsigned_abs();
            self.older_than.is_none_or(|limit| age > limit)
        };
        let has_ended = |build: &VersionSummary| {
            matches!(build.status, BuildStatus::Ready | BuildStatus::Error)
        };
        let name = history.names.first().unwrap_or(&history.template_id);
        let builds = history.builds.iter().skip(self.keep);
        builds
            .filter(|build| build.tags.is_empty() && has_ended(build) && is_old(build))
            .map(|build| Pruned {
                template: name.clone(),
                build_id: build.build_id.clone(),
                created_at: build.created_at,
                bytes: build.bytes,
                deleted: false,
                reason: None,
            })
            .collect()
    }

    fn show(&self, pruned: &[Pruned]) -> Result<u8, CliError> {
        if self.output.json {
            print_json(&pruned)?;
            return Ok(0);
        }
        if pruned.is_empty() {
            print_note("there is nothing to delete");
            return Ok(0);
        }
        let row = |version: &Pruned| {
            let outcome = match (&version.reason, version.deleted) {
                (Some(reason), _) => reason.clone(),
                (None, true) => "deleted".to_owned(),
                (None, false) => "would be deleted".to_owned(),
            };
            vec![
                version.template.clone(),
                version.build_id.clone(),
                moment(version.created_at),
                version.bytes.map_or_else(|| "-".to_owned(), size),
                outcome,
            ]
        };
        let header = ["template", "build", "requested (utc)", "size", "outcome"];
        print_table(&header, pruned.iter().map(row).collect())?;
        if pruned.iter().any(|version| version.deleted) {
            print_note("the server frees the space of layers that no version has any more");
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn history() -> TemplateVersions {
        let build = |id: &str, status: &str, tags: &[&str], day: u32| {
            json!({"buildID": id, "status": status, "tags": tags,
                   "createdAt": format!("2026-01-{day:02}T00:00:00Z"),
                   "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 1})
        };
        let builds = [
            build("new", "ready", &[], 9),
            build("running", "building", &[], 8),
            build("tagged", "ready", &["v1"], 7),
            build("failed", "error", &[], 6),
            build("old", "ready", &[], 1),
        ];
        serde_json::from_value(
            json!({"templateID": "t", "names": ["team/app"], "public": false, "builds": builds}),
        )
        .unwrap()
    }

    fn pruned(keep: usize, older_than: Option<u64>) -> Vec<String> {
        let args = PruneArgs {
            server: ServerArgs::default(),
            template: None,
            keep,
            older_than: older_than.map(Duration::from_secs),
            dry_run: true,
            output: OutputArgs::default(),
        };
        let now = "2026-01-10T00:00:00Z".parse().unwrap();
        let candidates = args.candidates(&history(), now);
        candidates
            .into_iter()
            .map(|version| version.build_id)
            .collect()
    }

    #[test]
    fn only_old_versions_go_that_no_tag_means() {
        assert_eq!(pruned(1, None), ["failed", "old"]);
        assert_eq!(pruned(0, None), ["new", "failed", "old"]);
        assert_eq!(pruned(0, Some(5 * 86_400)), ["old"]);
    }
}
