//! Links between our own pages lead somewhere.

use std::path::Path;

use super::Violation;
use crate::tree::Tree;

const RULE: &str = "links";

pub(super) fn check(tree: &Tree, root: &Path) -> Vec<Violation> {
    check_with(tree, |path| root.join(path).exists())
}

fn check_with(tree: &Tree, exists: impl Fn(&str) -> bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let mut in_code = false;
        for (number, line) in file.numbered_lines() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            if in_code {
                continue;
            }
            for target in targets(line) {
                if !resolve(&file.path, target).is_some_and(|path| exists(&path)) {
                    violations.push(Violation::new(
                        RULE,
                        format!("{}:{number}", file.path),
                        format!("`{target}` is not there"),
                    ));
                }
            }
        }
    }
    violations
}

/// The targets of `[text](target)` that lie in this repository.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(start, _)| {
        let (target, _) = line[start + 2..].split_once(')')?;
        let path = target.split_once('#').map_or(target, |(path, _)| path);
        let is_ours = !path.is_empty() && !path.contains(':');
        is_ours.then_some(path)
    })
}

/// Path that `target` leads to from the page at `from`; `None` if it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(page: &str, text: &str) -> Vec<String> {
        let there = ["README.md", "docs/adr/0001-one.md", "docs"];
        let violations = check_with(&Tree::of(&[(page, text)]), |path| there.contains(&path));
        violations
            .into_iter()
            .map(|violation| violation.message)
            .collect()
    }

    #[test]
    fn a_link_to_nowhere_is_named() {
        assert_eq!(
            broken("README.md", "see [x](docs/gone.md)"),
            ["`docs/gone.md` is not there"]
        );
        assert_eq!(
            broken("docs/adr/0001-one.md", "[up](../../../README.md)").len(),
            1
        );
    }

    #[test]
    fn links_that_lead_somewhere_or_outside_are_fine() {
        assert_eq!(
            broken(
                "README.md",
                "[a](docs/adr/0001-one.md#why) [b](https://example.com) [c](#here) [d](docs/)"
            ),
            [""; 0]
        );
        assert_eq!(
            broken("docs/adr/0001-one.md", "[up](../../README.md)"),
            [""; 0]
        );
        assert_eq!(broken("README.md", "```\n[x](gone)\n```\n"), [""; 0]);
    }
}
