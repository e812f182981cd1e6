//! `skep up`: everything until a client can connect, and what to tell its owner.

use skep_cli::{print_line, print_note};

use crate::serve::Ready;

/// Tells a machine, in one line.
pub(crate) fn announce_json(ready: &Ready) {
    let line = serde_json::json!({
        "apiUrl": ready.url,
        "sandboxUrl": ready.url,
        "apiKey": ready.api_key,
        "domain": ready.domain,
        "caCert": ready.authority,
        "dns": ready.names,
    });
    print_line(&line.to_string());
}

/// Tells a person, ready to paste.
pub(crate) fn announce(ready: &Ready) {
    print_note(&format!(
        "\nserving on {} — Ctrl-C stops it; sandboxes live on\n",
        ready.url
    ));
    for line in exports(ready) {
        print_line(&line);
    }
    print_note(
        "\n    pip install e2b\n    python3 -c 'from e2b import Sandbox\nwith Sandbox.create() as sandbox: print(sandbox.commands.run(\"echo hello from $(hostname)\").stdout)'\n",
    );
}

fn exports(ready: &Ready) -> Vec<String> {
    let key = format!("export E2B_API_KEY={}", ready.api_key);
    match (&ready.authority, &ready.domain) {
        (Some(authority), Some(domain)) => vec![
            format!("{key} E2B_DOMAIN={domain}"),
            format!(
                "export SSL_CERT_FILE={0} NODE_EXTRA_CA_CERTS={0}",
                authority.display()
            ),
        ],
        _ => vec![format!(
            "{key} E2B_API_URL={0} E2B_SANDBOX_URL={0}",
            ready.url
        )],
    }
}
