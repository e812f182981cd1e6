//! Tags of templates: a history of assignments, of which the newest with a ready build counts.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
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
    /// What it made.
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

    /// The version of a template that a tag means, or that the id of a build is.
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
    connection
        .prepare_cached(
            "SELECT builds.* FROM builds
             LEFT JOIN template_tags ON build = builds.id AND tag = ?2 AND removed_at IS NULL
             WHERE builds.template = ?1 AND status = 'ready'
               AND (template_tags.number IS NOT NULL OR builds.id = ?2)
             ORDER BY template_tags.number DESC LIMIT 1",
        )?
        .query_row([template.as_str(), tag], |row| {
            let result: String = row.get("result")?;
            Ok(Version {
                build: column::parsed(row, "id")?,
                built: encoding::decode_result(&result, column::size(row, "bytes")?)
                    .map_err(|error| column::unreadable("result", error))?,
                resources: builds::read_resources(row)?,
            })
        })
        .optional()
}
