//! Logical lines: directives, continuations, comments and here-documents are gone.

use crate::words::{Heredoc, heredocs};
use crate::{Note, Position};

const DEFAULT_ESCAPE: char = '\\';

/// An instruction with its text, as one line.
#[derive(Debug)]
pub(crate) struct Line {
    /// Name of the instruction, in upper case.
    pub(crate) keyword: String,
    /// Arguments, without blanks around.
    pub(crate) text: String,
    /// Position of the instruction.
    pub(crate) at: Position,
    /// Here-documents that belong to it, in their order.
    pub(crate) documents: Vec<Document>,
    /// Character that takes the meaning of the next one away.
    pub(crate) escape: char,
    /// Places of parts of the text, by their offsets.
    places: Vec<(usize, Position)>,
}

/// A here-document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) heredoc: Heredoc,
    pub(crate) content: String,
}

impl Line {
    /// The place of a byte of the text.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let part = self.places.iter().rev().find(|(start, _)| *start <= offset);
        let Some((start, position)) = part else {
            return self.at;
        };
        let end = offset.min(self.text.len());
        let columns = self
            .text
            .get(*start..end)
            .map_or(0, |text| text.chars().count());
        Position {
            line: position.line,
            column: position.column + columns,
        }
    }
}

/// The lines of a Dockerfile.
pub(crate) fn read(text: &str) -> Result<Vec<Line>, Note> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let physical: Vec<&str> = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .collect();
    let escape = escape_of(&physical)?;
    let mut found = Vec::new();
    let mut index = 0;
    while index < physical.len() {
        let trimmed = physical[index].trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            index += 1;
            continue;
        }
        let mut line = joined(&physical, &mut index, escape);
        if ["RUN", "COPY", "ADD"].contains(&line.keyword.as_str()) {
            for heredoc in heredocs(&line.text) {
                let at = line.position(heredoc.offset);
                let content = document(&physical, &mut index, &heredoc).ok_or_else(|| Note {
                    at,
                    message: format!("the here-document `{}` does not end", heredoc.name),
                })?;
                line.documents.push(Document { heredoc, content });
            }
        }
        found.push(line);
    }
    Ok(found)
}

/// The character that a directive at the top names.
fn escape_of(physical: &[&str]) -> Result<char, Note> {
    for (index, line) in physical.iter().enumerate() {
        let directive = line
            .trim()
            .strip_prefix('#')
            .and_then(|comment| comment.split_once('='));
        // After the first line that is none, a directive is a comment.
        let Some((name, value)) = directive else {
            break;
        };
        let name = name.trim();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            break;
        }
        if name.eq_ignore_ascii_case("escape") {
            return match value.trim() {
                "\\" => Ok('\\'),
                "`" => Ok('`'),
                other => Err(Note {
                    at: Position {
                        line: index + 1,
                        column: 1,
                    },
                    message: format!("the escape character must be ` or \\, not `{other}`"),
                }),
            };
        }
    }
    Ok(DEFAULT_ESCAPE)
}

/// Joins a line with those that continue it, and moves `index` behind them.
fn joined(physical: &[&str], index: &mut usize, escape: char) -> Line {
    let mut whole = String::new();
    let mut places = Vec::new();
    let first = *index;
    let mut goes_on = true;
    while goes_on && *index < physical.len() {
        let line = physical[*index];
        let number = *index + 1;
        *index += 1;
        let is_first = number == first + 1;
        let trimmed = line.trim_start();
        if !is_first && (trimmed.is_empty() || trimmed.starts_with('#')) {
            continue;
        }
        let shown = if is_first { trimmed } else { line };
        let column = line.chars().count() - shown.chars().count() + 1;
        let end = shown.trim_end_matches([' ', '\t']);
        let part = end.strip_suffix(escape);
        goes_on = part.is_some();
        places.push((
            whole.len(),
            Position {
                line: number,
                column,
            },
        ));
        whole.push_str(part.unwrap_or(shown));
    }
    let keyword_end = whole.find(char::is_whitespace).unwrap_or(whole.len());
    let rest = &whole[keyword_end..];
    let start = keyword_end + (rest.len() - rest.trim_start().len());
    let text = rest.trim().to_owned();
    let shifted = places
        .iter()
        .map(|(offset, position)| match offset.checked_sub(start) {
            Some(offset) => (offset, *position),
            None => {
                let passed = whole[*offset..start].chars().count();
                let column = position.column + passed;
                (
                    0,
                    Position {
                        column,
                        ..*position
                    },
                )
            }
        });
    Line {
        keyword: whole[..keyword_end].to_uppercase(),
        text,
        at: places
            .first()
            .map_or(Position { line: 1, column: 1 }, |(_, at)| *at),
        documents: Vec::new(),
        escape,
        places: shifted.collect(),
    }
}

/// The content of a here-document that begins at `index`; `None` if it does not end.
fn document(physical: &[&str], index: &mut usize, heredoc: &Heredoc) -> Option<String> {
    let mut content = String::new();
    while *index < physical.len() {
        let line = physical[*index];
        *index += 1;
        let line = if heredoc.strips_tabs {
            line.trim_start_matches('\t')
        } else {
            line
        };
        if line == heredoc.name {
            return Some(content);
        }
        content.push_str(line);
        content.push('\n');
    }
    None
}
