//! Dockerfiles, read by BuildKit's grammar and turned into stages of instructions.
//!
//! Nothing here touches a file or runs anything. Whatever a build without a daemon cannot have is
//! refused with its line and column before anything runs, all of it at once.

mod command;
mod copy;
mod expand;
mod ignore;
mod instruction;
mod lines;
mod stage;
mod words;

use std::fmt;

pub use ignore::{Ignore, Pattern, PatternError};
pub use words::quoted;

/// A Dockerfile, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dockerfile {
    /// Its stages, in their order; the last one is the result.
    pub stages: Vec<Stage>,
    /// Instructions that are accepted but do nothing here.
    pub warnings: Vec<Note>,
}

/// A stage: what it begins with, and what is done then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Place of its `FROM`.
    pub at: Position,
    /// Name by which others refer to it, in lower case.
    pub name: Option<String>,
    /// Base that it begins with.
    pub base: Base,
    /// Steps, in this order.
    pub instructions: Vec<Placed<Instruction>>,
    /// Command that `ENTRYPOINT` and `CMD` make together, for a shell, and the place of the last of
    /// them.
    pub start_command: Option<Placed<String>>,
}

/// Base of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// An image of a registry, as it was written, with arguments expanded.
    Image(String),
    /// An earlier stage, by its index.
    Stage(usize),
    /// Nothing at all.
    Scratch,
}

/// Something with its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<T> {
    /// Position at which it begins.
    pub at: Position,
    /// The thing.
    pub value: T,
}

/// A place in the text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line of the text as it was written: one that is continued counts as several.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

/// Instruction of a stage.
///
/// In texts, variables whose value only the base image knows are left as `${NAME}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction {
    /// Runs a command, which is for a shell.
    Run(String),
    /// Copies files.
    Copy(Copy),
    /// Sets variables of the template, in this order.
    Environment(Vec<(String, String)>),
    /// Sets a variable for the commands that follow in this stage.
    Argument(String, String),
    /// Changes the directory; a relative one is meant from the present one.
    WorkDirectory(String),
    /// Changes the user, perhaps with a group.
    User(String),
}

/// Files that are copied into a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Source of the files.
    pub from: CopySource,
    /// Destination; a directory if it ends with a slash.
    pub destination: String,
    /// Owner, `user` or `user:group`.
    pub owner: Option<String>,
    /// Permissions that they get; without them they keep their own.
    pub mode: Option<u32>,
    /// True for `ADD`: of a file that is an archive the contents are copied.
    pub unpacks: bool,
}

/// Source of copied files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopySource {
    /// Patterns below the directory of the build.
    Context(Vec<String>),
    /// Paths in an earlier stage.
    Stage(usize, Vec<String>),
    /// Paths in an image of a registry.
    Image(String, Vec<String>),
    /// Files whose names and content are in the Dockerfile itself.
    Inline(Vec<(String, String)>),
}

/// A sentence about a place in the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The place.
    pub at: Position,
    /// The sentence.
    pub message: String,
}

/// Everything that is wrong with a Dockerfile, from top to bottom. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Note::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Errors(pub Vec<Note>);

impl Dockerfile {
    /// Reads a Dockerfile, with values for its arguments.
    ///
    /// # Errors
    ///
    /// [`Errors`], with every place that is wrong or that a build cannot have here.
    pub fn read(text: &str, arguments: &[(&str, &str)]) -> Result<Self, Errors> {
        let mut reader = stage::Reader::new(arguments);
        match lines::read(text) {
            Ok(lines) => lines.iter().for_each(|line| reader.line(line)),
            Err(note) => return Err(Errors(vec![note])),
        }
        reader.finish()
    }

    /// The same file up to a stage, which is the result then; `None` if there is no such stage.
    pub fn up_to(mut self, name: &str) -> Option<Self> {
        let lower = name.to_lowercase();
        let is_it = |stage: &Stage| stage.name.as_deref() == Some(&lower);
        let named = self.stages.iter().position(is_it);
        let numbered = || name.parse().ok().filter(|index| *index < self.stages.len());
        let index: usize = named.or_else(numbered)?;
        self.stages.truncate(index + 1);
        Some(self)
    }

    /// Indexes of the stages that the last one needs, itself included, in their order.
    pub fn needed(&self) -> Vec<usize> {
        let mut needed = vec![false; self.stages.len()];
        if let Some(last) = needed.last_mut() {
            *last = true;
        }
        // A stage refers to earlier ones only.
        for index in (0..self.stages.len()).rev() {
            if !needed[index] {
                continue;
            }
            let stage = &self.stages[index];
            if let Base::Stage(base) = stage.base {
                needed[base] = true;
            }
            for instruction in &stage.instructions {
                if let Instruction::Copy(Copy {
                    from: CopySource::Stage(from, _),
                    ..
                }) = instruction.value
                {
                    needed[from] = true;
                }
            }
        }
        (0..self.stages.len())
            .filter(|index| needed[*index])
            .collect()
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.at, self.message)
    }
}

#[cfg(test)]
mod tests;
