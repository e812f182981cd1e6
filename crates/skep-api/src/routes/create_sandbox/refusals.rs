//! Refusal of options that a sandbox cannot have yet, in the contract's own words where it has
//! some. None is accepted and ignored.

use std::collections::BTreeMap;

use serde_json::Value;
use skep_wire::rest::NewSandbox;

use crate::error::ApiError;

pub(super) fn check(body: &NewSandbox) -> Result<(), ApiError> {
    lifecycle(body)?;
    refuse_first(&[
        (
            asks(&body.mcp, Value::is_null),
            "MCP servers (mcp) are not available on this server.",
        ),
        (
            (body.iam.as_ref()).is_some_and(|iam| asks(&iam.tokens, BTreeMap::is_empty)),
            "Sandbox IAM workload tokens are not available on this server.",
        ),
    ])
}

/// Returns true if an option has a value that asks for something.
fn asks<T>(option: &Option<T>, is_empty: impl FnOnce(&T) -> bool) -> bool {
    option.as_ref().is_some_and(|value| !is_empty(value))
}

fn refuse_first(refusals: &[(bool, &str)]) -> Result<(), ApiError> {
    match refusals.iter().find(|(asked, _)| *asked) {
        Some((_, message)) => Err(unavailable(message)),
        None => Ok(()),
    }
}

fn lifecycle(body: &NewSandbox) -> Result<(), ApiError> {
    let auto_pause = body.auto_pause.unwrap_or(false);
    let auto_resume = body.auto_resume.is_some_and(|resume| resume.enabled);
    if body.auto_pause_memory == Some(false) && !auto_pause {
        return Err(ApiError::validation(
            "autoPauseMemory=false only applies when autoPause is true.",
        ));
    }
    if body.auto_pause_memory == Some(false) && auto_resume {
        return Err(ApiError::validation(
            "autoPauseMemory=false and autoResume cannot be combined: a sandbox without its \
             memory is not resumed by requests to it",
        ));
    }
    Ok(())
}

fn unavailable(message: &str) -> ApiError {
    ApiError::bad_request("feature_unavailable", message)
}
