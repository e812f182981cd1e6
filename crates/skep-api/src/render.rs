//! Rendering of control's values as bodies of answers.

use skep_control::{
    CheckpointRecord, Key, KeyMask, MetricPoint, Order, Sandbox, SandboxRecord, TeamPoint,
};
use skep_types::{
    AccessToken, ImageKind, KeptIn, LogEntry, LogLevel, Mount, OnTimeout, Phase, ResumeStart,
    SandboxStatus, ShownState, Usage,
};
use skep_wire::agent::ENVD_VERSION;
use skep_wire::rest;

use crate::egress::{shown_proxy, shown_rules};

/// A constant that old clients want to see.
const CLIENT_ID: &str = "6532622b";

const MIB: u64 = 1024 * 1024;

pub(crate) fn sandbox(order: &Order, domain: &str) -> rest::Sandbox {
    rest::Sandbox {
        template_id: order.template.to_string(),
        sandbox_id: order.id.to_string(),
        alias: Some(order.template_name.clone()),
        client_id: CLIENT_ID.to_owned(),
        envd_version: ENVD_VERSION.to_owned(),
        envd_access_token: revealed_token(order),
        traffic_access_token: order.access_token.as_ref().map(revealed_traffic_token),
        domain: Some(domain.to_owned()),
        kept: None,
    }
}

/// A sandbox that goes on from the form in which it was kept.
pub(crate) fn resumed_sandbox(sandbox: &Sandbox, domain: &str) -> rest::Sandbox {
    rest::Sandbox {
        kept: sandbox.status.kept_in.map(kept_in),
        ..self::sandbox(&sandbox.order, domain)
    }
}

/// A new sandbox that was made of an image with memory.
pub(crate) fn copied_sandbox(order: &Order, domain: &str) -> rest::Sandbox {
    rest::Sandbox {
        kept: Some(kept_in(KeptIn::Checkpoint)),
        ..sandbox(order, domain)
    }
}

fn kept(status: &SandboxStatus) -> Option<rest::Kept> {
    let kept = kept_in(status.kept_in?);
    let obstacle = status.obstacle.map(|part| part.as_str().to_owned());
    Some(rest::Kept { obstacle, ..kept })
}

fn kept_in(form: KeptIn) -> rest::Kept {
    rest::Kept {
        kept_in: form.as_str().to_owned(),
        lost: form.lost().iter().map(|&part| part.to_owned()).collect(),
        obstacle: None,
    }
}

pub(crate) fn listed_sandbox(sandbox: &Sandbox) -> rest::ListedSandbox {
    let order = &sandbox.order;
    rest::ListedSandbox {
        template_id: order.template.to_string(),
        alias: Some(order.template_name.clone()),
        sandbox_id: order.id.to_string(),
        client_id: CLIENT_ID.to_owned(),
        started_at: sandbox.status.started_at,
        end_at: sandbox.status.ends_at,
        cpu_count: order.resources.cpus,
        memory_mb: order.resources.memory_mib,
        disk_size_mb: order.resources.disk_mib,
        metadata: order.metadata.clone(),
        state: match sandbox.status.phase.shown() {
            Some(ShownState::Paused) => rest::SandboxState::Paused,
            // Control shows no others.
            Some(ShownState::Running) | None => rest::SandboxState::Running,
        },
        pause_mode: pause_mode(&sandbox.status),
        envd_unresponsive_at_pause: sandbox.status.agent_was_silent,
        kept: kept(&sandbox.status),
        envd_version: ENVD_VERSION.to_owned(),
        volume_mounts: order.mounts.iter().map(volume_mount).collect(),
    }
}

fn volume_mount(mount: &Mount) -> rest::VolumeMount {
    rest::VolumeMount {
        name: mount.name.to_string(),
        path: mount.target.as_str().to_owned(),
        read_only: mount.read_only,
    }
}

/// The parts that are kept of a sandbox whose pause is complete.
fn pause_mode(status: &SandboxStatus) -> Option<rest::PauseMode> {
    let is_paused = status.phase.shown() == Some(ShownState::Paused);
    match status.paused.filter(|_| is_paused)? {
        ImageKind::Memory => Some(rest::PauseMode::Full),
        ImageKind::Filesystem => Some(rest::PauseMode::Filesystem),
    }
}

/// The parts that are kept when a client asks for the memory, or does not.
pub(crate) fn image_kind(memory: Option<bool>) -> ImageKind {
    match memory {
        Some(true) | None => ImageKind::Memory,
        Some(false) => ImageKind::Filesystem,
    }
}

/// The parts that are used when a client asks for the memory, or does not.
pub(crate) fn resume_start(memory: Option<bool>) -> ResumeStart {
    match memory {
        Some(true) | None => ResumeStart::AsPaused,
        Some(false) => ResumeStart::Reboot,
    }
}

/// A snapshot of the team with this slug.
pub(crate) fn snapshot(record: &CheckpointRecord, slug: &str) -> rest::Snapshot {
    let name = record.name.as_ref().map(|name| format!("{slug}/{name}"));
    let tag = &record.tag;
    rest::Snapshot {
        snapshot_id: match &name {
            Some(name) => format!("{name}:{tag}"),
            None => format!("{}:{tag}", record.snapshot),
        },
        names: name.into_iter().collect(),
        checkpoint_id: record.id.to_string(),
        parent_id: record.parent.as_ref().map(ToString::to_string),
        sandbox_id: record.sandbox.to_string(),
        memory: record.checkpoint.kind == ImageKind::Memory,
        size_bytes: record.checkpoint.bytes,
        created_at: record.created_at,
        is_current: None,
    }
}

/// Name of a phase in sentences to clients.
pub(crate) fn state_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting",
        Phase::Running => "running",
        Phase::Snapshotting => "snapshotting",
        Phase::Pausing => "pausing",
        Phase::Paused => "paused",
        Phase::Resuming => "resuming",
        Phase::Stopping | Phase::Stuck | Phase::Gone => "killing",
    }
}

pub(crate) fn sandbox_detail(sandbox: &Sandbox, domain: &str) -> rest::SandboxDetail {
    rest::SandboxDetail {
        listed: listed_sandbox(sandbox),
        envd_access_token: revealed_token(&sandbox.order),
        allow_internet_access: sandbox.status.egress.internet(),
        network: network(sandbox),
        domain: Some(domain.to_owned()),
        lifecycle: Some(rest::Lifecycle {
            auto_resume: sandbox.order.auto_resume,
            on_timeout: match sandbox.status.on_timeout {
                OnTimeout::Kill => rest::OnTimeout::Kill,
                OnTimeout::Pause(_) => rest::OnTimeout::Pause,
            },
        }),
    }
}

/// Rules for a sandbox's network, as far as they are not the usual ones. What is empty is left out:
/// clients take `null` for a list and break.
fn network(sandbox: &Sandbox) -> Option<rest::Network> {
    let ingress = &sandbox.order.ingress;
    let ports = &ingress.https_ports;
    let egress = &sandbox.status.egress;
    let rules = egress.rules();
    let listed = |list: Vec<String>| (!list.is_empty()).then_some(list);
    let network = rest::Network {
        allow_out: listed(rules.allowed),
        deny_out: listed(rules.denied),
        dns_servers: rules.resolvers,
        rules: shown_rules(egress.request_rules()),
        egress_proxy: egress.proxy().map(shown_proxy),
        allow_public_traffic: ingress.is_private.then_some(false),
        mask_request_host: (ingress.host_mask.as_ref()).map(|mask| mask.as_str().to_owned()),
        https_ports: (!ports.is_empty()).then(|| ports.iter().map(i64::from).collect()),
    };
    (network != rest::Network::default()).then_some(network)
}

/// Clients show it beside the access token where they have both, and on the interpreter's
/// contexts instead of it. It does not tell them that the sandbox's ports are closed.
fn revealed_traffic_token(token: &AccessToken) -> String {
    token.traffic().reveal().to_owned()
}

fn revealed_token(order: &Order) -> Option<String> {
    let token = order.access_token.as_ref();
    token.map(|token| token.reveal().to_owned())
}

pub(crate) fn record(record: &SandboxRecord, phase: Phase) -> rest::SandboxRecord {
    let SandboxRecord { order, run, ending } = record;
    let planned = run.as_ref().map(|run| run.ends_at);
    rest::SandboxRecord {
        sandbox_id: order.id.to_string(),
        template_id: order.template.to_string(),
        alias: order.template_name.clone(),
        state: match phase {
            Phase::Starting => rest::SandboxRecordState::Starting,
            Phase::Running | Phase::Snapshotting => rest::SandboxRecordState::Running,
            Phase::Pausing | Phase::Paused | Phase::Resuming => rest::SandboxRecordState::Paused,
            Phase::Stopping => rest::SandboxRecordState::Stopping,
            Phase::Stuck => rest::SandboxRecordState::Stuck,
            Phase::Gone => rest::SandboxRecordState::Ended,
        },
        created_at: order.created_at,
        started_at: run.as_ref().map(|run| run.started_at),
        end_at: ending.as_ref().map(|ending| ending.at).or(planned),
        end_reason: ending.as_ref().map(|ending| ending.reason.to_string()),
        usage: ending.as_ref().map(|ending| usage(&ending.usage)),
        cpu_count: order.resources.cpus,
        memory_mb: order.resources.memory_mib,
        disk_size_mb: order.resources.disk_mib,
        metadata: order.metadata.clone(),
    }
}

fn usage(usage: &Usage) -> rest::SandboxUsage {
    rest::SandboxUsage {
        cpu_seconds: usage.cpu_time.as_secs_f64(),
        memory_peak_bytes: usage.memory_peak_bytes,
        memory_average_bytes: usage.memory_average_bytes,
        disk_bytes: usage.disk_bytes,
        disk_read_bytes: usage.disk_read_bytes,
        disk_written_bytes: usage.disk_written_bytes,
        received_bytes: usage.received_bytes,
        sent_bytes: usage.sent_bytes,
        out_of_memory_kills: usage.out_of_memory_kills,
    }
}

pub(crate) fn metric(point: &MetricPoint) -> rest::Metric {
    rest::Metric {
        timestamp: point.at,
        timestamp_unix: point.at.as_second(),
        cpu_count: point.resources.cpus,
        cpu_used_pct: point.cpu_used_percent,
        mem_used: point.usage.memory_bytes,
        mem_total: u64::from(point.resources.memory_mib) * MIB,
        mem_cache: point.usage.cache_bytes,
        disk_used: point.usage.disk_bytes,
        disk_total: u64::from(point.resources.disk_mib) * MIB,
        net_received: point.usage.received_bytes,
        net_sent: point.usage.sent_bytes,
        cpu_seconds: point.usage.cpu_time.as_secs_f64(),
        mem_peak: point.usage.memory_peak_bytes,
        mem_average: point.usage.memory_average_bytes,
        disk_read: point.usage.disk_read_bytes,
        disk_written: point.usage.disk_written_bytes,
    }
}

pub(crate) fn team_metric(point: &TeamPoint) -> rest::TeamMetric {
    rest::TeamMetric {
        timestamp: point.at,
        timestamp_unix: point.at.as_second(),
        concurrent_sandboxes: point.concurrent,
        sandbox_start_rate: point.start_rate,
    }
}

pub(crate) fn log_entry(entry: &LogEntry) -> rest::LogEntry {
    rest::LogEntry {
        timestamp: entry.at,
        message: entry.message.clone(),
        level: log_level(entry.level),
        fields: entry.fields.clone(),
    }
}

/// An entry as a flat JSON object in a text. The official command line parses each and breaks
/// on one without a level.
pub(crate) fn log_line(entry: &LogEntry) -> rest::LogLine {
    let mut line = serde_json::Map::new();
    line.insert("logger".to_owned(), "sandbox".into());
    for (key, value) in &entry.fields {
        line.insert(key.clone(), value.as_str().into());
    }
    line.insert("message".to_owned(), entry.message.as_str().into());
    let level = match entry.level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    };
    line.insert("level".to_owned(), level.into());
    rest::LogLine {
        timestamp: entry.at,
        line: serde_json::Value::Object(line).to_string(),
    }
}

pub(crate) fn log_level(level: LogLevel) -> rest::LogLevel {
    match level {
        LogLevel::Debug => rest::LogLevel::Debug,
        LogLevel::Info => rest::LogLevel::Info,
        LogLevel::Warn => rest::LogLevel::Warn,
        LogLevel::Error => rest::LogLevel::Error,
    }
}

pub(crate) fn api_key(key: &Key) -> rest::ApiKey {
    let mask = KeyMask::of(key);
    rest::ApiKey {
        id: key.id.clone(),
        name: key.name.clone(),
        mask: rest::KeyMask {
            prefix: mask.prefix.to_owned(),
            value_length: mask.value_length,
            masked_value_prefix: mask.first.to_owned(),
            masked_value_suffix: mask.last.to_owned(),
        },
        created_at: key.created_at,
        last_used: key.last_used,
        expires_at: key.expires_at,
    }
}
