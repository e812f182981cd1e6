//! Teams: the owners of keys, sandboxes and templates.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_types::TeamId;

use crate::error::is_taken;
use crate::{Receipt, Store, StoreError, column};

/// A team, with its limits and standing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// Id of the team, which never changes.
    pub id: TeamId,
    /// The namespace of its templates.
    pub slug: String,
    /// Name for people.
    pub name: String,
    /// The team of whoever names no other. There is exactly one.
    pub is_default: bool,
    /// Limit on its running sandboxes; `None` is the configuration's default.
    pub max_sandboxes: Option<u32>,
    /// Limit on the lifetime of its sandboxes; `None` is the configuration's default.
    pub max_lifetime: Option<Duration>,
    /// Restriction by the operator, if any.
    pub standing: Standing,
    /// Time of its creation.
    pub created_at: Timestamp,
}

/// Permissions of a team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It may do everything.
    Good,
    /// Only look and clean up, for the reason given.
    Blocked(String),
    /// It may do nothing.
    Banned,
}

impl Standing {
    fn columns(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Good => ("good", None),
            Self::Blocked(reason) => ("blocked", Some(reason)),
            Self::Banned => ("banned", None),
        }
    }
}

/// The teams in the database.
#[derive(Debug)]
pub struct Teams<'a>(pub(crate) &'a Store);

impl Teams<'_> {
    /// Adds a team.
    ///
    /// The receipt fails with [`StoreError::Taken`] if the id or slug is in use, or if it would
    /// be a second default.
    pub fn insert(&self, team: Team) -> Receipt {
        self.0.write("record a team", move |connection| {
            insert(connection, &team).map_err(|source| {
                if is_taken(&source) {
                    return StoreError::Taken {
                        kind: "team",
                        name: team.slug.clone(),
                    };
                }
                StoreError::of("record a team", source)
            })
        })
    }

    /// Says what a team may do from now on. The receipt fails with [`StoreError::Missing`] if
    /// there is no such team.
    pub fn set_standing(&self, team: TeamId, standing: Standing) -> Receipt {
        let operation = "record the standing of a team";
        self.0.write(operation, move |connection| {
            let (standing, reason) = standing.columns();
            let changed = connection
                .prepare_cached("UPDATE teams SET standing = ?2, block_reason = ?3 WHERE id = ?1")
                .and_then(|mut update| update.execute(params![team.as_str(), standing, reason]))
                .map_err(|source| StoreError::of(operation, source))?;
            one(&team, changed)
        })
    }

    /// Removes a team and revokes its keys; says whether it did. The default team stays, and so
    /// does one that has had sandboxes: the database still tells of them.
    pub fn delete(&self, team: TeamId, at: Timestamp) -> Receipt<bool> {
        let operation = "remove a team";
        self.0.write(operation, move |connection| {
            delete(connection, &team, at).map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Says how much a team may have from now on; `None` is what the configuration says. The
    /// receipt fails with [`StoreError::Missing`] if there is no such team.
    pub fn set_limits(
        &self,
        team: TeamId,
        max_sandboxes: Option<u32>,
        max_lifetime: Option<Duration>,
    ) -> Receipt {
        let operation = "record the limits of a team";
        self.0.write(operation, move |connection| {
            let lifetime = max_lifetime.map(column::duration_micros);
            let changed = connection
                .prepare_cached(
                    "UPDATE teams SET max_sandboxes = ?2, max_lifetime = ?3 WHERE id = ?1",
                )
                .and_then(|mut update| {
                    update.execute(params![team.as_str(), max_sandboxes, lifetime])
                })
                .map_err(|source| StoreError::of(operation, source))?;
            one(&team, changed)
        })
    }

    /// All teams, the oldest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn list(&self) -> Result<Vec<Team>, StoreError> {
        let operation = "list the teams";
        self.0
            .read(operation, move |connection| {
                list(connection).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// One team, if there is one of that id.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn find(&self, id: TeamId) -> Result<Option<Team>, StoreError> {
        let operation = "find a team";
        self.0
            .read(operation, move |connection| {
                connection
                    .prepare_cached("SELECT * FROM teams WHERE id = ?1")
                    .and_then(|mut query| query.query_row([id.as_str()], read).optional())
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The default team, if there is one yet.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn default_team(&self) -> Result<Option<Team>, StoreError> {
        let operation = "find the default team";
        self.0
            .read(operation, move |connection| {
                connection
                    .prepare_cached("SELECT * FROM teams WHERE is_default = 1")
                    .and_then(|mut query| query.query_row([], read).optional())
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }
}

fn delete(connection: &Connection, team: &TeamId, at: Timestamp) -> rusqlite::Result<bool> {
    let team = team.as_str();
    let is_free: bool = connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM teams WHERE id = ?1 AND is_default = 0)
         AND NOT EXISTS (SELECT 1 FROM sandboxes WHERE team = ?1)
         AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE team = ?1)
         AND NOT EXISTS (SELECT 1 FROM secrets WHERE team = ?1)
         AND NOT EXISTS (SELECT 1 FROM templates WHERE team = ?1 AND deleted_at IS NULL)",
        [team],
        |row| row.get(0),
    )?;
    if !is_free {
        return Ok(false);
    }
    connection.execute(
        "INSERT OR IGNORE INTO revoked_keys (hash, revoked_at)
         SELECT hash, ?2 FROM keys WHERE team = ?1",
        params![team, column::micros(at)],
    )?;
    connection.execute("DELETE FROM keys WHERE team = ?1", [team])?;
    connection.execute("DELETE FROM webhooks WHERE team = ?1", [team])?;
    let removed = connection.execute("DELETE FROM teams WHERE id = ?1", [team])?;
    Ok(removed > 0)
}

fn one(team: &TeamId, changed: usize) -> Result<(), StoreError> {
    match changed {
        0 => Err(StoreError::Missing {
            kind: "team",
            name: team.to_string(),
        }),
        _ => Ok(()),
    }
}

fn insert(connection: &Connection, team: &Team) -> rusqlite::Result<()> {
    let (standing, reason) = team.standing.columns();
    connection
        .prepare_cached(
            "INSERT INTO teams (id, slug, name, is_default, max_sandboxes, max_lifetime, standing,
             block_reason, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            team.id.as_str(),
            team.slug,
            team.name,
            team.is_default,
            team.max_sandboxes,
            team.max_lifetime.map(column::duration_micros),
            standing,
            reason,
            column::micros(team.created_at),
        ])?;
    Ok(())
}

fn list(connection: &Connection) -> rusqlite::Result<Vec<Team>> {
    connection
        .prepare_cached("SELECT * FROM teams ORDER BY created_at, id")?
        .query_map([], read)?
        .collect()
}

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Team> {
    let standing: String = row.get("standing")?;
    let standing = match standing.as_str() {
        "good" => Standing::Good,
        "blocked" => {
            Standing::Blocked(row.get::<_, Option<_>>("block_reason")?.unwrap_or_default())
        }
        "banned" => Standing::Banned,
        other => return Err(column::unreadable("standing", other)),
    };
    let max_lifetime: Option<i64> = row.get("max_lifetime")?;
    Ok(Team {
        id: column::parsed(row, "id")?,
        slug: row.get("slug")?,
        name: row.get("name")?,
        is_default: row.get("is_default")?,
        max_sandboxes: row.get("max_sandboxes")?,
        max_lifetime: max_lifetime
            .map(|_| column::duration(row, "max_lifetime"))
            .transpose()?,
        standing,
        created_at: column::time(row, "created_at")?,
    })
}
