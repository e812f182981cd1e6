//! The plan of an uninstallation: what is removed, restored or kept.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skep_cli::CliError;
use skep_host::{Footprint, HostConfig, Kind, OtherInstallation, RunningServer, footprint};

use super::folders;
use crate::args::UninstallArgs;
use crate::cache_users;
use crate::config::{Config, DEFAULT_PATH};

/// Paths at which a systemd unit of this server may be.
const UNITS: [&str; 2] = [
    "/etc/systemd/system/skep.service",
    "/usr/local/lib/systemd/system/skep.service",
];

/// The action on one row of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Remove,
    Restore,
    Keep,
}

impl Action {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::Restore => "restore",
            Self::Keep => "keep",
        }
    }
}

/// One row of the plan: an object and what happens to it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) action: Action,
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) detail: String,
    /// The file or directory to remove, if it is one.
    pub(super) path: Option<PathBuf>,
}

/// Everything, in the order in which it goes.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) data_dir: PathBuf,
    pub(super) server: Option<RunningServer>,
    pub(super) rows: Vec<Row>,
    sandboxes: usize,
    processes: usize,
    is_on_machine: bool,
}

/// The footprint of the installation in `data_dir` on this host.
pub(super) fn footprint_of(data_dir: &Path) -> Result<Footprint, CliError> {
    let cgroups = HostConfig::new(data_dir).cgroup_root;
    footprint(data_dir, &cgroups).map_err(CliError::failure)
}

impl Plan {
    pub(super) fn make(config: &Config, args: &UninstallArgs) -> Result<Self, CliError> {
        let found = footprint_of(&config.data_dir)?;
        let mut rows: Vec<Row> = found
            .items
            .iter()
            .map(|item| Row {
                action: match (&item.stays, item.kind) {
                    (Some(_), _) => Action::Keep,
                    (None, Kind::KernelSetting) => Action::Restore,
                    (None, _) => Action::Remove,
                },
                kind: item.kind.name(),
                name: item.name.clone(),
                detail: match &item.stays {
                    Some(reason) => reason.clone(),
                    None if item.detail.is_empty() => item.kind.undone_by().to_owned(),
                    None => item.detail.clone(),
                },
                path: None,
            })
            .collect();
        rows.extend(unit_files(&config.data_dir, args)?);
        rows.extend(cache(config, &found.others, args)?);
        rows.extend(data(&config.data_dir, args)?);
        let is_sandbox = |row: &&Row| row.kind == Kind::Sandbox.name();
        Ok(Self {
            data_dir: config.data_dir.clone(),
            server: found.server,
            sandboxes: rows.iter().filter(is_sandbox).count(),
            processes: found.processes,
            is_on_machine: found.items.iter().any(|item| item.stays.is_none()),
            rows,
        })
    }

    /// Returns true if there is anything to remove or restore.
    pub(super) fn has_work(&self) -> bool {
        self.rows.iter().any(|row| row.action != Action::Keep)
    }

    /// Returns true if anything exists outside of files and directories.
    pub(super) fn is_on_machine(&self) -> bool {
        self.is_on_machine
    }

    /// Summary of the consequences, shown before the confirmation.
    pub(super) fn summary(&self) -> String {
        match self.sandboxes {
            0 => "No sandbox runs.".to_owned(),
            1 => format!("1 sandbox with {} processes ends.", self.processes),
            count => format!("{count} sandboxes with {} processes end.", self.processes),
        }
    }

    pub(super) fn as_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "action": row.action.word(),
                "kind": row.kind,
                "name": row.name,
                "detail": row.detail,
            })
        });
        json!({
            "dataDir": self.data_dir,
            "server": self.server.map(|server| json!({"pid": server.pid})),
            "sandboxes": self.sandboxes,
            "processes": self.processes,
            "items": rows.collect::<Vec<_>>(),
        })
    }
}

fn row(action: Action, kind: &'static str, path: &Path, detail: String) -> Row {
    Row {
        action,
        kind,
        name: path.display().to_string(),
        detail,
        path: (action == Action::Remove).then(|| path.to_owned()),
    }
}

/// Units that name this data directory, or none while it is the usual one.
fn unit_files(data_dir: &Path, args: &UninstallArgs) -> Result<Vec<Row>, CliError> {
    let mut rows = Vec::new();
    let is_usual = data_dir == Config::default().data_dir;
    for path in UNITS.map(Path::new) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(CliError::failure(error)),
        };
        let names_another = text.contains("--data-dir") || text.contains("SKEP_DATA_DIR");
        let is_ours = text.contains(&*data_dir.to_string_lossy()) || is_usual && !names_another;
        if is_ours && !args.keep_data {
            let detail = "`systemctl daemon-reload` forgets it".to_owned();
            rows.push(row(Action::Remove, "unit", path, detail));
        }
    }
    // Somebody has written it; nothing in it does anything by itself.
    let written = Path::new(DEFAULT_PATH);
    if is_usual && written.exists() {
        let detail = "you wrote it".to_owned();
        rows.push(row(Action::Keep, "configuration", written, detail));
    }
    Ok(rows)
}

/// The template cache goes only if everything says that it is this installation's alone: it may
/// be shared, and it takes long to make again.
fn cache(
    config: &Config,
    others: &[OtherInstallation],
    args: &UninstallArgs,
) -> Result<Option<Row>, CliError> {
    let path = &config.cache_dir;
    if !folders::is_cache(path) {
        return Ok(None);
    }
    let data_dir = config.data_dir.canonicalize();
    let data_dir = data_dir.unwrap_or_else(|_| config.data_dir.clone());
    let (is_ours, users) = cache_users::users(path, &data_dir).map_err(CliError::failure)?;
    let others = others.iter().map(|other| &other.data_dir);
    let other = users.iter().chain(others).next();
    let reason = match other {
        _ if args.keep_data => Some("`--keep-data`".to_owned()),
        Some(other) if other.as_os_str().is_empty() => {
            Some("another installation may use it".to_owned())
        }
        Some(other) => Some(format!("`{}` may use it", other.display())),
        None if !is_ours => Some("nobody knows whose it is".to_owned()),
        None => None,
    };
    let size = folders::size(path)?;
    Ok(Some(match reason {
        Some(reason) => row(Action::Keep, "templates", path, format!("{size}; {reason}")),
        None => row(Action::Remove, "templates", path, size),
    }))
}

fn data(path: &Path, args: &UninstallArgs) -> Result<Option<Row>, CliError> {
    let Ok(path) = path.canonicalize() else {
        return Ok(None);
    };
    let size = folders::size(&path)?;
    Ok(Some(if args.keep_data {
        row(
            Action::Keep,
            "data",
            &path,
            format!("{size}; `--keep-data`"),
        )
    } else {
        let detail = format!("{size}: record, keys, logs, disks");
        row(Action::Remove, "data", &path, detail)
    }))
}
