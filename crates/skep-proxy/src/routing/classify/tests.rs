use http::Request;
use proptest::prelude::*;

use super::*;

const ID: &str = "i0123456789abcdefghij";

/// Classifies `GET <path>` with the given headers on a server of the domain `skep.test`.
#[track_caller]
fn check(path: &str, headers: &[(&str, &str)], expected: Destination) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let named = path.contains("://") || headers.iter().any(|(name, _)| *name == "host");
    if !named {
        request = request.header("host", "localhost");
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    assert_eq!(classify(&parts, &config()), expected, "{path} {headers:?}");
}

fn config() -> ProxyConfig {
    ProxyConfig::new("skep.test")
}

fn by(named_by: NamedBy, port: u16) -> Destination {
    let id = ID.parse().unwrap();
    Destination::Sandbox(Target { id, port, named_by })
}

fn missing(header: &'static str) -> Destination {
    Destination::Misaddressed(Misaddressed::MissingHeader(header))
}

#[test]
fn a_host_label_names_port_and_sandbox() {
    let host = |host: &str, expected| check("/", &[("host", host)], expected);
    host(&format!("8080-{ID}.skep.test"), by(NamedBy::Host, 8080));
    host(
        &format!("49983-{ID}-00000000.skep.test:3000"),
        by(NamedBy::Host, 49983),
    );
    host(
        &format!("80-{}.SKEP.test.", ID.to_uppercase()),
        by(NamedBy::Host, 80),
    );
    host(&format!("80-{ID}.another.name"), by(NamedBy::Host, 80));
}

#[test]
fn a_host_label_that_tries_to_name_a_sandbox_is_told_what_is_wrong() {
    let wrong = Destination::Misaddressed;
    let host = |host: &str, expected| check("/", &[("host", host)], expected);
    host(
        &format!("0-{ID}.skep.test"),
        wrong(Misaddressed::InvalidPort),
    );
    host(
        &format!("65536-{ID}.skep.test"),
        wrong(Misaddressed::InvalidPort),
    );
    host(
        &format!("web-{ID}.skep.test"),
        wrong(Misaddressed::InvalidPort),
    );
    host("80-no_id.skep.test", wrong(Misaddressed::InvalidSandboxId));
    host("80-.skep.test", wrong(Misaddressed::InvalidSandboxId));
    let name = "gone".to_owned();
    host("80-gone.skep.test", Destination::NoSuchSandbox { name });
}

#[test]
fn the_machines_own_names_are_the_apis() {
    for host in [
        "localhost",
        "127.0.0.1:3000",
        "[::1]:3000",
        "skep.test",
        "api.skep.test",
    ] {
        check("/sandboxes", &[("host", host)], Destination::Api);
    }
    check("/", &[("host", "10-0-0-1.example.com")], Destination::Api);
    check("/health", &[("host", "localhost")], Destination::Api);
    check("/health", &[], Destination::Api);
}

#[test]
fn routing_headers_count_on_every_host_name_but_a_sandboxs() {
    let routing = |host: &str, expected| {
        let headers = [
            ("host", host),
            ("e2b-sandbox-id", ID),
            ("e2b-sandbox-port", "49983"),
        ];
        check("/health", &headers, expected);
    };
    for host in [
        "localhost",
        "127.0.0.1",
        "sandbox.skep.test",
        "some-name",
        "box.example.com",
    ] {
        routing(host, by(NamedBy::Headers, 49983));
    }
    routing(&format!("8080-{ID}.skep.test"), by(NamedBy::Host, 8080));
    routing("api.skep.test", Destination::Api);
}

#[test]
fn half_a_routing_header_is_told_what_is_missing() {
    check("/", &[("e2b-sandbox-id", ID)], missing("E2b-Sandbox-Port"));
    check(
        "/",
        &[("e2b-sandbox-port", "80")],
        missing("E2b-Sandbox-Id"),
    );
    check(
        "/",
        &[("host", "sandbox.skep.test")],
        missing("E2b-Sandbox-Id"),
    );
    for port in ["", "0", "+80", "80 ", "65536", "http"] {
        let wrong = Destination::Misaddressed(Misaddressed::InvalidPort);
        check(
            "/",
            &[("e2b-sandbox-id", ID), ("e2b-sandbox-port", port)],
            wrong,
        );
    }
}

#[test]
fn an_api_key_beside_routing_headers_is_for_the_api() {
    let key = ("x-api-key", "e2b_00");
    let routing = [key, ("e2b-sandbox-id", ID), ("e2b-sandbox-port", "49983")];
    check(
        &format!("/sandboxes/{ID}/connect"),
        &routing,
        Destination::Api,
    );
    let host = format!("8080-{ID}.skep.test");
    check("/", &[key, ("host", &host)], by(NamedBy::Host, 8080));
}

#[test]
fn an_access_token_alone_finds_its_agent_on_the_agents_paths() {
    let token = [("x-access-token", "t")];
    for path in [
        "/files?path=a",
        "/health",
        "/files/compose",
        "/process.Process/Start",
    ] {
        check(path, &token, Destination::TokenHolder);
    }
    check("/sandboxes", &token, Destination::Api);
}

#[test]
fn a_signed_url_finds_its_signer() {
    check("/files?path=a&signature=v1_x", &[], Destination::Signer);
    check("/files?path=signature", &[], Destination::Api);
    check("/other?signature=v1_x", &[], Destination::Api);
}

#[test]
fn http_2_names_its_host_in_the_authority() {
    let uri = format!("https://49999-{ID}.skep.test:8443/execute");
    check(&uri, &[], by(NamedBy::Host, 49999));
    check(&uri, &[("host", "localhost")], by(NamedBy::Host, 49999));
}

#[test]
fn a_request_that_names_no_single_host_is_for_nobody() {
    let invalid = || Destination::Misaddressed(Misaddressed::InvalidHost);
    for host in [
        format!("8000-{ID}.localhost/x?y\"<script>"),
        format!("8000-{ID}.localhost:evil:80"),
        format!("[8000-{ID}.localhost]"),
        "localhost:1@evil.example".to_owned(),
    ] {
        check("/", &[("host", &host)], invalid());
    }
    let two = [("host", "localhost"), ("host", "evil.example")];
    check("/", &two, invalid());
    check(
        &format!("http://8000-{ID}.localhost:@localhost/"),
        &[],
        invalid(),
    );
    // A probe of HTTP/1.0 names none.
    let (mut parts, ()) = Request::get("/health").body(()).unwrap().into_parts();
    assert_eq!(classify(&parts, &config()), invalid());
    parts.version = http::Version::HTTP_10;
    assert_eq!(classify(&parts, &config()), Destination::Api);
}

proptest! {
    #[test]
    fn whatever_the_head_says_there_is_an_answer(
        host in "[ -~]{0,80}",
        id in "[ -~]{0,40}",
        port in "[ -~]{0,10}",
        path in "/[!-~]{0,40}",
        marks in any::<[bool; 4]>(),
    ) {
        let mut request = Request::get(path);
        let headers = [("host", host), ("e2b-sandbox-id", id), ("e2b-sandbox-port", port)];
        for ((name, value), _) in headers.into_iter().zip(marks).filter(|(_, mark)| *mark) {
            request = request.header(name, value);
        }
        if let Ok(request) = request.body(()) {
            classify(&request.into_parts().0, &config());
        }
    }

    #[test]
    fn a_well_formed_sandbox_host_always_names_that_sandbox(
        port in 1..=u16::MAX,
        domain in "[a-z]{1,8}(\\.[a-z]{1,8}){0,2}",
        client in proptest::option::of("[0-9a-f]{8}"),
    ) {
        let rest = client.map(|client| format!("-{client}")).unwrap_or_default();
        check("/", &[("host", &format!("{port}-{ID}{rest}.{domain}"))], by(NamedBy::Host, port));
    }
}
