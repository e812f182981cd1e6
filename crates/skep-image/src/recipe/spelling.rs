//! Spelling of names in a recipe.

/// Returns true if the text is a word of lower-case letters, digits and `extra`, and no option.
pub(super) fn is_word(text: &str, extra: &[u8]) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && text.len() <= 128
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || extra.contains(&byte))
}

/// Returns true if it is a valid name of a user or group.
pub(super) fn is_user(text: &str) -> bool {
    text.len() <= 32
        && (is_word(text, b"-_") || text.starts_with('_') && is_word(&text[1..], b"-_"))
}

/// Returns true if it is a valid name of an environment variable.
pub(super) fn is_variable(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns true if the text is an absolute path that stays below what it names.
pub(super) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| part != "..") && !path.contains('\0')
}

/// Returns true if the text is a pattern of absolute paths that fits one line.
pub(super) fn is_pattern(text: &str) -> bool {
    text.starts_with('/') && !text.contains(char::is_control)
}

/// Reads the refused key and the possible ones from serde's message and names the nearest.
pub(super) fn nearest_key(message: &str) -> Option<String> {
    let mut quoted = message
        .strip_prefix("unknown field ")?
        .split('`')
        .skip(1)
        .step_by(2);
    let wrong = quoted.next()?;
    let (distance, nearest) = quoted.map(|key| (distance(wrong, key), key)).min()?;
    (distance <= 1 + wrong.len() / 3).then(|| format!("did you mean `{nearest}`?"))
}

/// Edit distance: letters to be added, removed or changed to get from one word to the other.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
