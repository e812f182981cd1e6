//! Proxies of owners' own, through which everything leaves their sandboxes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_domain::EgressCa;
use skep_egress::{FillError, HeaderValues, Inspection};
use skep_isolation::{Isolation as _, Launched};
use skep_native::Defence;
use skep_testkit::wait_until;
use skep_types::{
    Connections, Egress, EgressProxy, EgressRules, Redacted, SandboxId, ValueRequest,
};

use crate::bench::{Bench, DEADLINE, ask};
use crate::inspected::has_in_memory;
use crate::named_hosts::{launch, only, proxy_of, say, status};
use crate::network::connect;
use crate::policy::Conversation;
use crate::socks_server::{INNER, REFUSING, SOCKS, USER, asked_at, password};
use crate::uplink::{ECHO, Uplink};
use crate::web::{TLS, WEB, hello, resolver};

crate::tests![
    everything_goes_through_the_owners_proxy_and_names_are_its_to_look_up,
    what_is_denied_is_refused_before_the_proxy_is_asked,
    a_proxy_where_no_sandbox_goes_is_not_connected_to,
    a_proxy_that_refuses_or_does_not_speak_so_is_told,
    a_password_is_for_the_proxy_and_nobody_else,
    connections_by_another_way_than_the_policys_are_cut,
    an_adopted_sandbox_reaches_nothing_until_its_proxy_is_told,
];

/// Vault of the test, which has one password.
struct Password;

impl HeaderValues for Password {
    fn fill<'a>(
        &'a self,
        _sandbox: &'a SandboxId,
        wanted: ValueRequest<'a>,
    ) -> BoxFuture<'a, Result<Redacted<String>, FillError>> {
        let opened = match wanted {
            ValueRequest::ProxyPassword(proxy) => match proxy.sealed_password() {
                Some("sealed") => Ok(password()),
                Some(_) => Ok("another".to_owned()),
                None => Ok(String::new()),
            },
            ValueRequest::Header(_) => Err(FillError::Unavailable),
        };
        std::future::ready(opened.map(Redacted::new)).boxed()
    }
}

async fn world(without: Vec<Defence>) -> (Uplink, Bench) {
    let uplink = Uplink::new();
    let hosts = [
        ("a.test", uplink.public()),
        (INNER, uplink.public()),
        ("proxy.test", uplink.world()),
        ("private-proxy.test", uplink.private()),
        ("host-proxy.test", uplink.host()),
    ];
    let names = resolver(&hosts).await;
    let place = tempfile::tempdir().unwrap();
    let authority = EgressCa::open(&place.path().join("ca"), SystemTime::now()).unwrap();
    let inspection = Inspection {
        authority: Arc::new(authority),
        roots: "".into(),
        values: Arc::new(Password),
        edge: None,
    };
    let bench = Bench::with(|config| {
        config.host.resolvers = vec![names];
        config.host.inspection = Arc::new(OnceLock::from(inspection));
        config.without = without;
    })
    .await;
    (uplink, bench)
}

fn proxy(address: &str, login: Option<(&str, &str)>) -> Option<EgressProxy> {
    let (username, sealed) = login.unzip();
    let address = address.parse().unwrap();
    let text = |text: Option<&str>| text.map(str::to_owned);
    Some(EgressProxy::written(address, text(username), text(sealed)))
}

fn by_proxy(uplink: &Uplink) -> Option<EgressProxy> {
    proxy(&format!("{}:{SOCKS}", uplink.world()), None)
}

async fn get(sandbox: &Launched, host: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    say(sandbox, WEB, request.as_bytes()).await
}

/// The answer of an echo at an address, by a protocol that nobody reads.
async fn echo(sandbox: &Launched, address: Ipv4Addr) -> String {
    ask(sandbox, &format!("work say={address}:{ECHO}/6869")).await
}

async fn end(sandbox: Launched, bench: Bench) {
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn everything_goes_through_the_owners_proxy_and_names_are_its_to_look_up() {
    let (uplink, bench) = world(Vec::new()).await;
    let through = proxy(&format!("proxy.test:{SOCKS}"), None);
    let (_, sandbox) = launch(&bench, Egress::default().with_proxy(through)).await;
    // Where the proxy looks it up, it is somewhere else.
    let answer = get(&sandbox, INNER).await;
    assert!(answer.contains("at 127.0.0.1"), "{answer}");
    let words = hello(Some("a.test"), false);
    let whole: String = words.iter().map(|byte| char::from(*byte)).collect();
    assert_eq!(say(&sandbox, TLS, &words).await, whole);
    // TLS at another port, and what names nobody.
    assert_eq!(say(&sandbox, ECHO, &words).await, whole);
    assert_eq!(echo(&sandbox, uplink.public()).await, "hi");
    // A host that speaks first sees the proxy, which is in its own network.
    let seen = connect(&sandbox, uplink.at(uplink.public())).await;
    assert_eq!(seen, uplink.public().to_string());
    let port = uplink.at(uplink.public()).port();
    let expected = [
        format!("nobody {INNER}:{WEB}"),
        format!("nobody a.test:{TLS}"),
        format!("nobody a.test:{ECHO}"),
        format!("nobody {}:{ECHO}", uplink.public()),
        format!("nobody {}:{port}", uplink.public()),
    ];
    assert_eq!(asked_at(uplink.world()), expected);
    // There is no other way out.
    let question = SocketAddr::from((uplink.public(), 53));
    let datagram = ask(&sandbox, &format!("work datagram={question}")).await;
    assert!(datagram.starts_with("error"), "{datagram}");
    // Control: without it the same hosts are reached directly.
    sandbox
        .set_egress(Egress::default(), Connections::Cut)
        .await
        .unwrap();
    let seen = connect(&sandbox, uplink.at(uplink.public())).await;
    assert_eq!(seen, uplink.host().to_string());
    end(sandbox, bench).await;
}

async fn what_is_denied_is_refused_before_the_proxy_is_asked() {
    let (uplink, bench) = world(Vec::new()).await;
    let named = only(&["a.test"]).with_proxy(by_proxy(&uplink));
    let (_, sandbox) = launch(&bench, named).await;
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    let refused = get(&sandbox, INNER).await;
    assert!(
        refused.contains("network rules do not allow this host"),
        "{refused}"
    );
    let rules = Egress::new(EgressRules {
        denied: vec![uplink.public().to_string()],
        ..EgressRules::default()
    });
    let denied = rules.unwrap().with_proxy(by_proxy(&uplink));
    sandbox.set_egress(denied, Connections::Cut).await.unwrap();
    assert_ne!(echo(&sandbox, uplink.public()).await, "hi");
    assert_eq!(echo(&sandbox, uplink.world()).await, "hi");
    // A name at an address that is allowed may lead to one that is denied, for the proxy.
    let request = format!("GET / HTTP/1.1\r\nHost: {INNER}\r\nConnection: close\r\n\r\n");
    let digits: String = request.bytes().map(|byte| format!("{byte:02x}")).collect();
    let words = format!("work say={}:{WEB}/{digits}", uplink.world());
    assert_eq!(status(&ask(&sandbox, &words).await), "200");
    // What the platform denies is not asked for either.
    for address in [uplink.private(), uplink.metadata(), uplink.host()] {
        assert_ne!(echo(&sandbox, address).await, "hi", "{address}");
    }
    let expected = [
        format!("nobody a.test:{WEB}"),
        format!("nobody {}:{ECHO}", uplink.world()),
        format!("nobody {}:{WEB}", uplink.world()),
    ];
    assert_eq!(asked_at(uplink.world()), expected);
    end(sandbox, bench).await;
    // Control: where nobody judges names, the proxy is asked.
    let (uplink, bench) = world(vec![Defence::NamedHosts]).await;
    let named = only(&["a.test"]).with_proxy(by_proxy(&uplink));
    let (_, sandbox) = launch(&bench, named).await;
    assert_eq!(status(&get(&sandbox, INNER).await), "200");
    assert_eq!(asked_at(uplink.world()), [format!("nobody {INNER}:{WEB}")]);
    end(sandbox, bench).await;
}

async fn a_proxy_where_no_sandbox_goes_is_not_connected_to() {
    let (uplink, bench) = world(Vec::new()).await;
    let (_, sandbox) = launch(&bench, Egress::default()).await;
    let places = [
        uplink.private().to_string(),
        "private-proxy.test".to_owned(),
        "host-proxy.test".to_owned(),
        "127.0.0.1".to_owned(),
        "unknown.test".to_owned(),
    ];
    for place in places {
        let through = proxy(&format!("{place}:{SOCKS}"), None);
        let egress = Egress::default().with_proxy(through);
        sandbox.set_egress(egress, Connections::Cut).await.unwrap();
        let answer = get(&sandbox, "a.test").await;
        let said = "the egress proxy has no address that a sandbox may reach";
        assert!(
            answer.starts_with("HTTP/1.1 502 ") && answer.contains(said),
            "{place} {answer}"
        );
    }
    assert_eq!(asked_at(uplink.world()), [""; 0]);
    end(sandbox, bench).await;
    // Control: where nobody looks at addresses, it is.
    let (uplink, bench) = world(vec![Defence::CheckedNames]).await;
    let through = proxy(&format!("private-proxy.test:{SOCKS}"), None);
    let (_, sandbox) = launch(&bench, Egress::default().with_proxy(through)).await;
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    assert_eq!(asked_at(uplink.world()), [format!("nobody a.test:{WEB}")]);
    end(sandbox, bench).await;
}

async fn a_proxy_that_refuses_or_does_not_speak_so_is_told() {
    let (uplink, bench) = world(Vec::new()).await;
    let (id, sandbox) = launch(&bench, Egress::default()).await;
    for (port, said) in [
        (REFUSING, "the egress proxy does not allow this host"),
        (ECHO, "the egress proxy does not speak SOCKS5"),
        (9, "the egress proxy does not answer"),
    ] {
        let through = proxy(&format!("{}:{port}", uplink.world()), None);
        let egress = Egress::default().with_proxy(through);
        sandbox.set_egress(egress, Connections::Cut).await.unwrap();
        let answer = get(&sandbox, "a.test").await;
        assert!(
            answer.starts_with("HTTP/1.1 502 ") && answer.contains(said),
            "{answer}"
        );
        let alert = say(&sandbox, TLS, &hello(Some("a.test"), false)).await;
        assert_eq!(alert, "\u{15}\u{3}\u{3}\0\u{2}\u{2}P");
        wait_until(DEADLINE, || async {
            let requests = bench.native().requests(id.clone()).await;
            let last = requests.iter().rev().take(2);
            let told = last.filter(|request| request.refusal.as_deref() == Some(said));
            if told.count() == 2 {
                Ok(())
            } else {
                Err(format!("{requests:?}"))
            }
        })
        .await;
    }
    end(sandbox, bench).await;
}

async fn a_password_is_for_the_proxy_and_nobody_else() {
    let (uplink, bench) = world(Vec::new()).await;
    let address = format!("{}:{SOCKS}", uplink.world());
    let egress = |sealed| Egress::default().with_proxy(proxy(&address, Some((USER, sealed))));
    let (id, sandbox) = launch(&bench, egress("sealed")).await;
    assert_eq!(status(&get(&sandbox, "a.test").await), "200");
    assert_eq!(asked_at(uplink.world()), [format!("{USER} a.test:{WEB}")]);
    let record = format!("{:?}", sandbox.record());
    let told = format!("{:?}", bench.native().requests(id).await);
    for text in [record, told] {
        assert!(!text.contains(&password()), "{text}");
    }
    let reader = proxy_of(&sandbox).expect("it has a proxy");
    // Control: what it has is found this way.
    assert!(has_in_memory(reader, skep_egress::EGRESS_PROXY));
    assert!(!has_in_memory(reader, &password()));
    sandbox
        .set_egress(egress("of another"), Connections::Cut)
        .await
        .unwrap();
    let answer = get(&sandbox, "a.test").await;
    assert!(
        answer.contains("does not accept its user and password"),
        "{answer}"
    );
    assert!(
        !answer.contains(&password()) && !answer.contains(USER),
        "{answer}"
    );
    end(sandbox, bench).await;
}

async fn connections_by_another_way_than_the_policys_are_cut() {
    let (uplink, bench) = world(Vec::new()).await;
    let (_, sandbox) = launch(&bench, Egress::default()).await;
    let begin = || {
        let address = SocketAddr::from((uplink.public(), ECHO));
        let mut conversation = Conversation::begin(&sandbox, address);
        assert_eq!(conversation.say("hi"), "hi");
        conversation
    };
    let set = |egress| sandbox.set_egress(egress, Connections::Cut);
    let by_another = proxy(&format!("proxy.test:{SOCKS}"), None);
    let mut before = begin();
    for through in [by_proxy(&uplink), by_another, None] {
        set(Egress::default().with_proxy(through.clone()))
            .await
            .unwrap();
        assert_ne!(before.say("again"), "again", "{through:?}");
        before.end();
        before = begin();
        // The same policy again changes nothing.
        set(Egress::default().with_proxy(through)).await.unwrap();
        assert_eq!(before.say("again"), "again");
    }
    before.end();
    end(sandbox, bench).await;
}

async fn an_adopted_sandbox_reaches_nothing_until_its_proxy_is_told() {
    let (uplink, mut bench) = world(Vec::new()).await;
    let egress = Egress::default().with_proxy(by_proxy(&uplink));
    let (_, sandbox) = launch(&bench, egress.clone()).await;
    assert_eq!(echo(&sandbox, uplink.public()).await, "hi");
    let record = sandbox.record();
    drop(sandbox);
    bench.restart().await;
    let sandbox = bench.native().adopt(record).await.unwrap();
    // It does not go out directly in the meantime.
    let answer = connect(&sandbox, uplink.at(uplink.public())).await;
    assert_eq!(answer, "error: ConnectionRefused");
    sandbox.set_egress(egress, Connections::Cut).await.unwrap();
    assert_eq!(echo(&sandbox, uplink.public()).await, "hi");
    let expected = format!("nobody {}:{ECHO}", uplink.public());
    assert_eq!(asked_at(uplink.world()), [expected.clone(), expected]);
    end(sandbox, bench).await;
}
