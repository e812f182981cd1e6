//! Destination of a written notebook.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::{CliError, FileError, print_line};

/// Destination of a written notebook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotebookFile {
    /// Standard output, at the very end.
    StandardOutput,
    /// A file, replaced while the notebook runs.
    Path(PathBuf),
}

impl NotebookFile {
    /// The file at `path`, or what a link there leads to; `-` is standard output.
    ///
    /// # Errors
    ///
    /// If its directory is not there, which is better known before an hour of work than after.
    pub(super) fn at(path: &Path) -> Result<Self, CliError> {
        if path == Path::new("-") {
            return Ok(Self::StandardOutput);
        }
        // Only a link leads elsewhere; other paths are told as they were written.
        let path = if path.is_symlink() {
            fs::canonicalize(path).unwrap_or_else(|_not_there| path.to_owned())
        } else {
            path.to_owned()
        };
        let directory = directory(&path);
        if !directory.is_dir() {
            return Err(CliError::input(
                format!(
                    "there is no directory `{}` to write to",
                    directory.display()
                ),
                "make it, or name another file with `--output`",
            ));
        }
        Ok(Self::Path(path))
    }

    /// Path beside the notebook it was made from: `report.ipynb` becomes `report.run.ipynb`.
    pub(super) fn beside(notebook: &Path) -> PathBuf {
        notebook.with_extension("run.ipynb")
    }

    /// Writes the whole notebook. Whoever reads the file finds the old one or the new one, also
    /// after a crash.
    ///
    /// # Errors
    ///
    /// If it cannot be written; the old one is still there then.
    pub(super) fn write(&self, text: &str) -> Result<(), CliError> {
        let Self::Path(path) = self else {
            print_line(text.trim_end())?;
            return Ok(());
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let draft = directory(path).join(format!(".{name}.{}", std::process::id()));
        let written = write_draft(&draft, path, text).and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            // What failed is told; that a piece of it is left would not help.
            drop(fs::remove_file(&draft));
        }
        written.map_err(FileError::on("write", path))
    }
}

fn write_draft(draft: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = File::create(draft)?;
    if let Ok(old) = fs::metadata(path) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_behind_a_link_and_with_its_rights() {
        let home = tempfile::tempdir().unwrap();
        let (file, link) = (home.path().join("a.ipynb"), home.path().join("link.ipynb"));
        fs::write(&file, "old and longer").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        NotebookFile::at(&link).unwrap().write("new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_folder_that_is_not_there_is_told_before_anything_runs() {
        let error = NotebookFile::at(Path::new("/nowhere/at/all.ipynb")).unwrap_err();
        assert!(
            error.source.to_string().contains("/nowhere/at"),
            "{error:?}"
        );
        assert_eq!(
            NotebookFile::at(Path::new("-")).unwrap(),
            NotebookFile::StandardOutput
        );
        let new = NotebookFile::at(Path::new("new.ipynb")).unwrap();
        assert_eq!(new, NotebookFile::Path("new.ipynb".into()));
    }

    #[test]
    fn the_usual_name_is_that_of_the_notebook() {
        assert_eq!(
            NotebookFile::beside(Path::new("x/a.b.ipynb")),
            Path::new("x/a.b.run.ipynb")
        );
    }
}
