//! Check of code for completeness, as far as that can be told without running it.
//!
//! A prompt that sends too early shows an error; one that never sends is worse. So what is not
//! understood counts as complete, and an empty line sends anything but an open bracket or string.

mod bash;

use crate::code::Language;
use bash::bash;

/// Result of the check of code for completeness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completeness {
    /// Nothing is missing.
    Complete,
    /// Something; the next line begins with so many spaces.
    Incomplete { indent: usize },
}

/// Looks at everything that was entered until now.
pub(super) fn completeness(text: &str, language: &Language) -> Completeness {
    if text.trim().is_empty() || text.trim_start().starts_with(':') {
        return Completeness::Complete;
    }
    match language.name() {
        "python" => python(text),
        "bash" => bash(text),
        "javascript" | "typescript" | "java" => brackets_only(text, &SLASHES),
        "r" => brackets_only(text, &HASHES),
        _ => Completeness::Complete,
    }
}

/// Syntax of a language's comments and strings, in which brackets do not count.
struct Lexis {
    line_comment: &'static str,
    block_comment: Option<(&'static str, &'static str)>,
    /// Quotes that may go over several lines.
    long_quotes: &'static [&'static str],
    short_quotes: &'static [&'static str],
}

const PYTHON: Lexis = Lexis {
    line_comment: "#",
    block_comment: None,
    long_quotes: &["\"\"\"", "'''"],
    short_quotes: &["\"", "'"],
};
const SLASHES: Lexis = Lexis {
    line_comment: "//",
    block_comment: Some(("/*", "*/")),
    long_quotes: &["`"],
    short_quotes: &["\"", "'"],
};
const HASHES: Lexis = Lexis {
    line_comment: "#",
    block_comment: None,
    long_quotes: &["\"", "'", "`"],
    short_quotes: &[],
};

/// Constructs that a text leaves open at its end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Open {
    brackets: usize,
    is_in_text: bool,
}

fn open(text: &str, lexis: &Lexis) -> Open {
    let mut open = Open::default();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with(lexis.line_comment) {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        }
        if let Some((start, end)) = lexis.block_comment
            && let Some(inside) = rest.strip_prefix(start)
        {
            match inside.find(end) {
                Some(at) => rest = &inside[at + end.len()..],
                None => {
                    return Open {
                        is_in_text: true,
                        ..open
                    };
                }
            }
            continue;
        }
        let short_quotes = lexis.short_quotes.iter().map(|quote| (quote, false));
        let mut quotes = lexis
            .long_quotes
            .iter()
            .map(|quote| (quote, true))
            .chain(short_quotes);
        if let Some((quote, is_long)) = quotes.find(|(quote, _)| rest.starts_with(**quote)) {
            match after_quote(&rest[quote.len()..], quote, is_long) {
                Some(after) => rest = after,
                None => {
                    return Open {
                        is_in_text: is_long,
                        ..open
                    };
                }
            }
            continue;
        }
        match first {
            '(' | '[' | '{' => open.brackets += 1,
            ')' | ']' | '}' => open.brackets = open.brackets.saturating_sub(1),
            _ => {}
        }
        rest = &rest[first.len_utf8()..];
    }
    open
}

/// Remainder after a string; `None` if it does not end. A string that may not span lines ends with
/// its line.
fn after_quote<'a>(inside: &'a str, quote: &str, is_long: bool) -> Option<&'a str> {
    let mut characters = inside.char_indices();
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if inside[at..].starts_with(quote) {
            return Some(&inside[at + quote.len()..]);
        } else if character == '\n' && !is_long {
            return Some(&inside[at..]);
        }
    }
    None
}

fn brackets_only(text: &str, lexis: &Lexis) -> Completeness {
    let open = open(text, lexis);
    if open.is_in_text {
        return Completeness::Incomplete { indent: 0 };
    }
    match open.brackets {
        0 => Completeness::Complete,
        depth => Completeness::Incomplete { indent: 2 * depth },
    }
}

fn last_line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or_default()
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn python(text: &str) -> Completeness {
    let open = open(text, &PYTHON);
    let last = last_line(text);
    if open.is_in_text {
        return Completeness::Incomplete { indent: 0 };
    }
    if open.brackets > 0 {
        let deeper = usize::from(last.trim_end().ends_with(['(', '[', '{'])) * 4;
        return Completeness::Incomplete {
            indent: (indent_of(last) + deeper).max(4),
        };
    }
    if last.ends_with('\\') {
        return Completeness::Incomplete {
            indent: indent_of(last),
        };
    }
    let is_multi_line = text.trim_end_matches(' ').contains('\n');
    if last.trim().is_empty() && is_multi_line {
        return Completeness::Complete;
    }
    let code = without_comment(last).trim_end();
    if code.ends_with(':') || code.trim_start().starts_with('@') || text.starts_with("%%") {
        let deeper = usize::from(code.ends_with(':')) * 4;
        return Completeness::Incomplete {
            indent: indent_of(last) + deeper,
        };
    }
    // Within a block more may come; an empty line ends it.
    let is_in_block = is_multi_line && indent_of(last) > 0;
    if is_in_block {
        let ends = ["return", "pass", "break", "continue", "raise"];
        let leaves = ends
            .iter()
            .any(|word| code.trim_start().split([' ', '(']).next() == Some(word));
        let back = usize::from(leaves) * 4;
        return Completeness::Incomplete {
            indent: indent_of(last).saturating_sub(back),
        };
    }
    Completeness::Complete
}

fn without_comment(line: &str) -> &str {
    // A `#` in a string hides nothing here: strings are closed, and nothing after one ends a block.
    line.split_once(" #").map_or(line, |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(language: &str, text: &str, expected: Option<usize>) {
        let found = match completeness(text, &Language::named(language)) {
            Completeness::Complete => None,
            Completeness::Incomplete { indent } => Some(indent),
        };
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn python_ends_with_its_brackets_strings_and_blocks() {
        for (text, expected) in [
            ("1 + 1", None),
            ("print('a: (')", None),
            ("print(1,", Some(4)),
            ("f(", Some(4)),
            ("x = '''a\nb", Some(0)),
            ("x = '''a\nb'''", None),
            ("x = 'unfinished", None),
            ("for i in range(3):", Some(4)),
            ("for i in range(3):  # thrice", Some(4)),
            ("for i in range(3):\n    print(i)", Some(4)),
            ("def f():\n    return 1", Some(0)),
            ("for i in range(3):\n    print(i)\n", None),
            ("if x:\n    if y:", Some(8)),
            ("@cached", Some(0)),
            ("x = 1 + \\", Some(0)),
            ("# only a comment (", None),
            ("{'a': 1}", None),
            (":lang js (", None),
            ("%%bash\necho", Some(0)),
        ] {
            check("python", text, expected);
        }
    }

    #[test]
    fn javascript_ends_with_its_brackets_templates_and_comments() {
        for (text, expected) in [
            ("const x = 1", None),
            ("function f() {", Some(2)),
            ("function f() {\n  if (x) {", Some(4)),
            ("`a ${b}", Some(0)),
            ("'(' // {", None),
            ("/* {", Some(0)),
            ("f(/* ( */)", None),
            ("})", None),
        ] {
            check("javascript", text, expected);
        }
    }
}
