//! Patterns of paths: those of `.dockerignore`, and those of sources.

/// Part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// This character.
    Literal(char),
    /// Any character but a slash.
    One,
    /// Any run without a slash.
    Some,
    /// Any run.
    All,
    /// Nothing, or any run that ends with a slash.
    Directories,
    /// One of these characters, or none of them.
    Class {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// A pattern of paths, without a slash at either end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Part>);

/// The text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no pattern: a `[` without its end, or an escape of nothing")]
pub struct PatternError(pub String);

impl Pattern {
    /// Reads a pattern: `*`, `?`, `[a-z]`, `**` for any number of directories, and `\` before what
    /// means itself.
    ///
    /// # Errors
    ///
    /// [`PatternError`].
    pub fn read(text: &str) -> Result<Self, PatternError> {
        let error = || PatternError(text.to_owned());
        let mut parts = Vec::new();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            parts.push(match character {
                '*' if characters.next_if_eq(&'*').is_some() => {
                    if characters.next_if_eq(&'/').is_some() {
                        Part::Directories
                    } else {
                        Part::All
                    }
                }
                '*' => Part::Some,
                '?' => Part::One,
                '[' => class(&mut characters).ok_or_else(error)?,
                '\\' => Part::Literal(characters.next().ok_or_else(error)?),
                other => Part::Literal(other),
            });
        }
        Ok(Self(parts))
    }

    /// Returns true if the whole path matches.
    pub fn matches(&self, path: &str) -> bool {
        let path: Vec<char> = path.chars().collect();
        matches(&self.0, &path)
    }

    /// Returns true if a text has a character that means more than itself.
    pub fn is_one(text: &str) -> bool {
        text.contains(['*', '?', '[', '\\'])
    }
}

fn class(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Part> {
    let is_negated = characters.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        let first = match characters.next()? {
            ']' if !ranges.is_empty() => return Some(Part::Class { is_negated, ranges }),
            '\\' => characters.next()?,
            other => other,
        };
        let last = match characters.next_if_eq(&'-') {
            None => first,
            Some(_) => match characters.next()? {
                '\\' => characters.next()?,
                ']' => return None,
                other => other,
            },
        };
        ranges.push((first, last));
    }
}

fn matches(parts: &[Part], path: &[char]) -> bool {
    let Some((part, rest)) = parts.split_first() else {
        return path.is_empty();
    };
    let one = |is_it: &dyn Fn(char) -> bool| {
        let (first, after) = path.split_first()?;
        (is_it(*first)).then_some(after)
    };
    match part {
        Part::Literal(literal) => {
            one(&|found| found == *literal).is_some_and(|after| matches(rest, after))
        }
        Part::One => one(&|found| found != '/').is_some_and(|after| matches(rest, after)),
        Part::Class { is_negated, ranges } => {
            let is_in = |found: char| ranges.iter().any(|(a, z)| (*a..=*z).contains(&found));
            one(&|found| found != '/' && is_in(found) != *is_negated)
                .is_some_and(|after| matches(rest, after))
        }
        Part::Some => {
            let run = path.iter().take_while(|found| **found != '/').count();
            (0..=run).any(|taken| matches(rest, &path[taken..]))
        }
        Part::All => (0..=path.len()).any(|taken| matches(rest, &path[taken..])),
        Part::Directories => {
            let after_slash = |taken: &usize| *taken == 0 || path[taken - 1] == '/';
            (0..=path.len())
                .filter(after_slash)
                .any(|taken| matches(rest, &path[taken..]))
        }
    }
}

/// The rules of a `.dockerignore`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignore {
    /// Patterns in their order, each with whether it is an exception.
    rules: Vec<(Pattern, bool)>,
}

impl Ignore {
    /// Reads the rules.
    ///
    /// # Errors
    ///
    /// The number of the line that has no pattern, counted from 1, and why.
    pub fn read(text: &str) -> Result<Self, (usize, PatternError)> {
        let mut rules = Vec::new();
        let text = text.trim_start_matches('\u{feff}');
        for (number, line) in (1..).zip(text.lines()) {
            // A comment begins at the first column, as Docker has it.
            if line.starts_with('#') {
                continue;
            }
            let line = line.trim();
            let (line, is_exception) = match line.strip_prefix('!') {
                Some(rest) => (rest.trim(), true),
                None => (line, false),
            };
            let cleaned = clean(line);
            if cleaned.is_empty() {
                continue;
            }
            let pattern = Pattern::read(&cleaned).map_err(|error| (number, error))?;
            rules.push((pattern, is_exception));
        }
        Ok(Self { rules })
    }

    /// Returns true if a path below the directory of the build is left out. The last rule that is
    /// about the path, or about a directory above it, counts.
    pub fn excludes(&self, path: &str) -> bool {
        let slashes = path.match_indices('/').map(|(place, _)| &path[..place]);
        let prefixes: Vec<&str> = slashes.chain([path]).collect();
        let is_about = |pattern: &Pattern| prefixes.iter().any(|prefix| pattern.matches(prefix));
        let last = self.rules.iter().rfind(|(pattern, _)| is_about(pattern));
        last.is_some_and(|(_, is_exception)| !is_exception)
    }

    /// Returns true if something below a directory that is left out may be there all the same.
    pub fn has_exceptions(&self) -> bool {
        self.rules.iter().any(|(_, is_exception)| *is_exception)
    }
}

/// A path without dots, doubled slashes, and slashes at its ends.
fn clean(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rules: &str, path: &str, expected: bool) {
        let ignore = Ignore::read(rules).unwrap();
        assert_eq!(ignore.excludes(path), expected, "{rules:?} {path}");
    }

    #[test]
    fn a_pattern_is_anchored_and_excludes_what_is_below() {
        check("node_modules", "node_modules", true);
        check("node_modules", "node_modules/a/b.js", true);
        check("node_modules", "app/node_modules", false);
        check("**/node_modules", "app/node_modules/x", true);
        check("**/node_modules", "node_modules", true);
        check("*.md", "a.md", true);
        check("*.md", "docs/a.md", false);
        check("docs/**", "docs/a/b", true);
        check("docs/**", "docs", false);
        check("a?c", "abc", true);
        check("a?c", "a/c", false);
        check("[a-c]x", "bx", true);
        check("[^a-c]x", "bx", false);
        check("a\\*", "a*", true);
        check("a\\*", "ab", false);
        check("/build/", "build/x", true);
        check("./a//b/", "a/b", true);
    }

    #[test]
    fn the_last_rule_counts_and_comments_do_not() {
        check("*\n!keep", "keep", false);
        check("*\n!keep", "keep/x", false);
        check("*\n!keep", "other", true);
        check("*\n!keep\nkeep/secret", "keep/secret", true);
        check("# comment\n\n  secret  ", "secret", true);
        check("\u{feff}secret", "secret", true);
        check("**\n!src/**/*.rs", "src/a/b.rs", false);
        check("**\n!src/**/*.rs", "src/a/b.c", true);
    }

    #[test]
    fn a_line_that_is_no_pattern_is_named_by_its_number() {
        let (line, error) = Ignore::read("ok\n[a").unwrap_err();
        assert_eq!(line, 2);
        assert!(error.to_string().starts_with("`[a` is no pattern"));
    }
}
