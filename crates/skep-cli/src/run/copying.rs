//! Files that code finds in its sandbox.

use std::fs;
use std::path::{Component, Path, PathBuf};

use skep_client::Sandbox;

use crate::{CliError, FileError};

/// Files to copy, each with its path below the directory that the code runs in.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies(Vec<(PathBuf, String)>);

impl Copies {
    /// The script itself, by its name, and what `--with` names. A path below the directory we are
    /// in stays as it is, so that code finds it under the same name; others keep their last part.
    ///
    /// # Errors
    ///
    /// If a directory cannot be read, or a name is no text.
    pub(crate) fn of(with: &[PathBuf], script: Option<&Path>) -> Result<Self, CliError> {
        let mut copies = Self::default();
        for path in with {
            copies.add(path, &destination(path)?)?;
        }
        if let Some(path) = script {
            copies.0.push((path.to_owned(), last_part(path)?));
        }
        Ok(copies)
    }

    fn add(&mut self, path: &Path, destination: &str) -> Result<(), CliError> {
        if !fs::metadata(path)
            .map_err(FileError::on("copy", path))?
            .is_dir()
        {
            self.0.push((path.to_owned(), destination.to_owned()));
            return Ok(());
        }
        for entry in fs::read_dir(path).map_err(FileError::on("copy", path))? {
            let entry = entry.map_err(FileError::on("copy", path))?;
            let kind = entry.file_type().map_err(FileError::on("copy", path))?;
            // A link may lead anywhere, back above us too.
            if kind.is_symlink() {
                continue;
            }
            let name = last_part(&entry.path())?;
            self.add(&entry.path(), &format!("{destination}/{name}"))?;
        }
        Ok(())
    }

    /// Copies them into `directory` of the sandbox.
    ///
    /// # Errors
    ///
    /// The first one that cannot be read or written.
    pub(crate) async fn send(&self, sandbox: &Sandbox, directory: &str) -> Result<(), CliError> {
        for (path, destination) in &self.0 {
            let content = tokio::fs::read(path)
                .await
                .map_err(FileError::on("copy", path))?;
            let target = format!("{directory}/{destination}");
            sandbox.files().write(&target, content).await?;
        }
        Ok(())
    }
}

fn destination(path: &Path) -> Result<String, CliError> {
    let parts: Vec<Component<'_>> = path.components().collect();
    let is_below = parts
        .iter()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_below {
        return last_part(path);
    }
    let names: Option<Vec<&str>> = parts
        .iter()
        .filter(|part| matches!(part, Component::Normal(_)))
        .map(|part| part.as_os_str().to_str())
        .collect();
    match names {
        Some(names) if !names.is_empty() => Ok(names.join("/")),
        // The very directory we are in: its content, not itself.
        Some(_) => Ok(".".to_owned()),
        None => Err(no_text(path)),
    }
}

fn last_part(path: &Path) -> Result<String, CliError> {
    let whole = path.file_name().map(PathBuf::from);
    // `..` has no name of its own.
    let whole = match whole {
        Some(name) => name,
        None => {
            let path = fs::canonicalize(path).map_err(FileError::on("find", path))?;
            path.file_name().map(PathBuf::from).unwrap_or_default()
        }
    };
    let name = whole.to_str().ok_or_else(|| no_text(path))?;
    Ok(name.to_owned())
}

fn no_text(path: &Path) -> CliError {
    CliError::input(
        format!("the name of `{}` is not UTF-8", path.display()),
        "rename it, or a directory above it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_us_keeps_its_path_and_the_rest_its_name() {
        assert_eq!(destination(Path::new("data/a.csv")).unwrap(), "data/a.csv");
        assert_eq!(destination(Path::new("./data/./b")).unwrap(), "data/b");
        assert_eq!(destination(Path::new("../other/a.csv")).unwrap(), "a.csv");
        assert_eq!(destination(Path::new("/tmp/a.csv")).unwrap(), "a.csv");
        assert_eq!(destination(Path::new(".")).unwrap(), ".");
    }

    #[test]
    fn a_folder_is_copied_with_everything_below_and_links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        fs::create_dir_all(data.join("deep")).unwrap();
        fs::write(data.join("a"), "").unwrap();
        fs::write(data.join("deep/b"), "").unwrap();
        std::os::unix::fs::symlink("..", data.join("loop")).unwrap();
        let mut copies = Copies::of(std::slice::from_ref(&data), None).unwrap();
        copies.0.sort();
        let expected = [
            (data.join("a"), "data/a".to_owned()),
            (data.join("deep/b"), "data/deep/b".to_owned()),
        ];
        assert_eq!(copies.0, expected);
    }

    #[test]
    fn what_is_not_there_is_told() {
        let error = Copies::of(&[PathBuf::from("/nowhere/at/all")], None).unwrap_err();
        assert_eq!(error.source.to_string(), "cannot copy `/nowhere/at/all`");
    }
}
