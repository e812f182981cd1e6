//! Checks of promises of the repository that no compiler checks.
//!
//! Each rule is a module with one `check`: data in, violations out. Its tests show that it can
//! fail; the test at the end of this file runs all of them on the workspace itself.

mod agent_paths;
mod configuration;
mod cut_chains;
mod dependencies;
mod doc_comments;
mod environment_variables;
mod file_length;
mod file_names;
mod layers;
mod links;
mod lock_files;
mod manifests;
mod openapi;
mod page_rows;
mod places;
mod rest_page;
mod rust_tokens;
mod todo;
mod unsafe_code;
mod unused_dependencies;
mod wiring;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::tree::Tree;

/// Something that must be changed before the work is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Name of the violated rule.
    pub(crate) rule: &'static str,
    /// Place of the violation: a file, `file:line`, or a crate.
    pub(crate) place: String,
    /// Description of the violation, and its remedy.
    pub(crate) message: String,
}

impl Violation {
    fn new(rule: &'static str, place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            rule,
            place: place.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}", self.place, self.rule, self.message)
    }
}

/// Results of tidy.
#[derive(Debug, Default)]
struct Findings {
    violations: Vec<Violation>,
    /// Worth knowing, not wrong.
    remarks: Vec<String>,
}

/// Checks the workspace at `root` and prints what is wrong.
#[expect(
    clippy::print_stdout,
    reason = "the findings are this command's output"
)]
pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let findings = check(root)?;
    for remark in &findings.remarks {
        println!("note: {remark}");
    }
    for violation in &findings.violations {
        println!("{violation}");
    }
    if findings.violations.is_empty() {
        println!("tidy");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} violations", findings.violations.len());
    Ok(ExitCode::FAILURE)
}

fn check(root: &Path) -> anyhow::Result<Findings> {
    let tree = Tree::read(root)?;
    let graph = dependencies::Graph::read(root)?;
    let lengths = file_length::check(&tree);
    let violations = [
        layers::check(&graph.workspace),
        dependencies::check(&graph),
        manifests::check(&tree),
        unused_dependencies::check(&tree),
        unsafe_code::check(&tree),
        agent_paths::check(&tree),
        lengths.violations,
        file_names::check(&tree),
        doc_comments::check(&tree),
        cut_chains::check(&tree),
        todo::check(&tree),
        places::check(&tree),
        links::check(&tree, root),
        lock_files::check(&tree, root),
        environment_variables::check(&tree),
        configuration::check(&tree),
        rest_page::check(&tree),
        openapi::check(&tree),
        wiring::check(&tree).into_iter().collect(),
    ];
    Ok(Findings {
        violations: violations.into_iter().flatten().collect(),
        remarks: lengths.remarks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_tidy() {
        let findings = check(&crate::workspace_root()).unwrap();
        let list: Vec<_> = findings
            .violations
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(list.is_empty(), "\n{}\n", list.join("\n"));
    }
}
