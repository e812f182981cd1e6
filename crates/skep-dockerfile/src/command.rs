//! Commands: `RUN`, and what `ENTRYPOINT` and `CMD` make together.

use crate::lines::Line;
use crate::stage::{Draft, Reader};
use crate::words::{flags, json_list, quoted, quoted_command};
use crate::{Instruction, Placed};

/// A command as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// A text for a shell, and the shell if it is not the usual one.
    Shell(String, Option<Vec<String>>),
    /// A program and its arguments.
    Exec(Vec<String>),
}

impl Form {
    pub(crate) fn read(text: &str, shell: Option<&[String]>) -> Self {
        match json_list(text) {
            Some(words) => Self::Exec(words),
            None => Self::Shell(text.to_owned(), shell.map(<[String]>::to_vec)),
        }
    }

    /// Text for a shell; `None` if there is nothing to run.
    fn text(&self) -> Option<String> {
        match self {
            Self::Shell(text, _) if text.is_empty() => None,
            Self::Shell(text, None) => Some(text.clone()),
            Self::Shell(text, Some(shell)) => Some(in_shell(shell, text)),
            Self::Exec(words) if words.is_empty() => None,
            Self::Exec(words) => Some(quoted_command(words)),
        }
    }

    /// Arguments that it is for an entry point.
    fn arguments(&self) -> Vec<String> {
        match self {
            Self::Exec(words) => words.clone(),
            Self::Shell(text, _) if text.is_empty() => Vec::new(),
            Self::Shell(text, shell) => {
                let usual = || ["/bin/sh", "-c"].map(str::to_owned).to_vec();
                let mut words = shell.clone().unwrap_or_else(usual);
                words.push(text.clone());
                words
            }
        }
    }
}

impl Draft {
    /// The command of a sandbox, by Docker's rules.
    pub(crate) fn start_command(&self) -> Option<Placed<String>> {
        let value = self.start_text()?;
        Some(Placed {
            at: self.command_at,
            value,
        })
    }

    fn start_text(&self) -> Option<String> {
        match (&self.entrypoint, &self.command) {
            (Some(Form::Exec(words)), command) if !words.is_empty() => {
                let mut words = words.clone();
                words.extend(command.iter().flat_map(Form::arguments));
                Some(quoted_command(&words))
            }
            (Some(entrypoint @ Form::Shell(text, _)), _) if !text.is_empty() => entrypoint.text(),
            (_, command) => command.as_ref().and_then(Form::text),
        }
    }
}

impl Reader {
    pub(crate) fn run(&mut self, line: &Line) {
        let (found, rest) = flags(&line.text);
        for flag in found {
            let at = line.position(flag.offset);
            let (name, value) = flag.text.split_once('=').unwrap_or((&flag.text, ""));
            let is_cache = value.split(',').any(|part| part == "type=cache");
            let is_memory = value.split(',').any(|part| part == "type=tmpfs");
            match (name, value) {
                ("--mount", _) if is_cache || is_memory => {
                    self.warn(
                        at,
                        "the mount is ignored: what is written there stays in the layer",
                    );
                }
                ("--network", "default") | ("--security", "sandbox") => {}
                ("--mount" | "--network" | "--security", _) => {
                    self.error(at, format!("`{}` is not supported", flag.text));
                }
                _ => self.error(at, format!("RUN has no flag `{name}`")),
            }
        }
        let text = &line.text[rest..];
        if text.is_empty() {
            self.error(line.at, "RUN takes a command");
            return;
        }
        let shell = self.stages.last().and_then(|stage| stage.shell.clone());
        let command = match Form::read(text, shell.as_deref()) {
            Form::Exec(words) if words.is_empty() => {
                self.error(line.at, "RUN takes a command");
                return;
            }
            Form::Exec(words) => quoted_command(&words),
            Form::Shell(text, _) => {
                let script = with_documents(&text, line);
                match shell {
                    Some(shell) => in_shell(&shell, &script),
                    None => script,
                }
            }
        };
        self.add(line.at, Instruction::Run(command));
    }
}

/// The script of a line, with the here-documents that belong to it.
fn with_documents(text: &str, line: &Line) -> String {
    if let [document] = line.documents.as_slice() {
        // Nothing but a document: it is the script itself, or a program that names its reader.
        let alone = text
            .trim_start_matches(['<', '-'])
            .trim_matches(['"', '\'']);
        if text.starts_with("<<") && alone == document.heredoc.name {
            let content = &document.content;
            if content.starts_with("#!") {
                return format!(
                    "script=$(mktemp) && printf %s {} > \"$script\" && chmod 700 \"$script\" && \"$script\" && rm \"$script\"",
                    quoted(content)
                );
            }
            return content.clone();
        }
    }
    let mut script = text.to_owned();
    for document in &line.documents {
        script.push('\n');
        script.push_str(&document.content);
        script.push_str(&document.heredoc.name);
    }
    if !line.documents.is_empty() {
        script.push('\n');
    }
    script
}

fn in_shell(shell: &[String], text: &str) -> String {
    format!("{} {}", quoted_command(shell), quoted(text))
}
