//! Comparison of what a page lists with what there is.

use std::collections::BTreeSet;

use super::Violation;
use crate::tree::Tree;

/// Names that a page must have as the first cell of a row each, and no others.
pub(super) struct Listing<'a> {
    pub(super) rule: &'static str,
    pub(super) page: &'a str,
    /// Kind of the names, such as `key`, for the message about one that is gone.
    pub(super) kind: &'static str,
    /// First cells of rows that are headings.
    pub(super) headings: &'a [&'a str],
}

impl Listing<'_> {
    /// Violations for names without a row, and for rows without a name.
    pub(super) fn compare(&self, tree: &Tree, names: &BTreeSet<String>) -> Vec<Violation> {
        let text = tree.find(self.page).map_or("", |page| page.text.as_str());
        let rows = self.rows(text);
        let missing = names
            .difference(&rows)
            .map(|name| format!("has no row for `{name}`"));
        let stale = rows
            .difference(names)
            .map(|name| format!("has a row for `{name}`, which is no {}", self.kind));
        missing
            .chain(stale)
            .map(|message| Violation::new(self.rule, self.page, message))
            .collect()
    }

    /// The first cell of each row that is code.
    fn rows(&self, page: &str) -> BTreeSet<String> {
        page.lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
            .map(|(name, _)| name.to_owned())
            .filter(|name| !self.headings.contains(&name.as_str()))
            .collect()
    }
}
