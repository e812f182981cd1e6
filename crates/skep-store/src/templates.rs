//! Templates of teams: their names, and requests to build them.

use std::sync::atomic::Ordering;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_types::{BuildId, Resources, TeamId, TemplateId};

use crate::{Receipt, Store, StoreError, builds, column, tags};

/// A template of a team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateRecord {
    /// Id of the template, stable for its team and name.
    pub id: TemplateId,
    /// Team that owns it.
    pub team: TeamId,
    /// Slug of that team.
    pub slug: String,
    /// Its bare name.
    pub name: String,
    /// True if other teams may use it.
    pub public: bool,
    /// Time of the first request.
    pub created_at: Timestamp,
    /// Time of the last one, or of another change.
    pub updated_at: Timestamp,
}

/// A request to build a template.
#[derive(Debug, Clone)]
pub struct NewBuild {
    /// Team that owns the template.
    pub team: TeamId,
    /// Bare name of the template.
    pub name: String,
    /// Id of the template, if there is none of that name yet.
    pub template: TemplateId,
    /// Id of the build.
    pub build: BuildId,
    /// Tags that it is to have.
    pub tags: Vec<String>,
    /// Limits of the template's sandboxes.
    pub resources: Resources,
    /// Time of the request.
    pub at: Timestamp,
    /// Number of builds that the team may have running beside it.
    pub limit: u32,
}

/// The outcome of a request to build a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It is recorded, and waits to be started.
    Recorded(RequestedBuild),
    /// The name is the id of a template.
    NameIsAnId,
    /// The team runs as many builds as it may.
    TooMany,
}

/// A build that was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedBuild {
    /// The template that it is a version of.
    pub template: TemplateRecord,
    /// The build.
    pub build: BuildId,
}

/// The outcome of deleting a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It is gone, and these builds of it ran.
    Deleted(Vec<BuildId>),
    /// Sandboxes of it run.
    Running,
    /// Sandboxes of it are paused.
    Paused,
    /// Snapshots stand on it.
    Snapshots,
}

/// Reason of a build that waited while a newer one of its tags was requested.
const SUPERSEDED: &str = "The build was canceled because it was superseded by a newer one.";

const SELECT: &str = "SELECT templates.*, coalesce((SELECT slug FROM teams WHERE teams.id = templates.team), '') AS slug
     FROM templates";

/// The templates in the database.
#[derive(Debug)]
pub struct Templates<'a>(pub(crate) &'a Store);

impl Templates<'_> {
    /// Records a build that waits to be started, and its template if that is new. Builds of the
    /// same template that wait and share a tag with it have failed from then on.
    pub fn request(&self, new: NewBuild) -> Receipt<RequestOutcome> {
        let operation = "record the request of a build";
        let has_templates = self.0.has_templates();
        self.0.write(operation, move |connection| {
            has_templates.store(true, Ordering::Release);
            request(connection, &new).map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Lets other teams use a template, or not.
    pub fn set_public(&self, id: TemplateId, public: bool, at: Timestamp) -> Receipt {
        let operation = "publish a template";
        self.0.write(operation, move |connection| {
            connection
                .prepare_cached("UPDATE templates SET public = ?2, updated_at = ?3 WHERE id = ?1")
                .and_then(|mut update| {
                    update.execute(params![id.as_str(), public, column::micros(at)])
                })
                .map(|_rows| ())
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Deletes a template that no sandbox uses that lives, and no checkpoint. Its builds that wait
    /// or run have failed then.
    pub fn delete(&self, id: TemplateId, at: Timestamp) -> Receipt<DeleteOutcome> {
        let operation = "delete a template";
        self.0.write(operation, move |connection| {
            delete(connection, &id, at).map_err(|source| StoreError::of(operation, source))
        })
    }

    /// The template that a name or an id means to a team: its own of that name, or any of that id.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn find(
        &self,
        team: TeamId,
        named: String,
    ) -> Result<Option<TemplateRecord>, StoreError> {
        let operation = "find a template";
        if !self.0.may_have_templates() {
            return Ok(None);
        }
        self.0
            .read(operation, move |connection| {
                find(connection, &team, &named).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The template with a name in the namespace of the team with this slug.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn find_in(
        &self,
        slug: String,
        name: String,
    ) -> Result<Option<TemplateRecord>, StoreError> {
        let operation = "find a template of a namespace";
        if !self.0.may_have_templates() {
            return Ok(None);
        }
        self.0
            .read(operation, move |connection| {
                let sql = format!(
                    "{SELECT} JOIN teams ON teams.id = templates.team
                     WHERE teams.slug = ?1 AND templates.name = ?2 AND deleted_at IS NULL"
                );
                connection
                    .prepare_cached(&sql)
                    .and_then(|mut query| query.query_row([&slug, &name], read).optional())
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The templates of a team, the newest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn list(&self, team: TeamId) -> Result<Vec<TemplateRecord>, StoreError> {
        let operation = "list the templates of a team";
        self.0
            .read(operation, move |connection| {
                let sql = format!(
                    "{SELECT} WHERE team = ?1 AND deleted_at IS NULL ORDER BY created_at DESC, id"
                );
                connection
                    .prepare_cached(&sql)
                    .and_then(|mut query| query.query_map([team.as_str()], read)?.collect())
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }
}

/// Returns true if there are templates.
pub(crate) fn exist(connection: &Connection) -> Result<bool, StoreError> {
    connection
        .query_row("SELECT EXISTS (SELECT 1 FROM templates)", [], |row| {
            row.get(0)
        })
        .map_err(|source| StoreError::of("look for templates", source))
}

fn find(
    connection: &Connection,
    team: &TeamId,
    named: &str,
) -> rusqlite::Result<Option<TemplateRecord>> {
    // A name of the team goes before an id.
    let sql = format!(
        "{SELECT} WHERE deleted_at IS NULL AND (team = ?1 AND name = ?2 OR id = ?2)
         ORDER BY id = ?2 LIMIT 1"
    );
    connection
        .prepare_cached(&sql)?
        .query_row([team.as_str(), named], read)
        .optional()
}

fn request(connection: &Connection, new: &NewBuild) -> rusqlite::Result<RequestOutcome> {
    let is_id: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM templates WHERE id = ?1)")?
        .query_row([&new.name], |row| row.get(0))?;
    if is_id {
        return Ok(RequestOutcome::NameIsAnId);
    }
    let known: Option<String> = connection
        .prepare_cached(
            "SELECT id FROM templates WHERE team = ?1 AND name = ?2 AND deleted_at IS NULL",
        )?
        .query_row([new.team.as_str(), &new.name], |row| row.get(0))
        .optional()?;
    let id = match &known {
        Some(known) => column::word("id", known)?,
        None => new.template.clone(),
    };
    if builds::running(connection, &new.team, &id, &new.tags)? >= new.limit {
        return Ok(RequestOutcome::TooMany);
    }
    let at = column::micros(new.at);
    if known.is_some() {
        connection
            .prepare_cached("UPDATE templates SET updated_at = ?2 WHERE id = ?1")?
            .execute(params![id.as_str(), at])?;
    } else {
        connection
            .prepare_cached(
                "INSERT INTO templates (id, team, name, created_at, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?4)",
            )?
            .execute(params![id.as_str(), new.team.as_str(), new.name, at])?;
    }
    for superseded in tags::builds_that_share(connection, &id, &new.tags, "waiting")? {
        builds::fail(connection, superseded, SUPERSEDED, new.at)?;
    }
    builds::insert(connection, new, &id)?;
    for tag in &new.tags {
        tags::assign(connection, &id, tag, new.build, new.at)?;
    }
    let template =
        find(connection, &new.team, &new.name)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(RequestOutcome::Recorded(RequestedBuild {
        template,
        build: new.build,
    }))
}

fn delete(
    connection: &Connection,
    id: &TemplateId,
    at: Timestamp,
) -> rusqlite::Result<DeleteOutcome> {
    // A sandbox that was made of a snapshot of one of the template's names it as its base.
    let has_sandbox = |is_paused: bool| {
        connection
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM sandboxes
                 WHERE ended_at IS NULL AND (template = ?1 OR base LIKE ?1 || ':%')
                   AND (paused IS NOT NULL) = ?2)",
            )?
            .query_row(params![id.as_str(), is_paused], |row| row.get(0))
    };
    if has_sandbox(false)? {
        return Ok(DeleteOutcome::Running);
    }
    if has_sandbox(true)? {
        return Ok(DeleteOutcome::Paused);
    }
    let has_snapshots = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM checkpoints
             WHERE template = ?1 OR template_name LIKE ?1 || ':%')",
        )?
        .query_row([id.as_str()], |row| row.get(0))?;
    if has_snapshots {
        return Ok(DeleteOutcome::Snapshots);
    }
    let running = builds::with_status(connection, id, "building")?;
    let waiting = builds::with_status(connection, id, "waiting")?;
    for build in running.iter().chain(&waiting) {
        builds::fail(connection, *build, builds::CANCELLED, at)?;
    }
    connection
        .prepare_cached("UPDATE templates SET deleted_at = ?2 WHERE id = ?1")?
        .execute(params![id.as_str(), column::micros(at)])?;
    Ok(DeleteOutcome::Deleted(running))
}

fn read(row: &Row<'_>) -> rusqlite::Result<TemplateRecord> {
    Ok(TemplateRecord {
        id: column::parsed(row, "id")?,
        team: column::parsed(row, "team")?,
        slug: row.get("slug")?,
        name: row.get("name")?,
        public: row.get("public")?,
        created_at: column::time(row, "created_at")?,
        updated_at: column::time(row, "updated_at")?,
    })
}
