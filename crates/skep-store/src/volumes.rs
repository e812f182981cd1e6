//! Volumes of teams.

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use skep_types::{TeamId, VolumeId, VolumeName};

use crate::error::is_taken;
use crate::{Receipt, Store, StoreError, column};

/// A volume as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Id of the volume, which never returns.
    pub id: VolumeId,
    /// Team that owns it.
    pub team: TeamId,
    /// Name among those of its team.
    pub name: VolumeName,
    /// Space on it.
    pub mebibytes: u32,
    /// True if nobody may write to it.
    pub read_only: bool,
    /// Volume that it was copied from, which may be gone.
    pub source: Option<VolumeId>,
    /// Time of its making.
    pub created_at: Timestamp,
}

/// The volumes in the database.
#[derive(Debug)]
pub struct Volumes<'a>(pub(crate) &'a Store);

impl Volumes<'_> {
    /// Records a volume.
    ///
    /// The receipt fails with [`StoreError::Taken`] if its team has one of that name.
    pub fn insert(&self, volume: VolumeRecord) -> Receipt {
        self.0.write("record a volume", move |connection| {
            insert(connection, &volume).map_err(|source| {
                if is_taken(&source) {
                    return StoreError::Taken {
                        kind: "volume",
                        name: volume.name.to_string(),
                    };
                }
                StoreError::of("record a volume", source)
            })
        })
    }

    /// Forgets a volume. Says whether it was there.
    pub fn remove(&self, id: VolumeId) -> Receipt<bool> {
        let operation = "forget a volume";
        self.0.write(operation, move |connection| {
            let removed = connection
                .prepare_cached("DELETE FROM volumes WHERE id = ?1")
                .and_then(|mut statement| statement.execute([id.to_string()]))
                .map_err(|source| StoreError::of(operation, source))?;
            Ok(removed > 0)
        })
    }

    /// One volume.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn find(&self, id: VolumeId) -> Result<Option<VolumeRecord>, StoreError> {
        let query = "SELECT * FROM volumes WHERE id = ?1";
        let found = self.select(query, vec![id.to_string()]).await?;
        Ok(found.into_iter().next())
    }

    /// The volume of a team with this name.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn named(
        &self,
        team: &TeamId,
        name: &VolumeName,
    ) -> Result<Option<VolumeRecord>, StoreError> {
        let query = "SELECT * FROM volumes WHERE team = ?1 AND name = ?2";
        let found = self.select(query, vec![team.to_string(), name.to_string()]);
        Ok(found.await?.into_iter().next())
    }

    /// The volumes of a team, the newest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn of_team(&self, team: &TeamId) -> Result<Vec<VolumeRecord>, StoreError> {
        let query = "SELECT * FROM volumes WHERE team = ?1 ORDER BY created_at DESC, id";
        self.select(query, vec![team.to_string()]).await
    }

    /// The volumes of all teams.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn all(&self) -> Result<Vec<VolumeRecord>, StoreError> {
        self.select("SELECT * FROM volumes", Vec::new()).await
    }

    async fn select(
        &self,
        query: &'static str,
        values: Vec<String>,
    ) -> Result<Vec<VolumeRecord>, StoreError> {
        let operation = "look for volumes";
        self.0
            .read(operation, move |connection| {
                let rows = connection.prepare_cached(query).and_then(|mut statement| {
                    let values = rusqlite::params_from_iter(values);
                    statement.query_map(values, read)?.collect()
                });
                rows.map_err(|source| StoreError::of(operation, source))
            })
            .await
    }
}

fn insert(connection: &Connection, volume: &VolumeRecord) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO volumes (id, team, name, mebibytes, read_only, source, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            volume.id.to_string(),
            volume.team.as_str(),
            volume.name.as_str(),
            volume.mebibytes,
            volume.read_only,
            volume.source.map(|source| source.to_string()),
            column::micros(volume.created_at),
        ])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<VolumeRecord> {
    let source: Option<String> = row.get("source")?;
    Ok(VolumeRecord {
        id: column::parsed(row, "id")?,
        team: column::parsed(row, "team")?,
        name: column::parsed(row, "name")?,
        mebibytes: row.get("mebibytes")?,
        read_only: row.get("read_only")?,
        source: source
            .map(|source| column::word("source", &source))
            .transpose()?,
        created_at: column::time(row, "created_at")?,
    })
}
