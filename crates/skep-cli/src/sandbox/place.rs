//! Places of files: here, or in a sandbox.

use std::path::PathBuf;

use crate::CliError;

/// A file or directory, as `cp`, `ls` and `rm` name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A path on this host.
    Here(PathBuf),
    /// A path in a sandbox, written `SANDBOX:PATH`. An empty one is the home of its user.
    Sandbox { id: String, path: String },
}

impl Place {
    /// Reads a place. What has a slash before its colon, or no colon, is here.
    pub(super) fn parse(text: &str) -> Self {
        match text.split_once(':') {
            Some((id, path)) if !id.is_empty() && !id.contains('/') && id != "." => Self::Sandbox {
                id: id.to_owned(),
                path: path.to_owned(),
            },
            Some(_) | None => Self::Here(PathBuf::from(text)),
        }
    }
}

/// The sandbox and the path in `text`, for commands that mean nothing on this host.
///
/// # Errors
///
/// If the ID is missing.
pub(super) fn in_sandbox(text: &str) -> Result<(&str, Option<&str>), CliError> {
    let (id, path) = match text.split_once(':') {
        Some((id, path)) => (id, Some(path).filter(|path| !path.is_empty())),
        None => (text, None),
    };
    if id.is_empty() || id.contains('/') {
        return Err(CliError::input(
            format!("`{text}` does not say which sandbox"),
            "write SANDBOX:PATH",
        ));
    }
    Ok((id, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_separates_a_sandbox_from_a_path() {
        let sandbox = |id: &str, path: &str| Place::Sandbox {
            id: id.to_owned(),
            path: path.to_owned(),
        };
        assert_eq!(Place::parse("ia:/tmp/x:y"), sandbox("ia", "/tmp/x:y"));
        assert_eq!(Place::parse("ia:"), sandbox("ia", ""));
        assert_eq!(Place::parse("./a:b"), Place::Here("./a:b".into()));
        assert_eq!(Place::parse("plain"), Place::Here("plain".into()));
        assert_eq!(Place::parse(":x"), Place::Here(":x".into()));
    }

    #[test]
    fn a_command_about_sandboxes_needs_one() {
        assert_eq!(in_sandbox("ia").unwrap(), ("ia", None));
        assert_eq!(in_sandbox("ia:").unwrap(), ("ia", None));
        assert_eq!(in_sandbox("ia:/x").unwrap(), ("ia", Some("/x")));
        assert!(in_sandbox("/tmp/x").is_err() && in_sandbox(":x").is_err());
    }
}
