//! Packages from the mirror at the gateway, with the real clients and the registries of this host.

use std::time::Duration;

use skep_client::{Client, Command, NewSandbox, Sandbox};

use crate::installation::Installation;

/// Time limit for one command; registries may be far away.
const DEADLINE: Duration = Duration::from_secs(300);

// Each leaves nothing behind that would keep it from asking for everything again.
const PIP: &str = "pip install --quiet --disable-pip-version-check --no-cache-dir --target /tmp/pip six==1.17.0 && test -e /tmp/pip/six.py && rm -r /tmp/pip";
const UV: &str = "rm -rf /tmp/uv ~/.cache/uv; uv pip install --quiet --target /tmp/uv idna==3.10 && test -e /tmp/uv/idna";
const NPM: &str = "rm -rf /tmp/npm ~/.npm; mkdir /tmp/npm && cd /tmp/npm && npm install --no-fund is-odd@3.0.1 @sindresorhus/is@7.0.1 && test -e node_modules/is-odd";
const APT: &str = "apt-get update -qq && apt-get install -qq -y --reinstall --no-install-recommends sl && test -e /usr/games/sl && apt-get clean && rm -rf /var/lib/apt/lists/*";

async fn create(client: &Client, internet: bool) -> Sandbox {
    let body = NewSandbox {
        template_id: "base".to_owned(),
        timeout: Some(1800),
        allow_internet_access: Some(internet),
        ..NewSandbox::default()
    };
    client.sandboxes().create(&body).await.unwrap()
}

async fn run(sandbox: &Sandbox, script: &str) -> (i32, String) {
    let command = Command::new("bash").args(["-lc", script]).user("root");
    let commands = sandbox.commands();
    let ran = tokio::time::timeout(DEADLINE, commands.run(command))
        .await
        .expect("a command that has an end")
        .unwrap();
    (
        ran.code,
        format!(
            "{}{}",
            ran.stdout_text(),
            String::from_utf8_lossy(&ran.stderr)
        ),
    )
}

async fn value(client: &Client, name: &str) -> u64 {
    let text = client.server_metrics().await.unwrap();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_without_internet_install_packages_that_are_fetched_once() {
    let installation = Installation::start_configured(
        "[mirror]\nenabled = true\noffline = \"everything\"\nindex_minutes = 60\n",
    );
    let client = installation.client();
    let sandbox = create(&client, false).await;
    for script in [PIP, UV, NPM, APT] {
        let (code, said) = run(&sandbox, script).await;
        assert_eq!(code, 0, "{script}: {said}");
        let fetched = value(&client, "skep_mirror_upstream_requests_total").await;
        let (code, said) = run(&sandbox, script).await;
        assert_eq!(code, 0, "{script}: {said}");
        let again = value(&client, "skep_mirror_upstream_requests_total").await;
        assert_eq!(again, fetched, "{script} asked a registry again");
    }
    // It is all that they reach.
    let (code, said) = run(&sandbox, "curl -sS --max-time 5 http://203.0.113.80/").await;
    assert_ne!(code, 0, "{said}");
    for port in [22, 8080, 8082] {
        let connect =
            format!("gateway=$(ip route show default | cut -d' ' -f3); nc -z -w 3 $gateway {port}");
        assert_ne!(run(&sandbox, &connect).await.0, 0, "{port}");
    }
    // The control of that: the port of the mirror.
    let connect = "nc -z -w 3 $(ip route show default | cut -d' ' -f3) 8081";
    let (code, said) = run(&sandbox, connect).await;
    assert_eq!(code, 0, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_operators_word_a_sandbox_without_internet_gets_no_package() {
    let installation = Installation::start_configured("[mirror]\nenabled = true\n");
    let client = installation.client();
    let closed = create(&client, false).await;
    let (code, said) = run(&closed, PIP).await;
    assert_ne!(code, 0, "{said}");
    let refused = "skep_mirror_requests_total{result=\"refused\"}";
    assert!(value(&client, refused).await > 0, "{said}");
    assert_eq!(
        value(&client, "skep_mirror_upstream_requests_total").await,
        0
    );
    // The control: one that has the internet.
    let open = create(&client, true).await;
    let (code, said) = run(&open, PIP).await;
    assert_eq!(code, 0, "{said}");
    assert!(value(&client, "skep_mirror_upstream_requests_total").await > 0);
}
