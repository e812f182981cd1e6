//! Attacks of sandboxes on the proxy between them and the hosts that they may reach.

use super::{Control, Edge};

const NAMED: &str = "skep-native/tests/it/named_hosts.rs";
const INSPECTED: &str = "skep-native/tests/it/inspected.rs";
const OTHER_HOSTS: &str = "skep-native/tests/it/inspected/other_hosts.rs";
const LIMITED: &str = "skep-native/tests/it/inspected/limited.rs";

/// Attacks whose world is namespaces of the test, with an authority of its own.
pub(super) const EDGES: &[Edge] = &[
    Edge {
        group: "names",
        tries: "Asks for a denied host by the name in TLS, by a decoy of an allowed one beside an encrypted name (ECH), or by none.",
        test: (NAMED, "hosts_are_reached_by_the_names_that_rules_have"),
        control: Control::Same("the host that a rule names is reached, by TLS and by HTTP"),
    },
    Edge {
        group: "names",
        tries: "Names another host than the one that is read: in a later request, a second `Host`, the first line, by CONNECT, behind a body whose end is disputed, in another protocol.",
        test: (
            NAMED,
            "a_request_that_names_another_host_is_refused_wherever_it_hides_the_name",
        ),
        control: Control::Same("without the judgement of names another host is reached"),
    },
    Edge {
        group: "names",
        tries: "Has an allowed host redirect it to a denied one.",
        test: (NAMED, "a_redirect_leads_no_further_than_the_rules"),
        control: Control::Same("without the judgement of names the redirect leads there"),
    },
    Edge {
        group: "names",
        tries: "Goes on to use a connection to a host that its rules name no longer.",
        test: (
            NAMED,
            "connections_to_hosts_that_a_changed_policy_does_not_name_are_cut",
        ),
        control: Control::Same("where nobody cuts connections it goes on"),
    },
    Edge {
        group: "addresses",
        tries: "Reaches private networks, metadata services and the host by names that lead there (DNS rebinding).",
        test: (NAMED, "names_lead_nowhere_that_no_sandbox_goes"),
        control: Control::Same("without the look at addresses they are reached"),
    },
    Edge {
        group: "addresses",
        tries: "Reaches the host and other sandboxes by names where the operator has opened every range.",
        test: (
            NAMED,
            "exceptions_of_the_operator_open_neither_the_host_nor_sandboxes",
        ),
        control: Control::Same("an opened address beside them is reached"),
    },
    Edge {
        group: "addresses",
        tries: "Gets into the host where another program there redirects connections to it.",
        test: (
            NAMED,
            "connections_that_others_on_the_host_redirect_are_not_let_in",
        ),
        control: Control::Same("where the host is not closed it is let in"),
    },
    Edge {
        group: "inside TLS",
        tries: "Asks for another host inside a connection to an allowed one (domain fronting), in HTTP/1.1 and in HTTP/2.",
        test: (
            INSPECTED,
            "a_request_for_another_host_is_refused_inside_the_connection",
        ),
        control: Control::Same("where nobody reads inside, the other host answers"),
    },
    Edge {
        group: "inside TLS",
        tries: "Hides a request in the body of another, whose end two readers see at different places (smuggling).",
        test: (
            INSPECTED,
            "what_two_readers_would_see_differently_is_written_anew",
        ),
        control: Control::Same("passed on unread, the host hears the hidden one"),
    },
    Edge {
        group: "inside TLS",
        tries: "Sends methods and paths that its rule does not have.",
        test: (
            LIMITED,
            "requests_that_no_pattern_has_are_refused_with_and_without_tls",
        ),
        control: Control::Same("where nobody reads inside, they are answered"),
    },
    Edge {
        group: "inside TLS",
        tries: "Sends more requests and bytes than its rule has.",
        test: (LIMITED, "limits_of_requests_and_bytes_hold"),
        control: Control::Same("where nobody counts, all are answered"),
    },
    Edge {
        group: "secrets",
        tries: "Has a host show a certificate of the authority that sandboxes trust, or of one made in its likeness, so that it is sent a secret.",
        test: (
            OTHER_HOSTS,
            "a_host_that_imitates_the_authority_of_sandboxes_gets_nothing",
        ),
        control: Control::Same("where that authority vouches for hosts, too, it gets the secret"),
    },
    Edge {
        group: "secrets",
        tries: "Has an allowed host redirect it, so that a secret goes to another.",
        test: (OTHER_HOSTS, "a_redirect_carries_no_value_to_another_host"),
        control: Control::Same("a rule that is for both hosts sends it to both"),
    },
    Edge {
        group: "secrets",
        tries: "Takes over the process that reads what it says, and searches its memory for a secret.",
        test: (INSPECTED, "whoever_reads_the_sandbox_never_sees_a_value"),
        control: Control::Same("the process that speaks with hosts has it in its memory"),
    },
    Edge {
        group: "floods",
        tries: "Takes all connections of its proxy and says nothing.",
        test: (
            NAMED,
            "connections_that_say_nothing_hold_up_their_own_sandbox_and_not_for_long",
        ),
        control: Control::Same("all are open until they are given up"),
    },
    Edge {
        group: "floods",
        tries: "Says a byte now and then on each: in heads and first messages of TLS that never end, and in bodies.",
        test: (
            NAMED,
            "heads_that_never_end_are_given_up_and_slow_bodies_hold_up_their_own_sandbox_alone",
        ),
        control: Control::Same("a body that is as slow is waited for"),
    },
    Edge {
        group: "the proxy",
        tries: "Uses the proxy of a neighbour.",
        test: (NAMED, "a_proxy_has_no_rights_and_is_nobody_elses"),
        control: Control::Same("it serves its own sandbox"),
    },
    Edge {
        group: "the log",
        tries: "Writes to its owner's terminal by a path with control characters.",
        test: (
            "skep-cli/src/sandbox/requests.rs",
            "a_request_is_a_line_and_rules_are_learned_from_what_was_reached",
        ),
        control: Control::Same("the log has the path as it was sent"),
    },
    Edge {
        group: "the log",
        tries: "Hides a request, or ends its proxy, by a path that is longer than what is told.",
        test: (NAMED, "a_request_with_a_long_path_is_told_and_ends_nothing"),
        control: Control::Same("a short one is told, too"),
    },
];
