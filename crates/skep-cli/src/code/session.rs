//! The sandbox that code runs in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use skep_client::{
    Client, ClientError, ContextOptions, ContextRef, EntryKind, NewSandbox, RunOptions, Sandbox,
};
use tokio::task::JoinHandle;

use super::language::{LANGUAGES, TEMPLATES};
use super::{Language, Question, Screen};
use crate::sandbox::{Among, whole_id};
use crate::variables::variables;
use crate::{CliError, ExitKind, Suggested};

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
    #[arg(long, short = 'l', value_name = "NAME", value_parser = Suggested(LANGUAGES), hide_possible_values = true)]
    pub lang: Option<String>,

    /// Template of the sandbox [default: one that has the language]
    #[arg(long, short = 't', value_name = "NAME", conflicts_with = "sandbox", value_parser = Suggested(TEMPLATES), hide_possible_values = true)]
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

    /// Templates that the sandbox may be made from, in the order in which they are tried; none if
    /// there is a sandbox already.
    pub(crate) fn new_templates(&self, language: &Language) -> Vec<String> {
        match (&self.sandbox, &self.template) {
            (Some(_), _) => Vec::new(),
            (None, Some(template)) => vec![template.clone()],
            (None, None) => {
                let usual = language.templates().iter();
                usual.map(|&template| template.to_owned()).collect()
            }
        }
    }

    fn variables(
        &self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<BTreeMap<String, String>, CliError> {
        variables(&self.env, environment)
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
        if let Some(id) = &args.sandbox {
            let id = whole_id(&client, id, Among::Living).await?;
            let sandbox = client.sandboxes().get(&id).await?;
            return Self::begin(sandbox, Ownership::Theirs, variables).await;
        }
        let templates = args.new_templates(language);
        let mut missing = None;
        for (index, template) in templates.iter().enumerate() {
            let is_last = index + 1 == templates.len();
            let made = create(&client, template, &variables).await;
            let sandbox = match (made, missing.take()) {
                (Ok(sandbox), _) => sandbox,
                (Err(error), None) => return Err(no_sandbox(error, template)),
                // What the first template lacks says more than that there is no second one.
                (Err(_), Some(error)) => return Err(has_more(error, template)),
            };
            let heartbeat =
                skep_telemetry::spawn("keep a sandbox alive", keep_alive(sandbox.clone()));
            let ownership = Ownership::Ours { heartbeat };
            let session = Self::begin(sandbox, ownership, variables.clone()).await?;
            if is_last {
                return Ok(session);
            }
            match session.try_language(language).await {
                Ok(()) => return Ok(session),
                Err(error) if error.is_missing_kernel() => {
                    session.close(false).await?;
                    missing = Some(error);
                }
                Err(error) => {
                    session.close(false).await?;
                    return Err(error);
                }
            }
        }
        unreachable!("every language has a template")
    }

    /// Finds out where code runs in a sandbox.
    async fn begin(
        sandbox: Sandbox,
        ownership: Ownership,
        environment: BTreeMap<String, String>,
    ) -> Result<Self, CliError> {
        let mut session = Self {
            sandbox,
            home: String::new(),
            ownership,
            environment,
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

    /// Starts the usual context of a language, if it is not there yet.
    ///
    /// # Errors
    ///
    /// [`CliError::is_missing_kernel`] if the template has none for it.
    pub(crate) async fn try_language(&self, language: &Language) -> Result<(), CliError> {
        let interpreter = self
            .sandbox
            .interpreter(ContextRef::Language(language.name()));
        let mut execution = interpreter.execute("", &self.options()).await?;
        while execution.next().await?.is_some() {}
        Ok(())
    }

    /// The context that code of a language runs in by default, if there is one already.
    pub(crate) async fn usual_context(
        &self,
        language: &Language,
    ) -> Result<Option<String>, CliError> {
        let contexts = self.sandbox.contexts().list().await?;
        let mut all = contexts.into_iter();
        let usual = all.find(|context| context.language == language.name());
        Ok(usual.map(|context| context.id))
    }

    /// Asks the kernel about a name; `None` if it knows nothing.
    pub(crate) async fn explain(
        &self,
        context: &str,
        question: &Question,
    ) -> Result<Option<String>, CliError> {
        let Question { name, with_source } = question;
        let cursor = name.chars().count() as u64;
        let contexts = self.sandbox.contexts();
        let found = contexts
            .inspect(context, name, cursor, *with_source)
            .await?;
        let text = found.data.get("text/plain").and_then(|text| text.as_str());
        Ok(text.filter(|_| found.found).map(str::to_owned))
    }

    /// Fails if there is no such directory in the sandbox.
    pub(crate) async fn check_directory(&self, directory: &str) -> Result<(), CliError> {
        if directory == self.home {
            return Ok(());
        }
        let missing = || {
            CliError::input(
                format!("there is no directory `{directory}` in the sandbox"),
                "`--cwd` takes one that is there; without it, it is the home of the user",
            )
        };
        match self.sandbox.files().stat(directory).await {
            Ok(entry) if entry.kind == EntryKind::Directory => Ok(()),
            Ok(_) => Err(missing()),
            Err(error) if error.is_not_found() => Err(missing()),
            Err(error) => Err(error.into()),
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

pub(crate) fn no_sandbox(error: ClientError, template: &str) -> CliError {
    if !error.is_not_found() {
        return error.into();
    }
    // Only those have a recipe.
    let hint = if TEMPLATES.contains(&template) {
        format!("`skep template build {template}` builds it, on the server's host")
    } else {
        "`skep template list` shows what there is".to_owned()
    };
    CliError {
        kind: ExitKind::Input,
        ..CliError::failure(error).hint(hint)
    }
}

/// The error of a template that lacks a language which `other` would have.
fn has_more(error: CliError, other: &str) -> CliError {
    error.hint(format!(
        "`skep template build {other}` builds a template that has it, on the server's host"
    ))
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

    #[test]
    fn a_language_chooses_the_template_unless_one_is_named() {
        let args = |lang: &str, template: Option<&str>| SessionArgs {
            lang: Some(lang.to_owned()),
            template: template.map(str::to_owned),
            ..SessionArgs::default()
        };
        let chosen = |args: SessionArgs| {
            let language = args.language().unwrap();
            args.new_templates(&language).join(" ")
        };
        assert_eq!(chosen(args("js", None)), "code-interpreter-v1");
        assert_eq!(
            chosen(args("java", None)),
            "code-interpreter-v1 code-interpreter-languages"
        );
        assert_eq!(chosen(args("java", Some("mine"))), "mine");
    }
}
