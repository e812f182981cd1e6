//! Tags of templates: a history of assignments, of which the newest with a ready build counts.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_types::{BuildId, BuiltTemplate, Resources, TemplateId};

use crate::builds::encoding;
use crate::{Receipt, Store, StoreError, builds, column};

/// The newest assignment of a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagAssignment {
    /// The tag.
    pub tag: String,
    /// The build that was given it.
    pub build: BuildId,
    /// Time of the assignment.
    pub at: Timestamp,
}

/// A build that is ready: one version of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The build.
    pub build: BuildId,
    /// Content that it made.
    pub built: BuiltTemplate,
    /// Limits that were asked for.
    pub resources: Resources,
}

/// The tags in the database.
#[derive(Debug)]
pub struct Tags<'a>(pub(crate) &'a Store);

impl Tags<'_> {
    /// Gives tags to a build of a template.
    pub fn assign(
        &self,
        template: TemplateId,
        tags: Vec<String>,
        build: BuildId,
        at: Timestamp,
    ) -> Receipt {
        let operation = "assign tags";
        self.0.write(operation, move |connection| {
            tags.iter()
                .try_for_each(|tag| assign(connection, &template, tag, build, at))
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Takes tags off a template. Their history stays.
    pub fn remove(&self, template: TemplateId, tags: Vec<String>, at: Timestamp) -> Receipt {
        let operation = "remove tags";
        self.0.write(operation, move |connection| {
            let remove = |tag: &String| {
                connection
                    .prepare_cached(
                        "UPDATE template_tags SET removed_at = ?3
                         WHERE template = ?1 AND tag = ?2 AND removed_at IS NULL",
                    )?
                    .execute(params![template.as_str(), tag, column::micros(at)])?;
                Ok(())
            };
            tags.iter()
                .try_for_each(remove)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// The newest assignment of each tag of a template, by the name of the tag.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn list(&self, template: TemplateId) -> Result<Vec<TagAssignment>, StoreError> {
        let operation = "list the tags of a template";
        self.0
            .read(operation, move |connection| {
                list(connection, &template).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The tags of a template that mean a version, each with the build of it.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn meanings(
        &self,
        template: TemplateId,
    ) -> Result<Vec<(String, BuildId)>, StoreError> {
        let operation = "list what the tags of a template mean";
        self.0
            .read(operation, move |connection| {
                meanings(connection, &template).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The version of a template that a tag means, or that the id of a build is, or that begins with
    /// the digits after an `@`: of several the newest.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn version(
        &self,
        template: TemplateId,
        tag: String,
    ) -> Result<Option<Version>, StoreError> {
        let operation = "find a version of a template";
        self.0
            .read(operation, move |connection| {
                version(connection, &template, &tag)
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }
}

pub(crate) fn assign(
    connection: &Connection,
    template: &TemplateId,
    tag: &str,
    build: BuildId,
    at: Timestamp,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO template_tags (template, tag, build, created_at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            template.as_str(),
            tag,
            build.to_string(),
            column::micros(at)
        ])?;
    Ok(())
}

/// Builds of a template with a status that were given one of these tags.
pub(crate) fn builds_that_share(
    connection: &Connection,
    template: &TemplateId,
    tags: &[String],
    status: &str,
) -> rusqlite::Result<Vec<BuildId>> {
    let mut sharing = Vec::new();
    for build in builds::with_status(connection, template, status)? {
        if of_build(connection, build)?
            .iter()
            .any(|tag| tags.contains(tag))
        {
            sharing.push(build);
        }
    }
    Ok(sharing)
}

/// Tags that a build was ever given.
pub(crate) fn of_build(connection: &Connection, build: BuildId) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare_cached("SELECT DISTINCT tag FROM template_tags WHERE build = ?1")?
        .query_map([build.to_string()], |row| row.get(0))?
        .collect()
}

/// The tags of a template that mean a version now, with its build.
pub(crate) fn meanings(
    connection: &Connection,
    template: &TemplateId,
) -> rusqlite::Result<Vec<(String, BuildId)>> {
    let mut meant = Vec::new();
    for TagAssignment { tag, .. } in list(connection, template)? {
        if let Some(version) = version(connection, template, &tag)? {
            meant.push((tag, version.build));
        }
    }
    Ok(meant)
}

fn list(connection: &Connection, template: &TemplateId) -> rusqlite::Result<Vec<TagAssignment>> {
    connection
        .prepare_cached(
            "SELECT tag, build, created_at, max(number) FROM template_tags
             WHERE template = ?1 AND removed_at IS NULL GROUP BY tag ORDER BY tag",
        )?
        .query_map([template.as_str()], |row| {
            Ok(TagAssignment {
                tag: row.get("tag")?,
                build: column::parsed(row, "build")?,
                at: column::time(row, "created_at")?,
            })
        })?
        .collect()
}

fn version(
    connection: &Connection,
    template: &TemplateId,
    tag: &str,
) -> rusqlite::Result<Option<Version>> {
    if let Some(digits) = tag.strip_prefix('@') {
        return version_of_content(connection, template, digits);
    }
    connection
        .prepare_cached(
            "SELECT builds.* FROM builds
             LEFT JOIN template_tags ON build = builds.id AND tag = ?2 AND template_tags.removed_at IS NULL
             WHERE builds.template = ?1 AND status = 'ready' AND builds.removed_at IS NULL
               AND (template_tags.number IS NOT NULL OR builds.id = ?2)
             ORDER BY template_tags.number DESC LIMIT 1",
        )?
        .query_row([template.as_str(), tag], read_version)
        .optional()
}

/// The newest version whose content id begins so. Ids are made of what a build has made, and not
/// kept: versions are few, and seldom named like this.
fn version_of_content(
    connection: &Connection,
    template: &TemplateId,
    digits: &str,
) -> rusqlite::Result<Option<Version>> {
    let mut query = connection.prepare_cached(
        "SELECT * FROM builds WHERE template = ?1 AND status = 'ready' AND removed_at IS NULL
         ORDER BY created_at DESC, rowid DESC",
    )?;
    let versions = query.query_map([template.as_str()], read_version)?;
    for version in versions {
        let version = version?;
        if version.built.image.content_id().starts_with(digits) {
            return Ok(Some(version));
        }
    }
    Ok(None)
}

fn read_version(row: &Row<'_>) -> rusqlite::Result<Version> {
    let result: String = row.get("result")?;
    Ok(Version {
        build: column::parsed(row, "id")?,
        built: encoding::decode_result(&result, column::size(row, "bytes")?)
            .map_err(|error| column::unreadable("result", error))?,
        resources: builds::read_resources(row)?,
    })
}
