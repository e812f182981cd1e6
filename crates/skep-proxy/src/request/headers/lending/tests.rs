use std::net::Ipv4Addr;

use http::Request;

use super::*;
use crate::fake::FakeRoutes;
use crate::routing::classify::NamedBy;

/// A request, and what may be done about the token that it lacks.
struct Case<'a> {
    method: &'a str,
    uri: &'a str,
    headers: &'a [(&'a str, &'a str)],
    port: u16,
    is_open: bool,
    demand_tokens: DemandTokens,
    contexts_without_token: bool,
}

/// Code for the interpreter of a sandbox whose owner wanted no token.
const OPEN: Case<'_> = Case {
    method: "POST",
    uri: "/execute",
    headers: &[],
    port: INTERPRETER_PORT,
    is_open: true,
    demand_tokens: DemandTokens::AsOrdered,
    contexts_without_token: false,
};

/// A new context in one whose owner wanted a token.
const CONTEXT: Case<'_> = Case {
    uri: "/contexts",
    is_open: false,
    contexts_without_token: true,
    ..OPEN
};

/// The names of headers with the right token after lending.
fn lent(case: &Case<'_>) -> Vec<&'static str> {
    let token = AccessToken::from_record("secret");
    let route = FakeRoutes::default().publish_as(|route| {
        route.access_token = Some(token.clone());
        route.is_open = case.is_open;
    });
    let mut request = Request::builder().method(case.method).uri(case.uri);
    if !case.headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "49999-i0.skep.test");
    }
    for (name, value) in case.headers {
        request = request.header(*name, *value);
    }
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    let passage = Passage {
        route: &route,
        port: case.port,
        named_by: NamedBy::Host,
        peer: Ipv4Addr::LOCALHOST.into(),
        secure: false,
        config: &ProxyConfig {
            contexts_without_token: case.contexts_without_token,
            demand_tokens: case.demand_tokens,
            ..ProxyConfig::new("skep.test")
        },
    };
    if let Some(lent) = Lent::to(&parts, &passage) {
        lent.insert_into(&mut parts.headers);
    }
    let right = [(ACCESS_TOKEN, &token), (TRAFFIC_TOKEN, &token.traffic())];
    let is_shown = |(name, token): &(&'static str, &AccessToken)| {
        let shown = parts.headers.get(*name);
        shown.is_some_and(|value| value == token.reveal())
    };
    let shown = right.into_iter().filter(is_shown);
    shown.map(|(name, _)| name).collect()
}

#[test]
fn the_token_of_an_open_sandbox_is_lent_unless_the_operator_forbids_it() {
    assert_eq!(lent(&OPEN), [ACCESS_TOKEN]);
    let agent = Case {
        port: AGENT_PORT,
        uri: "/process.Process/Start",
        ..OPEN
    };
    assert_eq!(lent(&agent), [ACCESS_TOKEN]);
    assert!(
        lent(&Case {
            demand_tokens: DemandTokens::Always,
            ..OPEN
        })
        .is_empty()
    );
    assert!(
        lent(&Case {
            is_open: false,
            ..OPEN
        })
        .is_empty()
    );
    assert!(lent(&Case { port: 8080, ..OPEN }).is_empty());
}

#[test]
fn what_another_proxy_passes_on_is_lent_a_token_only_if_the_operator_says_so() {
    for name in ["x-forwarded-for", "forwarded", "via"] {
        let forwarded = Case {
            headers: &[(name, "for=203.0.113.1")],
            ..OPEN
        };
        assert_eq!(lent(&forwarded), [ACCESS_TOKEN], "{name}");
        let demand_tokens = DemandTokens::WhenForwarded;
        assert!(
            lent(&Case {
                demand_tokens,
                ..forwarded
            })
            .is_empty(),
            "{name}"
        );
        assert_eq!(
            lent(&Case {
                demand_tokens,
                ..OPEN
            }),
            [ACCESS_TOKEN]
        );
    }
}

#[test]
fn pages_are_lent_nothing_whatever_sandbox_they_know() {
    for header in [
        ("origin", "http://evil.test"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "same-origin"),
    ] {
        assert!(
            lent(&Case {
                headers: &[header],
                ..OPEN
            })
            .is_empty(),
            "{header:?}"
        );
    }
    // What people type into a browser, and what programs say.
    for header in [("sec-fetch-site", "none"), ("sec-fetch-mode", "cors")] {
        assert_eq!(
            lent(&Case {
                headers: &[header],
                ..OPEN
            }),
            [ACCESS_TOKEN]
        );
    }
}

/// A page whose name leads here is of one origin with what it asks for: its browser sends a GET
/// without a word about the page, where a name is no secure context.
#[test]
fn a_page_that_has_its_own_name_lead_here_is_lent_nothing() {
    let asked = |host: &str, demand_tokens: DemandTokens| {
        let case = Case {
            method: "GET",
            uri: "/files?path=/home/user/.ssh/id_ed25519",
            headers: &[("host", host)],
            port: AGENT_PORT,
            demand_tokens,
            ..OPEN
        };
        !lent(&case).is_empty()
    };
    for demand_tokens in [DemandTokens::AsOrdered, DemandTokens::WhenForwarded] {
        for host in [
            "evil.test:3000",
            "49983-i0123456789abcdefghij.evil.test",
            "skep.test.evil.test",
            "evilskep.test",
            "notlocalhost",
        ] {
            assert!(!asked(host, demand_tokens), "{host}");
        }
        for host in [
            "skep.test:3000",
            "49983-i0123456789abcdefghij.skep.test:3000",
            "49983-i0123456789abcdefghij.localhost",
            "localhost:3000",
            "127.0.0.1:3000",
            "[::1]:3000",
        ] {
            assert!(asked(host, demand_tokens), "{host}");
        }
    }
}

#[test]
fn whoever_shows_something_is_judged_by_that() {
    for name in [ACCESS_TOKEN, TRAFFIC_TOKEN] {
        let headers = &[(name, "wrong")];
        assert!(lent(&Case { headers, ..OPEN }).is_empty());
        assert!(lent(&Case { headers, ..CONTEXT }).is_empty());
    }
    let file = Case {
        method: "GET",
        port: AGENT_PORT,
        uri: "/files?path=a",
        ..OPEN
    };
    assert_eq!(lent(&file), [ACCESS_TOKEN]);
    let uri = "/files?path=a&signature=v1_x&signature_expiration=1";
    assert!(lent(&Case { uri, ..file }).is_empty());
}

#[test]
fn a_token_is_lent_to_make_a_context_only_if_the_operator_says_so() {
    assert_eq!(lent(&CONTEXT), [TRAFFIC_TOKEN]);
    assert!(
        lent(&Case {
            contexts_without_token: false,
            ..CONTEXT
        })
        .is_empty()
    );
    assert!(
        lent(&Case {
            port: 8080,
            ..CONTEXT
        })
        .is_empty()
    );
    for (method, uri, expected) in [
        ("GET", "/contexts", false),
        ("DELETE", "/contexts/a", false),
        ("POST", "/contexts/a/restart", false),
        ("POST", "/execute", false),
        ("POST", "/contexts/", false),
        ("POST", "/contexts?x=1#/execute", true),
    ] {
        let found = lent(&Case {
            method,
            uri,
            ..CONTEXT
        });
        assert_eq!(!found.is_empty(), expected, "{method} {uri}");
    }
}
