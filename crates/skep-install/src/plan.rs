//! The plan of an uninstallation: what is removed, restored or kept.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skep_domain::TrustFiles;
use skep_host::{Footprint, HostConfig, Kind, OtherInstallation, RunningServer, footprint};

use crate::InstallError;
use crate::cache_users;
use crate::directories;

/// Paths at which a systemd unit of this server may be.
const UNITS: [&str; 2] = [
    "/etc/systemd/system/skep.service",
    "/usr/local/lib/systemd/system/skep.service",
];

/// An installation that is to be taken off the host.
#[derive(Debug, Clone)]
pub struct Installation {
    /// Data directory that its server was started with.
    pub data_dir: PathBuf,
    /// Directory of the template layers.
    pub cache_dir: PathBuf,
    /// True if the data directory is the one that is used when nobody names another.
    pub is_usual: bool,
    /// The configuration file that is read when nobody names one.
    pub configuration: PathBuf,
    /// Keeps data, templates and unit files if true.
    pub keep_data: bool,
}

/// The action on one row of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It goes.
    Remove,
    /// It gets the value back that it had before.
    Restore,
    /// It stays.
    Keep,
}

impl Action {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::Restore => "restore",
            Self::Keep => "keep",
        }
    }
}

/// One row of the plan: an object and what happens to it.
#[derive(Debug, Clone)]
pub struct Row {
    /// Fate of the object.
    pub action: Action,
    /// Kind of object.
    pub kind: &'static str,
    /// Name of the object.
    pub name: String,
    /// Size of it, or the reason why it stays.
    pub detail: String,
    /// The file or directory to remove, if it is one.
    pub(crate) path: Option<PathBuf>,
}

/// Everything, in the order in which it goes.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Data directory of the installation.
    pub data_dir: PathBuf,
    /// The server that uses it now, if one does.
    pub server: Option<RunningServer>,
    /// The objects, in the order in which they go.
    pub rows: Vec<Row>,
    sandboxes: usize,
    processes: usize,
    is_on_host: bool,
}

/// The footprint of the installation in `data_dir` on this host.
pub(crate) fn footprint_of(data_dir: &Path) -> Result<Footprint, InstallError> {
    let cgroups = HostConfig::new(data_dir).cgroup_root;
    footprint(data_dir, &cgroups).map_err(InstallError::failure)
}

impl Plan {
    /// Looks at the host and says what is to be done. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`InstallError`], also if the directory is no data directory of ours.
    pub fn make(installation: &Installation) -> Result<Self, InstallError> {
        directories::check_data_dir(&installation.data_dir)?;
        let found = footprint_of(&installation.data_dir)?;
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
        rows.extend(unit_files(installation)?);
        rows.extend(cache(installation, &found.others)?);
        rows.extend(trusted(installation));
        rows.extend(vault_key(installation));
        rows.extend(data(installation)?);
        let is_sandbox = |row: &&Row| row.kind == Kind::Sandbox.name();
        Ok(Self {
            data_dir: installation.data_dir.clone(),
            server: found.server,
            sandboxes: rows.iter().filter(is_sandbox).count(),
            processes: found.processes,
            is_on_host: found.items.iter().any(|item| item.stays.is_none()),
            rows,
        })
    }

    /// Returns true if there is anything to remove or restore.
    pub fn has_work(&self) -> bool {
        self.rows.iter().any(|row| row.action != Action::Keep)
    }

    /// Returns true if anything exists outside of files and directories.
    pub(crate) fn is_on_host(&self) -> bool {
        self.is_on_host
    }

    /// Summary of the consequences, shown before the confirmation.
    pub fn summary(&self) -> String {
        match self.sandboxes {
            0 => "No sandbox runs.".to_owned(),
            1 => format!("1 sandbox with {} processes ends.", self.processes),
            count => format!("{count} sandboxes with {} processes end.", self.processes),
        }
    }

    /// The plan for programs.
    pub fn as_json(&self) -> Value {
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
fn unit_files(installation: &Installation) -> Result<Vec<Row>, InstallError> {
    let (data_dir, is_usual) = (&installation.data_dir, installation.is_usual);
    let mut rows = Vec::new();
    for path in UNITS.map(Path::new) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(InstallError::failure(error)),
        };
        let names_another = text.contains("--data-dir") || text.contains("SKEP_DATA_DIR");
        let is_ours = text.contains(&*data_dir.to_string_lossy()) || is_usual && !names_another;
        if is_ours && !installation.keep_data {
            let detail = "`systemctl daemon-reload` forgets it".to_owned();
            rows.push(row(Action::Remove, "unit", path, detail));
        }
    }
    // Somebody has written it; nothing in it does anything by itself.
    let written = &installation.configuration;
    if is_usual && written.exists() {
        let detail = "you wrote it".to_owned();
        rows.push(row(Action::Keep, "configuration", written, detail));
    }
    Ok(rows)
}

/// The template cache goes only if everything says that it is this installation's alone: it may
/// be shared, and it takes long to make again.
fn cache(
    installation: &Installation,
    others: &[OtherInstallation],
) -> Result<Option<Row>, InstallError> {
    let path = &installation.cache_dir;
    if !directories::is_cache(path) {
        return Ok(None);
    }
    let data_dir = installation
        .data_dir
        .canonicalize()
        .unwrap_or_else(|_| installation.data_dir.clone());
    let (is_ours, users) = cache_users::users(path, &data_dir).map_err(InstallError::failure)?;
    let others = others.iter().map(|other| &other.data_dir);
    let other = users.iter().chain(others).next();
    let reason = match other {
        _ if installation.keep_data => Some("`--keep-data`".to_owned()),
        Some(other) if other.as_os_str().is_empty() => {
            Some("another installation may use it".to_owned())
        }
        Some(other) => Some(format!("`{}` may use it", other.display())),
        None if !is_ours => Some("nobody knows whose it is".to_owned()),
        None => None,
    };
    let size = directories::size(path)?;
    Ok(Some(match reason {
        Some(reason) => row(Action::Keep, "templates", path, format!("{size}; {reason}")),
        None => row(Action::Remove, "templates", path, size),
    }))
}

/// The published authority, whose key is among the data.
fn trusted(installation: &Installation) -> Option<Row> {
    let path = crate::trust_dir(&installation.data_dir);
    if !TrustFiles::are_in(&path) {
        return None;
    }
    Some(if installation.keep_data {
        row(
            Action::Keep,
            "certificates",
            &path,
            "`--keep-data`".to_owned(),
        )
    } else {
        let detail = "the authority that users trust".to_owned();
        row(Action::Remove, "certificates", &path, detail)
    })
}

/// The key of the secrets that are among the data.
fn vault_key(installation: &Installation) -> Option<Row> {
    let path = crate::vault_key_file(&installation.data_dir);
    path.is_file().then(|| {
        if installation.keep_data {
            let detail = "`--keep-data`".to_owned();
            return row(Action::Keep, "vault key", &path, detail);
        }
        let detail = "the key of the secrets in the data".to_owned();
        row(Action::Remove, "vault key", &path, detail)
    })
}

fn data(installation: &Installation) -> Result<Option<Row>, InstallError> {
    let Ok(path) = installation.data_dir.canonicalize() else {
        return Ok(None);
    };
    let size = directories::size(&path)?;
    Ok(Some(if installation.keep_data {
        row(
            Action::Keep,
            "data",
            &path,
            format!("{size}; `--keep-data`"),
        )
    } else {
        let detail = format!("{size}: database, keys, logs, disks");
        row(Action::Remove, "data", &path, detail)
    }))
}
