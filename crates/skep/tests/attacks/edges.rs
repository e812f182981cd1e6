//! Attacks on what stands around a sandbox, which are tests of the crates that hold them.

mod egress;

use std::fmt::Write as _;
use std::path::Path;

/// An attack that no program in a sandbox makes.
struct Edge {
    group: &'static str,
    tries: &'static str,
    /// The file below `crates`, and the test in it.
    test: (&'static str, &'static str),
    control: Control,
}

/// The case in which the same attack succeeds, or does what it would have had to.
enum Control {
    /// In the same test.
    Same(&'static str),
    /// A test of its own, in the same file.
    Beside(&'static str, &'static str),
}

const CROWDS: &str = "skep-proxy/tests/it/crowds.rs";
const STRANGERS: &str = "skep-proxy/tests/it/strangers.rs";
const RECIPES: &str = "skep-launch/tests/it/build.rs";

const EDGES: &[Edge] = &[
    Edge {
        group: "front door",
        tries: "Locks callers out with silent connections, from one address and from many.",
        test: (CROWDS, "a_silent_crowd_locks_nobody_out"),
        control: Control::Beside(
            "an_address_that_is_full_of_callers_is_told_so_and_others_are_not",
            "connections that cannot be let go do",
        ),
    },
    Edge {
        group: "front door",
        tries: "Keeps connections after one request, with a wrong key or none.",
        test: (
            "skep-proxy/tests/it/limits.rs",
            "only_who_has_shown_a_key_or_token_is_waited_for",
        ),
        control: Control::Same("those of a key and of a token stay"),
    },
    Edge {
        group: "front door",
        tries: "Sends heads without an end, which the server has to keep.",
        test: (
            "skep-proxy/tests/it/limits.rs",
            "a_head_of_more_than_64_kib_is_refused_however_it_is_cut",
        ),
        control: Control::Same("a head of 60 KiB is read"),
    },
    Edge {
        group: "front door",
        tries: "Opens as many streams of HTTP/2 on one connection as its address may have connections.",
        test: (
            STRANGERS,
            "one_connection_is_no_way_around_the_bound_of_its_address",
        ),
        control: Control::Same("with a key there is no such bound"),
    },
    Edge {
        group: "front door",
        tries: "Holds answers in the server's memory by not reading them.",
        test: (
            STRANGERS,
            "a_stranger_that_does_not_read_is_cut_and_a_caller_is_not",
        ),
        control: Control::Same("a caller with a token is waited for"),
    },
    Edge {
        group: "front door",
        tries: "Has every sandbox's token hashed with a signed link that nobody can have signed.",
        test: (
            "skep-proxy/src/routing/signed_url.rs",
            "what_nobody_can_have_signed_is_not_hashed",
        ),
        control: Control::Same("a link with the longest path there is, is"),
    },
    Edge {
        group: "front door",
        tries: "Passes on a switch of protocols that nobody asked for, with another answer behind it.",
        test: (
            "skep-proxy/tests/it/upgrades.rs",
            "a_switch_that_nobody_asked_for_is_no_answer",
        ),
        control: Control::Same("whoever asked for that switch gets it"),
    },
    Edge {
        group: "front door",
        tries: "Keeps the server busy with answers of a service that never end their head.",
        test: (
            "skep-proxy/tests/it/floods.rs",
            "endless_interim_answers_are_no_answer",
        ),
        control: Control::Beside(
            "a_client_without_a_bound_reads_endless_interim_answers",
            "a client without the bound reads on",
        ),
    },
    Edge {
        group: "keys and tokens",
        tries: "Reads a key of the server in a service of a sandbox.",
        test: (
            "skep-proxy/tests/it/origins.rs",
            "a_key_of_the_server_reaches_no_service",
        ),
        control: Control::Same("what the service itself asks for arrives"),
    },
    Edge {
        group: "keys and tokens",
        tries: "Lists, makes, restarts and removes contexts of a sandbox whose id it knows.",
        test: (
            "skep-interpreter/tests/it/refusals.rs",
            "contexts_are_opened_by_a_token_alone",
        ),
        control: Control::Same("an interpreter without tokens obeys"),
    },
    Edge {
        group: "keys and tokens",
        tries: "Reaches the agent's control routes through the proxy, in every spelling.",
        test: (
            "skep-proxy/tests/it/refusals.rs",
            "control_routes_of_the_agent_are_refused_in_every_spelling",
        ),
        control: Control::Same("routes beside them are reached"),
    },
    Edge {
        group: "keys and tokens",
        tries: "Makes sandboxes on a server that asks for no key, from a page of a sandbox or of another site.",
        test: (
            "skep-api/tests/it/access.rs",
            "a_server_that_trusts_everybody_trusts_no_other_sites_pages",
        ),
        control: Control::Same("a page of this host, and none, are answered"),
    },
    Edge {
        group: "the host",
        tries: "Reads disks and logs in a data directory that was open to everybody.",
        test: (
            "skep-install/src/data_dir.rs",
            "an_installation_that_others_could_read_is_closed_to_them",
        ),
        control: Control::Same("before the server starts, others may read it"),
    },
    Edge {
        group: "the host",
        tries: "Has the host route between its other networks, because sandboxes need forwarding.",
        test: (
            "skep-native/tests/it/router.rs",
            "two_networks_of_a_machine_stay_apart",
        ),
        control: Control::Same("a server without that rule makes it a router"),
    },
    Edge {
        group: "the host",
        tries: "Fills the host's table of connections with questions for names, from a sandbox without internet.",
        test: (
            "skep-native/tests/it/network.rs",
            "questions_for_names_fill_no_table_of_the_host",
        ),
        control: Control::Same("where they are tracked, each leaves an entry"),
    },
    Edge {
        group: "the host",
        tries: "Computes in the agent, which the limit of the processes that it starts does not hold.",
        test: (
            "skep-host/src/cgroup/tests.rs",
            "a_sandbox_with_its_agent_has_a_little_more_of_a_processor_than_its_work",
        ),
        control: Control::Same(
            "what the kernel was told is read, since on a busy host nobody gets more anyway; \
             `processor_time_is_dealt_out` in `skep-native` sees it kept",
        ),
    },
    Edge {
        group: "the host",
        tries: "Outlives its end in cgroups that no path can name.",
        test: (
            "skep-native/tests/it/destroy.rs",
            "groups_that_no_path_can_name_keep_no_sandbox_alive",
        ),
        control: Control::Same("a path fails there (`bombs::deep_cgroups`)"),
    },
    Edge {
        group: "recipes",
        tries: "Makes a device of the host in a step of a recipe.",
        test: (RECIPES, "a_build_step_can_make_no_device_anywhere"),
        control: Control::Beside(
            "devices_are_opened_where_neither_wall_stands",
            "where neither wall stands, a disk is read",
        ),
    },
    Edge {
        group: "recipes",
        tries: "Opens a device of the host that a step of a recipe could make.",
        test: (
            RECIPES,
            "a_build_step_that_could_make_a_device_could_not_open_it",
        ),
        control: Control::Beside("devices_are_opened_where_neither_wall_stands", "the same"),
    },
];

const HEAD: &str = "
## Around the sandboxes

What strangers, callers, pages in browsers and steps of recipes try is not a program in a sandbox, but a test of the crate that holds it.
The suite checks that each test named here is there.
";

const EGRESS_HEAD: &str = "
## On the way out

Sandboxes that reach only hosts with names, or have rules for requests, do so through [a proxy](network.md). What they try there are tests, too: sandboxes in
them have nothing but a network that the test makes, which plays the internet.
";

const COLUMNS: &str = "
| where | tries | test | control |
|---|---|---|---|
";

/// The sections of the page about them.
pub(crate) fn sections() -> String {
    [section(HEAD, EDGES), section(EGRESS_HEAD, egress::EDGES)].concat()
}

fn section(head: &str, edges: &[Edge]) -> String {
    let mut text = [head, COLUMNS].concat();
    for edge in edges {
        let (file, test) = edge.test;
        let control = match &edge.control {
            Control::Same(says) => (*says).to_owned(),
            Control::Beside(test, says) => format!("`{test}`: {says}"),
        };
        let (group, tries) = (edge.group, edge.tries);
        writeln!(
            text,
            "| {group} | {tries} | `{test}`, `{file}` | {control} |"
        )
        .unwrap();
    }
    text
}

/// Checks that every test that the section names is where it says.
pub(crate) fn check() -> Result<(), String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut missing = Vec::new();
    for edge in EDGES.iter().chain(egress::EDGES) {
        let (file, test) = edge.test;
        let source = std::fs::read_to_string(crates.join(file)).unwrap_or_default();
        let beside = match edge.control {
            Control::Same(_) => None,
            Control::Beside(test, _) => Some(test),
        };
        for test in [Some(test), beside].into_iter().flatten() {
            if !source.contains(&format!("fn {test}()")) {
                missing.push(format!("{file}: {test}"));
            }
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(missing.join(", "))
    }
}
