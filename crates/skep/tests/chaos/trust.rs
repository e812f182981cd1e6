//! Sandboxes whose rules look into requests: every client in them trusts whoever answers for a host
//! that the rules name. Nothing is sent anywhere: the address of that host is nobody's, and whoever
//! answers says so inside TLS.

use std::collections::BTreeMap;

use skep_client::{
    Client, Command, ContextRef, Network, NetworkRule, NetworkRules, NetworkTransform,
    NetworkUpdate, NewSandbox, RunOptions, Sandbox,
};

use crate::installation::{CACHE, Installation};
use crate::languages::answer::Answer;
use crate::languages::{TEMPLATE, build_template};
use crate::sleep::{fetch_criu, wait_until_stored};

/// A host that the rules name. Its address is for documentation, which nobody has.
const HOST: &str = "rules.test";
const HOSTS: &str =
    "grep rules.test /etc/hosts || echo 192.0.2.7 rules.test | sudo tee -a /etc/hosts";
/// The status of whoever answers: the host has no address.
const ANSWER: &str = "502";

/// Clients, each with a command that prints the status of `https://rules.test/`, and with how they get
/// to whom they trust.
const CLIENTS: [(&str, &str); 9] = [
    (
        "curl",
        "curl -s -o /dev/null -w '%{http_code}' https://rules.test/",
    ),
    (
        "wget",
        "wget -S -O /dev/null --tries=1 https://rules.test/ 2>&1 | grep -o 'HTTP/1.1 [0-9]*'",
    ),
    (
        "git",
        "git ls-remote https://rules.test/x 2>&1 | grep -o 'error: [0-9]*'",
    ),
    (
        "Python's own",
        "python3 -c 'import urllib.request, urllib.error\ntry: urllib.request.urlopen(\"https://rules.test/\")\nexcept urllib.error.HTTPError as e: print(e.code)'",
    ),
    (
        "requests, with certifi",
        "python3 -c 'from pip._vendor import requests; print(requests.get(\"https://rules.test/\").status_code)'",
    ),
    (
        "pip",
        "python3 -m pip -vv download --no-deps --no-cache-dir --retries 0 --index-url https://rules.test/simple x 2>&1 | grep -m 1 -o '502\\|certificate verify failed\\|No matching'",
    ),
    (
        "Node",
        "node -e 'fetch(\"https://rules.test/\").then(a => console.log(a.status))'",
    ),
    (
        "R",
        "Rscript -e 'r <- curlGetHeaders(\"https://rules.test/\"); cat(attr(r, \"status\"))'",
    ),
    ("Java", JAVA),
];

const JAVA: &str = "cat > /tmp/Ask.java <<'END'
public class Ask {
    public static void main(String[] arguments) throws Exception {
        var connection = new java.net.URI(\"https://rules.test/\").toURL().openConnection();
        System.out.println(((java.net.HttpURLConnection) connection).getResponseCode());
    }
}
END
java $OPTIONS /tmp/Ask.java";

/// Languages with kernels, each with code that prints the same.
const KERNELS: [(&str, &str); 6] = [
    (
        "python",
        "import urllib.request, urllib.error
from pip._vendor import requests
try:
    urllib.request.urlopen('https://rules.test/')
except urllib.error.HTTPError as error:
    if error.code == requests.get('https://rules.test/').status_code:
        print(error.code)",
    ),
    (
        "javascript",
        "console.log((await fetch('https://rules.test/')).status)",
    ),
    (
        "typescript",
        "console.log((await fetch('https://rules.test/')).status as number)",
    ),
    (
        "bash",
        "curl=$(curl -s -o /dev/null -w '%{http_code}' https://rules.test/)
git=$(git ls-remote https://rules.test/x 2>&1 | grep -o 'error: [0-9]*')
if [ \"error: $curl\" = \"$git\" ]; then echo $curl; fi",
    ),
    (
        "r",
        "cat(attr(curlGetHeaders('https://rules.test/'), 'status'))",
    ),
    (
        "java",
        "var request = java.net.http.HttpRequest.newBuilder(java.net.URI.create(\"https://rules.test/\")).build();
System.out.println(java.net.http.HttpClient.newHttpClient().send(request, java.net.http.HttpResponse.BodyHandlers.discarding()).statusCode());",
    ),
];

/// A command's output and errors, as root or as whoever usually runs commands.
async fn run(sandbox: &Sandbox, script: &str) -> String {
    let command = Command::new("/bin/bash").args(["-c", script]);
    let output = sandbox.commands().run(command).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}

fn rules() -> NetworkRules {
    let headers = BTreeMap::from([("x-test".to_owned(), "yes".to_owned())]);
    let rule = NetworkRule {
        transform: Some(NetworkTransform {
            headers: Some(headers),
        }),
        ..NetworkRule::default()
    };
    BTreeMap::from([(HOST.to_owned(), Some(vec![rule]))])
}

async fn create(client: &Client, rules: Option<NetworkRules>) -> Sandbox {
    create_from(client, TEMPLATE, rules).await
}

async fn create_from(client: &Client, template: &str, rules: Option<NetworkRules>) -> Sandbox {
    let body = NewSandbox {
        template_id: template.to_owned(),
        timeout: Some(1800),
        network: rules.map(|rules| Network {
            rules: Some(rules),
            ..Network::default()
        }),
        ..NewSandbox::default()
    };
    client.sandboxes().create(&body).await.unwrap()
}

/// The clients that do not hear from whoever answers.
async fn deaf_clients(sandbox: &Sandbox) -> Vec<String> {
    run(sandbox, HOSTS).await;
    let mut deaf = Vec::new();
    for (client, script) in CLIENTS {
        let said = run(sandbox, script).await;
        if !said.contains(ANSWER) {
            deaf.push(format!("{client}: {said}"));
        }
    }
    deaf
}

/// The languages whose kernels do not.
async fn deaf_kernels(sandbox: &Sandbox) -> Vec<String> {
    let mut deaf = Vec::new();
    for (language, code) in KERNELS {
        let kernel = sandbox.interpreter(ContextRef::Language(language));
        let answer = match kernel.execute(code, &RunOptions::default()).await {
            Ok(execution) => Answer::read(execution).await,
            Err(error) => Err(format!("{error:?}")),
        };
        let heard = answer
            .as_ref()
            .is_ok_and(|answer| answer.stdout.contains(ANSWER));
        if !heard {
            deaf.push(format!("{language}: {answer:?}"));
        }
    }
    deaf
}

async fn expect_trust(sandbox: &Sandbox, moment: &str) {
    let mut deaf = deaf_clients(sandbox).await;
    deaf.extend(deaf_kernels(sandbox).await);
    assert!(deaf.is_empty(), "{moment}:\n{}", deaf.join("\n"));
    // However often it was told.
    let listed = run(sandbox, "keytool -list -cacerts -storepass changeit").await;
    assert_eq!(
        listed.matches("skep-egress").count(),
        1,
        "{moment}: {listed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_trusts_whoever_answers_for_hosts_that_rules_name() {
    build_template(&CACHE);
    let installation = Installation::start();
    let client = installation.client();
    let sandbox = create(&client, Some(rules())).await;
    expect_trust(&sandbox, "at first").await;
    // The controls: without the variable and the bundle nobody does, and Java without its entry.
    let control = "env -u SSL_CERT_FILE -u CURL_CA_BUNDLE curl -sS --cacert /usr/share/ca-certificates/mozilla/ISRG_Root_X1.crt https://rules.test/ 2>&1";
    let said = run(&sandbox, control).await;
    assert!(said.contains("certificate"), "{said}");
    let without = "cp /etc/ssl/certs/java/cacerts /tmp/without && keytool -delete -alias debian:skep-egress.pem -keystore /tmp/without -storepass changeit";
    run(&sandbox, without).await;
    let control = format!("OPTIONS=-Djavax.net.ssl.trustStore=/tmp/without; {JAVA}");
    let said = run(&sandbox, &control).await;
    assert!(said.contains("PKIX"), "{said}");
    // The system's own tool keeps it.
    for options in ["", " --fresh"] {
        let update = format!("sudo update-ca-certificates{options}");
        run(&sandbox, &update).await;
        expect_trust(&sandbox, &update).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_outlives_pauses_and_is_in_sandboxes_of_snapshots() {
    build_template(&CACHE);
    fetch_criu();
    let installation = Installation::start_configured("[pause]\ncheckpoint_after = 0\n");
    let client = installation.client();
    let sandbox = create(&client, Some(rules())).await;
    expect_trust(&sandbox, "at first").await;
    sandbox.pause(true).await.unwrap();
    wait_until_stored(&installation, sandbox.id()).await;
    sandbox.resume(None).await.unwrap();
    expect_trust(&sandbox, "after a pause with memory").await;
    sandbox.pause(false).await.unwrap();
    sandbox.resume(None).await.unwrap();
    expect_trust(&sandbox, "after a pause of files alone").await;
    let snapshot = sandbox.snapshot(None, false).await.unwrap().snapshot_id;
    sandbox.kill().await.unwrap();
    let copy = create_from(&client, &snapshot, Some(rules())).await;
    expect_trust(&copy, "in a sandbox of a snapshot").await;
    copy.kill().await.unwrap();
    client.forget_snapshot(&snapshot).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_gets_rules_later_trusts_from_then_on_and_one_without_never() {
    build_template(&CACHE);
    let installation = Installation::start();
    let client = installation.client();
    let sandbox = create(&client, None).await;
    let bundled = "grep -c BEGIN /etc/ssl/certs/ca-certificates.crt; ls /usr/local/share/ca-certificates; keytool -list -cacerts -storepass changeit | grep skep; env | grep -c SSL_CERT_FILE";
    let before = run(&sandbox, bundled).await;
    assert!(
        !before.contains("skep") && before.ends_with('0'),
        "{before}"
    );
    let update = NetworkUpdate {
        rules: Some(rules()),
        ..NetworkUpdate::default()
    };
    sandbox.set_network(&update).await.unwrap();
    let after = run(&sandbox, bundled).await;
    for told in ["skep-egress.crt", "debian:skep-egress.pem"] {
        assert!(after.contains(told), "{after}");
    }
    let deaf = deaf_clients(&sandbox).await;
    assert!(deaf.is_empty(), "{}", deaf.join("\n"));
}
