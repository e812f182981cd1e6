//! Refusal of options that a sandbox cannot have yet, in the contract's own words where it has
//! some. None is accepted and ignored.

use skep_wire::rest::NewSandbox;

use crate::error::ApiError;

pub(super) fn check(body: &NewSandbox) -> Result<(), ApiError> {
    lifecycle(body)?;
    let tokens = body.iam.as_ref().and_then(|iam| iam.tokens.as_ref());
    if tokens.is_some_and(|tokens| !tokens.is_empty()) {
        return Err(unavailable(
            "Sandbox IAM workload tokens are not available on this server.",
        ));
    }
    Ok(())
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
