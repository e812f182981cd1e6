//! Source of the code: a file, an argument or standard input.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use skep_notebook::{CellKind, Notebook};

use crate::code::Language;
use crate::notebook::read_notebook;
use crate::{CliError, FileError, print_note};

/// Code, and the file that it lies in.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) text: String,
    pub(super) file: Option<PathBuf>,
    /// The notebook that the file is, if it is one.
    pub(super) notebook: Option<Notebook>,
}

impl Source {
    /// Reads the code that was named, or else standard input.
    pub(super) fn read(file: Option<&Path>, code: Option<&str>) -> Result<Self, CliError> {
        match (file, code) {
            (_, Some(code)) => Ok(Self {
                text: code.to_owned(),
                file: None,
                notebook: None,
            }),
            (Some(path), None) if path != Path::new("-") => {
                let is_notebook = path.extension().is_some_and(|name| name == "ipynb");
                if is_notebook {
                    return Ok(Self {
                        text: String::new(),
                        file: Some(path.to_owned()),
                        notebook: Some(read_notebook(path)?),
                    });
                }
                let text = std::fs::read_to_string(path).map_err(FileError::on("read", path))?;
                Ok(Self {
                    text,
                    file: Some(path.to_owned()),
                    notebook: None,
                })
            }
            (_, None) => Self::of_standard_input(),
        }
    }

    fn of_standard_input() -> Result<Self, CliError> {
        let mut stdin = std::io::stdin();
        if stdin.is_terminal() {
            print_note("reading code from the terminal: Ctrl-D runs it; `skep repl` is a prompt");
        }
        let mut text = String::new();
        stdin
            .read_to_string(&mut text)
            .map_err(|error| CliError::failure(error).hint("standard input is not text"))?;
        Ok(Self {
            text,
            file: None,
            notebook: None,
        })
    }

    /// Language of the source: the chosen one, else by the file's name, else by its first line.
    ///
    /// # Errors
    ///
    /// If the file's name says that it is none of those that are known.
    pub(super) fn language(&self, said: Option<Language>) -> Result<Language, CliError> {
        if let Some(language) = said {
            return Ok(language);
        }
        if let Some(notebook) = &self.notebook {
            let told = notebook.language();
            let name = told.as_ref().map(skep_notebook::Language::name);
            return Ok(name.map_or_else(Language::usual, Language::named));
        }
        let path = self.file.as_deref().unwrap_or(Path::new(""));
        let found = Language::of_file(path, &self.text)?;
        Ok(found.unwrap_or_else(Language::usual))
    }

    /// The code of the cells of a notebook, in order; `None` if it is none.
    pub(super) fn cells(&self) -> Option<Vec<&str>> {
        let cells = self.notebook.as_ref()?.cells().iter();
        let code = cells.filter(|cell| cell.kind() == CellKind::Code);
        let sources = code.map(skep_notebook::Cell::source);
        Some(sources.filter(|source| !source.trim().is_empty()).collect())
    }

    /// The name of its file.
    pub(super) fn name(&self) -> Option<&str> {
        self.file.as_deref()?.file_name()?.to_str()
    }
}
