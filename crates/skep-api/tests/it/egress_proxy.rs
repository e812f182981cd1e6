//! Proxies of owners' own.

use skep_control::FillError;
use skep_types::{Capabilities, Egress, EgressProxy, ValueRequest};

use crate::logged::Logged;
use crate::server::Server;

const PASSWORD: &str = "hunter2-of-the-proxy";

fn body() -> String {
    format!(
        r#"{{"egressProxy":{{"address":"Proxy.example.com:1080","username":"u","password":"{PASSWORD}"}}}}"#
    )
}

fn proxy_of(server: &Server, id: &skep_types::SandboxId) -> EgressProxy {
    server
        .nodes
        .spec(id)
        .unwrap()
        .egress
        .proxy()
        .unwrap()
        .clone()
}

#[tokio::test]
async fn a_proxy_is_shown_without_its_password_and_reaches_the_host_with_it_sealed() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let new = format!(r#"{{"templateID":"base","network":{}}}"#, body());
    let id = server.create(&new).await;
    for _ in 0..2 {
        let shown = server.send(&format!("GET /sandboxes/{id}")).await.json();
        let expected = r#"{"egressProxy":{"address":"proxy.example.com:1080","username":"u"}}"#;
        assert_eq!(shown["network"].to_string(), expected);
        let proxy = proxy_of(&server, &id);
        let sealed = proxy.sealed_password().unwrap();
        assert!(!sealed.contains(PASSWORD) && !sealed.contains(&hex(PASSWORD)));
        let wanted = ValueRequest::ProxyPassword(&proxy);
        let opened = server.control.fill_header(&id, wanted).await.unwrap();
        assert_eq!(*opened, PASSWORD);
        // What an update says is the same.
        let line = format!("PUT /sandboxes/{id}/network {}", body());
        server.check(&line, "204").await;
    }
    server
        .check(&format!("PUT /sandboxes/{id}/network {{}}"), "204")
        .await;
    assert_eq!(server.nodes.spec(&id).unwrap().egress, Egress::default());
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_password_opens_for_its_own_proxy_and_team() {
    let server = Server::new().await;
    let new = format!(r#"{{"templateID":"base","network":{}}}"#, body());
    let id = server.create(&new).await;
    let proxy = proxy_of(&server, &id);
    let open = async |id, proxy: &EgressProxy| {
        let wanted = ValueRequest::ProxyPassword(proxy);
        server
            .control
            .fill_header(id, wanted)
            .await
            .map(|text| text.to_string())
    };
    let sealed = || proxy.sealed_password().map(str::to_owned);
    let at = |address: &str, user: &str| {
        let address = address.parse().unwrap();
        EgressProxy::written(address, Some(user.to_owned()), sealed())
    };
    let same = at("proxy.example.com:1080", "u");
    assert_eq!(open(&id, &same).await.as_deref(), Ok(PASSWORD));
    for other in [
        at("evil.example.com:1080", "u"),
        at("proxy.example.com:1080", "v"),
    ] {
        assert_eq!(open(&id, &other).await, Err(FillError::Unavailable));
    }
    // Two texts with the same password have nothing in common.
    let another = proxy_of(&server, &server.create(&new).await);
    assert_ne!(another.sealed_password(), proxy.sealed_password());
}

#[tokio::test]
async fn what_is_no_proxy_is_refused_without_its_password() {
    let server = Server::new().await;
    let said = "Invalid egress proxy config: ";
    for proxy in [
        format!(r#""socks5://u:{PASSWORD}@p.test:1080""#),
        format!(r#"{{"password":"{PASSWORD}"}}"#),
        format!(r#"{{"address":"p.test:1080","password":"{PASSWORD}"}}"#),
        format!(r#"{{"address":"p.test:1080","username":"u","password":["{PASSWORD}"]}}"#),
        format!(r#"{{"address":"127.0.0.1:1080","username":"u","password":"{PASSWORD}"}}"#),
        r#"{"address":"p.test:1080","tls":true}"#.to_owned(),
        r#"{"address":"p.test:1080","tls":{"enabled":true}}"#.to_owned(),
        r#"{"address":"p.test:1080","tls":{"enabled":false,"serverName":"x"}}"#.to_owned(),
    ] {
        for line in [
            format!(r#"PUT /sandboxes/inotthere/network {{"egressProxy":{proxy}}}"#),
            format!(
                r#"POST /sandboxes {{"templateID":"base","network":{{"egressProxy":{proxy}}}}}"#
            ),
        ] {
            let answer = server.send(&line).await;
            let text = answer.json().to_string();
            assert_eq!(answer.status, 400, "{text}");
            assert!(text.contains(said) && !text.contains(PASSWORD), "{text}");
        }
    }
}

#[tokio::test]
async fn no_log_line_and_no_file_holds_a_password() {
    let (logged, _guard) = Logged::start();
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let new = format!(r#"{{"templateID":"base","network":{}}}"#, body());
    let id = server.create(&new).await;
    server
        .send(&format!("PUT /sandboxes/{id}/network {}", body()))
        .await;
    server
        .send(&format!(
            r#"PUT /sandboxes/{id}/network {{"egressProxy":"{PASSWORD}"}}"#
        ))
        .await;
    server.store.flush().await.unwrap();
    let text = logged.text();
    assert!(!text.contains(PASSWORD));
    let files = std::fs::read_dir(server.store.path().parent().unwrap()).unwrap();
    for path in files
        .map(|file| file.unwrap().path())
        .filter(|path| path.is_file())
    {
        let bytes = std::fs::read(&path).unwrap();
        let mut parts = bytes.windows(PASSWORD.len());
        assert!(
            !parts.any(|part| part == PASSWORD.as_bytes()),
            "{}",
            path.display()
        );
    }
}
