//! Sandboxes whose rules look into requests: every client in them trusts whoever answers for a host
//! that the rules name. Nothing is sent anywhere: the address of that host is nobody's, and whoever
//! answers says so inside TLS.

use std::collections::BTreeMap;

use skep_client::{
    Client, Command, Network, NetworkRule, NetworkRules, NetworkTransform, NetworkUpdate,
    NewSandbox, Sandbox,
};

use crate::installation::{CACHE, Installation};
use crate::languages::{TEMPLATE, build_template};

/// A host that the rules name. Its address is for documentation, which nobody has.
const HOST: &str = "rules.test";
const HOSTS: &str = "echo 192.0.2.7 rules.test | sudo tee -a /etc/hosts";
/// The status of whoever answers: the host has no address.
const ANSWER: &str = "502";

/// Clients, each with a command that prints the status of `https://rules.test/`, and with how they get
/// to whom they trust.
const CLIENTS: [(&str, &str); 8] = [
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
    let body = NewSandbox {
        template_id: TEMPLATE.to_owned(),
        timeout: Some(600),
        network: rules.map(|rules| Network {
            rules: Some(rules),
            ..Network::default()
        }),
        ..NewSandbox::default()
    };
    let sandbox = client.sandboxes().create(&body).await.unwrap();
    run(&sandbox, HOSTS).await;
    sandbox
}

/// The clients that do not hear from whoever answers.
async fn deaf(sandbox: &Sandbox) -> Vec<String> {
    let mut deaf = Vec::new();
    for (client, script) in CLIENTS {
        let said = run(sandbox, script).await;
        if !said.contains(ANSWER) {
            deaf.push(format!("{client}: {said}"));
        }
    }
    deaf
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_trusts_whoever_answers_for_hosts_that_rules_name() {
    build_template(&CACHE);
    let installation = Installation::start();
    let client = installation.client();
    let sandbox = create(&client, Some(rules())).await;
    let deaf_ones = deaf(&sandbox).await;
    assert!(deaf_ones.is_empty(), "{}", deaf_ones.join("\n"));
    // The control: without the variable and the bundle nobody does.
    let control = "env -u SSL_CERT_FILE -u CURL_CA_BUNDLE curl -sS --cacert /usr/share/ca-certificates/mozilla/ISRG_Root_X1.crt https://rules.test/ 2>&1";
    let said = run(&sandbox, control).await;
    assert!(said.contains("certificate"), "{said}");
    // The system's own tool keeps it.
    run(&sandbox, "sudo update-ca-certificates --fresh").await;
    let deaf_ones = deaf(&sandbox).await;
    assert!(deaf_ones.is_empty(), "{}", deaf_ones.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_gets_rules_later_trusts_from_then_on_and_one_without_never() {
    build_template(&CACHE);
    let installation = Installation::start();
    let client = installation.client();
    let sandbox = create(&client, None).await;
    let bundled = "grep -c BEGIN /etc/ssl/certs/ca-certificates.crt; ls /usr/local/share/ca-certificates; env | grep -c SSL_CERT_FILE";
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
    assert!(run(&sandbox, bundled).await.contains("skep-egress.crt"));
    let deaf_ones = deaf(&sandbox).await;
    assert!(deaf_ones.is_empty(), "{}", deaf_ones.join("\n"));
}
