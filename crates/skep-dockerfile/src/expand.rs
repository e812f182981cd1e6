//! Quotes, escapes and variables in a word.

/// State of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known {
    /// It has this value.
    Value(String),
    /// It has none.
    Unset,
    /// Only the base image knows.
    Unknown,
}

/// A word that cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpandError {
    /// Offset in the word.
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// A word, expanded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Expanded {
    pub(crate) text: String,
    /// True if variables are left in the text that only the base image knows.
    pub(crate) is_open: bool,
    /// True if the text has a `$` that means itself.
    pub(crate) has_dollar: bool,
}

/// Ways to read a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) escape: char,
    /// False in here-documents, where quotes mean themselves.
    pub(crate) quotes: bool,
}

/// Expands variables in a word, and takes quotes and escapes away.
pub(crate) fn expand(
    word: &str,
    rules: Rules,
    lookup: &dyn Fn(&str) -> Known,
) -> Result<Expanded, ExpandError> {
    let mut expander = Expander {
        word,
        at: 0,
        rules,
        lookup,
    };
    let mut found = Expanded::default();
    expander.run(&mut found, None)?;
    Ok(found)
}

struct Expander<'a> {
    word: &'a str,
    at: usize,
    rules: Rules,
    lookup: &'a dyn Fn(&str) -> Known,
}

/// Deepest nesting of `${A:-${B:-…}}`.
const DEEPEST: usize = 16;

impl Expander<'_> {
    fn peek(&self) -> Option<char> {
        self.word[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        Some(character)
    }

    /// Reads up to `end`, which is not taken, or to the end of the word.
    fn run(&mut self, found: &mut Expanded, end: Option<char>) -> Result<(), ExpandError> {
        self.nested(found, end, 0)
    }

    fn nested(
        &mut self,
        found: &mut Expanded,
        end: Option<char>,
        depth: usize,
    ) -> Result<(), ExpandError> {
        if depth > DEEPEST {
            return Err(self.error(self.at, "variables are nested too deeply"));
        }
        while let Some(character) = self.peek() {
            if Some(character) == end {
                return Ok(());
            }
            let start = self.at;
            self.next();
            match character {
                '\'' if self.rules.quotes => loop {
                    match self.next() {
                        Some('\'') => break,
                        Some(inner) => push(found, inner),
                        None => return Err(self.error(start, "a single quote is not closed")),
                    }
                },
                '"' if self.rules.quotes => self.double_quoted(found, start, depth)?,
                '$' => self.variable(found, start, depth)?,
                _ if character == self.rules.escape => match self.next() {
                    Some(next) if self.rules.quotes || next == '$' || next == character => {
                        push(found, next);
                    }
                    Some(next) => {
                        push(found, character);
                        push(found, next);
                    }
                    None => push(found, character),
                },
                _ => push(found, character),
            }
        }
        Ok(())
    }

    fn double_quoted(
        &mut self,
        found: &mut Expanded,
        start: usize,
        depth: usize,
    ) -> Result<(), ExpandError> {
        loop {
            let at = self.at;
            match self.next() {
                None => return Err(self.error(start, "a double quote is not closed")),
                Some('"') => return Ok(()),
                Some('$') => self.variable(found, at, depth)?,
                Some(character) if character == self.rules.escape => match self.next() {
                    Some(next) if next == '"' || next == '$' || next == character => {
                        push(found, next);
                    }
                    Some(next) => {
                        push(found, character);
                        push(found, next);
                    }
                    None => return Err(self.error(start, "a double quote is not closed")),
                },
                Some(character) => push(found, character),
            }
        }
    }

    /// A variable whose `$` is at `start` and was taken.
    fn variable(
        &mut self,
        found: &mut Expanded,
        start: usize,
        depth: usize,
    ) -> Result<(), ExpandError> {
        if self.peek() != Some('{') {
            let name = self.name();
            if name.is_empty() {
                push(found, '$');
                return Ok(());
            }
            self.put(found, &name);
            return Ok(());
        }
        self.next();
        let name = self.name();
        if name.is_empty() {
            return Err(self.error(start, "`${` is not followed by the name of a variable"));
        }
        let colon = self.peek() == Some(':');
        if colon {
            self.next();
        }
        let operator = self.next();
        match operator {
            Some('}') if !colon => {
                self.put(found, &name);
                return Ok(());
            }
            Some('-' | '+' | '?') => {}
            Some('#' | '%' | '/') if !colon => {
                let message = format!("patterns in `${{{name}…}}` are not supported");
                return Err(self.error(start, &message));
            }
            Some(_) => {
                let message = format!("`${{{name}…}}` has an operator that does not exist");
                return Err(self.error(start, &message));
            }
            None => return Err(self.error(start, "`${` is not closed")),
        }
        let mut word = Expanded::default();
        self.nested(&mut word, Some('}'), depth + 1)?;
        if self.next() != Some('}') {
            return Err(self.error(start, "`${` is not closed"));
        }
        let value = (self.lookup)(&name);
        let is_set = match &value {
            Known::Value(text) => Some(!colon || !text.is_empty()),
            Known::Unset => Some(false),
            Known::Unknown => None,
        };
        match (operator, is_set) {
            (Some('-'), Some(true)) | (Some('?'), Some(true)) => self.put(found, &name),
            (Some('-'), Some(false)) | (Some('+'), Some(true)) => append(found, &word),
            (Some('+'), Some(false)) => {}
            (Some('-' | '+'), None) => {
                let colon = if colon { ":" } else { "" };
                let operator = operator.unwrap_or('-');
                found
                    .text
                    .push_str(&format!("${{{name}{colon}{operator}{}}}", word.text));
                found.is_open = true;
                found.has_dollar |= word.has_dollar;
            }
            _ => {
                let message = if word.text.is_empty() {
                    format!("`{name}` is not set")
                } else {
                    format!("`{name}` is not set: {}", word.text)
                };
                return Err(self.error(start, &message));
            }
        }
        Ok(())
    }

    fn name(&mut self) -> String {
        let start = self.at;
        while let Some(character) = self.peek() {
            let is_first = self.at == start;
            let is_name = character == '_'
                || character.is_ascii_alphabetic()
                || !is_first && character.is_ascii_digit();
            if !is_name {
                break;
            }
            self.next();
        }
        self.word[start..self.at].to_owned()
    }

    fn put(&self, found: &mut Expanded, name: &str) {
        match (self.lookup)(name) {
            Known::Value(text) => {
                found.has_dollar |= text.contains('$');
                found.text.push_str(&text);
            }
            Known::Unset => {}
            Known::Unknown => {
                found.text.push_str(&format!("${{{name}}}"));
                found.is_open = true;
            }
        }
    }

    #[expect(clippy::unused_self, reason = "reads as the others do")]
    fn error(&self, offset: usize, message: &str) -> ExpandError {
        ExpandError {
            offset,
            message: message.to_owned(),
        }
    }
}

fn push(found: &mut Expanded, character: char) {
    found.has_dollar |= character == '$';
    found.text.push(character);
}

fn append(found: &mut Expanded, other: &Expanded) {
    found.text.push_str(&other.text);
    found.is_open |= other.is_open;
    found.has_dollar |= other.has_dollar;
}
