//! Source of the code: a file, an argument or standard input.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use crate::code::Language;
use crate::{CliError, FileError, print_note};

/// Code, and the file that it lies in.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) text: String,
    pub(super) file: Option<PathBuf>,
}

impl Source {
    /// Reads the code that was named, or else standard input.
    pub(super) fn read(file: Option<&Path>, code: Option<&str>) -> Result<Self, CliError> {
        match (file, code) {
            (_, Some(code)) => Ok(Self {
                text: code.to_owned(),
                file: None,
            }),
            (Some(path), None) if path != Path::new("-") => {
                let text = std::fs::read_to_string(path).map_err(FileError::on("read", path))?;
                Ok(Self {
                    text,
                    file: Some(path.to_owned()),
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
        Ok(Self { text, file: None })
    }

    /// Language of the source: the chosen one, else by the file's name, else by its first line.
    pub(super) fn language(&self, said: Option<Language>) -> Language {
        let path = self.file.as_deref().unwrap_or(Path::new(""));
        said.or_else(|| Language::of_file(path, &self.text))
            .unwrap_or_else(Language::usual)
    }

    /// The name of its file.
    pub(super) fn name(&self) -> Option<&str> {
        self.file.as_deref()?.file_name()?.to_str()
    }
}
