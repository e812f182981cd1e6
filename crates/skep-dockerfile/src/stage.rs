//! The reader of lines, which knows the stage that it is in.

use std::collections::BTreeMap;

use crate::command::Form;
use crate::expand::{Expanded, Known, Rules, expand};
use crate::lines::Line;
use crate::words::{Word, flags, split};
use crate::{Base, Dockerfile, Errors, Instruction, Note, Placed, Position, Stage};

/// Arguments that are there without being declared, for `FROM` and for whoever asks.
const PLATFORM: [&str; 8] = [
    "BUILDARCH",
    "BUILDOS",
    "BUILDPLATFORM",
    "BUILDVARIANT",
    "TARGETARCH",
    "TARGETOS",
    "TARGETPLATFORM",
    "TARGETVARIANT",
];

/// Reads lines one by one.
pub(crate) struct Reader {
    /// Values that the caller gives, and whether anybody has declared them.
    given: BTreeMap<String, (String, bool)>,
    /// Arguments before the first stage.
    globals: BTreeMap<String, Option<String>>,
    pub(crate) stages: Vec<Draft>,
    errors: Vec<Note>,
    warnings: Vec<Note>,
}

/// A stage that is being read.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// Place of its `FROM`.
    at: Position,
    pub(crate) name: Option<String>,
    base: Base,
    pub(crate) instructions: Vec<Placed<Instruction>>,
    /// Variables; `None` for values that only the base image knows.
    pub(crate) environment: BTreeMap<String, Option<String>>,
    pub(crate) arguments: BTreeMap<String, Option<String>>,
    /// True if the base may have variables that nobody here knows.
    is_open: bool,
    pub(crate) shell: Option<Vec<String>>,
    pub(crate) entrypoint: Option<Form>,
    pub(crate) command: Option<Form>,
    /// True if the command is of this stage and not of its base.
    pub(crate) has_own_command: bool,
    /// Place of the last `ENTRYPOINT` or `CMD`.
    pub(crate) command_at: Position,
}

impl Draft {
    fn new(base: Base, at: Position) -> Self {
        Self {
            at,
            name: None,
            is_open: matches!(base, Base::Image(_)),
            base,
            instructions: Vec::new(),
            environment: BTreeMap::new(),
            arguments: BTreeMap::new(),
            shell: None,
            entrypoint: None,
            command: None,
            has_own_command: false,
            command_at: at,
        }
    }

    fn lookup(&self, name: &str) -> Known {
        match self
            .environment
            .get(name)
            .or_else(|| self.arguments.get(name))
        {
            Some(Some(value)) => Known::Value(value.clone()),
            // A declared argument without a value is none.
            Some(None) if !self.environment.contains_key(name) => Known::Unset,
            Some(None) => Known::Unknown,
            None if self.is_open => Known::Unknown,
            None => Known::Unset,
        }
    }
}

impl Reader {
    pub(crate) fn new(arguments: &[(&str, &str)]) -> Self {
        let given = arguments
            .iter()
            .map(|(name, value)| ((*name).to_owned(), ((*value).to_owned(), false)));
        Self {
            given: given.collect(),
            globals: BTreeMap::new(),
            stages: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(crate) fn error(&mut self, at: Position, message: impl Into<String>) {
        let message = message.into();
        self.errors.push(Note { at, message });
    }

    pub(crate) fn warn(&mut self, at: Position, message: impl Into<String>) {
        let message = message.into();
        self.warnings.push(Note { at, message });
    }

    /// Adds an instruction to the present stage.
    pub(crate) fn add(&mut self, at: Position, value: Instruction) {
        if let Some(stage) = self.stages.last_mut() {
            stage.instructions.push(Placed { at, value });
        }
    }

    /// Reads a line.
    pub(crate) fn line(&mut self, line: &Line) {
        match line.keyword.as_str() {
            "FROM" => self.from(line),
            "ARG" => self.argument(line),
            _ if self.stages.is_empty() => {
                self.error(line.at, "only ARG may come before the first FROM");
            }
            _ => self.instruction(line),
        }
    }

    pub(crate) fn finish(mut self) -> Result<Dockerfile, Errors> {
        if self.stages.is_empty() && self.errors.is_empty() {
            let at = Position { line: 1, column: 1 };
            self.error(at, "there is no FROM");
        }
        if !self.errors.is_empty() {
            self.errors.sort();
            return Err(Errors(self.errors));
        }
        let strangers: Vec<String> = self
            .given
            .iter()
            .filter(|(name, (_, is_declared))| !is_declared && !PLATFORM.contains(&name.as_str()))
            .map(|(name, _)| format!("nothing declares the argument `{name}`"))
            .collect();
        for message in strangers {
            self.warn(Position { line: 1, column: 1 }, message);
        }
        self.warnings.sort();
        let stages = self.stages.into_iter().map(|draft| Stage {
            start_command: draft.start_command(),
            at: draft.at,
            name: draft.name,
            base: draft.base,
            instructions: draft.instructions,
        });
        Ok(Dockerfile {
            stages: stages.collect(),
            warnings: self.warnings,
        })
    }

    /// Expands a word at `offset` of a line; reports what is wrong with it.
    pub(crate) fn expand(&mut self, line: &Line, word: &Word) -> Option<Expanded> {
        let rules = Rules {
            escape: line.escape,
            quotes: true,
        };
        let found = match self.stages.last() {
            Some(stage) => expand(&word.text, rules, &|name| stage.lookup(name)),
            None => expand(&word.text, rules, &|name| self.global(name)),
        };
        found
            .map_err(|error| {
                self.error(line.position(word.offset + error.offset), error.message);
            })
            .ok()
    }

    /// The same for a text in which quotes mean themselves.
    pub(crate) fn expand_document(&mut self, at: Position, text: &str) -> Option<Expanded> {
        let rules = Rules {
            escape: '\\',
            quotes: false,
        };
        let stage = self.stages.last()?;
        expand(text, rules, &|name| stage.lookup(name))
            .map_err(|error| self.error(at, error.message))
            .ok()
    }

    /// The same for a word of which the value must be known here.
    pub(crate) fn expand_known(&mut self, line: &Line, word: &Word) -> Option<String> {
        let found = self.expand(line, word)?;
        if found.is_open {
            let text = format!(
                "`{}` has a variable that only the base image knows, which is not supported here",
                word.text
            );
            self.error(line.position(word.offset), text);
            return None;
        }
        Some(found.text)
    }

    fn global(&self, name: &str) -> Known {
        let declared = self.globals.get(name).cloned().flatten();
        let platform = || {
            let (value, _) = self.given.get(name)?;
            PLATFORM.contains(&name).then(|| value.clone())
        };
        match declared.or_else(platform) {
            Some(value) => Known::Value(value),
            None => Known::Unset,
        }
    }

    /// The index of the stage that a name or a number means.
    pub(crate) fn stage_called(&self, name: &str, before: usize) -> Option<usize> {
        let lower = name.to_lowercase();
        let named = self.stages[..before]
            .iter()
            .rposition(|stage| stage.name.as_deref() == Some(&lower));
        let numbered = || name.parse().ok().filter(|index| *index < before);
        named.or_else(numbered)
    }

    fn from(&mut self, line: &Line) {
        let (flags, rest) = flags(&line.text);
        for flag in flags {
            let at = line.position(flag.offset);
            if flag.text.starts_with("--platform=") {
                self.warn(
                    at,
                    "`--platform` is ignored: images are those for this host",
                );
            } else {
                self.error(at, format!("FROM has no flag `{}`", flag.text));
            }
        }
        let mut words = split(&line.text[rest..], line.escape);
        for word in &mut words {
            word.offset += rest;
        }
        let (image, name) = match words.as_slice() {
            [image] => (image, None),
            [image, keyword, name] if keyword.text.eq_ignore_ascii_case("as") => {
                (image, Some(name))
            }
            _ => {
                self.error(line.at, "FROM takes an image, and perhaps `AS` and a name");
                return;
            }
        };
        let at = line.position(image.offset);
        let rules = Rules {
            escape: line.escape,
            quotes: true,
        };
        let text = match expand(&image.text, rules, &|name| self.global(name)) {
            Ok(found) => found.text,
            Err(error) => {
                self.error(line.position(image.offset + error.offset), error.message);
                return;
            }
        };
        if text.is_empty() || text.ends_with([':', '/', '@']) || text.starts_with([':', '/', '@']) {
            let text = format!(
                "`{}` names no image: an argument in it has no value",
                image.text
            );
            self.error(at, text);
            return;
        }
        let before = self.stages.len();
        // Numbers are for COPY; here they would be names of images.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let earlier = self.stage_called(&text, before).filter(|_| !is_number);
        let mut draft = match earlier {
            Some(index) => {
                let earlier = self.stages[index].clone();
                Draft {
                    at: line.at,
                    base: Base::Stage(index),
                    instructions: Vec::new(),
                    arguments: BTreeMap::new(),
                    has_own_command: false,
                    ..earlier
                }
            }
            None if text == "scratch" => Draft::new(Base::Scratch, line.at),
            None => Draft::new(Base::Image(text), line.at),
        };
        draft.name = name.map(|name| name.text.to_lowercase());
        if let (Some(word), Some(name)) = (name, draft.name.as_deref()) {
            self.check_name(line.position(word.offset), name);
        }
        self.stages.push(draft);
    }

    fn check_name(&mut self, at: Position, name: &str) {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_valid = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.bytes().all(is_inner)
            && name != "scratch"
            && name != "context";
        if !is_valid {
            self.error(at, format!("`{name}` cannot be the name of a stage"));
        } else if self
            .stages
            .iter()
            .any(|stage| stage.name.as_deref() == Some(name))
        {
            self.error(at, format!("there is a stage `{name}` already"));
        }
    }

    fn argument(&mut self, line: &Line) {
        let words = split(&line.text, line.escape);
        if words.is_empty() {
            self.error(line.at, "ARG takes the name of an argument");
        }
        for word in words {
            let at = line.position(word.offset);
            let (name, default) = match word.text.split_once('=') {
                Some((name, value)) => {
                    let offset = word.offset + name.len() + 1;
                    let text = value.to_owned();
                    (name.to_owned(), Some(Word { text, offset }))
                }
                None => (word.text.clone(), None),
            };
            if !is_variable(&name) {
                self.error(at, format!("`{name}` cannot be the name of an argument"));
                continue;
            }
            let default = match default {
                Some(word) => match self.expand(line, &word) {
                    Some(found) => Some(found),
                    None => continue,
                },
                None => None,
            };
            let given = self.given.get_mut(&name).map(|(value, is_declared)| {
                *is_declared = true;
                value.clone()
            });
            let global = || self.globals.get(&name).cloned().flatten();
            let is_open = given.is_none() && default.as_ref().is_some_and(|found| found.is_open);
            let value = given
                .or_else(|| default.map(|found| found.text))
                .or_else(global);
            match self.stages.last_mut() {
                None => {
                    self.globals.insert(name, value);
                }
                Some(stage) => {
                    let known = value.clone().filter(|_| !is_open);
                    stage.arguments.insert(name.clone(), known);
                    // What ENV has set stays.
                    if let Some(value) = value
                        && !stage.environment.contains_key(&name)
                    {
                        self.add(at, Instruction::Argument(name, value));
                    }
                }
            }
        }
    }
}

/// Returns true for names that a shell knows variables by.
pub(crate) fn is_variable(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty()
        && name.bytes().all(is_inner)
        && !name.starts_with(|first: char| first.is_ascii_digit())
}
