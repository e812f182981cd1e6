//! `skep doctor`: whether this host can hold sandboxes, and what to do if not.

mod server;

use std::path::Path;
use std::process::ExitCode;

pub use server::Doctor;
use skep_cli::{CliError, print_json, print_note, print_table};
use skep_config::Config;
use skep_domain::LOCAL_DOMAIN;
use skep_host::{HostConfig, host_capacity};
use skep_native::{NativeConfig, probe};
use skep_types::{Check, CheckStatus, DomainName, HostCapacity, Promised, Resources};

use crate::surroundings::{self, NAMES_PACKAGE};
use crate::tcp_memory;

/// Looks, prints, and exits with 1 if something that sandboxes need is missing.
///
/// # Errors
///
/// If the host cannot even be looked at.
pub fn run(config: &Config, json: bool) -> Result<ExitCode, CliError> {
    let checks = look(config)?;
    if json {
        let rows: Vec<_> = checks.iter().map(as_json).collect();
        print_json(&rows)?;
    } else {
        let rows = checks.iter().map(|check| {
            vec![
                status(check.status).to_owned(),
                check.name.to_owned(),
                check.detail.clone(),
            ]
        });
        print_table(&["status", "check", "detail"], rows.collect())?;
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

/// Looks at everything. Blocks for a second or so.
fn look(config: &Config) -> Result<Vec<Check>, CliError> {
    let executable = std::env::current_exe().map_err(CliError::failure)?;
    let native = NativeConfig::new(&config.data_dir, executable);
    let mut checks = probe(&native);
    checks.push(capacity(config, &native.host));
    checks.push(tcp_memory::check(config.server.anonymous_connections));
    checks.push(names(config)?);
    checks.push(crate::criu::check(config));
    Ok(checks)
}

/// Checks whether programs on this host find the names of sandboxes.
fn names(config: &Config) -> Result<Check, CliError> {
    let domain = config.domain.as_deref().unwrap_or(LOCAL_DOMAIN);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failure)?;
    let found = runtime.block_on(surroundings::finds_names_below(domain));
    Ok(names_found(domain, found))
}

fn names_found(domain: &str, found: Option<bool>) -> Check {
    let is_local = DomainName::new(domain).as_str().ends_with(".localhost");
    let (status, detail, cure) = match found {
        Some(true) => (
            CheckStatus::Good,
            format!("programs find names below {domain}"),
            None,
        ),
        Some(false) if is_local => (
            CheckStatus::Limited,
            format!("browsers and curl find names below {domain}, other programs do not"),
            Some(format!(
                "`apt-get install {NAMES_PACKAGE}` teaches them; with `E2B_API_URL` and \
                 `E2B_SANDBOX_URL` the SDKs need no names"
            )),
        ),
        Some(false) => (
            CheckStatus::Limited,
            format!("names below {domain} do not resolve on this host"),
            Some(format!("a wildcard record `*.{domain}` leads clients here")),
        ),
        None => (
            CheckStatus::Limited,
            format!("cannot find out whether names below {domain} resolve: `getent` says nothing"),
            None,
        ),
    };
    Check {
        name: "names",
        status,
        detail,
        cure,
    }
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
    fn names_that_only_browsers_find_are_a_limit_with_a_cure() {
        let good = names_found("skep.localhost", Some(true));
        assert_eq!(good.status, CheckStatus::Good);
        let local = names_found("skep.localhost:3000", Some(false));
        assert_eq!(local.status, CheckStatus::Limited);
        assert!(local.cure.unwrap().contains(NAMES_PACKAGE));
        let public = names_found("sandboxes.example.com", Some(false));
        assert!(public.cure.unwrap().contains("*.sandboxes.example.com"));
        assert!(names_found("skep.localhost", None).cure.is_none());
    }

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
