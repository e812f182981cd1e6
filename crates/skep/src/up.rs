//! `skep up`: everything until a client can connect, and what to tell its owner.

use skep_cli::{print_line, print_note};

use crate::serve::Ready;

/// First example to try. Without indentation, so that it can be pasted as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Example {
    /// A command: every template can run one.
    Command,
    /// Code, where the code-interpreter SDKs find the template that they ask for.
    Interpreter,
}

impl Example {
    fn text(self) -> &'static str {
        match self {
            Self::Command => {
                r#"
pip install e2b && python3 - <<'END'
from e2b import Sandbox
with Sandbox.create() as sandbox:
    print(sandbox.commands.run("echo hello from $(hostname)").stdout)
END
"#
            }
            Self::Interpreter => {
                r#"
pip install e2b-code-interpreter && python3 - <<'END'
from e2b_code_interpreter import Sandbox
with Sandbox.create() as sandbox:
    print(sandbox.run_code("sum(range(10))").text)
    print(sandbox.run_code("[1, 2, 3].map((x) => x * x)", language="js").text)
    print(sandbox.commands.run("echo hello from $(hostname)").stdout)
END
"#
            }
        }
    }
}

/// Prints the connection details as one line of JSON.
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

/// Prints the connection details for a person, ready to paste.
pub(crate) fn announce(ready: &Ready, example: Example) {
    print_note(&format!(
        "\nserving on {} — Ctrl-C stops it; sandboxes live on\n",
        ready.url
    ));
    for line in exports(ready) {
        print_line(&line);
    }
    if let (Some(domain), Some(names)) = (&ready.domain, ready.names) {
        print_note(&format!(
            "\nnames below {domain} are answered by DNS at {names}; programs that use the system's\n\
             resolver find *.localhost by systemd-resolved or the package libnss-myhostname"
        ));
    }
    print_note(example.text());
}

fn exports(ready: &Ready) -> Vec<String> {
    let mut variables = vec![("E2B_API_KEY", ready.api_key.clone())];
    match (&ready.authority, &ready.domain) {
        (Some(authority), Some(domain)) => {
            let authority = authority.display().to_string();
            variables.push(("E2B_DOMAIN", domain.clone()));
            variables.push(("SSL_CERT_FILE", authority.clone()));
            variables.push(("NODE_EXTRA_CA_CERTS", authority));
        }
        _ => {
            variables.push(("E2B_API_URL", ready.url.clone()));
            variables.push(("E2B_SANDBOX_URL", ready.url.clone()));
        }
    }
    variables
        .into_iter()
        .map(|(name, value)| format!("export {name}={value}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Ready {
        Ready {
            url: "http://127.0.0.1:3000".to_owned(),
            domain: None,
            api_key: "e2b_0".to_owned(),
            authority: None,
            names: None,
        }
    }

    #[test]
    fn two_urls_and_a_key_are_all_a_client_needs() {
        let expected = [
            "export E2B_API_KEY=e2b_0",
            "export E2B_API_URL=http://127.0.0.1:3000",
            "export E2B_SANDBOX_URL=http://127.0.0.1:3000",
        ];
        assert_eq!(exports(&ready()), expected);
    }

    #[test]
    fn with_names_of_its_own_it_is_a_domain_and_whom_to_trust() {
        let ready = Ready {
            domain: Some("skep.localhost:3000".to_owned()),
            authority: Some("/data/tls/ca.pem".into()),
            ..ready()
        };
        let expected = [
            "export E2B_API_KEY=e2b_0",
            "export E2B_DOMAIN=skep.localhost:3000",
            "export SSL_CERT_FILE=/data/tls/ca.pem",
            "export NODE_EXTRA_CA_CERTS=/data/tls/ca.pem",
        ];
        assert_eq!(exports(&ready), expected);
    }
}
