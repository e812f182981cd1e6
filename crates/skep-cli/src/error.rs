//! Errors of commands, with hints for the user.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use skep_client::{Cause, ClientError, Origin};
use skep_telemetry::Chain;

use crate::print_note;

/// Exit code for a broken pipe, as a shell reports it: 128 plus SIGPIPE.
pub(crate) const UNREAD: u8 = 141;

/// Party that can do something about an error, as an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// The input was wrong: exit code 1.
    Input,
    /// We failed: exit code 2.
    Failure,
    /// Nobody reads our output any more: exit code 141, as a shell reports SIGPIPE, and no words.
    Unread,
}

/// A file of this host could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} `{}`", path.display())]
pub(crate) struct FileError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// Conversion for `map_err`: the operation, and the file it was done to.
    pub(crate) fn on(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CliError {
        let path = path.to_owned();
        move |source| CliError {
            kind: ExitKind::Input,
            ..CliError::failure(Self {
                doing,
                path,
                source,
            })
        }
    }
}

/// An error with hints on what to do about it.
#[derive(Debug)]
pub struct CliError {
    /// Party that can do something about it.
    pub kind: ExitKind,
    /// The error itself, with its chain of causes.
    pub source: Box<dyn std::error::Error + Send + Sync>,
    /// Remedies for the user, one sentence each.
    pub hints: Vec<String>,
}

impl CliError {
    /// An error of the caller's making.
    pub fn input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            kind: ExitKind::Input,
            source: message.into().into(),
            hints: vec![hint.into()],
        }
    }

    /// A failure of ours.
    pub fn failure(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            kind: ExitKind::Failure,
            source: error.into(),
            hints: Vec::new(),
        }
    }

    /// A failure to write our own output.
    pub fn output(error: io::Error) -> Self {
        Self {
            kind: if error.kind() == io::ErrorKind::BrokenPipe {
                ExitKind::Unread
            } else {
                ExitKind::Failure
            },
            ..Self::failure(error)
        }
    }

    /// Returns true if the reader of our output has gone, which is nobody's fault.
    pub fn is_unread(&self) -> bool {
        self.kind == ExitKind::Unread
    }

    /// Exit code of a command that ends with it.
    pub fn code(&self) -> u8 {
        match self.kind {
            ExitKind::Input => 1,
            ExitKind::Failure => 2,
            ExitKind::Unread => UNREAD,
        }
    }

    /// Prints the error and its hints on standard error, for people or as a line of JSON, and
    /// returns the exit code.
    pub fn report(&self, is_json: bool) -> ExitCode {
        self.report_as(self.code(), is_json)
    }

    /// As [`Self::report`], of a command that ends with another code than the error's own.
    pub fn report_as(&self, code: u8, is_json: bool) -> ExitCode {
        if self.is_unread() {
            return ExitCode::from(UNREAD);
        }
        if is_json {
            print_note(&self.as_json(code));
            return ExitCode::from(code);
        }
        print_note(&format!("error: {}", Chain(self.source.as_ref())));
        for hint in &self.hints {
            print_note(&format!("hint: {hint}"));
        }
        ExitCode::from(code)
    }

    fn as_json(&self, code: u8) -> String {
        let error = serde_json::json!({
            "message": Chain(self.source.as_ref()).to_string(),
            "hints": self.hints,
            "exitCode": code,
        });
        serde_json::json!({ "error": error }).to_string()
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        match error.origin() {
            Origin::Server | Origin::Sandbox => of_server(error),
            Origin::Interpreter => of_interpreter(error),
        }
    }
}

fn of_server(error: ClientError) -> CliError {
    let (kind, hint) = match error.cause() {
        Cause::Address(_) => (ExitKind::Input, None),
        Cause::Unreachable { source, .. } => (ExitKind::Failure, Some(unreachable_hint(source))),
        Cause::Refused { status: 401, .. } => (
            ExitKind::Input,
            Some(
                "`skep up` prints a key; give it with `--api-key` or E2B_API_KEY, or replace the \
                 key of this host with `sudo skep key rotate`",
            ),
        ),
        Cause::Refused {
            status: 404,
            message,
        } => (ExitKind::Input, not_found_hint(&error, message)),
        Cause::Refused { status, .. } if *status < 500 => (ExitKind::Input, None),
        Cause::Agent { message, .. } | Cause::Refused { message, .. }
            if message.contains("it is paused") =>
        {
            (ExitKind::Input, Some("`skep sandbox resume` lets it go on"))
        }
        Cause::Agent { code, .. } if code == "unauthenticated" => (
            ExitKind::Input,
            Some("`--user` takes a user of the sandbox, such as root"),
        ),
        Cause::Setup(_)
        | Cause::Refused { .. }
        | Cause::Answer(_)
        | Cause::Lost(_)
        | Cause::Agent { .. } => (ExitKind::Failure, None),
    };
    CliError {
        kind,
        source: Box::new(error),
        hints: hint.into_iter().map(str::to_owned).collect(),
    }
}

/// Hint for a server that gives no answer.
fn unreachable_hint(source: &(dyn std::error::Error + 'static)) -> &'static str {
    let said = Chain(source).to_string();
    if said.contains("InvalidContentType") {
        "it does not speak TLS: write http:// instead of https://"
    } else if said.contains("invalid peer certificate") {
        "it runs, but its certificate is not trusted for this name: SSL_CERT_FILE names the \
         authorities to trust, as `skep up` prints it"
    } else {
        "is the server running? `skep up` starts one; `--server` names another"
    }
}

/// Hint for something that is not there.
fn not_found_hint(error: &ClientError, message: &str) -> Option<&'static str> {
    let is_sandbox = message.contains("doesn't exist or you don't have access to it");
    if is_sandbox && !message.contains(": it ended") {
        return Some("`skep sandbox list --all` shows what there is and was");
    }
    let is_route =
        message == "there is no such route" || message.starts_with("the server answered");
    if is_route && error.origin() == Origin::Server {
        return Some("`--server` may lead to something else than a Skep server");
    }
    None
}

/// The template of a sandbox has no kernel for a language.
#[derive(Debug, thiserror::Error)]
#[error("sandbox `{sandbox}` has no {language} kernel{}", has(installed))]
struct MissingKernel {
    sandbox: String,
    language: String,
    installed: Vec<String>,
}

fn has(installed: &[String]) -> String {
    match installed {
        [] => String::new(),
        installed => format!("; its template has {}", installed.join(", ")),
    }
}

impl MissingKernel {
    /// Reads what an interpreter says that has no such kernel.
    fn read(sandbox: &str, message: &str) -> Option<Self> {
        const MISSING: &str = "kernel is not available";
        if !message.contains(MISSING) {
            return None;
        }
        let language = message.split_once("The '").and_then(|(_, rest)| {
            let (language, _) = rest.split_once('\'')?;
            Some(language)
        });
        let installed = message.split_once("Installed: ").and_then(|(_, rest)| {
            let (list, _) = rest.split_once('.')?;
            Some(list)
        });
        let names = installed.unwrap_or_default().split(", ");
        Some(Self {
            sandbox: sandbox.to_owned(),
            language: language.unwrap_or("such").to_owned(),
            installed: names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        })
    }
}

impl CliError {
    /// Returns true if a template has no kernel for the language of the code.
    pub(crate) fn is_missing_kernel(&self) -> bool {
        self.source.is::<MissingKernel>()
    }
}

fn of_interpreter(error: ClientError) -> CliError {
    let sandbox = error.sandbox().unwrap_or_default();
    if let Cause::Refused { message, .. } = error.cause()
        && let Some(missing) = MissingKernel::read(sandbox, message)
    {
        return CliError {
            kind: ExitKind::Input,
            source: Box::new(missing),
            hints: vec![
                "`--lang` names another language, `--template` another template".to_owned(),
            ],
        };
    }
    match error.cause() {
        Cause::Unreachable { .. } => CliError::failure(error).hint("is the server still running?"),
        Cause::Lost(_) => {
            let hint = format!("`skep sandbox info {sandbox}` says what became of it");
            CliError::failure(error).hint(hint)
        }
        Cause::Address(_)
        | Cause::Setup(_)
        | Cause::Refused { .. }
        | Cause::Answer(_)
        | Cause::Agent { .. } => CliError::failure(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_be_talked_to_is_told_from_one_that_is_not_there() {
        let hint = |said: &str| unreachable_hint(&io::Error::other(said.to_owned()));
        assert!(hint("received corrupt message of type InvalidContentType").contains("http://"));
        let unknown = hint("invalid peer certificate: UnknownIssuer");
        assert!(unknown.contains("SSL_CERT_FILE"), "{unknown}");
        assert!(hint("Connection refused").contains("skep up"));
    }

    #[test]
    fn a_missing_kernel_is_told_with_those_that_there_are() {
        let message = r#"Failed to create context: {"message":"The 'ruby' kernel is not available. Please pick another suitable kernel instead, or install that kernel. Installed: python, bash.","short_message":"ruby not found"}"#;
        let missing = MissingKernel::read("i1", message).unwrap();
        assert_eq!(
            missing.to_string(),
            "sandbox `i1` has no ruby kernel; its template has python, bash"
        );
        assert!(MissingKernel::read("i1", "Context x not found").is_none());
    }

    #[test]
    fn a_failure_is_a_line_of_json_for_those_who_asked() {
        let error = CliError::input("no \"such\" thing", "look elsewhere");
        let expected = r#"{"error":{"exitCode":125,"hints":["look elsewhere"],"message":"no \"such\" thing"}}"#;
        assert_eq!(error.as_json(125), expected);
    }

    #[test]
    fn a_reader_who_has_gone_is_no_failure() {
        let gone = CliError::output(io::ErrorKind::BrokenPipe.into());
        assert!(gone.is_unread());
        assert_eq!(gone.code(), 141);
        let full = CliError::output(io::ErrorKind::StorageFull.into());
        assert_eq!((full.is_unread(), full.code()), (false, 2));
    }
}
