//! Text of sandboxes, made harmless for whoever shows it.
//!
//! Clients print results in terminals, and models read them. Code in a sandbox decides what it
//! prints: sequences that move a cursor, set a title or fill a clipboard, and characters that are
//! not seen or that turn the order of others around.

use serde_json::Value;

/// Renders the output of a program as a terminal would show it, without its colours: the last version
/// of a line that was written over, and no sequences of control.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '\u{1b}' => match rest.next() {
                Some('[') => skip_parameters(&mut rest),
                Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&mut rest),
                // A designation of a character set has one more.
                Some('(' | ')' | '*' | '+' | '#' | ' ') => drop(rest.next()),
                Some(_) | None => {}
            },
            '\u{9b}' => skip_parameters(&mut rest),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut rest),
            // Windows' end of a line, or the begin of another version of this one.
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' if rest.peek().is_some() => {
                let line = shown.rfind('\n').map_or(0, |end| end + 1);
                shown.truncate(line);
            }
            '\r' => {}
            letter => shown.push(visible(letter)),
        }
    }
    shown
}

/// The same text, with a visible sign for everything that is not shown as itself.
pub(crate) fn pictured(text: &str) -> String {
    text.chars().map(visible).collect()
}

/// A value whose texts and names are all [`pictured`].
pub(crate) fn pictured_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(pictured(&text)),
        Value::Array(items) => items.into_iter().map(pictured_value).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (pictured(&name), pictured_value(value)))
            .collect(),
        value @ (Value::Null | Value::Bool(_) | Value::Number(_)) => value,
    }
}

fn visible(letter: char) -> char {
    match letter {
        '\n' | '\t' => letter,
        // Unicode has a picture of each of the old control characters, in their order.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(letter)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        // What turns the order of letters around.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // Other ends of a line, and letters that nobody sees but a model.
        | '\u{2028}' | '\u{2029}' | '\u{e0000}'..='\u{e007f}' => '\u{fffd}',
        letter => letter,
    }
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips what follows the begin of a sequence with parameters, to the letter that ends it.
fn skip_parameters(rest: &mut Letters<'_>) {
    while let Some(letter) = rest.next_if(|letter| (' '..='~').contains(letter)) {
        if ('@'..='~').contains(&letter) {
            return;
        }
    }
}

/// Skips a string of control to its end, or to the end of the line: nothing more may be hidden
/// by a string that does not end.
fn skip_string(rest: &mut Letters<'_>) {
    while let Some(letter) = rest.next_if(|letter| *letter != '\n') {
        match letter {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn output_is_shown_as_a_terminal_would_without_colours() {
        for (text, expected) in [
            ("a\n\tb", "a\n\tb"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}x", "x"),
            (
                "\u{1b}]8;;http://evil.example\u{1b}\\link\u{1b}]8;;\u{1b}\\",
                "link",
            ),
            ("\u{1b}]52;c;Y3VybA==\u{9c}x", "x"),
            ("\u{9b}2Jx\u{90}q\u{9c}y", "xy"),
            ("10%\r50%\r100%\nend", "100%\nend"),
            ("a\r\nb\r", "a\nb"),
            ("ring\u{7}", "ring\u{2407}"),
            // A string without an end hides its line and no more.
            ("\u{1b}]0;never\nseen", "\nseen"),
            ("\u{1b}[\nx", "\nx"),
            ("\u{1b}", ""),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_seen_is_shown() {
        assert_eq!(pictured("a\u{1b}[2Jb"), "a\u{241b}[2Jb");
        assert_eq!(pictured("\u{202e}txt.exe"), "\u{fffd}txt.exe");
        assert_eq!(pictured("\u{e0041}"), "\u{fffd}");
        assert_eq!(pictured("é\u{1f600}"), "é\u{1f600}");
        let value = serde_json::json!({"a\u{1b}": ["\u{9b}", 1, null]});
        let expected = serde_json::json!({"a\u{241b}": ["\u{fffd}", 1, null]});
        assert_eq!(pictured_value(value), expected);
    }

    proptest! {
        #[test]
        fn nothing_that_controls_a_terminal_is_left(text in any::<String>()) {
            for shown in [plain(&text), pictured(&text)] {
                prop_assert!(shown.chars().all(|letter| !letter.is_control() || letter == '\n' || letter == '\t'));
            }
        }
    }
}
