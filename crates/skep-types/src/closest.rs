//! Suggestions for a name that was mistyped.

/// The name among `known` that is most like `text`; `None` if none is like it enough to be meant.
///
/// A letter too many, one too few, another one and two that changed places count as one mistake
/// each. A third of the letters may be wrong, and a name that begins with the whole of `text` is
/// meant, too.
pub fn closest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.to_lowercase();
    let mut best: Option<(usize, &str)> = None;
    for name in known {
        let lower = name.to_lowercase();
        let is_beginning = text.len() >= SHORTEST_BEGINNING && lower.starts_with(&text);
        let mistakes = mistakes(&text, &lower);
        let most = (text.chars().count().max(lower.chars().count()) / 3).max(1);
        let is_like = is_beginning || mistakes <= most;
        if is_like && best.is_none_or(|(fewest, _)| mistakes < fewest) {
            best = Some((mistakes, name));
        }
    }
    best.map(|(_, name)| name)
}

/// Length from which on the beginning of a name is taken for it.
const SHORTEST_BEGINNING: usize = 3;

/// Number of mistakes that make `other` of `text` (optimal string alignment).
fn mistakes(text: &str, other: &str) -> usize {
    let (text, other): (Vec<char>, Vec<char>) = (text.chars().collect(), other.chars().collect());
    // Row `i` has the mistakes between the first `i` letters and all beginnings of the other.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in text.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, wanted) in other.iter().enumerate() {
            let replaced = last[j] + usize::from(letter != wanted);
            let mut fewest = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            let is_swapped = i > 0 && j > 0 && *letter == other[j - 1] && text[i - 1] == *wanted;
            if is_swapped {
                fewest = fewest.min(before[j - 1] + 1);
            }
            row.push(fewest);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_recognised_and_another_word_is_not() {
        let commands = ["run", "repl", "sandbox", "template", "up"];
        for (text, expected) in [
            ("rnu", Some("run")),
            ("sandboxes", Some("sandbox")),
            ("templates", Some("template")),
            ("templ", Some("template")),
            ("fly", None),
            ("", None),
        ] {
            assert_eq!(closest(text, commands), expected, "{text}");
        }
        let templates = ["base", "code-interpreter-slim", "code-interpreter-v1"];
        let meant = |text| closest(text, templates);
        assert_eq!(meant("code-interpeter-v1"), Some("code-interpreter-v1"));
        assert_eq!(meant("code-interpreter"), Some("code-interpreter-v1"));
        assert_eq!(meant("Base"), Some("base"));
        assert_eq!(meant("nope"), None);
    }

    #[test]
    fn mistakes_are_counted_as_people_make_them() {
        assert_eq!(mistakes("", "abc"), 3);
        assert_eq!(mistakes("abc", "acb"), 1);
        assert_eq!(mistakes("kitten", "sitting"), 3);
        assert_eq!(mistakes("same", "same"), 0);
    }
}
