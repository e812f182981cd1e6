//! `skep key rotate` for the local operator's key.
//!
//! It changes the database and the file itself, so it needs the data directory and no key: it works
//! for an operator who has lost the key, or whose key was revoked. A server that runs goes by the
//! change from the next request on.

use std::path::Path;

use jiff::Timestamp;
use skep_cli::{CliError, OutputArgs, print_json, print_line, print_note};
use skep_control::ApiKey;
use skep_store::Store;
use skep_types::TeamId;

use crate::{local_key, root};

/// Makes a new key for the local operator, prints it, and revokes the old one.
///
/// # Errors
///
/// [`CliError`] with hints. The old key works until the new one is in its place.
pub async fn rotate(data_dir: &Path, output: OutputArgs) -> Result<(), CliError> {
    root::require_for("key rotate", data_dir)?;
    let path = data_dir.join("skep.db");
    if !path.exists() {
        return Err(CliError::input(
            format!("there is no database in `{}`", data_dir.display()),
            "`skep up` makes one, and a key; `--data-dir` names another directory",
        ));
    }
    let store = Store::open(&path).map_err(CliError::failure)?;
    let team = store
        .teams()
        .default_team()
        .await
        .map_err(CliError::failure)?
        .ok_or_else(|| {
            CliError::input(
                "there is no team yet",
                "`skep up` makes one, and a key for it",
            )
        })?;
    let old = local_key::read(data_dir)
        .ok()
        .and_then(|text| text.parse::<ApiKey>().ok());
    let new = ApiKey::random();
    let inserting = store
        .keys()
        .insert(new.record(team.id.clone(), local_key::NAME));
    inserting.recorded().await.map_err(CliError::failure)?;
    local_key::replace(data_dir, new.reveal()).map_err(CliError::failure)?;
    if let Some(old) = old {
        revoke(&store, team.id, &old).await?;
    }
    store.flush().await.map_err(CliError::failure)?;
    if output.json {
        return print_json(&serde_json::json!({ "name": local_key::NAME, "key": new.reveal() }));
    }
    print_note("the old key of the local operator works no more; this is the new one");
    print_line(new.reveal())
}

/// Revokes a key, unless that was done before.
async fn revoke(store: &Store, team: TeamId, key: &ApiKey) -> Result<(), CliError> {
    let found = store
        .keys()
        .find(key.record(team, local_key::NAME).hash)
        .await;
    let Some((record, _)) = found.map_err(CliError::failure)? else {
        return Ok(());
    };
    let revoking = store
        .keys()
        .revoke(record.team, record.id, Timestamp::now());
    revoking
        .recorded()
        .await
        .map(drop)
        .map_err(CliError::failure)
}
