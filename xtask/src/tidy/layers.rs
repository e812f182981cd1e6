//! The layer table of `ARCHITECTURE.md` as data, compared with what cargo says.

use std::collections::BTreeMap;

use super::Violation;

const RULE: &str = "layers";

/// The rows of the table, the lowest first. A lower row never depends on a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Vocabulary,
    Mechanism,
    Service,
    Edge,
    Binary,
}

/// Places in which the code of a crate runs. A crate takes nothing from another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The server, a sandbox and a client.
    Anywhere,
    /// The host, trusted.
    Server,
    /// A sandbox, beside untrusted code.
    Sandbox,
    /// A user's terminal, with no more than a key.
    Client,
    /// Tests and nothing else.
    Tests,
}

struct Entry {
    name: &'static str,
    row: Row,
    place: Place,
    /// Crates that it must not depend on, ours or not. Arrows that row and place forbid already are
    /// left out.
    never: &'static [&'static str],
}

const fn entry(
    name: &'static str,
    row: Row,
    place: Place,
    never: &'static [&'static str],
) -> Entry {
    Entry {
        name,
        row,
        place,
        never,
    }
}

const TABLE: &[Entry] = &[
    entry("skep", Row::Binary, Place::Server, &[]),
    entry("skep-admin", Row::Binary, Place::Server, &["skep-guest"]),
    entry(
        "skep-guest",
        Row::Binary,
        Place::Sandbox,
        &["skep-cli", "skep-store"],
    ),
    // edges
    entry("skep-api", Row::Edge, Place::Server, NODE_INTERNALS),
    entry("skep-proxy", Row::Edge, Place::Server, NODE_INTERNALS),
    entry("skep-otlp", Row::Edge, Place::Server, NODE_INTERNALS),
    entry("skep-mirror", Row::Edge, Place::Server, NODE_INTERNALS),
    // It fills ports of the node, the backend and builds, and so knows all three.
    entry(
        "skep-agents",
        Row::Edge,
        Place::Server,
        &["skep-store", "skep-host"],
    ),
    entry("skep-cli", Row::Edge, Place::Client, &["axum"]),
    entry("skep-bench", Row::Edge, Place::Client, &["axum"]),
    entry("skep-mcp", Row::Edge, Place::Client, &["axum", "skep-wire"]),
    entry(
        "skep-console",
        Row::Edge,
        Place::Client,
        &["skep-wire", "skep-cli"],
    ),
    entry(
        "skep-jupyter-gateway",
        Row::Edge,
        Place::Client,
        &["skep-wire", "skep-cli"],
    ),
    entry("skep-agent", Row::Edge, Place::Sandbox, &[]),
    entry(
        "skep-interpreter",
        Row::Edge,
        Place::Sandbox,
        &["skep-linux"],
    ),
    // services
    entry(
        "skep-control",
        Row::Service,
        Place::Server,
        &["skep-node", "skep-isolation", "skep-native", "skep-host"],
    ),
    entry(
        "skep-node",
        Row::Service,
        Place::Server,
        &["skep-control", "skep-native", "skep-host", "skep-store"],
    ),
    entry(
        "skep-build",
        Row::Service,
        Place::Server,
        &[
            "skep-node",
            "skep-isolation",
            "skep-native",
            "skep-host",
            "skep-store",
            "rusqlite",
        ],
    ),
    entry("skep-webhooks", Row::Service, Place::Server, NODE_INTERNALS),
    entry("skep-kernels", Row::Service, Place::Sandbox, &[]),
    // mechanisms
    entry("skep-store", Row::Mechanism, Place::Server, &[]),
    entry(
        "skep-image",
        Row::Mechanism,
        Place::Server,
        &["skep-isolation", "skep-native", "skep-host"],
    ),
    entry(
        "skep-volume",
        Row::Mechanism,
        Place::Server,
        &["tokio", "skep-store", "skep-host", "skep-native"],
    ),
    entry(
        "skep-oci",
        Row::Mechanism,
        Place::Server,
        &[
            "rusqlite",
            "skep-store",
            "skep-isolation",
            "skep-native",
            "skep-host",
        ],
    ),
    entry(
        "skep-egress",
        Row::Mechanism,
        Place::Server,
        &[
            "rusqlite",
            "skep-store",
            "skep-isolation",
            "skep-native",
            "skep-host",
        ],
    ),
    entry("skep-domain", Row::Mechanism, Place::Server, &[]),
    entry(
        "skep-identity",
        Row::Mechanism,
        Place::Server,
        &["tokio", "rusqlite", "skep-store"],
    ),
    entry(
        "skep-config",
        Row::Mechanism,
        Place::Server,
        &["tokio", "skep-native"],
    ),
    entry("skep-install", Row::Mechanism, Place::Server, &[]),
    entry(
        "skep-packages",
        Row::Mechanism,
        Place::Server,
        &["tokio", "skep-image"],
    ),
    entry(
        "skep-isolation",
        Row::Mechanism,
        Place::Server,
        &["skep-native", "skep-host", "skep-launch"],
    ),
    entry(
        "skep-native",
        Row::Mechanism,
        Place::Server,
        &["rusqlite", "skep-store"],
    ),
    entry(
        "skep-host",
        Row::Mechanism,
        Place::Server,
        &[
            "rusqlite",
            "skep-store",
            "skep-image",
            "skep-isolation",
            "skep-native",
            "skep-launch",
        ],
    ),
    entry(
        "skep-launch",
        Row::Mechanism,
        Place::Server,
        &["tokio", "skep-image"],
    ),
    entry(
        "skep-seal",
        Row::Mechanism,
        Place::Server,
        &["tokio", "rusqlite", "skep-store"],
    ),
    entry(
        "skep-checkpoint",
        Row::Mechanism,
        Place::Server,
        &[
            "tokio",
            "skep-image",
            "skep-native",
            "skep-host",
            "skep-launch",
        ],
    ),
    entry("skep-client", Row::Mechanism, Place::Client, &["axum"]),
    entry("skep-http", Row::Mechanism, Place::Anywhere, &["axum"]),
    // vocabulary
    entry(
        "skep-types",
        Row::Vocabulary,
        Place::Anywhere,
        &["tokio", "serde", "skep-linux", "skep-telemetry"],
    ),
    entry(
        "skep-agent-protocol",
        Row::Vocabulary,
        Place::Anywhere,
        &["tokio", "skep-types", "skep-linux", "skep-telemetry"],
    ),
    entry(
        "skep-wire",
        Row::Vocabulary,
        Place::Anywhere,
        &[
            "tokio",
            "axum",
            "hyper",
            "skep-types",
            "skep-linux",
            "skep-telemetry",
        ],
    ),
    entry(
        "skep-jupyter",
        Row::Vocabulary,
        Place::Anywhere,
        &["tokio", "skep-types", "skep-linux", "skep-telemetry"],
    ),
    entry(
        "skep-notebook",
        Row::Vocabulary,
        Place::Anywhere,
        &["tokio", "skep-types", "skep-linux", "skep-telemetry"],
    ),
    entry(
        "skep-dockerfile",
        Row::Vocabulary,
        Place::Anywhere,
        &["tokio", "skep-linux", "skep-telemetry"],
    ),
    entry(
        "skep-linux",
        Row::Vocabulary,
        Place::Anywhere,
        &["tokio", "skep-types", "skep-telemetry"],
    ),
    // beside
    entry("skep-telemetry", Row::Vocabulary, Place::Anywhere, &[]),
    entry("skep-testkit", Row::Vocabulary, Place::Tests, &[]),
    entry("xtask", Row::Vocabulary, Place::Tests, &["tokio"]),
];

/// Crates of HTTP and protobuf, and the bodies on the wire. Below the edges nobody knows them
/// (invariant 3 of `ARCHITECTURE.md`).
const WIRE: &[&str] = &[
    "axum",
    "buffa",
    "connectrpc",
    "http",
    "http-body",
    "http-body-util",
    "hyper",
    "hyper-util",
    "reqwest",
    "skep-wire",
    "tower",
    "tower-http",
];

/// Crates below the edges that speak HTTP all the same, and why.
const SPEAKS_WIRE: &[(&str, &str)] = &[
    (
        "skep-client",
        "a client of the REST API and of agents is HTTP",
    ),
    ("skep-egress", "a proxy of HTTP, in a process of its own"),
    ("skep-http", "the client of HTTP that all others make"),
    ("skep-oci", "a client of registries is HTTP"),
    ("skep-webhooks", "receivers of webhooks are HTTP"),
    ("skep-wire", "the bodies themselves"),
];

/// Crates below the edges that read or write JSON, and which. No type that others see says so.
const SPEAKS_JSON: &[(&str, &str)] = &[
    (
        "skep-checkpoint",
        "archives of memory file systems, files of our own",
    ),
    ("skep-client", "answers of the API"),
    ("skep-dockerfile", "commands in exec form are JSON"),
    ("skep-egress", "messages between two processes of ours"),
    ("skep-host", "rules for `nft`"),
    ("skep-image", "manifests of templates, files of our own"),
    ("skep-install", "the plan of an uninstall, for programs"),
    ("skep-identity", "tokens are JSON inside"),
    ("skep-jupyter", "Jupyter's messages are JSON"),
    ("skep-kernels", "messages of kernels"),
    ("skep-launch", "launch plans between two processes of ours"),
    ("skep-native", "launch records, requests for forks"),
    (
        "skep-node",
        "records of drivers, the agent's configuration and log",
    ),
    ("skep-notebook", "notebooks are JSON"),
    (
        "skep-store",
        "orders and results of builds, in columns of ours",
    ),
    ("skep-oci", "manifests of images, files of credentials"),
    ("skep-wire", "the bodies themselves"),
];

const NODE_INTERNALS: &[&str] = &[
    "skep-node",
    "skep-isolation",
    "skep-native",
    "skep-host",
    "skep-launch",
    "skep-store",
];

/// A crate of the workspace, as cargo knows it.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Dependencies of its code, build scripts included.
    pub(crate) dependencies: Vec<String>,
    /// Dependencies of its tests alone.
    pub(crate) dev_dependencies: Vec<String>,
}

pub(super) fn check(members: &[Member]) -> Vec<Violation> {
    let table: BTreeMap<&str, &Entry> = TABLE.iter().map(|entry| (entry.name, entry)).collect();
    let mut violations = Vec::new();
    for member in members {
        match table.get(member.name.as_str()) {
            None => violations.push(Violation::new(
                RULE,
                &member.name,
                "is not in the layer table (xtask/src/tidy/layers.rs and ARCHITECTURE.md)",
            )),
            Some(entry) => {
                let complaints = complaints(member, entry, &table);
                violations.extend(
                    complaints
                        .into_iter()
                        .map(|message| Violation::new(RULE, &member.name, message)),
                );
            }
        }
    }
    let gone = TABLE
        .iter()
        .filter(|entry| !members.iter().any(|member| member.name == entry.name));
    violations.extend(gone.map(|entry| {
        Violation::new(
            RULE,
            entry.name,
            "is in the layer table but not in the workspace",
        )
    }));
    violations
}

fn complaints(member: &Member, entry: &Entry, table: &BTreeMap<&str, &Entry>) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in &member.dependencies {
        if entry.never.contains(&name.as_str()) || is_of_edges(entry, name) {
            complaints.push(format!("must not know {name}"));
            continue;
        }
        complaints.extend(wrong_way(entry, name, table));
        let for_tests = table
            .get(name.as_str())
            .is_some_and(|other| other.place == Place::Tests);
        if for_tests && entry.place != Place::Tests {
            complaints.push(format!(
                "depends on {name}, which is for tests; make it a dev-dependency"
            ));
        }
    }
    // A test may put together what the crate itself must not know, but not from above.
    for name in &member.dev_dependencies {
        complaints.extend(wrong_way(entry, name, table));
    }
    complaints
}

/// Returns true if `name` is for the edges, which `entry` is not and has no excuse.
fn is_of_edges(entry: &Entry, name: &str) -> bool {
    let excused = |list: &[(&str, &str)]| list.iter().any(|(excused, _)| *excused == entry.name);
    entry.row < Row::Edge
        && entry.place != Place::Tests
        && (WIRE.contains(&name) && !excused(SPEAKS_WIRE)
            || name == "serde_json" && !excused(SPEAKS_JSON))
}

/// Description of a wrong dependency from `entry` on `name`, if it is one.
fn wrong_way(entry: &Entry, name: &str, table: &BTreeMap<&str, &Entry>) -> Option<String> {
    let other = table.get(name)?;
    if other.place == Place::Tests {
        return None;
    }
    if other.row > entry.row {
        return Some(format!(
            "depends on {name}, which is above it ({:?} on {:?})",
            entry.row, other.row
        ));
    }
    if entry.row == Row::Edge && other.row == Row::Edge {
        return Some(format!("depends on {name}; edges do not know each other"));
    }
    let same_place = other.place == Place::Anywhere || other.place == entry.place;
    if !same_place && entry.row != Row::Binary {
        return Some(format!(
            "depends on {name}, which runs elsewhere ({:?}, not {:?})",
            other.place, entry.place
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages about one crate with the given dependencies, the rest of the table being well.
    fn messages(name: &str, dependencies: &[&str], dev_dependencies: &[&str]) -> Vec<String> {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let members: Vec<Member> = TABLE
            .iter()
            .map(|entry| {
                let is_it = entry.name == name;
                Member {
                    name: entry.name.to_owned(),
                    dependencies: if is_it {
                        list(dependencies)
                    } else {
                        Vec::new()
                    },
                    dev_dependencies: if is_it {
                        list(dev_dependencies)
                    } else {
                        Vec::new()
                    },
                }
            })
            .collect();
        check(&members)
            .into_iter()
            .map(|violation| violation.message)
            .collect()
    }

    #[test]
    fn arrows_that_point_down_are_fine() {
        assert_eq!(
            messages(
                "skep",
                &["skep-api", "skep-agent", "skep-native", "tokio"],
                &["skep-testkit"]
            ),
            [""; 0]
        );
        assert_eq!(
            messages(
                "skep-native",
                &["skep-isolation", "skep-launch", "skep-linux"],
                &[]
            ),
            [""; 0]
        );
    }

    #[test]
    fn a_lower_row_does_not_depend_on_a_higher_one() {
        assert_eq!(
            messages("skep-store", &["skep-control"], &[]),
            ["depends on skep-control, which is above it (Mechanism on Service)"]
        );
        assert_eq!(messages("skep-types", &[], &["skep-store"]).len(), 1);
    }

    #[test]
    fn edges_do_not_know_each_other() {
        assert_eq!(
            messages("skep-api", &["skep-proxy"], &[]),
            ["depends on skep-proxy; edges do not know each other"]
        );
    }

    #[test]
    fn what_runs_in_a_sandbox_knows_no_server_crate() {
        assert_eq!(
            messages(
                "skep-agent",
                &["skep-wire", "skep-linux", "skep-telemetry"],
                &[]
            ),
            [""; 0]
        );
        for name in [
            "skep-store",
            "skep-native",
            "skep-launch",
            "skep-image",
            "skep-control",
        ] {
            assert_eq!(
                messages("skep-agent", &[name], &[]),
                [format!(
                    "depends on {name}, which runs elsewhere (Server, not Sandbox)"
                )]
            );
        }
    }

    #[test]
    fn forbidden_knowledge_is_named() {
        assert_eq!(
            messages("skep-types", &["tokio"], &[]),
            ["must not know tokio"]
        );
        assert_eq!(
            messages("skep-control", &["skep-node"], &[]),
            ["must not know skep-node"]
        );
        assert_eq!(messages("skep-control", &[], &["skep-node"]), [""; 0]);
    }

    #[test]
    fn below_the_edges_nobody_knows_http_and_few_know_json() {
        for name in ["skep-store", "skep-control", "skep-node", "skep-native"] {
            for wire in ["http", "hyper", "buffa", "skep-wire"] {
                assert_eq!(
                    messages(name, &[wire], &[]),
                    [format!("must not know {wire}")]
                );
            }
        }
        assert_eq!(
            messages("skep-control", &["serde_json"], &[]),
            ["must not know serde_json"]
        );
        assert_eq!(messages("skep-node", &["serde_json"], &[]), [""; 0]);
        assert_eq!(messages("skep-proxy", &["http", "skep-wire"], &[]), [""; 0]);
    }

    #[test]
    fn every_excuse_is_of_a_crate_that_needs_one() {
        for (name, reason) in SPEAKS_WIRE.iter().chain(SPEAKS_JSON) {
            let entry = TABLE.iter().find(|entry| entry.name == *name);
            assert!(entry.is_some_and(|entry| entry.row < Row::Edge), "{name}");
            assert!(!reason.is_empty(), "{name}");
        }
    }

    #[test]
    fn the_testkit_is_for_tests() {
        assert_eq!(messages("skep-types", &[], &["skep-testkit"]), [""; 0]);
        assert_eq!(
            messages("skep-node", &["skep-testkit"], &[]),
            ["depends on skep-testkit, which is for tests; make it a dev-dependency"]
        );
    }

    #[test]
    fn table_and_workspace_have_the_same_crates() {
        let stranger = Member {
            name: "skep-common".to_owned(),
            dependencies: Vec::new(),
            dev_dependencies: Vec::new(),
        };
        let violations = check(&[stranger]);
        assert!(
            violations[0]
                .message
                .starts_with("is not in the layer table")
        );
        assert_eq!(violations.len(), 1 + TABLE.len());
    }
}
