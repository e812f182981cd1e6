//! Rendering of versions of templates as bodies of answers.

use jiff::Timestamp;
use skep_control::{BuildRecord, LayerFiles, VersionDetail, VersionHistory};
use skep_types::{BuildBase, BuildStep, Instruction, LayerFile};
use skep_wire::rest;

use crate::render_template::{names, status};

pub(crate) fn detail(detail: VersionDetail) -> rest::TemplateVersion {
    let version = match &detail.build {
        Some(build) => summary(build, detail.tags.clone()),
        None => everybodys(&detail),
    };
    let (mut from_image, mut from_template) = (None, None);
    let mut steps = Vec::new();
    if let Some(order) = detail.order {
        match order.base {
            BuildBase::Image { reference, .. } => from_image = Some(reference),
            BuildBase::Template { reference, .. } => from_template = Some(reference),
        }
        steps = order.steps.into_iter().map(step).collect();
    }
    let image = detail.image;
    let start = image.as_ref().and_then(|image| image.start.as_deref());
    rest::TemplateVersion {
        template_id: detail.template.info.id.to_string(),
        names: names(&detail.template),
        public: detail.template.info.public,
        version,
        from_image,
        from_template,
        steps,
        start_cmd: start.and_then(|start| start.command.clone()),
        ready_cmd: start.and_then(|start| start.ready.clone()),
        user: image.as_ref().map(|image| image.user.clone()),
        workdir: image.as_ref().and_then(|image| image.workdir.clone()),
        env_vars: image.map_or_else(Default::default, |image| image.env.into_iter().collect()),
        layers: detail
            .layers
            .into_iter()
            .map(|layer| rest::VersionLayer {
                key: layer.key.to_string(),
                title: layer.title,
                bytes: layer.bytes,
            })
            .collect(),
    }
}

pub(crate) fn history(history: &VersionHistory) -> rest::TemplateVersions {
    let template = &history.template;
    let versions = history.versions.iter();
    rest::TemplateVersions {
        template_id: template.info.id.to_string(),
        names: names(template),
        public: template.info.public,
        builds: versions
            .map(|row| summary(&row.build, row.tags.clone()))
            .collect(),
    }
}

pub(crate) fn files(files: LayerFiles) -> rest::VersionFiles {
    let render = |(path, file): (String, LayerFile)| rest::VersionFile {
        path,
        kind: match file {
            LayerFile {
                is_removed: true, ..
            } => rest::VersionFileKind::Removed,
            LayerFile {
                is_directory: true, ..
            } => rest::VersionFileKind::Directory,
            LayerFile { .. } => rest::VersionFileKind::File,
        },
        size: file.bytes,
        mode: file.mode,
        modified_at: Timestamp::from_second(file.modified).unwrap_or_default(),
    };
    rest::VersionFiles {
        files: files.files.into_iter().map(render).collect(),
        has_more: files.has_more,
    }
}

fn summary(build: &BuildRecord, tags: Vec<String>) -> rest::VersionSummary {
    rest::VersionSummary {
        build_id: build.id.to_string(),
        content_id: build.content.clone(),
        status: status(build.status),
        tags,
        bytes: build.bytes,
        created_at: build.created_at,
        started_at: build.started_at,
        finished_at: build.ended_at,
        reason: build.failure.as_ref().map(ToString::to_string),
        cpu_count: build.resources.cpus,
        memory_mb: build.resources.memory_mib,
        disk_size_mb: build.resources.disk_mib,
    }
}

/// A template that belongs to everybody is its only version.
fn everybodys(detail: &VersionDetail) -> rest::VersionSummary {
    let info = &detail.template.info;
    rest::VersionSummary {
        build_id: detail.template.build.clone(),
        content_id: detail.image.as_ref().map(|image| image.content_id()),
        status: rest::BuildStatus::Ready,
        tags: detail.tags.clone(),
        bytes: Some(detail.layers.iter().map(|layer| layer.bytes).sum()),
        created_at: info.created_at,
        started_at: None,
        finished_at: Some(info.updated_at),
        reason: None,
        cpu_count: info.resources.cpus,
        memory_mb: info.resources.memory_mib,
        disk_size_mb: info.resources.disk_mib,
    }
}

/// A step as a client would have sent it.
fn step(step: BuildStep) -> rest::BuildStep {
    let mode = |mode: Option<u32>| mode.map(|mode| format!("{mode:04o}")).unwrap_or_default();
    let mut files_hash = None;
    let (kind, args) = match step.instruction {
        Instruction::Run { command, user } => ("RUN", [command].into_iter().chain(user).collect()),
        Instruction::Copy {
            source,
            destination,
            owner,
            mode: permissions,
            files,
        } => {
            files_hash = Some(files.as_str().to_owned());
            let owner = owner.unwrap_or_default();
            ("COPY", vec![source, destination, owner, mode(permissions)])
        }
        Instruction::CopyFrom { copy, .. } => {
            let owner = copy.owner.unwrap_or_default();
            let mut args = vec![copy.destination, owner, mode(copy.mode)];
            args.extend(copy.sources);
            ("COPY_FROM", args)
        }
        Instruction::Environment(variables) => {
            let pairs = variables.into_iter();
            (
                "ENV",
                pairs.flat_map(|(name, value)| [name, value]).collect(),
            )
        }
        Instruction::WorkDirectory(path) => ("WORKDIR", vec![path]),
        Instruction::User {
            name,
            administrator,
        } => {
            let mut args = vec![name];
            args.extend(administrator.then(|| "true".to_owned()));
            ("USER", args)
        }
    };
    rest::BuildStep {
        kind: kind.to_owned(),
        args: Some(args),
        files_hash,
        from_template: None,
        force: Some(step.force),
    }
}
