//! The path of a template, in login shells.
//!
//! Commands of a build and of sandboxes run in login shells, and the profile of Debian sets the path
//! anew for each. So a template that has a path of its own brings a file that the profile reads last.

use crate::build::{Build, Changed, StepFailure};
use crate::context::{self, Context};

/// Writes the path, and the script that reads it.
const SCRIPT: &str = r#"
mkdir -p /etc/profile.d || exit 1
printf '%s\n' "$1" > /etc/template-path || exit 1
cat > /etc/profile.d/zz-template-path.sh <<'END'
# The path of the template.
IFS= read -r PATH < /etc/template-path && export PATH
END
"#;

impl Build<'_> {
    /// Has login shells keep the path of a context, if it has one.
    pub(crate) async fn keep_path(&mut self, context: &Context) -> Result<Changed, StepFailure> {
        let Some(path) = context::path(context) else {
            return Ok(Changed::Nothing);
        };
        if path.contains('\n') {
            return Err(StepFailure::caller(
                "failed to set variable 'PATH': it has a line break",
            ));
        }
        let (exit, said) = self.ask(&["/bin/sh", "-c", SCRIPT, "sh", &path]).await?;
        if exit.is_success() {
            Ok(Changed::Files)
        } else {
            Err(StepFailure::caller(format!(
                "failed to set variable 'PATH': {}: {said}",
                exit.status
            )))
        }
    }
}
