//! Announcement of a server to which clients can connect.

use std::net::SocketAddr;
use std::path::Path;

use skep_cli::{CliError, print_line, print_note};
use skep_domain::TrustFiles;
use skep_image::Catalog;

use crate::surroundings::{self, NAMES_PACKAGE};

/// Everything that a client needs to connect.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The URL of the API and, by headers, of every sandbox.
    pub url: String,
    /// A link that opens the web console once.
    pub console: String,
    /// The domain under which sandboxes have host names, with the port if it is not the usual.
    pub domain: String,
    /// The local operator's key.
    pub api_key: String,
    /// Files by which clients trust the certificate authority, if it is our own.
    pub trust: Option<TrustFiles>,
    /// Address at which names below the domain are resolved.
    pub names: Option<SocketAddr>,
}

/// Name of the template that the code-interpreter SDKs ask for by default.
pub const INTERPRETER: &str = "code-interpreter-v1";

/// First example to try. Without indentation, so that it can be pasted as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Example {
    /// A command: every template can run one.
    Command,
    /// Code, where the code-interpreter SDKs find the template that they ask for.
    Interpreter,
}

impl Example {
    /// The example to show for the templates that are built.
    ///
    /// # Errors
    ///
    /// If the catalog cannot be read.
    pub fn of_templates(cache_dir: &Path) -> Result<Self, CliError> {
        let catalog = Catalog::open(cache_dir).map_err(CliError::failure)?;
        let interpreter = catalog.find(INTERPRETER).map_err(CliError::failure)?;
        Ok(interpreter.map_or(Self::Command, |_| Self::Interpreter))
    }

    /// The package of the SDK, and a program that uses it.
    fn python(self) -> (&'static str, &'static str) {
        match self {
            Self::Command => (
                "e2b",
                r#"from e2b import Sandbox
with Sandbox.create() as sandbox:
    print(sandbox.commands.run("echo hello from $(hostname)").stdout)"#,
            ),
            Self::Interpreter => (
                "e2b-code-interpreter",
                r#"from e2b_code_interpreter import Sandbox
with Sandbox.create() as sandbox:
    print(sandbox.run_code("sum(range(10))").text)
    print(sandbox.run_code("[1, 2, 3].map((x) => x * x)", language="js").text)
    print(sandbox.commands.run("echo hello from $(hostname)").stdout)"#,
            ),
        }
    }
}

/// Next steps of a person on this host.
#[derive(Debug, Clone)]
pub struct NextSteps {
    /// The way to call this executable.
    pub command: String,
    /// The example to show.
    pub example: Example,
    /// Result of trying `python3 -m venv`, if that is known.
    pub has_python_venv: Option<bool>,
    /// Result of looking for a name below the domain as programs do, if that is known.
    pub finds_names: Option<bool>,
}

impl NextSteps {
    /// Next steps on a host of which nothing is known.
    pub fn unknown(command: String, example: Example) -> Self {
        Self {
            command,
            example,
            has_python_venv: None,
            finds_names: None,
        }
    }

    /// The same, after a look at what this host has.
    pub async fn look(self, domain: String) -> Self {
        let (has_python_venv, finds_names) = tokio::join!(
            surroundings::has_python_venv(),
            surroundings::finds_names_below(&domain),
        );
        Self {
            has_python_venv,
            finds_names,
            ..self
        }
    }
}

/// Prints the connection details as one line of JSON, for whatever started the server.
///
/// # Errors
///
/// If nobody reads them.
pub fn tell_program(ready: &Ready) -> Result<(), CliError> {
    let line = serde_json::json!({
        "apiUrl": ready.url,
        "sandboxUrl": ready.url,
        "apiKey": ready.api_key,
        "domain": ready.domain,
        "caCert": ready.trust.as_ref().map(|trust| &trust.authority),
        "caBundle": ready.trust.as_ref().map(|trust| &trust.bundle),
        "dns": ready.names,
    });
    print_line(&line.to_string())
}

/// Prints the address for a journal, which more people may read than should have a key.
pub fn tell_journal(ready: &Ready) {
    print_note(&format!("serving on {} and {}", ready.url, ready.domain));
}

/// Prints the connection details for a person, ready to paste.
///
/// # Errors
///
/// If nobody reads them.
pub fn tell_person(ready: &Ready, next: &NextSteps) -> Result<(), CliError> {
    print_note(&format!(
        "\nserving on {} — Ctrl-C stops it; sandboxes live on\n",
        ready.url
    ));
    print_note(&format!(
        "console, once within 15 minutes (`skep console` prints another link):\n{}\n",
        ready.console
    ));
    for line in exports(ready) {
        print_line(&line)?;
    }
    let trust = trust_exports(ready);
    if !trust.is_empty() {
        print_note("\nand for what speaks https, such as SDKs before 2.1:");
    }
    for line in trust {
        print_line(&line)?;
    }
    for note in notes(ready, next) {
        print_note(&note);
    }
    print_note(&first_steps(next));
    Ok(())
}

/// The variables that lead a client here. In clear text it needs no certificate, and the domain
/// is what names of ports are made of.
fn exports(ready: &Ready) -> Vec<String> {
    let mut variables = vec![
        export("E2B_API_KEY", &ready.api_key),
        export("E2B_DOMAIN", &ready.domain),
    ];
    if speaks_clear_text(ready) {
        variables.push(export("E2B_API_URL", &ready.url));
        variables.push(export("E2B_SANDBOX_URL", &ready.url));
        variables.push(export("E2B_VOLUME_API_URL", &ready.url));
    }
    variables
}

/// The variables by which clients trust this host's own authority.
fn trust_exports(ready: &Ready) -> Vec<String> {
    let file = |name, path: &Path| export(name, &path.display().to_string());
    let Some(trust) = &ready.trust else {
        return Vec::new();
    };
    vec![
        file("SSL_CERT_FILE", &trust.bundle),
        file("NODE_EXTRA_CA_CERTS", &trust.authority),
    ]
}

fn speaks_clear_text(ready: &Ready) -> bool {
    ready.url.starts_with("http://")
}

fn notes(ready: &Ready, next: &NextSteps) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(names) = ready.names {
        notes.push(format!(
            "\nnames below {} are answered by DNS at {names}",
            ready.domain
        ));
    }
    if next.finds_names == Some(false) && ready.domain.contains(".localhost") {
        notes.push(format!(
            "\nhint: browsers find names below {}, but other programs on this host do not;\n      \
             `apt-get install {NAMES_PACKAGE}` teaches them",
            ready.domain
        ));
    }
    notes
}

/// Lines to paste first.
fn first_steps(next: &NextSteps) -> String {
    let (package, program) = next.example.python();
    let install = match next.has_python_venv {
        Some(false) | None => "sudo apt-get install -y python3-venv\n",
        Some(true) => "",
    };
    format!(
        "\ntry it, with these variables:\n\n\
         {command} run -c 'print(sum(range(10)))'\n\n\
         {install}python3 -m venv ~/.skep-venv && ~/.skep-venv/bin/pip install -q {package}\n\
         ~/.skep-venv/bin/python - <<'END'\n{program}\nEND\n",
        command = next.command,
    )
}

fn export(name: &str, value: &str) -> String {
    format!("export {name}={}", quoted(value))
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:@%+=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// This executable as its caller can write it: by its name if that finds it.
///
/// # Errors
///
/// If this executable cannot be found.
pub fn own_command(search_path: &str) -> Result<String, CliError> {
    let executable = std::env::current_exe().map_err(CliError::failure)?;
    let directory = std::env::current_dir().unwrap_or_default();
    Ok(quoted(&shortest(&executable, search_path, &directory)))
}

fn shortest(executable: &Path, search_path: &str, directory: &Path) -> String {
    let parent = executable.parent().unwrap_or_else(|| Path::new("/"));
    let found_by_name = std::env::split_paths(search_path).any(|entry| entry == parent);
    let path = executable.strip_prefix(directory).unwrap_or(executable);
    match executable.file_name() {
        Some(name) if found_by_name => name.to_string_lossy().into_owned(),
        // Without a directory it would be looked for on the path.
        Some(name) if path == Path::new(name) => format!("./{}", path.display()),
        Some(_) | None => path.to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use skep_domain::TrustFiles;

    use super::*;

    fn ready() -> Ready {
        Ready {
            url: "http://127.0.0.1:3000".to_owned(),
            console: "http://127.0.0.1:3000/console/#ticket=x".to_owned(),
            domain: "skep.localhost:3000".to_owned(),
            api_key: "e2b_0".to_owned(),
            trust: Some(TrustFiles {
                authority: "/lib/my skep-ca/ca.pem".into(),
                bundle: "/lib/skep-ca/bundle.pem".into(),
            }),
            names: None,
        }
    }

    fn next() -> NextSteps {
        NextSteps {
            command: "target/skep".to_owned(),
            example: Example::Interpreter,
            has_python_venv: Some(true),
            finds_names: Some(true),
        }
    }

    #[test]
    fn a_domain_and_two_urls_in_clear_text_need_no_trust() {
        let expected = [
            "export E2B_API_KEY=e2b_0",
            "export E2B_DOMAIN=skep.localhost:3000",
            "export E2B_API_URL=http://127.0.0.1:3000",
            "export E2B_SANDBOX_URL=http://127.0.0.1:3000",
            "export E2B_VOLUME_API_URL=http://127.0.0.1:3000",
        ];
        assert_eq!(exports(&ready()), expected);
        let expected = [
            "export SSL_CERT_FILE=/lib/skep-ca/bundle.pem",
            "export NODE_EXTRA_CA_CERTS='/lib/my skep-ca/ca.pem'",
        ];
        assert_eq!(trust_exports(&ready()), expected);
    }

    #[test]
    fn over_tls_it_is_the_domain_alone() {
        let ready = Ready {
            url: "https://api.skep.localhost:3000".to_owned(),
            ..ready()
        };
        let expected = [
            "export E2B_API_KEY=e2b_0",
            "export E2B_DOMAIN=skep.localhost:3000",
        ];
        assert_eq!(exports(&ready), expected);
    }

    #[test]
    fn a_host_on_which_names_are_not_found_is_told_the_cure() {
        assert!(notes(&ready(), &next()).is_empty());
        let lost = NextSteps {
            finds_names: Some(false),
            ..next()
        };
        let told = notes(&ready(), &lost).concat();
        assert!(told.contains(NAMES_PACKAGE), "{told}");
    }

    #[test]
    fn what_is_pasted_makes_an_environment_of_its_own() {
        let steps = first_steps(&next());
        assert!(steps.contains("target/skep run -c "), "{steps}");
        assert!(steps.contains("python3 -m venv"), "{steps}");
        assert!(!steps.contains("apt-get"), "{steps}");
        let bare = NextSteps {
            has_python_venv: Some(false),
            ..next()
        };
        assert!(first_steps(&bare).contains("apt-get install -y python3-venv"));
    }

    #[test]
    fn a_command_is_written_as_short_as_it_works() {
        let path = "/usr/local/bin:/usr/bin";
        for (executable, expected) in [
            ("/usr/bin/skep", "skep"),
            ("/home/me/skep/target/release/skep", "target/release/skep"),
            ("/home/me/skep/skep", "./skep"),
            ("/opt/skep", "/opt/skep"),
        ] {
            let directory = Path::new("/home/me/skep");
            let found = shortest(Path::new(executable), path, directory);
            assert_eq!(found, expected);
        }
    }
}
