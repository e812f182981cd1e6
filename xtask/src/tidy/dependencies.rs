//! Rules on dependencies: licences, sources, and one version of each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use super::Violation;
use super::layers::Member;

const RULE: &str = "dependencies";

/// Licences whose terms a work under Apache-2.0 can meet by keeping the notices.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that are there in two incompatible versions, and why that is borne.
const DUPLICATES: &[(&str, &str)] = &[
    (
        "base64",
        "axum, buffa and connectrpc are on 0.22; hyper-util and reqwest on 0.23",
    ),
    (
        "bitflags",
        "1 is named by `defmt`, an optional part of jiff that is listed but never built",
    ),
    (
        "cpufeatures",
        "0.2 is under the hashes; 0.3 under proptest, which is in no program",
    ),
    (
        "foldhash",
        "0.1 comes with buffa's hashbrown, 0.2 with everybody else's",
    ),
    ("getrandom", "ring is on 0.2; ours is 0.4"),
    (
        "hashbrown",
        "0.15 is in the types buffa gives out; everybody else is on 0.17",
    ),
    (
        "rand",
        "0.10 is under hickory; 0.9 under OpenTelemetry's reader, which is in tests alone",
    ),
    ("rand_core", "as rand"),
    (
        "syn",
        "2 and 3 serve different derive macros; they run in the compiler and are in no program",
    ),
    ("synstructure", "comes with the two versions of syn"),
    ("tower-http", "reqwest, in the client, is still on 0.6"),
];

/// A crate from outside.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    name: String,
    /// The part of the version that must be equal for two versions to be one crate: `1`, `0.5`.
    series: String,
    licence: Option<String>,
    from_registry: bool,
}

/// Everything the workspace is built from, on this platform.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) workspace: Vec<Member>,
    outside: Vec<Package>,
}

impl Graph {
    /// Asks cargo. The lock file must be up to date.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let metadata = MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            .other_options(["--locked", "--filter-platform", &platform].map(str::to_owned))
            .exec()
            .context("cannot ask cargo for the dependencies")?;
        Ok(Self {
            workspace: members(&metadata),
            outside: outside(&metadata)?,
        })
    }
}

fn members(metadata: &Metadata) -> Vec<Member> {
    let packages = metadata.workspace_packages().into_iter();
    let names = |package: &cargo_metadata::Package, dev: bool| {
        let wanted = package
            .dependencies
            .iter()
            .filter(|dependency| (dependency.kind == DependencyKind::Development) == dev);
        wanted.map(|dependency| dependency.name.clone()).collect()
    };
    packages
        .map(|package| Member {
            name: package.name.to_string(),
            dependencies: names(package, false),
            dev_dependencies: names(package, true),
        })
        .collect()
}

fn outside(metadata: &Metadata) -> anyhow::Result<Vec<Package>> {
    let resolve = metadata
        .resolve
        .as_ref()
        .context("cargo left out the resolved graph")?;
    // The list of packages also has those of other platforms; the graph has only ours.
    let used: BTreeSet<_> = resolve.nodes.iter().map(|node| &node.id).collect();
    let packages = metadata.packages.iter().filter(|package| {
        used.contains(&package.id) && !metadata.workspace_members.contains(&package.id)
    });
    Ok(packages
        .map(|package| Package {
            name: package.name.to_string(),
            series: series(package.version.major, package.version.minor),
            licence: package.license.clone(),
            from_registry: package
                .source
                .as_ref()
                .is_some_and(cargo_metadata::Source::is_crates_io),
        })
        .collect())
}

fn series(major: u64, minor: u64) -> String {
    if major == 0 {
        format!("0.{minor}")
    } else {
        major.to_string()
    }
}

pub(super) fn check(graph: &Graph) -> Vec<Violation> {
    let mut violations: Vec<Violation> =
        graph.outside.iter().flat_map(licence_and_source).collect();
    violations.extend(duplicates(&graph.outside, DUPLICATES));
    violations
}

fn licence_and_source(package: &Package) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut complain =
        |message: String| violations.push(Violation::new(RULE, &package.name, message));
    if !package.from_registry {
        complain("comes from elsewhere than the crate registry".to_owned());
    }
    match &package.licence {
        None => complain("names no licence".to_owned()),
        Some(licence) => match may_use(licence) {
            Ok(true) => {}
            Ok(false) => complain(format!("its licence `{licence}` is not on our list")),
            Err(error) => complain(format!("its licence `{licence}` cannot be read: {error}")),
        },
    }
    violations
}

/// Returns true if the terms of `licence` can be met with what [`LICENCES`] allows.
fn may_use(licence: &str) -> Result<bool, spdx::ParseError> {
    let expression = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX)?;
    let allowed: Vec<spdx::Licensee> = LICENCES
        .iter()
        .map(|name| spdx::Licensee::parse(name).expect("the list has only known licences"))
        .collect();
    Ok(expression.evaluate(|asked| allowed.iter().any(|licence| licence.satisfies(asked))))
}

fn duplicates(packages: &[Package], borne: &[(&str, &str)]) -> Vec<Violation> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions
            .entry(&package.name)
            .or_default()
            .insert(&package.series);
    }
    versions.retain(|_, series| series.len() > 1);
    let is_borne = |name: &str| borne.iter().any(|(other, _)| *other == name);
    let mut violations: Vec<Violation> = versions
        .iter()
        .filter(|(name, _)| !is_borne(name))
        .map(|(name, series)| {
            let list: Vec<&str> = series.iter().copied().collect();
            let message = format!(
                "is built in versions {}; take one, or argue it in DUPLICATES",
                list.join(" and ")
            );
            Violation::new(RULE, *name, message)
        })
        .collect();
    let stale = borne
        .iter()
        .filter(|(name, _)| !versions.contains_key(name));
    violations.extend(
        stale.map(|(name, _)| {
            Violation::new(RULE, *name, "is there once; take it out of DUPLICATES")
        }),
    );
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, series: &str, licence: &str) -> Package {
        Package {
            name: name.to_owned(),
            series: series.to_owned(),
            licence: Some(licence.to_owned()),
            from_registry: true,
        }
    }

    fn messages(violations: Vec<Violation>) -> Vec<String> {
        violations
            .into_iter()
            .map(|violation| violation.message)
            .collect()
    }

    #[track_caller]
    fn check_licence(licence: &str, allowed: bool) {
        assert_eq!(may_use(licence).ok(), Some(allowed), "{licence}");
    }

    #[test]
    fn licences_that_keep_notices_are_fine_and_others_are_not() {
        check_licence("MIT OR Apache-2.0", true);
        check_licence("MIT/Apache-2.0", true);
        check_licence("(MIT OR Apache-2.0) AND Unicode-3.0", true);
        check_licence("Apache-2.0 WITH LLVM-exception OR GPL-3.0-only", true);
        check_licence("GPL-3.0-only", false);
        check_licence("MIT AND GPL-2.0-or-later", false);
        check_licence("AGPL-3.0-only OR SSPL-1.0", false);
        assert_eq!(
            messages(licence_and_source(&package(
                "a",
                "1",
                "none of your business"
            )))
            .len(),
            1
        );
    }

    #[test]
    fn a_crate_without_licence_or_from_a_repository_is_refused() {
        let odd = Package {
            licence: None,
            from_registry: false,
            ..package("a", "1", "MIT")
        };
        assert_eq!(
            messages(licence_and_source(&odd)),
            [
                "comes from elsewhere than the crate registry",
                "names no licence"
            ]
        );
    }

    #[test]
    fn two_series_of_a_crate_are_refused_unless_argued() {
        let packages = [
            package("a", "0.5", "MIT"),
            package("a", "0.6", "MIT"),
            package("b", "1", "MIT"),
            package("b", "1", "MIT"),
        ];
        assert_eq!(
            messages(duplicates(&packages, &[])),
            ["is built in versions 0.5 and 0.6; take one, or argue it in DUPLICATES"]
        );
        assert_eq!(
            messages(duplicates(&packages, &[("a", "old friend")])),
            [""; 0]
        );
    }

    #[test]
    fn an_argument_without_its_duplicate_is_refused() {
        assert_eq!(
            messages(duplicates(
                &[package("a", "1", "MIT")],
                &[("a", "old friend")]
            )),
            ["is there once; take it out of DUPLICATES"]
        );
    }

    #[test]
    fn versions_that_cargo_would_unify_are_one_series() {
        assert_eq!(series(1, 2), series(1, 9));
        assert_ne!(series(0, 2), series(0, 9));
    }
}
