//! Words of an instruction.

/// A word as it was written, quotes and all, and its offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) offset: usize,
}

/// The beginning of a here-document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heredoc {
    /// Text of the line that ends it.
    pub(crate) name: String,
    /// True if variables in it are expanded.
    pub(crate) expands: bool,
    /// True if tabs at the beginning of its lines are left out.
    pub(crate) strips_tabs: bool,
    /// Offset of its `<<`.
    pub(crate) offset: usize,
}

/// Splits a text at blanks that are neither quoted nor escaped. Quotes and escapes stay.
pub(crate) fn split(text: &str, escape: char) -> Vec<Word> {
    let mut words = Vec::new();
    let mut start = None;
    let mut quote = None;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        if quote.is_none() && character.is_whitespace() {
            if let Some(start) = start.take() {
                words.push(word(text, start, at));
            }
            continue;
        }
        start.get_or_insert(at);
        match character {
            // In single quotes nothing has another meaning.
            '\'' | '"' if quote.is_none() => quote = Some(character),
            _ if quote == Some(character) => quote = None,
            _ if character == escape && quote != Some('\'') => {
                characters.next();
            }
            _ => {}
        }
    }
    if let Some(start) = start {
        words.push(word(text, start, text.len()));
    }
    words
}

fn word(text: &str, start: usize, end: usize) -> Word {
    Word {
        text: text[start..end].to_owned(),
        offset: start,
    }
}

/// The strings of a JSON list; `None` if the text is something else.
pub(crate) fn json_list(text: &str) -> Option<Vec<String>> {
    let is_list = text.trim_start().starts_with('[');
    is_list.then(|| serde_json::from_str(text).ok()).flatten()
}

/// Flags `--name` and `--name=value` at the beginning, and the offset of the rest.
pub(crate) fn flags(text: &str) -> (Vec<Word>, usize) {
    let mut flags = Vec::new();
    let mut offset = 0;
    loop {
        let rest = &text[offset..];
        let start = offset + (rest.len() - rest.trim_start().len());
        let rest = &text[start..];
        if !rest.starts_with("--") {
            return (flags, start);
        }
        let end = rest
            .find(char::is_whitespace)
            .map_or(text.len(), |end| start + end);
        // Two dashes alone end the flags.
        if &text[start..end] == "--" {
            let rest = &text[end..];
            return (flags, end + (rest.len() - rest.trim_start().len()));
        }
        flags.push(word(text, start, end));
        offset = end;
    }
}

/// Here-documents that begin in a text: `<<NAME`, `<<-NAME`, `<<"NAME"`, not in quotes.
pub(crate) fn heredocs(text: &str) -> Vec<Heredoc> {
    let mut found = Vec::new();
    let mut quote = None;
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let next = at + character.len_utf8();
        match character {
            '\'' | '"' if quote.is_none() => quote = Some(character),
            _ if quote == Some(character) => quote = None,
            '\\' if quote != Some('\'') => {
                at = next + text[next..].chars().next().map_or(0, char::len_utf8);
                continue;
            }
            '<' if quote.is_none() && text[at..].starts_with("<<<") => {
                at += 3;
                continue;
            }
            '<' if quote.is_none() && text[at..].starts_with("<<") => {
                if let Some((heredoc, end)) = heredoc(text, at) {
                    found.push(heredoc);
                    at = end;
                    continue;
                }
                at += 2;
                continue;
            }
            _ => {}
        }
        at = next;
    }
    found
}

/// The here-document that begins at `offset`, and where its word ends.
fn heredoc(text: &str, offset: usize) -> Option<(Heredoc, usize)> {
    let mut at = offset + 2;
    let strips_tabs = text[at..].starts_with('-');
    at += usize::from(strips_tabs);
    let quote = text[at..]
        .chars()
        .next()
        .filter(|first| ['"', '\''].contains(first));
    let (name, end) = match quote {
        Some(quote) => {
            let rest = &text[at + 1..];
            let end = rest.find(quote)?;
            (&rest[..end], at + 1 + end + 1)
        }
        None => {
            let rest = &text[at..];
            let is_name = |character: char| character.is_alphanumeric() || character == '_';
            let end = rest
                .find(|character| !is_name(character))
                .unwrap_or(rest.len());
            (&rest[..end], at + end)
        }
    };
    // A shift, `1<<2`, begins no document.
    let is_valid = name.starts_with(|first: char| first.is_alphabetic() || first == '_');
    let heredoc = Heredoc {
        name: name.to_owned(),
        expands: quote.is_none(),
        strips_tabs,
        offset,
    };
    is_valid.then_some((heredoc, end))
}

/// A word for a shell that means this text.
pub fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=,+@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A command for a shell that has these words.
pub(crate) fn quoted_command(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}
