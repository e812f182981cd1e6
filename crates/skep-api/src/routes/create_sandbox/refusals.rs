//! Refusal of options that do not go together, in the contract's own words where it has some. None is
//! accepted and ignored.

use skep_wire::rest::NewSandbox;

use crate::error::ApiError;

pub(super) fn check(body: &NewSandbox) -> Result<(), ApiError> {
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
