//! `skep doctor`: whether this host can hold sandboxes, and what to do if not.

use std::path::Path;
use std::process::ExitCode;

use skep_cli::{CliError, print_json, print_note, print_table};
use skep_host::{Check, CheckStatus, HostConfig, host_capacity};
use skep_native::{NativeConfig, probe};
use skep_types::{HostCapacity, Promised, Resources};

use crate::config::Config;

/// Looks, prints, and exits with 1 if something that sandboxes need is missing.
///
/// # Errors
///
/// If the host cannot even be looked at.
pub(crate) fn run(config: &Config, json: bool) -> Result<ExitCode, CliError> {
    let executable = std::env::current_exe().map_err(CliError::failure)?;
    let native = NativeConfig::new(&config.data_dir, executable);
    let mut checks = probe(&native);
    checks.push(capacity(config, &native.host));
    if json {
        let rows: Vec<_> = checks.iter().map(as_json).collect();
        print_json(&rows);
    } else {
        let rows = checks.iter().map(|check| {
            vec![
                status(check.status).to_owned(),
                check.name.to_owned(),
                check.detail.clone(),
            ]
        });
        print_table(&["status", "check", "detail"], rows.collect());
        for check in &checks {
            if let Some(cure) = &check.cure {
                print_note(&format!("hint: {}: {cure}", check.name));
            }
        }
    }
    let failed = checks
        .iter()
        .any(|check| check.status == CheckStatus::Missing);
    Ok(if failed {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// Checks how many more sandboxes this host can hold.
fn capacity(config: &Config, host: &HostConfig) -> Check {
    // The data directory may not be there before the first start.
    let existing = config
        .data_dir
        .ancestors()
        .find(|directory| directory.exists());
    let directory = existing.unwrap_or_else(|| Path::new("/"));
    match host_capacity(directory, &host.cgroup_root) {
        Ok(host) => room(config, &host),
        Err(error) => Check {
            name: "capacity",
            status: CheckStatus::Limited,
            detail: format!("cannot find out what this host has left: {error}"),
            cure: None,
        },
    }
}

fn room(config: &Config, host: &HostCapacity) -> Check {
    let size = config.limits.bound(Resources::default());
    let policy = config.admission.policy();
    let (count, bound) = policy.room(host, Promised::default(), size);
    let unbounded = if policy.enabled {
        ""
    } else {
        ", but `admission.enabled` is off and nothing is refused"
    };
    Check {
        name: "capacity",
        status: match count {
            0 => CheckStatus::Limited,
            1.. => CheckStatus::Good,
        },
        detail: format!(
            "this host can hold about {count} more sandboxes of the default size, then it is \
             short of {bound}{unbounded}"
        ),
        cure: (count == 0)
            .then(|| format!("free some {bound}, or lower the reserve in `[admission]`")),
    }
}

fn as_json(check: &Check) -> serde_json::Value {
    serde_json::json!({
        "name": check.name,
        "status": status(check.status),
        "detail": check.detail,
        "cure": check.cure,
    })
}

fn status(status: CheckStatus) -> &'static str {
    match status {
        CheckStatus::Good => "ok",
        CheckStatus::Limited => "limited",
        CheckStatus::Missing => "missing",
    }
}

#[cfg(test)]
mod tests {
    use skep_types::Capacity;

    use super::*;

    #[test]
    fn the_machines_room_is_told_with_what_runs_out_first() {
        let memory = |available: u64| HostCapacity {
            memory: Capacity {
                total: 24 << 30,
                available,
            },
            ..HostCapacity::default()
        };
        let config = Config::default();
        let check = room(&config, &memory(20 << 30));
        assert_eq!(
            check.detail,
            "this host can hold about 601 more sandboxes of the default size, then it is short \
             of memory"
        );
        let check = room(&config, &memory(1 << 30));
        assert_eq!(check.status, CheckStatus::Limited);
        assert!(check.cure.is_some());
    }
}
