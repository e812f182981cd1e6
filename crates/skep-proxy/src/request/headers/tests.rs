use std::net::Ipv4Addr;

use http::Request;
use skep_types::AccessToken;

use super::*;
use crate::fake::FakeRoutes;

/// The head a sandbox sees of `GET <uri>` with `headers`, as sorted lines.
fn seen(uri: &str, headers: &[(&str, &str)], port: u16, named_by: NamedBy) -> Vec<String> {
    let mut request = Request::get(uri);
    let route = FakeRoutes::default().publish_as(|route| {
        route.access_token = Some(AccessToken::from_record("secret"));
    });
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    let passage = Passage {
        route: &route,
        port,
        named_by,
        peer: Ipv4Addr::new(192, 0, 2, 7).into(),
        secure: true,
        config: &ProxyConfig::new("skep.test"),
    };
    towards_sandbox(&mut parts, &passage);
    let line =
        |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
    let mut lines: Vec<String> = parts.headers.iter().map(line).collect();
    lines.push(parts.uri.to_string());
    lines.sort();
    lines
}

#[test]
fn a_length_that_could_be_read_differently_is_not_passed_on() {
    let lengths = |lengths: &[&str]| {
        let headers: Vec<_> = lengths
            .iter()
            .map(|length| ("content-length", *length))
            .collect();
        let mut lines = seen("/", &headers, 8080, NamedBy::Host);
        lines.retain(|line| line.starts_with("content-length"));
        lines
    };
    assert_eq!(lengths(&["7"]), ["content-length: 7"]);
    for odd in [&[""][..], &["+7"], &["7", "7"], &["7", "8"], &["7, 8"]] {
        assert!(lengths(odd).is_empty(), "{odd:?}");
    }
}

#[test]
fn tokens_reach_only_those_who_need_them() {
    let secrets = [
        ("x-access-token", "a"),
        ("e2b-traffic-access-token", "b"),
        ("x-api-key", "c"),
        ("x-skep-control", "d"),
        ("x-skep-request", "e"),
    ];
    let left = |port| {
        let mut lines = seen("/", &secrets, port, NamedBy::Host);
        lines.retain(|line| secrets.iter().any(|(name, _)| line.starts_with(name)));
        lines
    };
    assert_eq!(left(AGENT_PORT), ["x-access-token: a"]);
    assert_eq!(
        left(INTERPRETER_PORT),
        ["e2b-traffic-access-token: b", "x-access-token: a"]
    );
    // A service of the user may have API keys of its own.
    assert_eq!(left(8080), ["x-api-key: c"]);
}

/// Value of one header as a service at `port` sees it.
fn passed(name: &str, value: &str, port: u16) -> Option<String> {
    let lines = seen("/", &[(name, value)], port, NamedBy::Host);
    let name = format!("{}: ", name.to_ascii_lowercase());
    let mut values = lines.iter().filter_map(|line| line.strip_prefix(&name));
    values.next().map(str::to_owned)
}

#[test]
fn keys_reach_no_service_in_whatever_header_they_stand() {
    let key = "e2b_0123456789abcdef0123456789abcdef01234567";
    for port in [8080, AGENT_PORT, INTERPRETER_PORT] {
        for (name, value) in [
            ("x-api-key", key.to_owned()),
            ("X-Api-Key", format!("other, {key}")),
            ("authorization", format!("Bearer \"{key}\"")),
            (
                "authorization",
                format!("Bearer x, Bearer {}", key.to_uppercase()),
            ),
            ("x-anything", format!("<{key}>")),
            ("cookie", format!("key={key}")),
            // `user:` and the key.
            (
                "authorization",
                "Basic dXNlcjplMmJfMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nw=="
                    .to_owned(),
            ),
            (key, "in the name".to_owned()),
        ] {
            assert_eq!(passed(name, &value, port), None, "{name}: {value}");
        }
        // The control: the same without a key passes.
        let cookies = format!("a=1; key={key};b=2");
        assert_eq!(passed("cookie", &cookies, port).unwrap(), "a=1; b=2");
        for (name, value) in [
            ("authorization", "Bearer e2b_mine"),
            ("authorization", "Basic dXNlcjpwYXNz"),
            ("cookie", "a=1;b=2"),
        ] {
            assert_eq!(passed(name, value, port).unwrap(), value);
        }
    }
}

#[test]
fn tokens_of_a_sandbox_reach_no_service_of_its_user() {
    let traffic = AccessToken::from_record("secret").traffic();
    let values = [
        "Bearer secret".to_owned(),
        format!("token=\"{}\"", traffic.reveal()),
        // `user:secret`
        "Basic dXNlcjpzZWNyZXQ=".to_owned(),
    ];
    for value in values {
        assert_eq!(passed("authorization", &value, 8080), None, "{value}");
        assert_eq!(passed("x-other", &value, 8080), None, "{value}");
        let agent = passed("authorization", &value, AGENT_PORT);
        assert_eq!(agent.unwrap(), value, "the control");
    }
    assert_eq!(passed("x-other", "secrets", 8080).unwrap(), "secrets");
}

#[test]
fn a_service_sees_its_name_and_where_the_request_came_from() {
    let headers = [
        ("host", "8080-x.skep.test"),
        ("x-forwarded-for", "203.0.113.1"),
    ];
    assert_eq!(
        seen("/a?b=c", &headers, 8080, NamedBy::Host),
        [
            "/a?b=c",
            "host: 8080-x.skep.test",
            "x-forwarded-for: 203.0.113.1, 192.0.2.7",
            "x-forwarded-host: 8080-x.skep.test",
            "x-forwarded-proto: https",
        ]
    );
    let agent = seen("https://49983-x.skep.test/", &[], AGENT_PORT, NamedBy::Host);
    assert!(
        agent.contains(&"host: 49983-x.skep.test".to_owned()),
        "{agent:?}"
    );
}

#[test]
fn routing_headers_that_have_done_their_work_stay_behind() {
    let headers = [("e2b-sandbox-id", "x"), ("e2b-sandbox-port", "1")];
    let named = |named_by| {
        let lines = seen("/", &headers, 8080, named_by);
        lines
            .iter()
            .filter(|line| line.starts_with("e2b-sandbox"))
            .count()
    };
    assert_eq!(named(NamedBy::Headers), 0);
    assert_eq!(named(NamedBy::Host), 2);
}

#[test]
fn what_concerns_one_connection_is_not_passed_on() {
    let headers = [
        ("connection", "keep-alive, x-private"),
        ("keep-alive", "timeout=5"),
        ("x-private", "1"),
        ("te", "trailers, deflate"),
        ("transfer-encoding", "chunked"),
        ("proxy-authorization", "Basic x"),
        ("upgrade", "websocket"),
        ("expect", "100-continue"),
        ("x-public", "1"),
    ];
    let mut lines = seen("/", &headers, 8080, NamedBy::Host);
    lines.retain(|line| !line.starts_with("x-forwarded") && !line.starts_with("host"));
    assert_eq!(lines, ["/", "te: trailers", "x-public: 1"]);
}

#[test]
fn a_sandbox_is_always_asked_for_a_path() {
    for (uri, path) in [
        ("http://a.test", "/"),
        ("http://a.test#part", "/"),
        ("http://a.test?x=1", "/?x=1"),
        ("http://a.test/a#part", "/a"),
    ] {
        let lines = seen(uri, &[], 8080, NamedBy::Host);
        assert!(lines.iter().any(|line| line == path), "{uri}: {lines:?}");
    }
}

#[test]
fn only_a_wanted_and_passable_upgrade_counts() {
    let asked = |connection: &str, protocol: &str| {
        let request = Request::get("/")
            .header("connection", connection)
            .header("upgrade", protocol)
            .body(())
            .unwrap();
        upgrade(&request.into_parts().0).is_some()
    };
    assert!(asked("keep-alive, Upgrade", "websocket"));
    assert!(!asked("keep-alive", "websocket"));
    assert!(!asked("Upgrade, HTTP2-Settings", "h2c"));
}
