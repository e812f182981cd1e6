//! Steps beside copies: commands, variables, directories and users.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use skep_types::LogLevel;

use crate::build::{Build, Changed, StepFailure};
use crate::context::{self, Context};
use crate::copy::normal;
use crate::expand::expand;
use crate::log::{Kept, Log};
use crate::pip;
use crate::sandboxes::{Command, RunError};

/// Time limit for a command of the caller's.
const COMMAND_TIMEOUT: Duration = Duration::from_hours(1);

/// Time limit for a question about a user.
const QUESTION_TIMEOUT: Duration = Duration::from_mins(1);

/// Exit code by which a script of ours says that it has changed something.
const CHANGED: i32 = 10;

/// Makes a directory, and gives what is new of its path to a user.
const MAKE_DIRECTORY: &str = r#"
[ -d "$1" ] && exit 0
above=$1
while [ ! -e "$above" ]; do
    new=$above
    above=$(dirname "$above")
done
mkdir -p "$1" || exit 1
[ -z "$new" ] || chown -R "$2:" "$new" || exit 1
exit 10
"#;

/// Highest number of a user that a sandbox has.
const LAST_USER: u32 = 0xffff;

/// Makes a user who is not there, and an administrator of one if that is wanted. Its last line is
/// the user's name: Dockerfiles give a number, with or without an account.
const MAKE_USER: &str = r#"
changed=0
name=$1
number=
case $1 in
    *[!0-9]*) ;;
    *)
        name=$(id -un -- "$1" 2>/dev/null) || { name=u$1; number="--uid $1"; } ;;
esac
if ! id -u -- "$name" >/dev/null 2>&1; then
    useradd --create-home --shell /bin/bash $number -- "$name" || exit 1
    changed=10
fi
if [ "$2" = administrator ]; then
    for group in sudo wheel; do
        if getent group "$group" >/dev/null 2>&1; then
            usermod -a -G "$group" -- "$name" || exit 1
            break
        fi
    done
    passwd -d "$name" >/dev/null 2>&1
    mkdir -p /etc/sudoers.d || exit 1
    echo "$name ALL=(ALL:ALL) NOPASSWD: ALL" > "/etc/sudoers.d/$name" || exit 1
    chmod 440 "/etc/sudoers.d/$name" || exit 1
    changed=10
fi
echo "$name"
exit $changed
"#;

impl Build<'_> {
    /// Runs a command of the caller's in a login shell.
    pub(crate) async fn run(
        &mut self,
        context: &Context,
        user: Option<&str>,
        text: &str,
        prefix: &str,
        log: &Log,
    ) -> Result<(), StepFailure> {
        let mut command = context::shell(context, user, text, COMMAND_TIMEOUT);
        let sandbox = self.sandbox().await?;
        for (name, value) in sandbox.variables(&command.user) {
            // What the caller has set is meant.
            let name = name.to_owned();
            command.environment.entry(name).or_insert(value);
        }
        let lines = log.output(prefix, LogLevel::Info);
        if let Some(by_uv) = pip::by_uv(&command, text)
            && command.environment.contains_key("UV_CACHE_DIR")
        {
            let ended = sandbox.run(&by_uv, lines.clone()).await;
            lines.finish();
            match ended {
                Ok(exit) if exit.is_success() => return Ok(()),
                Ok(exit) if exit.code == Some(pip::ONLY_PIP) => {}
                Ok(_) | Err(_) => log.info(format!("{prefix} uv could not install it; by pip:")),
            }
        }
        let ended = sandbox.run(&command, lines.clone()).await;
        lines.finish();
        let reason = match ended {
            Ok(exit) if exit.is_success() => return Ok(()),
            Ok(exit) => exit.status,
            Err(error @ RunError::Refused { .. }) => format!("command failed: {error}"),
            Err(error @ RunError::TimedOut(_)) => error.to_string(),
            Err(RunError::Lost(source)) => {
                tracing::warn!(%source, "a command of a build was lost");
                "the sandbox of the build has ended, perhaps for want of memory".to_owned()
            }
        };
        Err(StepFailure::caller(format!(
            "failed to run command '{text}': {reason}"
        )))
    }

    /// Sets variables of the context.
    pub(crate) async fn set_variables(
        &mut self,
        mut context: Context,
        variables: &[(String, String)],
    ) -> Result<(Context, Changed), StepFailure> {
        if variables.is_empty() {
            return Err(StepFailure::caller("ENV needs a name and a value"));
        }
        let mut known = context::known_variables(&context);
        for (name, value) in variables {
            let is_name = !name.is_empty() && !name.contains(['=', '\0']);
            if !is_name {
                let message = format!("'{name}' is not the name of a variable");
                return Err(StepFailure::caller(message));
            }
            let expanded = expand(value, &known).map_err(|error| {
                StepFailure::caller(format!("failed to set variable '{name}': {error}"))
            })?;
            // One that was set before keeps its old value within the step, as in a Dockerfile; one
            // that was not is known from here on.
            known
                .entry(name.clone())
                .or_insert_with(|| expanded.clone());
            context.environment.insert(name.clone(), expanded);
        }
        let changed = if variables.iter().any(|(name, _)| name == "PATH") {
            self.keep_path(&context).await?
        } else {
            Changed::Nothing
        };
        Ok((context, changed))
    }

    /// Changes the directory, and makes it if it is not there.
    pub(crate) async fn set_directory(
        &mut self,
        mut context: Context,
        path: &str,
    ) -> Result<(Context, Changed), StepFailure> {
        let failed = |reason: String| {
            StepFailure::caller(format!("failed to set the directory '{path}': {reason}"))
        };
        let expanded = expand(path, &context::known_variables(&context))
            .map_err(|error| failed(error.to_string()))?;
        if expanded.is_empty() || expanded.contains('\0') {
            return Err(failed("it has no name".to_owned()));
        }
        let base = context.work_directory.as_deref().unwrap_or("/");
        let directory = normal(&Path::new(base).join(expanded))
            .to_string_lossy()
            .into_owned();
        let arguments = [
            "/bin/sh",
            "-c",
            MAKE_DIRECTORY,
            "sh",
            &directory,
            &context.user,
        ];
        let (exit, said) = self.ask(&arguments).await?;
        let changed = match exit.code {
            Some(0) => Changed::Nothing,
            Some(CHANGED) => Changed::Files,
            _ => return Err(failed(format!("{}: {said}", exit.status))),
        };
        context.work_directory = Some(directory);
        Ok((context, changed))
    }

    /// Changes the user, and makes it if it is not there.
    pub(crate) async fn set_user(
        &mut self,
        mut context: Context,
        name: &str,
        administrator: bool,
    ) -> Result<(Context, Changed), StepFailure> {
        let failed = |reason: String| {
            StepFailure::caller(format!("failed to set the user '{name}': {reason}"))
        };
        let expanded = expand(name, &context::known_variables(&context))
            .map_err(|error| failed(error.to_string()))?;
        let (user, group) = match expanded.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (expanded.as_str(), None),
        };
        if !is_user(user) || !group.is_none_or(is_user) {
            return Err(failed(
                "it is not a name of a-z, 0-9, `-` and `_`, or a number".to_owned(),
            ));
        }
        if user.parse::<u32>().is_ok_and(|number| number > LAST_USER) {
            return Err(failed(format!(
                "the numbers of users in a sandbox end at {LAST_USER}"
            )));
        }
        let kind = if administrator { "administrator" } else { "" };
        let arguments = ["/bin/sh", "-c", MAKE_USER, "sh", user, kind];
        let (exit, said) = self.ask(&arguments).await?;
        let changed = match exit.code {
            Some(0) => Changed::Nothing,
            Some(CHANGED) => Changed::Files,
            _ => return Err(failed(format!("{}: {said}", exit.status))),
        };
        let named = said
            .lines()
            .last()
            .map(str::trim)
            .filter(|name| is_user(name))
            .unwrap_or(user);
        named.clone_into(&mut context.user);
        Ok((context, changed))
    }

    /// The directory in which commands of the context run.
    pub(crate) async fn directory(&mut self, context: &Context) -> Result<String, StepFailure> {
        if let Some(directory) = &context.work_directory {
            return Ok(directory.clone());
        }
        let command = Command {
            arguments: ["/bin/sh", "-c", "pwd"].map(str::to_owned).to_vec(),
            user: context.user.clone(),
            directory: None,
            environment: Default::default(),
            timeout: QUESTION_TIMEOUT,
        };
        let kept = Arc::new(Kept::default());
        let sandbox = self.sandbox().await?;
        match sandbox.run(&command, kept.clone()).await {
            Ok(exit) if exit.is_success() => Ok(kept.text()),
            Ok(exit) => Err(StepFailure::caller(format!(
                "user '{}' has no home: {}",
                context.user, exit.status
            ))),
            Err(RunError::Refused { message, .. }) => Err(StepFailure::caller(message)),
            Err(error) => Err(StepFailure::platform(error)),
        }
    }
}

/// Returns true if a text is a user's or group's name as every system takes it, or a number.
fn is_user(text: &str) -> bool {
    let is_number = !text.is_empty() && text.len() < 11 && text.bytes().all(|b| b.is_ascii_digit());
    let mut bytes = text.bytes();
    let is_name = bytes
        .next()
        .is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
        && text.len() <= 32;
    is_number || is_name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_name_or_a_number_and_no_command() {
        for good in ["user", "_apt", "www-data", "1000", "a1"] {
            assert!(is_user(good), "{good}");
        }
        for bad in [
            "",
            "; exit 1",
            "-x",
            "User",
            "a b",
            "$(id)",
            "a/b",
            &"a".repeat(33),
        ] {
            assert!(!is_user(bad), "{bad}");
        }
    }
}
