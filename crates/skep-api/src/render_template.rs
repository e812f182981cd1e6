//! Rendering of templates and builds as bodies of answers.

use skep_control::{
    BuildRecord, BuildStatus, BuildView, ListedTemplate, LogLine, RequestedVersion, TemplateHistory,
};
use skep_types::{BuildPhase, LogLevel};
use skep_wire::agent::ENVD_VERSION;
use skep_wire::rest;

use crate::render::log_level;

pub(crate) fn template(template: &ListedTemplate) -> rest::Template {
    let info = &template.info;
    rest::Template {
        template_id: info.id.to_string(),
        build_id: template.build.clone(),
        cpu_count: info.resources.cpus,
        memory_mb: info.resources.memory_mib,
        disk_size_mb: info.resources.disk_mib,
        public: info.public,
        aliases: info.names.clone(),
        names: names(template),
        created_at: info.created_at,
        updated_at: info.updated_at,
        created_by: None,
        last_spawned_at: template.last_spawned_at,
        spawn_count: template.spawns,
        build_count: u32::try_from(template.build_count).unwrap_or(u32::MAX),
        envd_version: ENVD_VERSION.to_owned(),
        build_status: status(template.status),
    }
}

pub(crate) fn history(history: &TemplateHistory) -> rest::TemplateWithBuilds {
    let TemplateHistory { listed, builds } = history;
    rest::TemplateWithBuilds {
        template_id: listed.info.id.to_string(),
        public: listed.info.public,
        aliases: listed.info.names.clone(),
        names: names(listed),
        created_at: listed.info.created_at,
        updated_at: listed.info.updated_at,
        last_spawned_at: listed.last_spawned_at,
        spawn_count: listed.spawns,
        builds: builds.iter().map(build).collect(),
    }
}

pub(crate) fn requested(version: &RequestedVersion) -> rest::RequestedTemplate {
    let template = &version.build.template;
    rest::RequestedTemplate {
        template_id: template.id.to_string(),
        build_id: version.build.build.to_string(),
        public: template.public,
        names: vec![in_namespace(&template.slug, &template.name)],
        tags: version.tags.iter().map(ToString::to_string).collect(),
        aliases: vec![template.name.clone()],
    }
}

/// The name of a template in the namespace of its owner.
pub(crate) fn in_namespace(slug: &str, name: &str) -> String {
    format!("{slug}/{name}")
}

pub(crate) fn names(template: &ListedTemplate) -> Vec<String> {
    let name = |name: &String| match &template.slug {
        Some(slug) => in_namespace(slug, name),
        None => name.clone(),
    };
    template.info.names.iter().map(name).collect()
}

fn build(build: &BuildRecord) -> rest::TemplateBuild {
    rest::TemplateBuild {
        build_id: build.id.to_string(),
        status: status(build.status),
        created_at: build.created_at,
        updated_at: build.updated_at(),
        finished_at: build.ended_at,
        cpu_count: build.resources.cpus,
        memory_mb: build.resources.memory_mib,
        disk_size_mb: build.resources.disk_mib,
        envd_version: ENVD_VERSION.to_owned(),
    }
}

/// The state of a build. With `hold_end` one that has ended goes on building for somebody who has
/// more of its log to read.
pub(crate) fn build_info(view: &BuildView, hold_end: bool) -> rest::BuildInfo {
    let build = &view.build;
    let is_held = hold_end && view.has_more && build.status != BuildStatus::Waiting;
    let status = if is_held {
        rest::BuildStatus::Building
    } else {
        status(build.status)
    };
    let failure = build.failure.as_ref().filter(|_| !is_held);
    rest::BuildInfo {
        template_id: build.template.to_string(),
        build_id: build.id.to_string(),
        status,
        logs: Vec::new(),
        log_entries: view.lines.iter().map(log_entry).collect(),
        reason: failure.map(|failure| rest::BuildReason {
            message: failure.message.clone(),
            step: failure.phase.map(step),
            log_entries: view
                .lines
                .iter()
                .filter(|line| line.entry.level >= LogLevel::Warn)
                .filter(|line| line.entry.phase.is_some() && line.entry.phase == failure.phase)
                .map(log_entry)
                .collect(),
        }),
    }
}

pub(crate) fn log_entry(line: &LogLine) -> rest::BuildLogEntry {
    rest::BuildLogEntry {
        timestamp: line.at,
        level: log_level(line.entry.level),
        message: line.entry.message.clone(),
        step: line.entry.phase.map(step),
    }
}

/// The old Python client fails on anything else.
fn step(phase: BuildPhase) -> String {
    match phase {
        BuildPhase::Base => "base".to_owned(),
        BuildPhase::Step(number) => number.to_string(),
        BuildPhase::Finalize => "finalize".to_owned(),
    }
}

pub(crate) fn status(status: BuildStatus) -> rest::BuildStatus {
    match status {
        BuildStatus::Waiting => rest::BuildStatus::Waiting,
        BuildStatus::Building => rest::BuildStatus::Building,
        BuildStatus::Ready => rest::BuildStatus::Ready,
        BuildStatus::Error => rest::BuildStatus::Error,
    }
}
