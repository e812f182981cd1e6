//! Questions about names, as people write them at a prompt: `len?`, `?len`, and `len??` for its
//! source.

use super::Language;

/// A question about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// The name that is asked about.
    pub(crate) name: String,
    /// True if its source is wanted, too.
    pub(crate) with_source: bool,
}

impl Question {
    /// The question in `text`; `None` if it is code. Where `?` means something in the language, it
    /// is left to that.
    pub(crate) fn parse(text: &str, language: &Language) -> Option<Self> {
        if !["python", "javascript", "typescript", "java"].contains(&language.name()) {
            return None;
        }
        let text = text.trim();
        let name = text.trim_matches('?');
        let marks = text.len() - name.len();
        let is_name = name.starts_with(|c: char| c.is_alphabetic() || "_$".contains(c))
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || "_$.".contains(c));
        (is_name && (1..=2).contains(&marks)).then(|| Self {
            name: name.to_owned(),
            with_source: marks == 2,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_question_marks_is_no_code() {
        let parse = |text: &str, language: &str| {
            let question = Question::parse(text, &Language::named(language));
            question.map(|question| (question.name, question.with_source))
        };
        let found = |name: &str, with_source| Some((name.to_owned(), with_source));
        assert_eq!(parse(" len? ", "python"), found("len", false));
        assert_eq!(parse("?os.path", "python"), found("os.path", false));
        assert_eq!(parse("a.b??", "python"), found("a.b", true));
        for code in ["len", "f(x)?", "a ? b : c", "???", "x???", "1?"] {
            assert_eq!(parse(code, "python"), None, "{code}");
        }
        // There it is a pattern for names of files.
        assert_eq!(parse("a?", "bash"), None);
    }
}
