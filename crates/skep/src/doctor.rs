//! `skep doctor`: whether this machine can hold sandboxes, and what to do if not.

use std::process::ExitCode;

use skep_cli::{CliError, print_json, print_note, print_table};
use skep_native::{Check, CheckStatus, NativeConfig, probe};

use crate::config::Config;

/// Looks, prints, and exits with 1 if something that sandboxes need is missing.
///
/// # Errors
///
/// If the machine cannot even be looked at.
pub(crate) fn run(config: &Config, json: bool) -> Result<ExitCode, CliError> {
    let executable = std::env::current_exe().map_err(CliError::failure)?;
    let checks = probe(&NativeConfig::new(&config.data_dir, executable));
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
