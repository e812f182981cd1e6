//! Requests that rules look into: headers that are put into them, requests that are not let through,
//! limits, and the ways around that.

pub(crate) mod limited;
pub(crate) mod other_hosts;

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_domain::EgressCa;
use skep_egress::{Edge, FillError, HeaderValues, Inspection};
use skep_isolation::{Isolation as _, Launched};
use skep_native::Defence;
use skep_testkit::wait_until;
use skep_types::{
    Connections, Egress, Redacted, RequestRuleWords, RequestRules, SandboxId, TemplatePart,
    ValueRequest,
};
use tempfile::TempDir;

use crate::bench::{Bench, DEADLINE};
use crate::named_hosts::{NOWHERE, launch, only, say, status, told};
use crate::secure::{AUTHORITY, TlsClient};
use crate::uplink::Uplink;
use crate::web::{TLS, WEB, resolver};

crate::tests![
    headers_are_put_into_requests_and_replace_what_the_sandbox_says,
    hosts_without_a_rule_are_passed_on_untouched,
    a_changed_secret_is_in_the_next_request_and_a_missing_one_stops_it,
    a_request_for_another_host_is_refused_inside_the_connection,
    what_two_readers_would_see_differently_is_written_anew,
    rules_hold_where_every_address_is_reached,
    whoever_reads_the_sandbox_never_sees_a_value,
    connections_that_a_new_rule_would_look_into_are_cut,
    ports_of_sandboxes_are_reached_at_the_edge_by_requests_that_are_looked_into,
];

const SECRET: &str = "s3cret-value-of-the-test";

/// Secrets of the test, which it changes.
#[derive(Default)]
struct Values(Mutex<HashMap<String, String>>);

impl HeaderValues for Values {
    fn fill<'a>(
        &'a self,
        _sandbox: &'a SandboxId,
        wanted: ValueRequest<'a>,
    ) -> BoxFuture<'a, Result<Redacted<String>, FillError>> {
        let ValueRequest::Header(template) = wanted else {
            return std::future::ready(Err(FillError::Unavailable)).boxed();
        };
        let values = self.0.lock();
        let parts = template.parts().iter().map(|part| match part {
            TemplatePart::Text(text) => Ok(text.clone()),
            TemplatePart::Secret(name) => {
                let value = values.get(name.as_str()).cloned();
                value.ok_or(FillError::UnknownSecret)
            }
            TemplatePart::Token(_) => Err(FillError::UnknownToken),
        });
        let filled: Result<String, _> = parts.collect();
        std::future::ready(filled.map(Redacted::new)).boxed()
    }
}

/// A world, a backend that looks into requests, and who is trusted in it.
struct World {
    _uplink: Uplink,
    bench: Bench,
    values: Arc<Values>,
    _trusted: TempDir,
    /// File with the authority of hosts.
    of_hosts: PathBuf,
    authority: Arc<EgressCa>,
}

/// A world before it is made.
struct Setup {
    trusted: TempDir,
    authority: Arc<EgressCa>,
    /// Certificate that hosts show, and its key.
    shown: [String; 2],
    /// Authorities by which hosts are verified, in PEM.
    roots: String,
    without: Vec<Defence>,
}

/// An authority as an installation has one, in a directory.
fn authority_in(directory: &TempDir) -> Arc<EgressCa> {
    let place = directory.path().join("egress-ca");
    Arc::new(EgressCa::open(&place, SystemTime::now()).unwrap())
}

impl Setup {
    fn new() -> Self {
        let trusted = tempfile::tempdir().unwrap();
        Self {
            authority: authority_in(&trusted),
            trusted,
            shown: AUTHORITY.arguments(),
            roots: AUTHORITY.trusted.clone(),
            without: Vec::new(),
        }
    }
}

impl World {
    async fn new() -> Self {
        Self::of(Setup::new()).await
    }

    async fn without(defence: Defence) -> Self {
        let without = vec![defence];
        Self::of(Setup {
            without,
            ..Setup::new()
        })
        .await
    }

    async fn of(setup: Setup) -> Self {
        let Setup {
            trusted, authority, ..
        } = setup;
        let uplink = Uplink::showing(&setup.shown);
        let hosts = [
            ("a.tls.test", uplink.public()),
            ("b.tls.test", uplink.world()),
            ("x.b.tls.test", uplink.world()),
            ("c.test", uplink.world()),
        ];
        let names = resolver(&hosts).await;
        let of_hosts = trusted.path().join("hosts.pem");
        std::fs::write(&of_hosts, &AUTHORITY.trusted).unwrap();
        let values = Arc::new(Values::default());
        values.set("key", SECRET);
        let inspection = Inspection {
            authority: Arc::clone(&authority),
            roots: setup.roots.into(),
            values: Arc::clone(&values) as Arc<dyn HeaderValues>,
            edge: Some(Edge {
                domain: "edge.tls.test".parse().unwrap(),
                address: SocketAddr::from((uplink.private(), TLS)),
            }),
        };
        let bench = Bench::with(|config| {
            config.host.resolvers = vec![names];
            config.host.inspection = Arc::new(OnceLock::from(inspection));
            config.without = setup.without;
        })
        .await;
        Self {
            _uplink: uplink,
            bench,
            values,
            _trusted: trusted,
            of_hosts,
            authority,
        }
    }

    /// A client that trusts what sandboxes trust.
    fn client<'a>(&'a self, sandbox: &'a Launched) -> TlsClient<'a> {
        TlsClient {
            sandbox,
            address: SocketAddr::from((NOWHERE, TLS)),
            trusts: self.authority.certificate_file(),
        }
    }

    /// A client that trusts hosts alone, and nobody in their place.
    fn client_of_hosts<'a>(&'a self, sandbox: &'a Launched) -> TlsClient<'a> {
        TlsClient {
            trusts: &self.of_hosts,
            ..self.client(sandbox)
        }
    }

    async fn finish(self, sandboxes: Vec<Launched>) {
        for sandbox in &sandboxes {
            sandbox.destroy().await.unwrap();
        }
        drop(sandboxes);
        self.bench.finish().await;
    }

    /// Waits until the log of requests says this.
    async fn check_log(&self, id: &SandboxId, expected: &[&str]) {
        wait_until(DEADLINE, || async {
            let requests = self.bench.native().requests(id.clone()).await;
            let found: Vec<_> = requests.iter().map(told).collect();
            if found == expected {
                assert!(!format!("{requests:?}").contains(SECRET));
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
    }
}

impl Values {
    fn set(&self, name: &str, value: &str) {
        let mut values = self.0.lock();
        values.insert(name.to_owned(), value.to_owned());
    }
}

fn headers(headers: &[(&str, &str)]) -> RequestRuleWords {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    RequestRuleWords {
        headers: headers.iter().map(owned).collect(),
        ..RequestRuleWords::default()
    }
}

/// The rule that puts the secret into a header.
fn with_key() -> RequestRuleWords {
    headers(&[("X-Key", "Bearer ${e2b.secrets.key}")])
}

fn ruled(egress: Egress, domain: &str, rule: RequestRuleWords) -> Egress {
    let rules = RequestRules::new([(domain.to_owned(), vec![rule])]).unwrap();
    egress.with_request_rules(rules)
}

fn get(host: &str, more: &str) -> String {
    format!("GET /x?q=1 HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n")
}

/// Times that a text occurs, in whatever case.
fn count(text: &str, word: &str) -> usize {
    text.to_lowercase().matches(&word.to_lowercase()).count()
}

async fn headers_are_put_into_requests_and_replace_what_the_sandbox_says() {
    let world = World::new().await;
    let egress = ruled(only(&["*.tls.test"]), "A.tls.test", with_key());
    let (id, sandbox) = launch(&world.bench, egress).await;
    let client = world.client(&sandbox);
    let own = "x-key: mine\r\nX-KEY: mine too\r\nConnection: x-key\r\n";
    let said = client.say("a.tls.test", &get("a.tls.test", own));
    assert_eq!(status(&said), "200", "{said}");
    // A host that sends back what it gets gives the value away.
    assert_eq!(
        count(&said, &format!("x-key: bearer {SECRET}")),
        1,
        "{said}"
    );
    assert_eq!(count(&said, "mine"), 0, "{said}");
    assert_eq!(count(&said, "host: a.tls.test"), 1, "{said}");
    let body = "POST /post HTTP/1.1\r\nHost: a.tls.test\r\nTransfer-Encoding: chunked\r\n\
                Connection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let said = client.say("a.tls.test", body);
    assert!(said.ends_with("hello") && said.contains(SECRET), "{said}");
    let said = client.ask(
        "a.tls.test",
        &["GET a.tls.test /one X-Key=mine", "GET a.tls.test:443 /two"],
    );
    assert_eq!(
        count(&said, "status 200\nh2 get https://a.tls.test/"),
        2,
        "{said}"
    );
    assert_eq!(count(&said, SECRET), 2, "{said}");
    assert_eq!(count(&said, "mine"), 0, "{said}");
    let socket = "GET /socket HTTP/1.1\r\nHost: a.tls.test\r\nConnection: Upgrade\r\n\
                  Upgrade: websocket\r\n\r\nsaid in another protocol";
    let said = client.say("a.tls.test", socket);
    assert!(
        said.starts_with("HTTP/1.1 101 ") && count(&said, "sec-websocket-accept") == 1,
        "{said}"
    );
    assert!(said.ends_with("\r\n\r\nsaid in another protocol"), "{said}");
    let log = [
        "a.tls.test GET /x 200 *.tls.test",
        "a.tls.test POST /post 200 *.tls.test",
        "a.tls.test GET /one 200 *.tls.test",
        "a.tls.test GET /two 200 *.tls.test",
        "a.tls.test GET /socket 101 *.tls.test",
    ];
    world.check_log(&id, &log).await;
    world.finish(vec![sandbox]).await;
}

async fn hosts_without_a_rule_are_passed_on_untouched() {
    let world = World::new().await;
    let egress = ruled(only(&["*.tls.test", "c.test"]), "a.tls.test", with_key());
    let (_, sandbox) = launch(&world.bench, egress).await;
    let theirs = world.client_of_hosts(&sandbox);
    let said = theirs.say("b.tls.test", &get("b.tls.test", ""));
    assert!(
        status(&said) == "200" && count(&said, "x-key") == 0,
        "{said}"
    );
    // The one with a rule is not whom it would be without.
    let said = theirs.say("a.tls.test", &get("a.tls.test", ""));
    assert!(said.starts_with("error:"), "{said}");
    let said = world
        .client(&sandbox)
        .say("b.tls.test", &get("b.tls.test", ""));
    assert!(said.starts_with("error:"), "{said}");
    // Rules are for TLS: in plain HTTP nothing is added.
    let plain = say(&sandbox, WEB, get("a.tls.test", "").as_bytes()).await;
    assert!(
        status(&plain) == "200" && count(&plain, "x-key") == 0,
        "{plain}"
    );
    // And they allow nothing.
    let denied = ruled(only(&["c.test"]), "a.tls.test", with_key());
    sandbox.set_egress(denied, Connections::Cut).await.unwrap();
    let said = world
        .client(&sandbox)
        .say("a.tls.test", &get("a.tls.test", ""));
    assert!(said.contains("AccessDenied"), "{said}");
    world.finish(vec![sandbox]).await;
}

async fn a_changed_secret_is_in_the_next_request_and_a_missing_one_stops_it() {
    let world = World::new().await;
    let egress = ruled(only(&["a.tls.test"]), "*.tls.test", with_key());
    let (_, sandbox) = launch(&world.bench, egress).await;
    let client = world.client(&sandbox);
    world.values.set("key", "the first");
    let said = client.say("a.tls.test", &get("a.tls.test", ""));
    assert!(said.contains("Bearer the first"), "{said}");
    world.values.set("key", "the second");
    let said = client.say("a.tls.test", &get("a.tls.test", ""));
    assert!(said.contains("Bearer the second"), "{said}");
    for (value, reason) in [
        (None, "names a secret that does not exist"),
        (Some("a\r\nhost: b.tls.test"), "has no value now"),
    ] {
        match value {
            Some(value) => world.values.set("key", value),
            None => world.values.0.lock().clear(),
        }
        let said = client.say("a.tls.test", &get("a.tls.test", ""));
        assert!(status(&said) == "502" && said.contains(reason), "{said}");
        assert!(!said.contains("e2b") && !said.contains("host: b"), "{said}");
    }
    world.finish(vec![sandbox]).await;
}

async fn a_request_for_another_host_is_refused_inside_the_connection() {
    let world = World::new().await;
    let egress = ruled(only(&["*.tls.test"]), "a.tls.test", with_key());
    let (id, sandbox) = launch(&world.bench, egress).await;
    let client = world.client(&sandbox);
    let said = client.say("a.tls.test", &get("b.tls.test", ""));
    assert!(
        status(&said) == "421" && said.contains("another host"),
        "{said}"
    );
    let said = client.say("a.tls.test", &get("a.tls.test", "Host: b.tls.test\r\n"));
    assert_eq!(status(&said), "400", "{said}");
    // HTTP/2 puts requests for several hosts onto one connection, if its certificate is for them.
    let said = client.ask(
        "a.tls.test",
        &[
            "GET a.tls.test /one",
            "GET b.tls.test /two",
            "GET a.tls.test /three host=b.tls.test",
            "GET a.tls.test /four",
        ],
    );
    let found: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("status"))
        .collect();
    assert_eq!(
        found,
        ["status 200", "status 421", "status 421", "status 200"],
        "{said}"
    );
    let log = [
        "a.tls.test GET /x 421 - refused",
        "a.tls.test GET /x 400 - refused",
        "a.tls.test GET /one 200 *.tls.test",
        "a.tls.test GET /two 421 - refused",
        "a.tls.test GET /three 421 - refused",
        "a.tls.test GET /four 200 *.tls.test",
    ];
    world.check_log(&id, &log).await;
    world.finish(vec![sandbox]).await;
    // Where nobody reads what is in the connection, whoever serves both hosts answers for the other.
    let world = World::without(Defence::InspectedRequests).await;
    let egress = ruled(only(&["*.tls.test"]), "a.tls.test", with_key());
    let (_, sandbox) = launch(&world.bench, egress).await;
    let client = world.client_of_hosts(&sandbox);
    let said = client.say("a.tls.test", &get("b.tls.test", ""));
    assert!(
        status(&said) == "200" && count(&said, "host: b.tls.test") == 1,
        "{said}"
    );
    let said = client.ask("a.tls.test", &["GET b.tls.test /two"]);
    assert!(
        said.contains("status 200\nh2 GET https://b.tls.test/two"),
        "{said}"
    );
    world.finish(vec![sandbox]).await;
}

async fn what_two_readers_would_see_differently_is_written_anew() {
    let world = World::new().await;
    let egress = ruled(only(&["*.tls.test"]), "a.tls.test", with_key());
    let (_, sandbox) = launch(&world.bench, egress).await;
    let client = world.client(&sandbox);
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a.tls.test\r\nX-Key: mine\r\n\r\n";
    let head = "POST /first HTTP/1.1\r\nHost: a.tls.test\r\n";
    for framing in [
        // Lengths that contradict each other, or a framing of chunks.
        format!("{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!(
            "{head}Content-Length: 0\r\nContent-Length: {}\r\n\r\n{hidden}",
            hidden.len()
        ),
        format!("{head}Content-Length: +0\r\n\r\n{hidden}"),
        format!("{head}Transfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!(
            "{head}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{hidden}"
        ),
        format!("{head}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{head}A: b\r\n Content-Length: 4\r\n\r\n{hidden}"),
        format!("{head}A: b\nContent-Length: 0\r\n\r\n{hidden}"),
    ] {
        let said = client.say("a.tls.test", &framing);
        // Whatever the host hears, each request in it was judged and has the value.
        let heard = count(&said, "HTTP/1.1\nhost") + count(&said, " HTTP/1.1\n");
        assert_eq!(count(&said, "mine"), 0, "{framing:?} {said}");
        assert!(heard == 0 || count(&said, SECRET) > 0, "{framing:?} {said}");
        let requests =
            count(&said, "POST /first HTTP/1.1\n") + count(&said, "GET /hidden HTTP/1.1\n");
        assert_eq!(count(&said, SECRET), requests, "{framing:?} {said}");
    }
    world.finish(vec![sandbox]).await;
    // Passed on as they are, the same bytes are two requests, one of which nobody has judged.
    let world = World::without(Defence::InspectedRequests).await;
    let egress = ruled(only(&["*.tls.test"]), "a.tls.test", with_key());
    let (_, sandbox) = launch(&world.bench, egress).await;
    let framing = format!("{head}Content-Length: +0\r\n\r\n{hidden}");
    let said = world.client_of_hosts(&sandbox).say("a.tls.test", &framing);
    assert!(
        count(&said, "GET /hidden HTTP/1.1\n") == 1 && count(&said, "mine") == 1,
        "{said}"
    );
    world.finish(vec![sandbox]).await;
}

async fn rules_hold_where_every_address_is_reached() {
    let world = World::new().await;
    let egress = ruled(Egress::default(), "a.tls.test", with_key());
    let (id, sandbox) = launch(&world.bench, egress).await;
    // What the sandbox believes to be the address does not matter: nobody has this one.
    let said = world
        .client(&sandbox)
        .say("a.tls.test", &get("a.tls.test", ""));
    assert!(
        status(&said) == "200" && count(&said, SECRET) == 1,
        "{said}"
    );
    // Where no rule looks, the connection goes to where it was led.
    let direct = TlsClient {
        address: SocketAddr::from((world._uplink.world(), TLS)),
        ..world.client_of_hosts(&sandbox)
    };
    let said = direct.say("b.tls.test", &get("b.tls.test", ""));
    assert!(
        status(&said) == "200" && count(&said, "x-key") == 0,
        "{said}"
    );
    let private = TlsClient {
        address: SocketAddr::from((world._uplink.private(), TLS)),
        ..world.client(&sandbox)
    };
    let said = private.say("b.tls.test", &get("b.tls.test", ""));
    assert!(said.contains("AccessDenied"), "{said}");
    let log = [
        "a.tls.test GET /x 200 -",
        "b.tls.test - - - -",
        "b.tls.test - - - - refused",
    ];
    world.check_log(&id, &log).await;
    world.finish(vec![sandbox]).await;
}

/// Numbers of the processes that look into requests, of all sandboxes of this test program's children.
fn processes(part: &str, user: impl Fn(u32) -> bool) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
            let id: u32 = status
                .lines()
                .find_map(|line| line.strip_prefix("Uid:"))?
                .split_whitespace()
                .next()?
                .parse()
                .ok()?;
            let is_it = line.contains(skep_egress::EGRESS_PROXY) && line.contains(part) && user(id);
            is_it.then_some(number)
        });
    numbers.collect()
}

/// Returns true if a text is anywhere in the memory of a process.
pub(crate) fn has_in_memory(process: u32, text: &str) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).unwrap();
    maps.lines().any(|line| {
        let mut words = line.split_whitespace();
        let (first, last) = words.next().unwrap().split_once('-').unwrap();
        if !words.next().unwrap().starts_with("rw") {
            return false;
        }
        let first = u64::from_str_radix(first, 16).unwrap();
        let last = u64::from_str_radix(last, 16).unwrap();
        let mut bytes = vec![0; usize::try_from(last - first).unwrap()];
        let read = memory.read_at(&mut bytes, first).unwrap_or_default();
        let mut windows = bytes[..read].windows(text.len());
        windows.any(|window| window == text.as_bytes())
    })
}

async fn whoever_reads_the_sandbox_never_sees_a_value() {
    let world = World::new().await;
    // Not in the memory of this program or another test's.
    let value = format!("value-{}", std::process::id()) + "-of-nobody-else";
    world.values.set("key", &value);
    let egress = ruled(only(&["a.tls.test"]), "a.tls.test", with_key());
    let (_, sandbox) = launch(&world.bench, egress).await;
    let client = world.client(&sandbox);
    let quiet = "GET /quiet HTTP/1.1\r\nHost: a.tls.test\r\nX-Mine: said-by-the-sandbox\r\n\r\n";
    assert_eq!(status(&client.say("a.tls.test", quiet)), "200");
    // It waits for an answer that never comes, so what was said is still there.
    let wait = "GET /wait HTTP/1.1\r\nHost: a.tls.test\r\nX-Mine: said-by-the-sandbox\r\n\r\n";
    let mut waiting = client.start("http/1.1", "a.tls.test", wait);
    let address = format!("\"{}\"", sandbox.address());
    let readers = processes(&address, |_| true);
    let [reader] = readers[..] else {
        panic!("it has one proxy: {readers:?}");
    };
    let status_of = std::fs::read_to_string(format!("/proc/{reader}/status")).unwrap();
    let user: u32 = status_of
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let senders = processes("Sender", |id| id == user + 0x8_0000);
    let [sender] = senders[..] else {
        panic!("it has one more process: {senders:?}");
    };
    wait_until(DEADLINE, || async {
        let has_it = has_in_memory(sender, &value);
        has_it
            .then_some(())
            .ok_or("no request has the value".to_owned())
    })
    .await;
    assert!(has_in_memory(reader, "said-by-the-sandbox"));
    assert!(
        !has_in_memory(reader, &value),
        "it is where the sandbox is read"
    );
    for process in [reader, sender] {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().to_owned()
        };
        for name in ["CapPrm:", "CapEff:", "CapBnd:"] {
            assert_eq!(field(name), "0000000000000000", "{name}");
        }
        assert_eq!(
            (field("NoNewPrivs:"), field("Seccomp:")),
            ("1".into(), "2".into())
        );
        let root = std::fs::read_dir(format!("/proc/{process}/root")).unwrap();
        assert_eq!(root.count(), 0, "its file system is empty");
        let network = std::fs::read_to_string(format!("/proc/{process}/net/route")).unwrap();
        assert!(network.lines().count() <= 1, "it has no network: {network}");
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
        let core = limits
            .lines()
            .find(|line| line.starts_with("Max core"))
            .unwrap();
        assert!(core.split_whitespace().any(|word| word == "0"), "{core}");
    }
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    // Killed, it is there again when it is needed, and the other one stays.
    let killed = std::process::Command::new("kill")
        .args(["-9", &sender.to_string()])
        .status();
    assert!(killed.unwrap().success());
    wait_until(DEADLINE, || async {
        let said = client.say("a.tls.test", quiet);
        if status(&said) == "200" {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;
    assert_eq!(processes(&address, |_| true), [reader]);
    world.finish(vec![sandbox]).await;
    assert_eq!(processes("Sender", |id| id == user + 0x8_0000), [0; 0]);
}

async fn connections_that_a_new_rule_would_look_into_are_cut() {
    let world = World::new().await;
    let (_, sandbox) = launch(&world.bench, only(&["a.tls.test", "b.tls.test"])).await;
    let theirs = world.client_of_hosts(&sandbox);
    let begin = |host: &str| {
        let wait = format!("GET /wait HTTP/1.1\r\nHost: {host}\r\n\r\n");
        theirs.start("http/1.1", host, &wait)
    };
    let (mut ruled_one, mut other) = (begin("a.tls.test"), begin("b.tls.test"));
    let wait = async |connections: usize| {
        wait_until(DEADLINE, || async {
            let address = format!("\"{}\"", sandbox.address());
            let [reader] = processes(&address, |_| true)[..] else {
                return Err("no proxy".to_owned());
            };
            let files = std::fs::read_dir(format!("/proc/{reader}/fd")).unwrap();
            let sockets = files
                .flatten()
                .filter(|file| {
                    let target = std::fs::read_link(file.path()).unwrap_or_default();
                    target.to_string_lossy().starts_with("socket:")
                })
                .count();
            // Its own are three, and each connection has two.
            let expected = 2 * connections;
            if sockets >= expected + 2 {
                Ok(())
            } else {
                Err(format!("{sockets} sockets"))
            }
        })
        .await;
    };
    wait(2).await;
    let egress = ruled(
        only(&["a.tls.test", "b.tls.test"]),
        "a.tls.test",
        with_key(),
    );
    sandbox.set_egress(egress, Connections::Cut).await.unwrap();
    let mut said = String::new();
    ruled_one
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    ruled_one.wait().unwrap();
    assert!(other.try_wait().unwrap().is_none(), "no rule is for it");
    other.kill().unwrap();
    other.wait().unwrap();
    let said = world
        .client(&sandbox)
        .say("a.tls.test", &get("a.tls.test", ""));
    assert!(said.contains(SECRET), "{said}");
    std::io::stdout().flush().unwrap();
    world.finish(vec![sandbox]).await;
}

async fn ports_of_sandboxes_are_reached_at_the_edge_by_requests_that_are_looked_into() {
    let world = World::new().await;
    let edge = "80-i8f6.edge.tls.test";
    let egress = ruled(only(&["*.edge.tls.test"]), edge, with_key());
    let (_, sandbox) = launch(&world.bench, egress).await;
    let client = world.client(&sandbox);
    let said = client.say(edge, &get(edge, ""));
    assert!(status(&said) == "200" && said.contains(SECRET), "{said}");
    // What else is there has the same address.
    let said = client.say(edge, &get("api.edge.tls.test", ""));
    assert_eq!(status(&said), "421", "{said}");
    for other in ["api.edge.tls.test", "80-other.edge.tls.test"] {
        let said = client.say(other, &get(other, ""));
        assert!(said.contains("UnrecognisedName"), "{said}");
    }
    world.finish(vec![sandbox]).await;
}
