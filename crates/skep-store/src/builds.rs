//! Builds of templates: what was ordered, how it went, what came of it.

pub(crate) mod encoding;
mod log;
mod prune;
mod record;
mod versions;

use std::collections::HashSet;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use skep_types::{BuildFailure, BuildId, BuildOrder, BuiltTemplate, LayerKey, TeamId, TemplateId};

pub use log::{BuildLog, LogFilter, LogLine};
pub use prune::{BuildRetention, PrunedBuilds};
pub(crate) use record::read_resources;
pub use record::{BuildRecord, BuildStatus, StartOutcome, StartedBuild, UnfinishedBuild};
pub use versions::{BuildDetail, VersionDeletion};

use crate::templates::NewBuild;
use crate::{Receipt, Store, StoreError, column, tags};

/// Reason of a build that somebody ended.
pub(crate) const CANCELLED: &str = "build was cancelled";

/// The builds in the database.
#[derive(Debug)]
pub struct Builds<'a>(pub(crate) &'a Store);

impl Builds<'_> {
    /// Records that a build that waits is carried out. Those of the same template that run and
    /// share a tag with it have failed from then on.
    pub fn start(
        &self,
        order: BuildOrder,
        digest: String,
        at: Timestamp,
        limit: u32,
    ) -> Receipt<StartOutcome> {
        let operation = "record the start of a build";
        self.0.write(operation, move |connection| {
            start(connection, &order, &digest, at, limit)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Records how a build ended. The first end is kept; says whether it was this one.
    pub fn end(
        &self,
        build: BuildId,
        result: Result<BuiltTemplate, BuildFailure>,
        at: Timestamp,
    ) -> Receipt<bool> {
        let operation = "record the end of a build";
        self.0.write_retained(operation, move |connection| {
            let ended = match &result {
                Ok(built) => succeed(connection, build, built, at),
                Err(failure) => fail_in(connection, build, failure, at),
            };
            ended.map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Fails the builds that were requested before `before` and never started. Returns how many.
    pub fn fail_waiting(
        &self,
        before: Timestamp,
        reason: &'static str,
        at: Timestamp,
    ) -> Receipt<usize> {
        let operation = "fail builds that never started";
        self.0.write(operation, move |connection| {
            connection
                .prepare_cached(
                    "UPDATE builds SET status = 'error', failure = ?2, ended_at = ?3
                     WHERE status = 'waiting' AND created_at < ?1",
                )
                .and_then(|mut update| {
                    update.execute(params![column::micros(before), reason, column::micros(at)])
                })
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// The log of a build, to be written to.
    pub fn log(&self, build: BuildId) -> BuildLog {
        BuildLog::new(self.0.clone(), build)
    }

    /// The builds that ran when the last server died.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn unfinished(&self) -> Result<Vec<UnfinishedBuild>, StoreError> {
        let operation = "list the builds that ran";
        self.0
            .read(operation, move |connection| {
                record::unfinished(connection).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// One build.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn find(&self, build: BuildId) -> Result<Option<BuildRecord>, StoreError> {
        let operation = "find a build";
        self.0
            .read(operation, move |connection| {
                connection
                    .prepare_cached("SELECT * FROM builds WHERE id = ?1 AND removed_at IS NULL")
                    .and_then(|mut query| {
                        let row = query.query_row([build.to_string()], record::read);
                        row.optional()
                    })
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// A build and some lines of its log. Whatever was logged before the state that is returned is
    /// in the log that is returned.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn status(
        &self,
        build: BuildId,
        filter: LogFilter,
    ) -> Result<Option<(BuildRecord, Vec<LogLine>)>, StoreError> {
        let operation = "read the log of a build";
        self.0
            .read(operation, move |connection| {
                let read = || {
                    let record = connection
                        .prepare_cached("SELECT * FROM builds WHERE id = ?1")?
                        .query_row([build.to_string()], record::read)
                        .optional()?;
                    let Some(record) = record else {
                        return Ok(None);
                    };
                    let lines = log::read(connection, build, filter)?;
                    Ok(Some((record, lines)))
                };
                read().map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The builds of a template, the newest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn of_template(&self, template: TemplateId) -> Result<Vec<BuildRecord>, StoreError> {
        let operation = "list the builds of a template";
        self.0
            .read(operation, move |connection| {
                connection
                    .prepare_cached(
                        "SELECT * FROM builds WHERE template = ?1 AND removed_at IS NULL
                         ORDER BY created_at DESC, rowid DESC",
                    )
                    .and_then(|mut query| {
                        query
                            .query_map([template.as_str()], record::read)?
                            .collect()
                    })
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// Takes versions away that nothing means any more, and forgets builds for good, as `limits` say.
    pub fn prune(&self, limits: BuildRetention) -> Receipt<PrunedBuilds> {
        let operation = "forget old builds";
        self.0.write(operation, move |connection| {
            prune::prune(connection, &limits).map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Layers that something in the record stands on: every version that is not forgotten, and what
    /// builds that run begin with.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`], also if a record cannot be read: then nobody knows what it needs.
    pub async fn layers(&self) -> Result<HashSet<LayerKey>, StoreError> {
        let operation = "list the layers that are needed";
        self.0
            .read(operation, move |connection| {
                prune::layers(connection).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }
}

pub(crate) fn insert(
    connection: &Connection,
    new: &NewBuild,
    template: &TemplateId,
) -> rusqlite::Result<()> {
    let resources = new.resources;
    connection
        .prepare_cached(
            "INSERT INTO builds (id, template, team, status, cpus, memory_mib, disk_mib, pids,
             created_at) VALUES (?1, ?2, ?3, 'waiting', ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            new.build.to_string(),
            template.as_str(),
            new.team.as_str(),
            resources.cpus,
            resources.memory_mib,
            resources.disk_mib,
            resources.pids,
            column::micros(new.at),
        ])?;
    Ok(())
}

/// Number of builds of a team that run, without those that a build of `template` with these tags
/// would end.
pub(crate) fn running(
    connection: &Connection,
    team: &TeamId,
    template: &TemplateId,
    tags: &[String],
) -> rusqlite::Result<u32> {
    let all: u32 = connection
        .prepare_cached("SELECT count(*) FROM builds WHERE team = ?1 AND status = 'building'")?
        .query_row([team.as_str()], |row| row.get(0))?;
    let ended = tags::builds_that_share(connection, template, tags, "building")?.len();
    Ok(all.saturating_sub(u32::try_from(ended).unwrap_or(u32::MAX)))
}

pub(crate) fn with_status(
    connection: &Connection,
    template: &TemplateId,
    status: &str,
) -> rusqlite::Result<Vec<BuildId>> {
    connection
        .prepare_cached("SELECT id FROM builds WHERE template = ?1 AND status = ?2")?
        .query_map([template.as_str(), status], |row| column::parsed(row, "id"))?
        .collect()
}

/// Fails a build that waits or runs, for a reason that is of no phase of it.
pub(crate) fn fail(
    connection: &Connection,
    build: BuildId,
    reason: &str,
    at: Timestamp,
) -> rusqlite::Result<bool> {
    let failure = BuildFailure {
        phase: None,
        message: reason.to_owned(),
    };
    fail_in(connection, build, &failure, at)
}

fn fail_in(
    connection: &Connection,
    build: BuildId,
    failure: &BuildFailure,
    at: Timestamp,
) -> rusqlite::Result<bool> {
    let changed = connection
        .prepare_cached(
            "UPDATE builds SET status = 'error', failure = ?2, failure_phase = ?3, ended_at = ?4
             WHERE id = ?1 AND status IN ('waiting', 'building')",
        )?
        .execute(params![
            build.to_string(),
            failure.message,
            failure.phase.map(log::phase_text),
            column::micros(at),
        ])?;
    Ok(changed > 0)
}

fn succeed(
    connection: &Connection,
    build: BuildId,
    built: &BuiltTemplate,
    at: Timestamp,
) -> rusqlite::Result<bool> {
    let changed = connection
        .prepare_cached(
            "UPDATE builds SET status = 'ready', result = ?2, bytes = ?3, ended_at = ?4
             WHERE id = ?1 AND status = 'building'",
        )?
        .execute(params![
            build.to_string(),
            encoding::encode_result(built),
            column::count(built.size),
            column::micros(at),
        ])?;
    Ok(changed > 0)
}

fn start(
    connection: &Connection,
    order: &BuildOrder,
    digest: &str,
    at: Timestamp,
    limit: u32,
) -> rusqlite::Result<StartOutcome> {
    let found = connection
        .prepare_cached("SELECT * FROM builds WHERE id = ?1")?
        .query_row([order.build.to_string()], |row| {
            let digest: Option<String> = row.get("digest")?;
            Ok((record::read(row)?, digest))
        })
        .optional()?;
    let Some((record, known)) = found.filter(|(record, _)| record.template == order.template)
    else {
        return Ok(StartOutcome::Unknown);
    };
    if known.as_deref() == Some(digest) {
        return Ok(StartOutcome::Repeated);
    }
    if record.status != BuildStatus::Waiting {
        return Ok(StartOutcome::NotWaiting);
    }
    let tags = tags::of_build(connection, order.build)?;
    if running(connection, &order.team, &order.template, &tags)? >= limit {
        return Ok(StartOutcome::TooMany);
    }
    let cancelled = tags::builds_that_share(connection, &order.template, &tags, "building")?;
    for build in &cancelled {
        fail(connection, *build, CANCELLED, at)?;
    }
    connection
        .prepare_cached(
            "UPDATE builds SET status = 'building', digest = ?2, ordered = ?3, had_secrets = ?4,
             started_at = ?5 WHERE id = ?1",
        )?
        .execute(params![
            order.build.to_string(),
            digest,
            encoding::encode_order(order),
            encoding::has_credentials(order),
            column::micros(at),
        ])?;
    Ok(StartOutcome::Started(StartedBuild { cancelled }))
}
