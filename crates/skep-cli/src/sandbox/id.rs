//! IDs of sandboxes, which may be cut short.

use skep_client::{Client, SandboxRecord, SandboxRecordState};

use crate::CliError;

/// Length of a whole ID. What is as long is taken as it is, without asking anybody.
const WHOLE: usize = 20;

/// Sandboxes that are looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Among {
    /// Those that have not ended.
    Living,
    /// The ended ones too, if none that lives begins so.
    All,
}

/// The ID that begins with `text`.
///
/// # Errors
///
/// If there is none, or several.
pub(crate) async fn whole_id(
    client: &Client,
    text: &str,
    among: Among,
) -> Result<String, CliError> {
    if text.len() >= WHOLE {
        return Ok(text.to_owned());
    }
    let living = client.sandboxes().records(false).await?;
    match (choose(&living, text)?, among) {
        (Some(id), _) => Ok(id),
        (None, Among::Living) => Err(none_lives(client, text).await?),
        (None, Among::All) => {
            let all = client.sandboxes().records(true).await?;
            choose(&all, text)?.ok_or_else(|| unknown(text))
        }
    }
}

/// Says what became of the sandbox that was meant.
async fn none_lives(client: &Client, text: &str) -> Result<CliError, CliError> {
    let all = client.sandboxes().records(true).await?;
    let Some(id) = choose(&all, text)? else {
        return Ok(unknown(text));
    };
    let record = all.into_iter().find(|record| record.sandbox_id == id);
    Ok(record.map_or_else(|| unknown(text), |record| ended(&record)))
}

/// The error of somebody who means a sandbox that has ended.
fn ended(record: &SandboxRecord) -> CliError {
    let id = &record.sandbox_id;
    let reason = record.end_reason.as_deref().unwrap_or("unknown");
    let when = record
        .end_at
        .map(|time| format!(" {} UTC", time.strftime("%H:%M:%S")))
        .unwrap_or_default();
    CliError::input(
        format!("sandbox `{id}` ended{when}: {reason}"),
        format!("`skep sandbox info {id}` and `skep sandbox logs {id}` say more"),
    )
}

pub(super) fn unknown(text: &str) -> CliError {
    CliError::input(
        format!("there is and was no sandbox `{text}`"),
        "`skep sandbox list --all` shows what there is and was",
    )
}

/// The only ID that begins with `text`; `None` if there is none.
fn choose(records: &[SandboxRecord], text: &str) -> Result<Option<String>, CliError> {
    let ids = records.iter().map(|record| record.sandbox_id.as_str());
    let mut found: Vec<_> = ids.filter(|id| id.starts_with(text)).collect();
    if text.is_empty() {
        found.clear();
    }
    match found.as_slice() {
        [] => Ok(None),
        [id] => Ok(Some((*id).to_owned())),
        several => Err(CliError::input(
            format!("{} sandboxes begin with `{text}`", several.len()),
            format!(
                "write more of the ID: {}",
                several[..several.len().min(5)].join(", ")
            ),
        )),
    }
}

/// The record of the sandbox whose ID begins with `text`.
///
/// # Errors
///
/// If there is and was none, or several.
pub(super) async fn record(client: &Client, text: &str) -> Result<SandboxRecord, CliError> {
    let id = whole_id(client, text, Among::All).await?;
    let is_it = |record: &SandboxRecord| record.sandbox_id == id;
    let found = client.sandboxes().find_record(is_it).await?;
    found.ok_or_else(|| unknown(&id))
}

/// Returns true if the sandbox has ended.
pub(super) fn is_over(record: &SandboxRecord) -> bool {
    record.state == SandboxRecordState::Ended
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn records(ids: &[&str]) -> Vec<SandboxRecord> {
        let record = |id: &&str| {
            serde_json::from_value(json!({
                "sandboxID": id, "templateID": "t", "alias": "base", "state": "ended",
                "createdAt": "2026-01-02T03:04:05Z", "endAt": "2026-01-02T06:16:05Z",
                "endReason": "out_of_memory", "cpuCount": 1, "memoryMB": 512, "diskSizeMB": 1,
            }))
            .unwrap()
        };
        ids.iter().map(record).collect()
    }

    #[test]
    fn the_first_letters_are_enough_if_only_one_begins_so() {
        let records = records(&["iabc", "iabd", "ix"]);
        assert_eq!(choose(&records, "ix").unwrap().as_deref(), Some("ix"));
        assert_eq!(choose(&records, "iabc").unwrap().as_deref(), Some("iabc"));
        assert_eq!(choose(&records, "iz").unwrap(), None);
        assert_eq!(choose(&records, "").unwrap(), None);
        let error = choose(&records, "iab").unwrap_err();
        assert_eq!(error.source.to_string(), "2 sandboxes begin with `iab`");
        assert_eq!(error.hints, ["write more of the ID: iabc, iabd"]);
    }

    #[test]
    fn who_means_one_that_has_ended_is_told_why_and_when() {
        let error = ended(&records(&["iabc"])[0]);
        assert_eq!(
            error.source.to_string(),
            "sandbox `iabc` ended 06:16:05 UTC: out_of_memory"
        );
    }
}
