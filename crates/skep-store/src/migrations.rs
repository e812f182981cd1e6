//! The shape of the database, brought forward one version at a time.
//!
//! A script is never changed once released: the next change is the next number. Each runs in a
//! transaction with its version number, so a server killed in the middle finds the old version.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};

use crate::StoreError;

const SCRIPTS: &[&str] = &[
    include_str!("migrations/0001_teams_keys_sandboxes.sql"),
    include_str!("migrations/0002_idempotent_requests.sql"),
    include_str!("migrations/0003_ended_sandboxes.sql"),
    include_str!("migrations/0004_network_of_sandboxes.sql"),
    include_str!("migrations/0005_more_of_the_receipt.sql"),
    include_str!("migrations/0006_ended_sandboxes_of_a_team.sql"),
    include_str!("migrations/0007_nodes_and_pauses.sql"),
    include_str!("migrations/0008_lifecycle.sql"),
    include_str!("migrations/0009_revoked_keys.sql"),
    include_str!("migrations/0010_snapshots.sql"),
    include_str!("migrations/0011_templates_of_teams.sql"),
    include_str!("migrations/0012_ingress.sql"),
    include_str!("migrations/0013_volumes.sql"),
    include_str!("migrations/0014_versions_that_go.sql"),
    include_str!("migrations/0015_secrets.sql"),
    include_str!("migrations/0016_events.sql"),
    include_str!("migrations/0017_webhooks.sql"),
    include_str!("migrations/0018_details_of_events.sql"),
    include_str!("migrations/0019_identity.sql"),
    include_str!("migrations/0020_keys_that_expire.sql"),
];

pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    migrate_with(connection, path, SCRIPTS)
}

fn migrate_with(
    connection: &mut Connection,
    path: &Path,
    scripts: &[&str],
) -> Result<(), StoreError> {
    let known = u32::try_from(scripts.len()).expect("there are few scripts");
    let found = version(connection)?;
    if found > known {
        return Err(StoreError::TooNew {
            path: path.to_owned(),
            found,
            known,
        });
    }
    for (next, script) in (1..=known).zip(scripts) {
        apply(connection, next, script).map_err(|source| StoreError::Migrate {
            version: next,
            source: Arc::new(source),
        })?;
    }
    Ok(())
}

fn version(connection: &Connection) -> Result<u32, StoreError> {
    connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|source| StoreError::of("read the version of the database", source))
}

fn apply(connection: &mut Connection, next: u32, script: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Asked again under the lock: another process may have just done the same.
    let current: u32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if current >= next {
        return Ok(());
    }
    transaction.execute_batch(script)?;
    transaction.pragma_update(None, "user_version", next)?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated_to(scripts: &[&str]) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_with(&mut connection, Path::new("test"), scripts).unwrap();
        connection
    }

    #[test]
    fn a_record_of_every_older_version_comes_forward_with_its_rows() {
        for older in 1..SCRIPTS.len() {
            let mut connection = migrated_to(&SCRIPTS[..older]);
            connection
                .execute(
                    "INSERT INTO teams (id, slug, name, created_at) VALUES ('t', 's', 'n', 1)",
                    [],
                )
                .unwrap();
            migrate(&mut connection, Path::new("test")).unwrap();
            let names: String = connection
                .query_row("SELECT name FROM teams WHERE id = 't'", [], |row| {
                    row.get(0)
                })
                .unwrap();
            assert_eq!(names, "n");
            assert_eq!(
                usize::try_from(version(&connection).unwrap()),
                Ok(SCRIPTS.len())
            );
        }
    }

    #[test]
    fn a_record_of_a_newer_server_is_left_alone() {
        let mut connection = migrated_to(SCRIPTS);
        connection.pragma_update(None, "user_version", 999).unwrap();
        let error = migrate(&mut connection, Path::new("test")).unwrap_err();
        assert!(matches!(error, StoreError::TooNew { found: 999, .. }));
    }

    #[test]
    fn a_script_that_fails_leaves_the_version_before_it() {
        let mut connection = migrated_to(SCRIPTS);
        let mut scripts = SCRIPTS.to_vec();
        scripts.push("CREATE TABLE half (id TEXT) STRICT; CREATE NONSENSE;");
        let error = migrate_with(&mut connection, Path::new("test"), &scripts).unwrap_err();
        assert!(matches!(error, StoreError::Migrate { .. }), "{error}");
        assert_eq!(
            usize::try_from(version(&connection).unwrap()),
            Ok(SCRIPTS.len())
        );
        connection
            .execute_batch("SELECT * FROM half")
            .expect_err("the table of the failed script is not there");
    }
}
