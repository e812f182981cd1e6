//! The line that a person edits.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hinter, HistoryHinter};
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Event, EventContext, EventHandler,
    Helper, KeyCode, KeyEvent, Modifiers, RepeatCount,
};

use super::command;
use super::completeness::{Completeness, completeness};
use super::history;
use super::kernel::{Kernel, Silent};
use crate::CliError;
use crate::code::Language;

/// Entries that are remembered.
const REMEMBERED: usize = 10_000;
/// Candidates that are shown at once.
const CANDIDATES: usize = 60;

/// Input of a person at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// Code, or a command.
    Text(String),
    /// Ctrl-C: the line is thrown away.
    Nothing,
    /// Ctrl-D on an empty line.
    End,
}

/// State shared by the editor and its helper.
#[derive(Debug)]
struct Memory {
    language: Language,
    words: BTreeSet<String>,
    /// The kernel that knows the names that there are.
    kernel: Option<Kernel>,
    /// Language whose kernel did not answer when it was asked on Enter, and is asked no more.
    silent: Option<Language>,
}

/// A line editor with a history for each language.
pub(super) struct Editor {
    line: Option<rustyline::Editor<Assistant, FileHistory>>,
    memory: Arc<Mutex<Memory>>,
    histories: Option<PathBuf>,
    language: Language,
    is_coloured: bool,
}

impl Editor {
    pub(super) fn open(
        language: &Language,
        histories: Option<PathBuf>,
        is_coloured: bool,
    ) -> Result<Self, CliError> {
        let memory = Arc::new(Mutex::new(Memory {
            language: language.clone(),
            words: BTreeSet::new(),
            kernel: None,
            silent: None,
        }));
        let mut editor = Self {
            line: None,
            memory,
            histories,
            language: language.clone(),
            is_coloured,
        };
        editor.line = Some(editor.line()?);
        editor.load_history();
        Ok(editor)
    }

    fn line(&self) -> Result<rustyline::Editor<Assistant, FileHistory>, CliError> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .auto_add_history(false)
            .max_history_size(REMEMBERED)
            .map_err(CliError::failure)?
            .build();
        let mut line = rustyline::Editor::with_config(config).map_err(CliError::failure)?;
        line.set_helper(Some(Assistant {
            memory: Arc::clone(&self.memory),
            hinter: HistoryHinter::new(),
            is_coloured: self.is_coloured,
        }));
        // What was typed while code ran went through a terminal that makes another key of Enter.
        for key in [
            KeyEvent(KeyCode::Enter, Modifiers::NONE),
            KeyEvent::ctrl('J'),
        ] {
            let enter = Enter(Arc::clone(&self.memory));
            line.bind_sequence(key, EventHandler::Conditional(Box::new(enter)));
        }
        Ok(line)
    }

    /// Switches to `language`, with its own history.
    ///
    /// # Errors
    ///
    /// If the history of the last language cannot be kept.
    pub(super) fn speak(&mut self, language: &Language) -> Result<(), CliError> {
        if self.language == *language {
            return Ok(());
        }
        self.keep_history()?;
        self.language = language.clone();
        self.memory.lock().language = language.clone();
        // The editor stays: it has what was typed ahead.
        if let Some(line) = &mut self.line {
            line.clear_history().map_err(CliError::failure)?;
        }
        self.load_history();
        Ok(())
    }

    /// Asks this kernel for completions from now on.
    pub(super) fn ask(&mut self, kernel: Option<Kernel>) {
        self.memory.lock().kernel = kernel;
    }

    fn load_history(&mut self) {
        if let (Some(directory), Some(line)) = (&self.histories, &mut self.line) {
            let path = history::file(directory, &self.language);
            // There is none before the first session.
            drop(line.load_history(&path));
        }
    }

    /// Waits for what a person enters.
    pub(super) async fn read(&mut self) -> Result<Entered, CliError> {
        let mut line = match self.line.take() {
            Some(line) => line,
            None => self.line()?,
        };
        let name = self.language.prompt();
        let plain = format!("{name}> ");
        let styled = if self.is_coloured {
            format!("\x1b[1;32m{name}>\x1b[0m ")
        } else {
            plain.clone()
        };
        let reading = tokio::task::spawn_blocking(move || {
            let read = line.readline(&(plain, styled));
            (line, read)
        });
        let (mut line, read) = reading.await.map_err(CliError::failure)?;
        let entered = match read {
            Ok(text) => {
                line.add_history_entry(text.trim_end())
                    .map_err(CliError::failure)?;
                self.memory.lock().learn(&text);
                Ok(Entered::Text(text))
            }
            Err(ReadlineError::Interrupted) => Ok(Entered::Nothing),
            Err(ReadlineError::Eof) => Ok(Entered::End),
            Err(error) => Err(CliError::failure(error)),
        };
        self.line = Some(line);
        entered
    }

    /// Writes the history, for its owner alone.
    pub(super) fn keep_history(&mut self) -> Result<(), CliError> {
        let (Some(directory), Some(line)) = (&self.histories, &mut self.line) else {
            return Ok(());
        };
        std::fs::create_dir_all(directory).map_err(CliError::failure)?;
        let path = history::file(directory, &self.language);
        line.append_history(&path).map_err(CliError::failure)
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '.'
}

impl Memory {
    /// Remembers the names in code, and what hangs on them.
    fn learn(&mut self, text: &str) {
        let words = text.split(|c| !is_word(c)).filter(|word| word.len() > 2);
        let named =
            words.filter(|word| !word.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
        self.words.extend(named.map(str::to_owned));
    }

    fn candidates(&self, start: &str) -> Vec<String> {
        let own = keywords(&self.language).iter().map(|&word| word.to_owned());
        let known = self.words.iter().cloned();
        let all: BTreeSet<String> = own.chain(known).collect();
        let fitting = all
            .into_iter()
            .filter(|word| word.starts_with(start) && word != start);
        fitting.take(CANDIDATES).collect()
    }
}

/// The longer words of a language, and what everybody calls in it.
fn keywords(language: &Language) -> &'static [&'static str] {
    match language.name() {
        "python" => &[
            "assert",
            "async",
            "await",
            "break",
            "class",
            "continue",
            "display",
            "elif",
            "else",
            "enumerate",
            "except",
            "False",
            "finally",
            "from",
            "global",
            "import",
            "isinstance",
            "lambda",
            "None",
            "nonlocal",
            "numpy",
            "pandas",
            "print",
            "raise",
            "range",
            "return",
            "self",
            "sorted",
            "True",
            "while",
            "with",
            "yield",
        ],
        "javascript" | "typescript" => &[
            "async",
            "await",
            "break",
            "class",
            "console.log",
            "const",
            "continue",
            "export",
            "extends",
            "finally",
            "function",
            "import",
            "instanceof",
            "interface",
            "JSON.stringify",
            "Object.keys",
            "Promise",
            "require",
            "return",
            "switch",
            "throw",
            "typeof",
            "undefined",
            "while",
        ],
        "bash" => &[
            "case", "done", "echo", "elif", "else", "esac", "export", "function", "then", "while",
        ],
        "r" => &[
            "FALSE", "function", "library", "paste", "print", "repeat", "return", "TRUE", "while",
        ],
        "java" => &[
            "class",
            "final",
            "import",
            "interface",
            "List.of",
            "Map.of",
            "record",
            "return",
            "static",
            "String",
            "System.out.println",
            "while",
        ],
        _ => &[],
    }
}

/// Enter sends what is complete, and begins the next line of what is not. The kernel knows best.
struct Enter(Arc<Mutex<Memory>>);

impl Enter {
    fn completeness(&self, text: &str) -> Completeness {
        let (guess, kernel) = {
            let memory = self.0.lock();
            let is_silent = memory.silent.as_ref() == Some(&memory.language);
            let kernel = memory.kernel.clone().filter(|_| !is_silent);
            (completeness(text, &memory.language), kernel)
        };
        let Some(kernel) = kernel.filter(|_| !is_settled(text)) else {
            return guess;
        };
        match kernel.completeness(text) {
            Ok(told) => told.unwrap_or(guess),
            Err(Silent) => {
                let mut memory = self.0.lock();
                memory.silent = Some(memory.language.clone());
                guess
            }
        }
    }
}

/// Returns true for what is no code, and for code whose last line is empty: that sends it.
fn is_settled(text: &str) -> bool {
    let is_command = text.trim_start().starts_with(':');
    let last = text.rsplit_once('\n').map(|(_, last)| last);
    is_command || text.trim().is_empty() || last.is_some_and(|last| last.trim().is_empty())
}

impl ConditionalEventHandler for Enter {
    fn handle(
        &self,
        _event: &Event,
        _count: RepeatCount,
        _positive: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        match self.completeness(context.line()) {
            Completeness::Complete => Some(Cmd::AcceptLine),
            Completeness::Incomplete { indent } => {
                Some(Cmd::Insert(1, format!("\n{}", " ".repeat(indent))))
            }
        }
    }
}

/// Suggests and completes.
struct Assistant {
    memory: Arc<Mutex<Memory>>,
    hinter: HistoryHinter,
    is_coloured: bool,
}

impl Helper for Assistant {}
impl Validator for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..position];
        let pair = |word: String| Pair {
            display: word.clone(),
            replacement: word,
        };
        if before.starts_with(':') && !before.contains(' ') {
            let names = command::NAMES
                .iter()
                .filter(|name| name.starts_with(before));
            return Ok((0, names.map(|&name| pair(name.to_owned())).collect()));
        }
        let start = before.rfind(|c| !is_word(c)).map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
        if start == position {
            // Nothing to complete: at the beginning of a line Tab indents.
            let line_start = before.rfind('\n').map_or(0, |at| at + 1);
            let is_indent = before[line_start..].trim().is_empty();
            let indent = is_indent.then(|| pair("    ".to_owned()));
            return Ok((position, indent.into_iter().collect()));
        }
        // Not under the lock, which the prompt wants too.
        let kernel = self.memory.lock().kernel.clone();
        if let Some((start, names)) = kernel.and_then(|kernel| kernel.complete(line, position)) {
            let names = names.into_iter().take(CANDIDATES);
            return Ok((start, names.map(pair).collect()));
        }
        let words = self.memory.lock().candidates(&before[start..]);
        Ok((start, words.into_iter().map(pair).collect()))
    }
}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(
        &self,
        line: &str,
        position: usize,
        context: &rustyline::Context<'_>,
    ) -> Option<String> {
        // One line at a time: more would push what is being written off the screen.
        let hint = self.hinter.hint(line, position, context)?;
        let first = hint.lines().next()?.to_owned();
        (hint.lines().count() == 1).then_some(first)
    }
}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.is_coloured {
            Cow::Owned(format!("\x1b[2m{hint}\x1b[0m"))
        } else {
            Cow::Borrowed(hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_empty_lines_need_no_kernel() {
        for text in ["", "  ", ":lang js", "for x in y:\n    x\n    "] {
            assert!(is_settled(text), "{text:?}");
        }
        for text in ["x", "for x in y:", "x\ny"] {
            assert!(!is_settled(text), "{text:?}");
        }
    }

    #[test]
    fn words_that_were_there_before_are_completed() {
        let mut memory = Memory {
            language: Language::named("python"),
            words: BTreeSet::new(),
            kernel: None,
            silent: None,
        };
        memory.learn("frame = pd.read_csv('data.csv') + 1.5");
        assert_eq!(memory.candidates("fra"), ["frame"]);
        assert_eq!(memory.candidates("pd.r"), ["pd.read_csv"]);
        assert_eq!(memory.candidates("impo"), ["import"]);
        assert!(memory.candidates("zzz").is_empty());
    }
}
