//! The sandbox that code runs in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use skep_client::{Client, ClientError, ContextOptions, NewSandbox, RunOptions, Sandbox};
use tokio::task::JoinHandle;

use super::{Language, Screen};
use crate::{CliError, ExitKind};

/// Lifetime of a sandbox after its command was killed and could not end it.
const LIFETIME: Duration = Duration::from_secs(300);
/// Interval at which a running command extends the lifetime of its sandbox.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// Lifetime of a sandbox that is left behind on purpose.
const KEPT: Duration = Duration::from_secs(3600);
/// Time limit for the end of a sandbox before it is left to its lifetime.
const FAREWELL: Duration = Duration::from_secs(15);

/// The sandbox in which code runs.
#[derive(Debug, Clone, Default, Args)]
pub struct SessionArgs {
    /// Language [default: by the file name, or python]
    #[arg(long, short = 'l', value_name = "NAME")]
    pub lang: Option<String>,

    /// Template of the sandbox [default: one that has the language]
    #[arg(long, short = 't', value_name = "NAME", conflicts_with = "sandbox")]
    pub template: Option<String>,

    /// Run in this existing sandbox, and keep it
    #[arg(long, short = 's', value_name = "ID")]
    pub sandbox: Option<String>,

    /// Keep the sandbox for an hour, and print its ID
    #[arg(long, conflicts_with = "sandbox")]
    pub keep: bool,

    /// Set an environment variable; without a value it is copied from this shell
    #[arg(long, short = 'e', value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,

    /// Run in this directory of the sandbox [default: the home of its user]
    #[arg(long, short = 'C', value_name = "DIR")]
    pub cwd: Option<String>,

    /// Copy a file or directory into the sandbox first
    #[arg(long, short = 'w', value_name = "PATH")]
    pub with: Vec<PathBuf>,

    /// Save images and HTML that the code displays in this directory
    #[arg(long, value_name = "DIR")]
    pub save_dir: Option<PathBuf>,
}

/// A sandbox with an interpreter.
#[derive(Debug)]
pub(crate) struct Session {
    sandbox: Sandbox,
    /// Working directory of contexts that name none.
    home: String,
    ownership: Ownership,
    /// Variables of every execution.
    environment: BTreeMap<String, String>,
}

/// Ownership of the sandbox, which decides whether it is ended.
#[derive(Debug)]
enum Ownership {
    /// Ours, and kept alive as long as we are.
    Ours { heartbeat: JoinHandle<Option<()>> },
    /// Given by `--sandbox`, and left alive.
    Theirs,
}

impl SessionArgs {
    /// The language that was asked for.
    pub(crate) fn language(&self) -> Option<Language> {
        self.lang.as_deref().map(Language::named)
    }

    /// The template that the sandbox is made from.
    pub(crate) fn template_for(&self, language: &Language) -> String {
        let usual = || language.template().to_owned();
        self.template.clone().unwrap_or_else(usual)
    }

    /// The template that is needed for a new sandbox; `None` if there is one already.
    pub(crate) fn new_template(&self, language: &Language) -> Option<String> {
        let is_new = self.sandbox.is_none();
        is_new.then(|| self.template_for(language))
    }

    fn variables(
        &self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<BTreeMap<String, String>, CliError> {
        let variable = |text: &String| match text.split_once('=') {
            Some(("", _)) => Err(CliError::input(
                format!("`{text}` has no name"),
                "`--env` takes NAME=VALUE, or NAME for the value that it has here",
            )),
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => match environment(text) {
                Some(value) => Ok((text.clone(), value)),
                None => Err(CliError::input(
                    format!("there is no variable `{text}` here"),
                    "give its value, as in `--env NAME=VALUE`",
                )),
            },
        };
        self.env.iter().map(variable).collect()
    }
}

impl Session {
    /// Makes a sandbox, or finds the one that was named.
    pub(crate) async fn open(
        client: Client,
        args: &SessionArgs,
        language: &Language,
        screen: &Screen,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, CliError> {
        let mut variables = fitting(screen);
        variables.extend(args.variables(environment)?);
        let (sandbox, ownership) = match &args.sandbox {
            Some(id) => (client.sandboxes().get(id).await?, Ownership::Theirs),
            None => {
                let template = args.template_for(language);
                let sandbox = create(&client, &template, &variables)
                    .await
                    .map_err(|error| no_sandbox(error, &template))?;
                let heartbeat =
                    skep_telemetry::spawn("keep a sandbox alive", keep_alive(sandbox.clone()));
                (sandbox, Ownership::Ours { heartbeat })
            }
        };
        let mut session = Self {
            sandbox,
            home: String::new(),
            ownership,
            environment: variables,
        };
        match session.sandbox.contexts().list().await {
            Ok(contexts) => {
                let first = contexts.into_iter().next();
                session.home = first.map(|context| context.cwd).unwrap_or_default();
                Ok(session)
            }
            Err(error) => {
                let hint = "its template may have no interpreter; `--template` names another";
                let error = CliError::from(error).hint(hint);
                session.close(false).await?;
                Err(error)
            }
        }
    }

    pub(crate) fn id(&self) -> &str {
        self.sandbox.id()
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Options for running code, beside its limits.
    pub(crate) fn options(&self) -> RunOptions {
        RunOptions {
            env: self.environment.clone(),
            ..RunOptions::default()
        }
    }

    /// The directory in the sandbox that code runs in.
    pub(crate) fn directory(&self, cwd: Option<&str>) -> String {
        match cwd {
            None => self.home.clone(),
            Some(path) if path.starts_with('/') => path.to_owned(),
            Some(path) => format!("{}/{path}", self.home),
        }
    }

    /// A context of its own in `directory`, or `None` for the usual one of the language.
    pub(crate) async fn context(
        &self,
        language: &Language,
        directory: &str,
    ) -> Result<Option<String>, CliError> {
        if directory == self.home {
            return Ok(None);
        }
        let options = ContextOptions::default();
        let made = self
            .sandbox
            .contexts()
            .create(language.name(), Some(directory), &options)
            .await?;
        Ok(Some(made.id))
    }

    /// Memory limit of the sandbox, in MiB, if that can be found out.
    pub(crate) async fn memory(&self) -> Option<u32> {
        let detail = self.sandbox.info().await.ok()?;
        Some(detail.listed.memory_mb)
    }

    /// Ends the sandbox if it is ours, or leaves it alive for a while with `keep`.
    pub(crate) async fn close(self, keep: bool) -> Result<(), CliError> {
        let Ownership::Ours { heartbeat } = &self.ownership else {
            return Ok(());
        };
        heartbeat.abort();
        if keep {
            return Ok(self.sandbox.set_timeout(KEPT).await?);
        }
        match tokio::time::timeout(FAREWELL, self.sandbox.kill()).await {
            Ok(Err(error)) if !error.is_not_found() => Err(error.into()),
            Ok(Ok(()) | Err(_)) => Ok(()),
            Err(_elapsed) => Err(CliError::failure(format!(
                "sandbox `{}` did not end within {} s",
                self.id(),
                FAREWELL.as_secs()
            ))),
        }
    }
}

/// Variables that tell programs in the sandbox about the terminal here.
fn fitting(screen: &Screen) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
    if let Some(width) = screen.width {
        set("COLUMNS", width.to_string());
    }
    if !screen.colours_output {
        // Kernels ask tools for colours, since most of their readers show them.
        set("NO_COLOR", "1".to_owned());
        set("FORCE_COLOR", "0".to_owned());
        set("CLICOLOR_FORCE", "0".to_owned());
    }
    variables
}

async fn create(
    client: &Client,
    template: &str,
    variables: &BTreeMap<String, String>,
) -> Result<Sandbox, ClientError> {
    let body = NewSandbox {
        template_id: template.to_owned(),
        timeout: i64::try_from(LIFETIME.as_secs()).ok(),
        secure: Some(true),
        env_vars: Some(variables.clone()),
        ..NewSandbox::default()
    };
    client.sandboxes().create(&body).await
}

fn no_sandbox(error: ClientError, template: &str) -> CliError {
    if !error.is_not_found() {
        return error.into();
    }
    CliError {
        kind: ExitKind::Input,
        ..CliError::failure(error).hint(format!(
            "`skep template build {template}` builds it; `skep template list` shows what there is"
        ))
    }
}

async fn keep_alive(sandbox: Sandbox) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        // If the server is gone for a moment, the next one is in time.
        drop(sandbox.set_timeout(LIFETIME).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(env: &[&str]) -> Result<BTreeMap<String, String>, CliError> {
        let args = SessionArgs {
            env: env.iter().map(|&text| text.to_owned()).collect(),
            ..SessionArgs::default()
        };
        args.variables(|name| (name == "HERE").then(|| "here".to_owned()))
    }

    #[test]
    fn a_variable_has_a_value_or_the_one_it_has_here() {
        let found = variables(&["A=1=2", "B=", "HERE"]).unwrap();
        let expected = [("A", "1=2"), ("B", ""), ("HERE", "here")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found, BTreeMap::from(expected));
        assert!(variables(&["=x"]).is_err() && variables(&["MISSING"]).is_err());
    }

    #[test]
    fn a_language_chooses_the_template_unless_one_is_named() {
        let args = |lang: &str, template: Option<&str>| SessionArgs {
            lang: Some(lang.to_owned()),
            template: template.map(str::to_owned),
            ..SessionArgs::default()
        };
        let chosen = |args: SessionArgs| {
            let language = args.language().unwrap();
            args.new_template(&language).unwrap()
        };
        assert_eq!(chosen(args("js", None)), "code-interpreter-v1");
        assert_eq!(chosen(args("java", None)), "code-interpreter-languages");
        assert_eq!(chosen(args("java", Some("mine"))), "mine");
    }
}
