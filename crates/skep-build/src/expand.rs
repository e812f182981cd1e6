//! Variables in the values of a build.
//!
//! `$V`, `${V}` and the forms `${V:-x}`, `${V-x}`, `${V:+x}`, `${V+x}` are expanded, `\$` is a dollar,
//! and all that a shell would do besides is left as it is written.

use std::collections::BTreeMap;

/// A value that cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpandError {
    #[error("'{0}' has a variable without an end")]
    Unfinished(String),
    #[error("'${{{0}}}' is no variable")]
    NoVariable(String),
    #[error("variable '{name}' is not set{}", reason(.text))]
    Unset { name: String, text: String },
}

fn reason(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}

/// Expands the variables in a value.
pub(crate) fn expand(
    value: &str,
    variables: &BTreeMap<String, String>,
) -> Result<String, ExpandError> {
    let mut expanded = String::new();
    let mut rest = value;
    while let Some(place) = rest.find(['$', '\\']) {
        expanded.push_str(&rest[..place]);
        rest = &rest[place..];
        if let Some(after) = rest.strip_prefix("\\$") {
            expanded.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("$$") {
            // A process id for a shell, and nothing here. What follows is no variable either.
            expanded.push_str("$$");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("${") {
            let end = end_of(after).ok_or_else(|| ExpandError::Unfinished(value.to_owned()))?;
            expanded.push_str(&braced(&after[..end], variables)?);
            rest = &after[end + 1..];
        } else {
            let name = name_at(&rest[1..]);
            let taken = 1 + name.len();
            if name.is_empty() {
                expanded.push_str(&rest[..1]);
            } else if rest.starts_with('$') {
                expanded.push_str(variables.get(name).map_or("", String::as_str));
            } else {
                expanded.push_str(&rest[..taken]);
            }
            rest = &rest[taken..];
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Place of the brace that ends what follows an opening one.
fn end_of(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut previous = ' ';
    for (place, character) in text.char_indices() {
        match character {
            '{' if previous == '$' => depth += 1,
            '}' if depth == 0 => return Some(place),
            '}' => depth -= 1,
            _ => {}
        }
        previous = character;
    }
    None
}

fn braced(text: &str, variables: &BTreeMap<String, String>) -> Result<String, ExpandError> {
    let name = name_at(text);
    let no_variable = || ExpandError::NoVariable(text.to_owned());
    if name.is_empty() {
        return Err(no_variable());
    }
    let value = variables.get(name);
    let rest = &text[name.len()..];
    if rest.is_empty() {
        return Ok(value.cloned().unwrap_or_default());
    }
    // With a colon an empty value counts as none.
    let (value, rest) = match rest.strip_prefix(':') {
        Some(rest) => (value.filter(|value| !value.is_empty()), rest),
        None => (value, rest),
    };
    let mut characters = rest.chars();
    let operator = characters.next().ok_or_else(no_variable)?;
    let word = characters.as_str();
    match (operator, value) {
        ('-', Some(value)) | ('?', Some(value)) => Ok(value.clone()),
        ('-', None) | ('+', Some(_)) => expand(word, variables),
        ('+', None) => Ok(String::new()),
        ('?', None) => Err(ExpandError::Unset {
            name: name.to_owned(),
            text: word.to_owned(),
        }),
        (_, _) => Err(no_variable()),
    }
}

/// The name of a variable at the beginning of a text.
fn name_at(text: &str) -> &str {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    if !text.as_bytes().first().is_some_and(is_first) {
        return "";
    }
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_alphanumeric() && byte != b'_');
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expected: &str) {
        let variables = [("A", "1"), ("PATH", "/bin"), ("EMPTY", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expanded = expand(value, &BTreeMap::from(variables));
        let text = expanded.unwrap_or_else(|error| format!("error: {error}"));
        assert_eq!(text, expected, "{value}");
    }

    #[test]
    fn variables_and_their_defaults_are_expanded() {
        check("${PATH}:/x", "/bin:/x");
        check("$A$A-$A", "11-1");
        check("a$b!", "a!");
        check("${X:-d}${X-e}${EMPTY:-f}${EMPTY-g}", "def");
        check("${A:+set}${X:+unset}${EMPTY+is}", "setis");
        check("${X:-${A}}", "1");
    }

    #[test]
    fn what_a_shell_would_do_besides_stays_as_it_is() {
        for value in [
            "$((1+2))",
            "$(id)",
            "`id`",
            "say \"hi\"",
            "it's",
            "p\\t",
            "~",
            "-n",
            "100%",
            "a\nb",
            "$",
            "$$HOME",
            "\\",
            "$1",
        ] {
            check(value, value);
        }
        check("\\$HOME", "$HOME");
    }

    #[test]
    fn a_value_that_cannot_be_expanded_is_named() {
        check("${X:?no}", "error: variable 'X' is not set: no");
        check("${", "error: '${' has a variable without an end");
        check("a${X", "error: 'a${X' has a variable without an end");
        check("${}", "error: '${}' is no variable");
        check("${A/1/2}", "error: '${A/1/2}' is no variable");
    }
}
