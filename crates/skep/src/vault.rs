//! The key of the vault, from wherever the operator keeps it.

use std::path::PathBuf;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use skep_cli::{CliError, ExitKind};
use skep_config::Config;
use skep_control::{Control, SecretError};
use skep_seal::KeySource;

/// The place of the key.
///
/// # Errors
///
/// If two are named.
pub(crate) fn key_source(config: &Config) -> Result<KeySource, CliError> {
    let named = |path: &Option<PathBuf>| {
        let path = path.clone();
        path.filter(|path| !path.as_os_str().is_empty())
    };
    let vault = &config.vault;
    match (named(&vault.key_file), named(&vault.key_command)) {
        (None, None) => {
            let own = skep_install::vault_key_file(&config.data_dir);
            Ok(KeySource::OwnFile(own))
        }
        (Some(path), None) => Ok(KeySource::File(path)),
        (None, Some(program)) => Ok(KeySource::Command(program)),
        (Some(_), Some(_)) => Err(CliError::input(
            "the vault has two keys".to_owned(),
            "name `vault.key_file` or `vault.key_command`, not both",
        )),
    }
}

/// Lets the kernel write no memory of this process to a file when it crashes, and nobody without
/// special rights look into it: the key is there.
pub(crate) fn leave_no_dump() {
    let behavior = DumpableBehavior::NotDumpable;
    if let Err(error) = set_dumpable_behavior(behavior) {
        tracing::warn!(%error, "a crash of the server may leave its memory on the disk");
    }
}

/// Reads the key, if there is one, and seals by the newest what was sealed by another.
///
/// # Errors
///
/// If the operator has named a key that cannot be had: better now than at the first secret.
pub(crate) async fn open(control: &Control) -> Result<(), CliError> {
    control.open_vault().await.map_err(|error| {
        let is_input = matches!(error, SecretError::Key(_));
        let failure = CliError::failure(error).hint(
            "a key is 64 hexadecimal digits that nobody else reads: `(umask 077; openssl rand -hex 32 > FILE)`, named in `vault.key_file`",
        );
        if is_input {
            return CliError {
                kind: ExitKind::Input,
                ..failure
            };
        }
        failure
    })
}
