use http::Request;

use super::*;

const HOST: &str = "8080-i0123456789abcdefghij.skep.test";
const PAGE: [(&str, &str); 3] = [
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
];

fn token() -> AccessToken {
    AccessToken::from_record("secret")
}

fn traffic() -> String {
    token().traffic().reveal().to_owned()
}

/// Sends `GET uri` to a port of a private sandbox, and tells the outcome in a word.
fn outcome(uri: &str, headers: &[(&str, &str)], port: u16, named_by: NamedBy) -> String {
    let mut request = Request::get(uri).header("host", HOST);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let parts = request.body(()).unwrap().into_parts().0;
    let id: SandboxId = "i0123456789abcdefghij".parse().unwrap();
    let ingress = Ingress {
        is_private: true,
        ..Ingress::default()
    };
    let gate = Gate {
        id: &id,
        ingress: &ingress,
        token: Some(&token()),
    };
    let target = Target {
        id: id.clone(),
        port,
        named_by,
    };
    match gate.check(&target, &parts) {
        Ok(Passed::Open) => "open".to_owned(),
        Ok(Passed::Shown) => "shown".to_owned(),
        Ok(Passed::Exchange(exchange)) => {
            let answer = exchange.answer();
            assert_eq!(answer.status(), 303);
            answer.headers()["location"].to_str().unwrap().to_owned()
        }
        Err(Refusal::TrafficTokenMissing { .. }) => "missing".to_owned(),
        Err(Refusal::TrafficTokenInvalid { .. }) => "invalid".to_owned(),
        Err(other) => panic!("{other:?}"),
    }
}

fn at_a_service(uri: &str, headers: &[(&str, &str)]) -> String {
    outcome(uri, headers, 8080, NamedBy::Host)
}

#[test]
fn only_the_traffic_token_opens_a_service() {
    let traffic = traffic();
    assert_eq!(at_a_service("/", &[(TRAFFIC_TOKEN, &traffic)]), "shown");
    assert_eq!(at_a_service("/", &[]), "missing");
    assert_eq!(at_a_service("/", &[(TRAFFIC_TOKEN, "")]), "invalid");
    assert_eq!(at_a_service("/", &[(TRAFFIC_TOKEN, "secret")]), "invalid");
    assert_eq!(
        at_a_service("/", &[(TRAFFIC_TOKEN, &traffic[1..])]),
        "invalid"
    );
    assert_eq!(at_a_service("/", &[(ACCESS_TOKEN, "secret")]), "missing");
    assert_eq!(outcome("/", &[], AGENT_PORT, NamedBy::Host), "open");
}

#[test]
fn the_access_token_opens_the_interpreter() {
    let at =
        |headers: &[(&str, &str)]| outcome("/execute", headers, INTERPRETER_PORT, NamedBy::Host);
    assert_eq!(at(&[(ACCESS_TOKEN, "secret")]), "shown");
    assert_eq!(at(&[(ACCESS_TOKEN, "wrong")]), "missing");
    assert_eq!(at(&[(TRAFFIC_TOKEN, &traffic())]), "shown");
    assert_eq!(at(&[]), "missing");
}

#[test]
fn a_browser_gets_a_cookie_for_a_token_in_its_address() {
    let query = format!("{TRAFFIC_TOKEN}={}", traffic());
    for (uri, location) in [
        (format!("/?{query}"), "/"),
        (format!("/a?b=c&{query}&d"), "/a?b=c&d"),
        // Not another host, as browsers would read it.
        (format!("//evil.test/?{query}"), "/evil.test/"),
        (format!("/\\evil.test/?{query}"), "/evil.test/"),
    ] {
        // What is no path at all does not come so far.
        if Request::get(&uri).body(()).is_ok() {
            assert_eq!(at_a_service(&uri, &PAGE), location);
        }
    }
    let uri = format!("/?{query}");
    assert_eq!(
        at_a_service(&format!("/?{TRAFFIC_TOKEN}=wrong"), &PAGE),
        "invalid"
    );
    // A program shows the header, and a script or a frame is no visit.
    assert_eq!(at_a_service(&uri, &[]), "missing");
    let frame = [PAGE[0], PAGE[1], ("sec-fetch-dest", "iframe")];
    assert_eq!(at_a_service(&uri, &frame), "missing");
    // All sandboxes share this host.
    assert_eq!(outcome(&uri, &PAGE, 8080, NamedBy::Headers), "missing");
}

#[test]
fn a_cookie_counts_for_pages_of_its_own_host_and_for_visits() {
    let pair = format!("other=1; {COOKIE_NAME}={}", traffic());
    let with = |headers: &[(&str, &str)]| {
        let mut all = vec![("cookie", pair.as_str())];
        all.extend(headers);
        at_a_service("/", &all)
    };
    assert_eq!(with(&[("sec-fetch-site", "same-origin")]), "shown");
    assert_eq!(with(&PAGE), "shown");
    // Sandboxes of others are of the same site.
    for site in ["same-site", "cross-site", "none"] {
        assert_eq!(
            with(&[("sec-fetch-site", site), ("sec-fetch-mode", "cors")]),
            "missing"
        );
        assert_eq!(
            with(&[("sec-fetch-site", site), ("sec-fetch-mode", "websocket")]),
            "missing"
        );
    }
    let twice = [
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-site", "cross-site"),
    ];
    assert_eq!(with(&twice), "missing");
    // Nothing is known of where it comes from.
    assert_eq!(with(&[]), "missing");
    // Not every browser says more of a WebSocket.
    let own = format!("https://{HOST}");
    assert_eq!(with(&[("origin", own.as_str())]), "shown");
    assert_eq!(
        with(&[("origin", "https://8080-other.skep.test")]),
        "missing"
    );
    let clear = format!("http://{HOST}");
    assert_eq!(with(&[("origin", clear.as_str())]), "missing");
    let wrong = format!("{COOKIE_NAME}=wrong");
    let same = ("sec-fetch-site", "same-origin");
    assert_eq!(at_a_service("/", &[("cookie", &wrong), same]), "invalid");
}

#[test]
fn the_cookie_is_for_this_host_and_no_script() {
    let exchange = Exchange {
        token: AccessToken::from_record("abc"),
        location: HeaderValue::from_static("/"),
    };
    let answer = exchange.answer();
    assert_eq!(
        answer.headers()["set-cookie"],
        "__Host-e2b-traffic-access-token=abc; Path=/; Secure; HttpOnly; SameSite=Lax"
    );
    assert_eq!(answer.headers()["referrer-policy"], "no-referrer");
    assert_eq!(answer.headers()["cache-control"], "no-store");
}
