//! Sandboxes whose owners closed their ports, masked their host, or speak TLS inside.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::routing::any;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use skep_domain::Domain;
use skep_proxy::Route;
use skep_types::{AccessToken, HttpsPorts, Ingress};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::stage::{AGENT_PORT, DOMAIN, Stage, host, listen, read_until, serve_app, serve_app_at};

const TRAFFIC: &str = "e2b-traffic-access-token";
const FIREFOX: (&str, &str) = ("user-agent", "Mozilla/5.0 (X11) Firefox/140.0");

/// A service that says what it sees.
fn mirror() -> Router {
    Router::new().fallback(any(async |uri: http::Uri, headers: HeaderMap| {
        let mut lines = vec![uri.to_string()];
        let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
        };
        lines.extend(headers.iter().map(line));
        lines.join("\n")
    }))
}

fn private(stage: &Stage) -> (Arc<Route>, String) {
    let token = AccessToken::random();
    let traffic = token.traffic().reveal().to_owned();
    let route = stage.sandbox_as(|route| {
        route.access_token = Some(token);
        route.ingress = Arc::new(Ingress {
            is_private: true,
            ..Ingress::default()
        });
    });
    (route, traffic)
}

async fn send(
    stage: &Stage,
    (method, path): (&str, &str),
    (route, port): (&Route, u16),
    headers: &[(&str, &str)],
) -> Response<String> {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("host", host(route, port));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    stage.ask(request.body(Full::default()).unwrap()).await
}

#[tokio::test]
async fn a_private_port_is_open_to_those_who_show_its_token() {
    let stage = Stage::new().await;
    let (route, traffic) = private(&stage);
    let port = serve_app(&route, mirror()).await;
    serve_app_at(&route, AGENT_PORT, mirror()).await;
    let get = async |port, headers: &[(&str, &str)]| {
        send(&stage, ("GET", "/"), (&route, port), headers).await
    };
    let missing = get(port, &[]).await;
    assert_eq!(missing.status(), 403);
    assert_eq!(missing.headers()["access-control-allow-origin"], "*");
    assert_eq!(
        missing.body(),
        &format!(
            r#"{{"message":"Sandbox is secured with traffic access token. Token header '{TRAFFIC}' is missing","code":403,"sandboxId":"{}"}}"#,
            route.id
        )
    );
    let wrong = get(port, &[(TRAFFIC, "guess"), FIREFOX]).await;
    assert_eq!(wrong.status(), 403);
    assert!(
        wrong.body().contains("Invalid Traffic Access Token"),
        "{wrong:?}"
    );
    let served = get(port, &[(TRAFFIC, &traffic)]).await;
    assert_eq!(served.status(), 200);
    assert!(
        !served.body().contains(&traffic),
        "the guest learnt it: {served:?}"
    );
    // The agent asks for its own token.
    assert_eq!(get(AGENT_PORT, &[]).await.status(), 200);
    // Control: the same port of a sandbox that is open to all.
    let open = stage.sandbox();
    let port = serve_app(&open, mirror()).await;
    assert_eq!(stage.get(&open, port, "/").await.status(), 200);
}

#[tokio::test]
async fn a_browser_opens_a_private_port_with_the_token_in_its_address_once() {
    let stage = Stage::new().await;
    let (route, traffic) = private(&stage);
    let port = serve_app(&route, mirror()).await;
    let visit = [
        FIREFOX,
        ("sec-fetch-site", "none"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    let path = format!("/app?{TRAFFIC}={traffic}&tab=1");
    let exchanged = send(&stage, ("GET", &path), (&route, port), &visit).await;
    assert_eq!(exchanged.status(), 303);
    assert_eq!(exchanged.headers()["location"], "/app?tab=1");
    let set = exchanged.headers()["set-cookie"].to_str().unwrap();
    assert!(
        set.ends_with("; Path=/; Secure; HttpOnly; SameSite=Lax"),
        "{set}"
    );
    let cookie = format!("theirs=1; {}", set.split(';').next().unwrap());
    let kept = |site| [("cookie", cookie.as_str()), ("sec-fetch-site", site)];
    let page = send(
        &stage,
        ("GET", "/app"),
        (&route, port),
        &kept("same-origin"),
    )
    .await;
    assert_eq!(page.status(), 200);
    assert!(page.body().contains("cookie: theirs=1"), "{page:?}");
    assert!(
        !page.body().contains(&traffic),
        "the guest learnt it: {page:?}"
    );
    // A page of another sandbox is of the same site, and its browser brings the cookie along.
    let forged = send(&stage, ("POST", "/app"), (&route, port), &kept("same-site")).await;
    assert_eq!(forged.status(), 403);
    // Nor does a program that shows its header pass the token on in the address.
    let both = send(
        &stage,
        ("GET", &path),
        (&route, port),
        &[(TRAFFIC, &traffic)],
    )
    .await;
    assert!(both.body().starts_with("/app?tab=1"), "{both:?}");
    assert!(!both.body().contains(&traffic), "{both:?}");
}

#[tokio::test]
async fn a_preflight_is_answered_for_those_who_cannot_and_opens_nothing() {
    let stage = Stage::new().await;
    let (route, _) = private(&stage);
    let port = serve_app(&route, mirror()).await;
    let question = [
        ("origin", "https://page.test"),
        ("access-control-request-method", "PUT"),
        (
            "access-control-request-headers",
            "x-a, e2b-traffic-access-token",
        ),
    ];
    let asked =
        async |route: &Route, port| send(&stage, ("OPTIONS", "/"), (route, port), &question).await;
    let answer = asked(&route, port).await;
    assert_eq!(answer.status(), 204);
    let said = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(said("access-control-allow-origin"), "*");
    assert_eq!(said("access-control-allow-methods"), "PUT");
    assert_eq!(
        said("access-control-allow-headers"),
        "x-a, e2b-traffic-access-token"
    );
    assert!(
        !answer
            .headers()
            .contains_key("access-control-allow-credentials")
    );
    // Without the question it is a request like any other.
    let plain = send(&stage, ("OPTIONS", "/"), (&route, port), &[]).await;
    assert_eq!(plain.status(), 403);
    // What is asked of a paused one does not wake it, and what is gone is told to the request.
    let sleeper = stage.sandbox();
    let sleepers_port = serve_app(&sleeper, mirror()).await;
    stage.routes.pause(&sleeper.id);
    assert_eq!(asked(&sleeper, sleepers_port).await.status(), 204);
    assert_eq!(stage.routes.wakes(), 0);
    stage.routes.kill(&route.id);
    assert_eq!(asked(&route, port).await.status(), 204);
    // One that everybody may use answers itself.
    let open = stage.sandbox();
    let port = serve_app(&open, mirror()).await;
    let own = asked(&open, port).await;
    assert_eq!(own.status(), 200);
    assert!(
        own.body().contains("access-control-request-method: PUT"),
        "{own:?}"
    );
}

#[tokio::test]
async fn a_paused_private_sandbox_wakes_for_its_traffic_token_alone() {
    let stage = Stage::new().await;
    let (route, traffic) = private(&stage);
    let port = serve_app(&route, mirror()).await;
    stage.routes.pause(&route.id);
    for headers in [&[][..], &[(TRAFFIC, "guess")]] {
        let refused = send(&stage, ("GET", "/"), (&route, port), headers).await;
        assert_eq!(refused.status(), 403);
    }
    assert_eq!(stage.routes.wakes(), 0);
    let served = send(&stage, ("GET", "/"), (&route, port), &[(TRAFFIC, &traffic)]).await;
    assert_eq!((served.status().as_u16(), stage.routes.wakes()), (200, 1));
    let refused = send(&stage, ("GET", "/"), (&route, port), &[]).await;
    assert_eq!(refused.status(), 403, "it is as private as before");
}

#[tokio::test]
async fn a_masked_host_is_what_the_service_sees() {
    let stage = Stage::new().await;
    let route = stage.sandbox_as(|route| {
        route.ingress = Arc::new(Ingress {
            host_mask: Some("custom-host.example.com:${PORT}".parse().unwrap()),
            ..Ingress::default()
        });
    });
    let port = serve_app(&route, mirror()).await;
    serve_app_at(&route, AGENT_PORT, mirror()).await;
    let lied = [("x-forwarded-host", "evil.test")];
    let answer = send(&stage, ("GET", "/"), (&route, port), &lied).await;
    let seen = answer.body();
    assert!(
        seen.contains(&format!("\nhost: custom-host.example.com:{port}\n")),
        "{seen}"
    );
    let original = format!("\nx-forwarded-host: {}", host(&route, port));
    assert!(
        seen.contains(&original) && !seen.contains("evil.test"),
        "{seen}"
    );
    let agent = stage.get(&route, AGENT_PORT, "/").await;
    assert!(
        agent.body().contains(&host(&route, AGENT_PORT)),
        "{agent:?}"
    );
}

#[tokio::test]
async fn a_service_that_speaks_tls_is_reached_whatever_certificate_it_has() {
    let stage = Stage::new().await;
    // A port of its own for each kind: it must be known before the sandbox is.
    let probe = stage.sandbox();
    let (listener, port) = listen(&probe).await;
    let route = stage.sandbox_as(|route| {
        route.address = probe.address;
        route.ingress = Arc::new(Ingress {
            https_ports: HttpsPorts::from_record([port]),
            ..Ingress::default()
        });
    });
    skep_telemetry::spawn("tls service", serve_tls(listener));
    let answer = stage.get(&route, port, "/secret").await;
    assert_eq!(
        (answer.status().as_u16(), answer.body().as_str()),
        (200, "GET /secret")
    );
    // Control: spoken to in clear text, as any other port, it gives no answer.
    assert_eq!(stage.get(&probe, port, "/").await.status(), 502);
    // And a service that does not speak TLS after all is told as one that gave none.
    let (silent, _) = listen(&probe).await;
    let port = silent.local_addr().unwrap().port();
    let liar = stage.sandbox_as(|route| {
        route.address = probe.address;
        route.ingress = Arc::new(Ingress {
            https_ports: HttpsPorts::from_record([port]),
            ..Ingress::default()
        });
    });
    skep_telemetry::spawn("clear service", async move {
        axum::serve(silent, mirror()).await
    });
    let answer = stage.get(&liar, port, "/").await;
    assert_eq!(answer.status(), 502);
    assert!(answer.body().contains("without an answer"), "{answer:?}");
}

/// Answers one request for each connection with its first line, over TLS.
async fn serve_tls(listener: TcpListener) {
    let directory = tempfile::tempdir().unwrap();
    let domain = Domain::local(DOMAIN, directory.path(), SystemTime::now()).unwrap();
    let acceptor = TlsAcceptor::from(domain.server_config().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(stream).await else {
            continue;
        };
        let head = read_until(&mut stream, "\r\n\r\n").await;
        let line = head.split(" HTTP").next().unwrap();
        let length = line.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{line}"
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.ok();
    }
}
