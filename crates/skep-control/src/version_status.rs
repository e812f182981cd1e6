//! State and log of a build.

use jiff::Timestamp;
use skep_store::{BuildRecord, LogFilter, LogLine};
use skep_types::{BuildId, LogLevel, TemplateReference};

use crate::{Caller, Control, LogDirection, VersionError};

/// Selection of lines of a build's log.
#[derive(Debug, Clone, Copy)]
pub struct BuildLogQuery {
    /// Only lines of this level and above.
    pub level: LogLevel,
    /// Number of lines that pass and are left out.
    pub offset: u32,
    /// Only lines from this moment on, in the direction.
    pub from: Option<Timestamp>,
    /// Direction in which the log is read.
    pub direction: LogDirection,
    /// Limit on the number of lines.
    pub limit: u32,
}

/// State of a build, with some lines of its log.
#[derive(Debug, Clone)]
pub struct BuildView {
    /// The build.
    pub build: BuildRecord,
    /// Lines of its log, in the order in which they were logged.
    pub lines: Vec<LogLine>,
    /// True if more lines follow already.
    pub has_more: bool,
}

impl Control {
    /// The state of a build of the caller's team. Everything that was logged before the build was in
    /// that state is in the log.
    ///
    /// # Errors
    ///
    /// [`VersionError`].
    pub async fn build_status(
        &self,
        caller: &Caller,
        template: &TemplateReference,
        build: BuildId,
        query: BuildLogQuery,
    ) -> Result<BuildView, VersionError> {
        let filter = LogFilter {
            level: query.level,
            offset: query.offset,
            from: query.from,
            is_reversed: query.direction == LogDirection::Backward,
            // One more tells whether more follow.
            limit: query.limit.saturating_add(1),
        };
        let found = self.inner.store.builds().status(build, filter).await?;
        let (record, mut lines) = found.ok_or(VersionError::UnknownBuild(build))?;
        self.check_build(caller, template, &record).await?;
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let has_more = lines.len() > limit;
        lines.truncate(limit);
        Ok(BuildView {
            build: record,
            lines,
            has_more,
        })
    }

    /// A build of a template of the caller's team.
    pub(crate) async fn find_build(
        &self,
        caller: &Caller,
        template: &TemplateReference,
        build: BuildId,
    ) -> Result<BuildRecord, VersionError> {
        let found = self.inner.store.builds().find(build).await?;
        let record = found.ok_or(VersionError::UnknownBuild(build))?;
        self.check_build(caller, template, &record).await?;
        Ok(record)
    }

    async fn check_build(
        &self,
        caller: &Caller,
        template: &TemplateReference,
        record: &BuildRecord,
    ) -> Result<(), VersionError> {
        if record.team != caller.team.id {
            return Err(VersionError::ForeignBuild(record.id));
        }
        // Clients name the template by its id, every fifth of a second.
        let is_id = template.namespace.is_none() && template.identifier == record.template.as_str();
        if is_id || self.own_template(&caller.team, template).await?.id == record.template {
            return Ok(());
        }
        Err(VersionError::UnknownBuild(record.id))
    }
}
