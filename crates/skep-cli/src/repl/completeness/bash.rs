//! Bash: words that open and close, and quotes.

use super::{Completeness, indent_of, last_line};

/// Words after which a command stands.
const BEFORE_COMMANDS: &[&str] = &[
    "if", "then", "else", "elif", "do", "while", "until", "{", "(", "!",
];
const OPENING: &[&str] = &["if", "do", "case", "{", "("];
const CLOSING: &[&str] = &["fi", "done", "esac", "}", ")"];
const LOOPS: &[&str] = &["for", "while", "until", "select"];

pub(super) fn bash(text: &str) -> Completeness {
    let Some(words) = Words::of(text) else {
        return Completeness::Incomplete { indent: 0 };
    };
    let last = last_line(text);
    let end = last.trim_end();
    if last.ends_with('\\') || end.ends_with("&&") || end.ends_with('|') {
        return Completeness::Incomplete {
            indent: indent_of(last),
        };
    }
    if let Some(delimiter) = text_in_place(text)
        && !text.lines().any(|line| line.trim() == delimiter)
    {
        return Completeness::Incomplete { indent: 0 };
    }
    let waits_for_do = words.count(LOOPS) > words.count(&["do"]);
    match words.count(OPENING).saturating_sub(words.count(CLOSING)) {
        0 if waits_for_do => Completeness::Incomplete { indent: 2 },
        0 => Completeness::Complete,
        depth => Completeness::Incomplete { indent: 2 * depth },
    }
}

/// The words that stand where commands stand, and brackets.
struct Words {
    found: Vec<String>,
    current: String,
    /// True if the current word is where a command stands.
    is_command: bool,
}

impl Words {
    /// `None` if a quote is open.
    fn of(text: &str) -> Option<Self> {
        let mut words = Self {
            found: Vec::new(),
            current: String::new(),
            is_command: true,
        };
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' => drop(characters.next()),
                '\'' => {
                    characters.by_ref().find(|c| *c == '\'')?;
                    words.current.push(character);
                }
                '"' => {
                    loop {
                        match characters.next()? {
                            '"' => break,
                            '\\' => drop(characters.next()),
                            _ => {}
                        }
                    }
                    words.current.push(character);
                }
                '#' if words.current.is_empty() => {
                    while characters.next_if(|c| *c != '\n').is_some() {}
                }
                ';' | '\n' | '&' | '|' => words.end(true),
                '(' | ')' => {
                    words.end(true);
                    words.found.push(character.to_string());
                }
                c if c.is_whitespace() => words.end(false),
                c => words.current.push(c),
            }
        }
        words.end(true);
        Some(words)
    }

    /// The current word ends here, and what follows may be a command.
    fn end(&mut self, starts_command: bool) {
        let word = std::mem::take(&mut self.current);
        if word.is_empty() {
            self.is_command |= starts_command;
            return;
        }
        let leads = self.is_command && BEFORE_COMMANDS.contains(&word.as_str());
        // `for x in a b; do`: the `do` stands where a command stands.
        if self.is_command {
            self.found.push(word);
        }
        self.is_command = starts_command || leads;
    }

    fn count(&self, list: &[&str]) -> usize {
        let all = self.found.iter();
        all.filter(|word| list.contains(&word.as_str())).count()
    }
}

/// The word that ends the first text given in place.
fn text_in_place(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("<<")?;
    let after = after.trim_start_matches('-').trim_start_matches(' ');
    if after.starts_with('<') {
        return None;
    }
    let word = after.split([' ', '\n', ';', ')']).next()?;
    Some(word.trim_matches(['\'', '"'])).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<usize>) {
        let found = match bash(text) {
            Completeness::Complete => None,
            Completeness::Incomplete { indent } => Some(indent),
        };
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn bash_ends_with_its_words_and_quotes() {
        for (text, expected) in [
            ("echo hi", None),
            ("echo 'a", Some(0)),
            ("echo \"a\nb\"", None),
            ("if true; then", Some(2)),
            ("if true; then\necho a\nfi", None),
            ("for i in 1 2", Some(2)),
            ("for i in 1 2; do", Some(2)),
            ("for i in 1 2; do echo $i; done", None),
            ("echo if only", None),
            ("echo done", None),
            ("f() {", Some(2)),
            ("f() {\n echo a\n}", None),
            ("cat <<END", Some(0)),
            ("cat <<'END'\na\nEND", None),
            ("cat <<< word", None),
            ("ls |", Some(0)),
            ("make &&", Some(0)),
            ("echo a \\", Some(0)),
            ("echo it\\'s", None),
            ("# if", None),
        ] {
            check(text, expected);
        }
    }
}
