//! `skep template diff`

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use skep_client::{
    Client, TemplateVersion, VersionFile, VersionFileKind, VersionFiles, VersionLayer,
};

use super::inspect::words;
use super::size;
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_line, print_note};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep template diff app:v1 app:v2
  skep template diff app:v1 app --files";

/// Arguments of `skep template diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// The one version: `app:v1`, `app:BUILD`, `app@CONTENT`
    before: String,
    /// The other
    after: String,
    /// List the files that differ, too
    #[arg(long)]
    files: bool,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

/// Differences between two versions.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Difference {
    /// Build of the first.
    before: String,
    /// Build of the second.
    after: String,
    /// True if their content is the same.
    same_content: bool,
    /// Number of layers that both have at their bottom.
    common_layers: usize,
    /// Layers that only the first has.
    removed_layers: Vec<VersionLayer>,
    /// Layers that only the second has.
    added_layers: Vec<VersionLayer>,
    removed_steps: Vec<String>,
    added_steps: Vec<String>,
    /// Other differences: base, user, directory, variables, commands and limits.
    changed: Vec<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<FileChanges>,
}

/// A value that differs.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Change {
    name: String,
    before: Option<String>,
    after: Option<String>,
}

/// Files of the layers that only one has.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct FileChanges {
    /// In the layers of the second alone.
    added: Vec<String>,
    /// In the layers of the first alone.
    removed: Vec<String>,
    /// In both, and not the same.
    changed: Vec<String>,
    /// True if there are more.
    has_more: bool,
}

impl DiffArgs {
    pub(super) async fn run(&self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let templates = client.templates();
        let before = templates.version(&self.before).await?;
        let after = templates.version(&self.after).await?;
        let mut difference = compare(&before, &after);
        if self.files {
            let common = difference.common_layers;
            difference.files = Some(self.files(&client, common).await?);
        }
        if self.output.json {
            print_json(&difference)?;
        } else {
            show(&difference)?;
        }
        Ok(0)
    }

    async fn files(&self, client: &Client, common: usize) -> Result<FileChanges, CliError> {
        let templates = client.templates();
        let before = templates.files(&self.before, common).await?;
        let after = templates.files(&self.after, common).await?;
        Ok(compare_files(before, after))
    }
}

fn compare(before: &TemplateVersion, after: &TemplateVersion) -> Difference {
    let layers = before.layers.iter().zip(&after.layers);
    let common = layers
        .take_while(|(one, other)| one.key == other.key)
        .count();
    let steps =
        |version: &TemplateVersion| -> Vec<String> { version.steps.iter().map(words).collect() };
    let (old, new) = (steps(before), steps(after));
    let same = |(one, other): &(&String, &String)| one == other;
    let first = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[first..], &new[first..]);
    let last = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(same)
        .count();
    Difference {
        before: before.version.build_id.clone(),
        after: after.version.build_id.clone(),
        same_content: before.version.content_id == after.version.content_id,
        common_layers: common,
        removed_layers: before.layers[common..].to_vec(),
        added_layers: after.layers[common..].to_vec(),
        removed_steps: old[..old.len() - last].to_vec(),
        added_steps: new[..new.len() - last].to_vec(),
        changed: changes(before, after),
        files: None,
    }
}

fn changes(before: &TemplateVersion, after: &TemplateVersion) -> Vec<Change> {
    let (old, new) = (values(before), values(after));
    let names: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let changed = names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name));
    changed
        .map(|name| Change {
            name: name.clone(),
            before: old.get(name).cloned(),
            after: new.get(name).cloned(),
        })
        .collect()
}

fn values(version: &TemplateVersion) -> BTreeMap<String, String> {
    let summary = &version.version;
    let mut values = BTreeMap::from([
        ("cpus".to_owned(), summary.cpu_count.to_string()),
        ("memory".to_owned(), format!("{} MiB", summary.memory_mb)),
    ]);
    for (name, value) in [
        ("from image", &version.from_image),
        ("from template", &version.from_template),
        ("user", &version.user),
        ("directory", &version.workdir),
        ("start command", &version.start_cmd),
        ("ready command", &version.ready_cmd),
    ] {
        values.extend(value.iter().map(|value| (name.to_owned(), value.clone())));
    }
    let variables = version.env_vars.iter();
    values.extend(variables.map(|(name, value)| (format!("env {name}"), value.clone())));
    values
}

fn compare_files(before: VersionFiles, after: VersionFiles) -> FileChanges {
    let has_more = before.has_more || after.has_more;
    let by_path = |files: VersionFiles| -> BTreeMap<String, VersionFile> {
        let files = files.files.into_iter();
        files.map(|file| (file.path.clone(), file)).collect()
    };
    let (old, new) = (by_path(before), by_path(after));
    let mut changes = FileChanges {
        has_more,
        ..FileChanges::default()
    };
    // A directory is in a layer because of what is in it.
    let counts = |file: &VersionFile| file.kind != VersionFileKind::Directory;
    for (path, file) in new.iter().filter(|(_, file)| counts(file)) {
        match old.get(path) {
            None if file.kind == VersionFileKind::Removed => changes.removed.push(path.clone()),
            None => changes.added.push(path.clone()),
            Some(other) if other != file => changes.changed.push(path.clone()),
            Some(_) => {}
        }
    }
    for (path, file) in old.iter().filter(|(_, file)| counts(file)) {
        if !new.contains_key(path) {
            match file.kind {
                VersionFileKind::Removed => changes.added.push(path.clone()),
                VersionFileKind::File | VersionFileKind::Directory => {
                    changes.removed.push(path.clone());
                }
            }
        }
    }
    changes
}

fn show(difference: &Difference) -> Result<(), CliError> {
    let Difference {
        removed_layers,
        added_layers,
        ..
    } = difference;
    if difference.same_content {
        print_note("their content is the same");
    }
    for step in &difference.removed_steps {
        print_line(&format!("- {step}"))?;
    }
    for step in &difference.added_steps {
        print_line(&format!("+ {step}"))?;
    }
    for change in &difference.changed {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        print_line(&format!(
            "~ {}: {} → {}",
            change.name,
            value(&change.before),
            value(&change.after)
        ))?;
    }
    let bytes = |layers: &[VersionLayer]| size(layers.iter().map(|layer| layer.bytes).sum());
    print_line(&format!(
        "layers: {} in common, {} gone ({}), {} new ({})",
        difference.common_layers,
        removed_layers.len(),
        bytes(removed_layers),
        added_layers.len(),
        bytes(added_layers)
    ))?;
    let Some(files) = &difference.files else {
        return Ok(());
    };
    for (sign, paths) in [
        ('-', &files.removed),
        ('+', &files.added),
        ('~', &files.changed),
    ] {
        for path in paths {
            print_line(&format!("{sign} {path}"))?;
        }
    }
    if files.has_more {
        print_note("there are more files than are listed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn version(build: &str, commands: &[&str], layers: &[&str]) -> TemplateVersion {
        let steps: Vec<_> = commands
            .iter()
            .map(|command| json!({"type": "RUN", "args": [command]}))
            .collect();
        let layers: Vec<_> = layers
            .iter()
            .map(|key| json!({"key": key, "bytes": 10}))
            .collect();
        serde_json::from_value(json!({
            "templateID": "t", "names": ["team/app"], "public": false, "buildID": build,
            "contentID": build, "status": "ready", "tags": [],
            "createdAt": "2026-01-02T03:04:05Z", "cpuCount": 2, "memoryMB": 512,
            "diskSizeMB": 1, "steps": steps, "envVars": {"A": build}, "layers": layers,
        }))
        .unwrap()
    }

    #[test]
    fn versions_differ_by_what_is_after_what_they_have_in_common() {
        let before = version("one", &["a", "b", "z"], &["1", "2", "3"]);
        let after = version("two", &["a", "c", "d", "z"], &["1", "4"]);
        let found = compare(&before, &after);
        assert_eq!(found.removed_steps, ["RUN b"]);
        assert_eq!(found.added_steps, ["RUN c", "RUN d"]);
        assert_eq!(found.common_layers, 1);
        assert_eq!(
            (found.removed_layers.len(), found.added_layers.len()),
            (2, 1)
        );
        assert_eq!(found.changed.len(), 1);
        assert_eq!(found.changed[0].name, "env A");
    }

    #[test]
    fn files_are_new_gone_or_changed() {
        let files = |list: &[(&str, &str, u64)]| -> VersionFiles {
            let files: Vec<_> = list
                .iter()
                .map(|(path, kind, size)| {
                    json!({"path": path, "type": kind, "size": size, "mode": 420,
                           "modifiedAt": "2026-01-02T03:04:05Z"})
                })
                .collect();
            serde_json::from_value(json!({"files": files, "hasMore": false})).unwrap()
        };
        let before = files(&[
            ("/same", "file", 1),
            ("/big", "file", 1),
            ("/gone", "file", 1),
        ]);
        let after = files(&[
            ("/same", "file", 1),
            ("/big", "file", 2),
            ("/dir", "directory", 0),
            ("/new", "file", 1),
            ("/below", "removed", 0),
        ]);
        let found = compare_files(before, after);
        assert_eq!(found.added, ["/new"]);
        assert_eq!(found.removed, ["/below", "/gone"]);
        assert_eq!(found.changed, ["/big"]);
    }
}
