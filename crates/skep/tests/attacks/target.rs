//! A sandbox that is attacked, and what becomes of an attack.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use skep_client::{Client, ClientError, Command, Sandbox};

use crate::attack::helper;

/// No attack takes longer, and one that does has found something. Races take 32 seconds by themselves.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A variable in the environment of an attacker's neighbour that nobody else may read.
pub(crate) fn secret() -> (String, String) {
    ("SECRET_OF_A_NEIGHBOUR".into(), "nobody else's".into())
}

/// A sandbox: of the server, through its frontend, or of a control, directly.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) client: Client,
    pub(crate) id: String,
    pub(crate) token: String,
    /// Environment that tells the attacks about their surroundings.
    pub(crate) surroundings: BTreeMap<String, String>,
}

/// Result that an attack reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Escaped(String),
    Held(String),
    /// It did not say, which is a failure of the suite.
    Unclear(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Escaped(evidence) => write!(formatter, "ESCAPED {evidence}"),
            Self::Held(reason) => write!(formatter, "HELD {reason}"),
            Self::Unclear(what) => write!(formatter, "UNCLEAR {what}"),
        }
    }
}

/// Output of a command, and its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

/// The program and arguments that run an attack.
pub(crate) fn command(source: &str) -> Vec<String> {
    ["python3", "-I", "-c", source].map(str::to_owned).to_vec()
}

impl Target {
    /// Runs a program and reads its verdict.
    pub(crate) async fn judge(&self, user: &str, command: &[String]) -> Verdict {
        let (program, arguments) = command.split_first().expect("a command has a program");
        let ran = tokio::time::timeout(TIMEOUT, self.run(user, program, arguments)).await;
        match ran {
            Ok(Ok(ran)) if ran.stdout.lines().count() == 1 => read_verdict(&ran.stdout),
            Ok(Ok(ran)) => Verdict::Unclear(format!("{ran:?}")),
            Ok(Err(error)) => Verdict::Unclear(skep_telemetry::Chain(&error).to_string()),
            Err(_) => Verdict::Unclear("no end".into()),
        }
    }

    /// Runs a command to its end.
    pub(crate) async fn run(
        &self,
        user: &str,
        command: &str,
        arguments: &[String],
    ) -> Result<Ran, ClientError> {
        let command = Command::new(command)
            .args(arguments)
            .user(user)
            .cwd("/")
            .envs(&self.surroundings);
        let output = self.sandbox().commands().run(command).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Ran {
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            code: output.code,
        })
    }

    /// The sandbox, as the client knows it.
    pub(crate) fn sandbox(&self) -> Sandbox {
        let sandbox = self.client.sandbox(&self.id);
        sandbox.with_access_token(Some(&self.token))
    }

    /// Starts to make contexts without end, so that kernels are forked with the sandbox's
    /// environment.
    pub(crate) async fn make_contexts_forever(&self) {
        let mut target = self.clone();
        let source = format!("{}\n\n{}", helper("attack.py"), helper("make_contexts.py"));
        target
            .surroundings
            .insert("MAKE_CONTEXTS".to_owned(), source);
        target
            .surroundings
            .insert("ATTACK_TOKEN".to_owned(), self.token.clone());
        let script = "setsid python3 -I -c \"$MAKE_CONTEXTS\" </dev/null >/dev/null 2>&1 &";
        target.shell(script).await;
    }

    /// Runs a shell script that must succeed.
    pub(crate) async fn shell(&self, script: &str) -> String {
        let arguments = ["-c".to_owned(), script.to_owned()];
        let ran = self.run("root", "sh", &arguments).await.unwrap();
        assert_eq!(ran.code, 0, "{script}: {}", ran.stderr);
        ran.stdout
    }
}

/// The verdict in the one line that an attack prints.
pub(crate) fn read_verdict(said: &str) -> Verdict {
    let line = said.trim_end();
    match line.split_once(' ') {
        Some(("ESCAPED", evidence)) => Verdict::Escaped(evidence.to_owned()),
        Some(("HELD", reason)) => Verdict::Held(reason.to_owned()),
        _ => Verdict::Unclear(format!("said `{line}`")),
    }
}
