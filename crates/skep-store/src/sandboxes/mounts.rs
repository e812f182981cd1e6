//! Volumes of a sandbox in a column.

use serde::{Deserialize, Serialize};
use skep_types::{Mount, MountTarget};

use crate::column;

/// A mount as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    volume: String,
    name: String,
    target: String,
    #[serde(default)]
    read_only: bool,
}

pub(super) fn encode(mounts: &[Mount]) -> String {
    let written: Vec<_> = mounts
        .iter()
        .map(|mount| Written {
            volume: mount.volume.to_string(),
            name: mount.name.to_string(),
            target: mount.target.as_str().to_owned(),
            read_only: mount.read_only,
        })
        .collect();
    serde_json::to_string(&written).expect("texts are JSON")
}

pub(super) fn decode(text: &str) -> rusqlite::Result<Vec<Mount>> {
    let written: Vec<Written> =
        serde_json::from_str(text).map_err(|error| column::unreadable("mounts", error))?;
    let read = |written: Written| {
        Ok(Mount {
            volume: column::word("mounts", &written.volume)?,
            name: column::word("mounts", &written.name)?,
            target: MountTarget::new(&written.target)
                .map_err(|error| column::unreadable("mounts", error))?,
            read_only: written.read_only,
        })
    };
    written.into_iter().map(read).collect()
}
