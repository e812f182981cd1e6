//! Names as sandboxes write them, parsed into types that cannot lead anywhere else.

use std::fmt;

use percent_encoding::percent_decode_str;

/// Longest name of a project, a package or a file.
const LONGEST: usize = 255;
/// Most components of a path in a Debian archive.
const MOST_COMPONENTS: usize = 24;

/// Name of a Python project, in the form in which an index compares names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectName(String);

/// Name of a package of npm, with its scope if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackageName(String);

/// Name of a file without a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileName(String);

/// Path of a file in a Debian archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArchivePath(Vec<String>);

/// Decodes one component of a path, which must be text without control characters and separators.
fn decoded(component: &str) -> Option<String> {
    let text = percent_decode_str(component).decode_utf8().ok()?;
    let is_plain = |letter: char| letter.is_ascii_graphic() && letter != '\\';
    let is_whole = !text.is_empty() && text.len() <= LONGEST && text.chars().all(is_plain);
    is_whole.then(|| text.into_owned())
}

/// Returns true for a name of these letters that is neither hidden nor a directory.
fn consists_of(text: &str, others: &[u8]) -> bool {
    !text.is_empty()
        && text.len() <= LONGEST
        && !text.starts_with('.')
        && (text.bytes()).all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
}

impl ProjectName {
    /// The project of one component of a path.
    pub(crate) fn parse(component: &str) -> Option<Self> {
        let text = decoded(component)?;
        let ends = [text.bytes().next()?, text.bytes().last()?];
        if !consists_of(&text, b"._-") || !ends.iter().all(u8::is_ascii_alphanumeric) {
            return None;
        }
        let mut normal = String::with_capacity(text.len());
        for letter in text.chars() {
            match letter {
                '.' | '_' | '-' if normal.ends_with('-') => {}
                '.' | '_' | '-' => normal.push('-'),
                letter => normal.push(letter.to_ascii_lowercase()),
            }
        }
        Some(Self(normal))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl PackageName {
    /// The package of one component, in which a scope is separated as clients encode it, or of two.
    pub(crate) fn parse(components: &[&str]) -> Option<Self> {
        let decoded: Vec<String> = (components.iter())
            .map(|component| decoded(component))
            .collect::<Option<_>>()?;
        let text = decoded.join("/");
        let (scope, name) = match text.strip_prefix('@') {
            Some(scoped) => {
                let (scope, name) = scoped.split_once('/')?;
                (Some(scope), name)
            }
            None => (None, text.as_str()),
        };
        let is_name = |name: &str| consists_of(name, b"._~-");
        (is_name(name) && scope.is_none_or(is_name)).then_some(Self(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FileName {
    /// The file of one component.
    pub(crate) fn parse(component: &str) -> Option<Self> {
        let text = decoded(component)?;
        consists_of(&text, b"._-+!~").then_some(Self(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl ArchivePath {
    /// The path of these components, below `dists` or `pool`.
    pub(crate) fn parse(components: &[&str]) -> Option<Self> {
        let known = matches!(components.first(), Some(&"dists" | &"pool"));
        if !known || components.len() < 2 || components.len() > MOST_COMPONENTS {
            return None;
        }
        let parse = |component: &&str| {
            let text = decoded(component)?;
            consists_of(&text, b"._-+~:").then_some(text)
        };
        components
            .iter()
            .map(parse)
            .collect::<Option<_>>()
            .map(Self)
    }

    pub(crate) fn components(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The digest by which the file is called, if it is.
    pub(crate) fn sha256(&self) -> Option<&str> {
        let [.., by_hash, kind, digest] = self.0.as_slice() else {
            return None;
        };
        (by_hash == "by-hash" && kind == "SHA256").then_some(digest)
    }

    /// Returns true for a file of which the name does not get another content.
    pub(crate) fn is_of_pool(&self) -> bool {
        self.0.first().is_some_and(|first| first == "pool")
    }
}

impl fmt::Display for ArchivePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_called_as_indexes_compare_names() {
        let name = |text: &str| ProjectName::parse(text).map(|name| name.0);
        assert_eq!(name("Foo__bar.-baz").as_deref(), Some("foo-bar-baz"));
        for wrong in [
            "", ".", "..", "-a", "a-", "a/b", "a%2fb", "%2e%2e", "a b", "a%00", "ä", "a?b",
        ] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_package_has_at_most_a_scope_in_front() {
        let name = |parts: &[&str]| PackageName::parse(parts).map(|name| name.0);
        assert_eq!(name(&["left-pad"]).as_deref(), Some("left-pad"));
        assert_eq!(name(&["@types%2fnode"]).as_deref(), Some("@types/node"));
        assert_eq!(name(&["@types", "node"]).as_deref(), Some("@types/node"));
        for wrong in [
            &["a%2fb"][..],
            &["a", "b"],
            &["@a%2fb%2fc"],
            &["@a", "..", "b"],
            &["@a%2f.."],
            &["@%2e%2e", "b"],
            &["-", "..%2f"],
            &[".."],
            &["@a"],
            &[""],
            &[],
        ] {
            assert_eq!(name(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_path_of_an_archive_does_not_leave_it() {
        let path = |text: &str| {
            let parts: Vec<_> = text.split('/').collect();
            ArchivePath::parse(&parts).map(|path| path.to_string())
        };
        assert_eq!(
            path("pool/main/g/g%2b%2b/g++_1%3a2~3_amd64.deb").as_deref(),
            Some("pool/main/g/g++/g++_1:2~3_amd64.deb")
        );
        for wrong in [
            "pool",
            "etc/passwd",
            "pool/../etc",
            "pool/%2e%2e/x",
            "pool//x",
            "pool/a%2f..%2fb",
            "pool/x?y",
            "pool/a%0d%0ab",
            "dists/",
        ] {
            assert_eq!(path(wrong), None, "{wrong}");
        }
    }
}
