//! Running code in a sandbox: the interpreter, its contexts and executions.

use std::collections::BTreeMap;

use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde::de::DeserializeOwned;
use skep_wire::interpreter::{
    CodeAtCursor, CompletenessAnswer, Completions, Context, ContextOptions, ContextRequest,
    ExecuteOptions, ExecuteRequest, InputReply, Inspection, KernelInfo, Usage,
};

use crate::error::ClientError;
use crate::execution::Execution;
use crate::port::Port;

/// The context that code runs in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ContextRef<'a> {
    /// The default context of the default language, which is Python.
    #[default]
    Default,
    /// The default context of this language, which is made if there is none.
    Language(&'a str),
    /// The context with this ID.
    Id(&'a str),
}

/// Options of an execution.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Variables for this execution alone.
    pub env: BTreeMap<String, String>,
    /// Limits and secrets. Only Skep understands them.
    pub skep: ExecuteOptions,
    /// Longest line of the answer that is read, in bytes: one output. In place of a longer one comes
    /// [`AnswerLine::TooLarge`](crate::AnswerLine::TooLarge). `None` is 256 MiB.
    pub longest_line: Option<usize>,
}

impl std::fmt::Debug for RunOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RunOptions")
            .field("skep", &self.skep)
            .finish_non_exhaustive()
    }
}

/// The interpreter of one sandbox, with the context that its code runs in.
#[derive(Debug, Clone)]
pub struct Interpreter<'a> {
    port: Port,
    context: ContextRef<'a>,
}

impl<'a> Interpreter<'a> {
    pub(crate) fn new(port: Port, context: ContextRef<'a>) -> Self {
        Self { port, context }
    }

    /// Succeeds if there is an interpreter, and it answers.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if it does not, or the template has none.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.port
            .call_silent("reach the interpreter", (Method::GET, "/health"), None)
            .await
            .map(drop)
    }

    /// Runs `code` and streams what it does.
    ///
    /// Executions of one context run one after another, in the order of the calls. An exception of
    /// the code is not an error here: it arrives as a line of the answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the execution before its end interrupts the code.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if there is no such context or no kernel for the language.
    pub async fn execute(
        &self,
        code: &str,
        options: &RunOptions,
    ) -> Result<Execution, ClientError> {
        let (context_id, language, operation) = match self.context {
            ContextRef::Default => (None, None, "run code".to_owned()),
            ContextRef::Language(name) => (None, Some(name), format!("run {name} code")),
            ContextRef::Id(id) => (Some(id), None, format!("run code of context `{id}`")),
        };
        let body = ExecuteRequest {
            code,
            context_id,
            language,
            env_vars: options.env.clone(),
            skep: options.skep.clone(),
        };
        let request = self.port.request(Method::POST, "/execute").await?;
        let response = self.port.send(&operation, request.json(&body)).await?;
        Ok(Execution::new(&self.port, response, options.longest_line))
    }
}

/// Contexts of the interpreter of one sandbox: sessions with variables of their own.
#[derive(Debug, Clone)]
pub struct Contexts {
    pub(crate) port: Port,
}

impl Contexts {
    pub(crate) fn new(port: Port) -> Self {
        Self { port }
    }

    /// All contexts, the newest last.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn list(&self) -> Result<Vec<Context>, ClientError> {
        self.port
            .call("list contexts", (Method::GET, "/contexts"), None)
            .await
    }

    /// Creates a context, and waits until its kernel listens.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if there is no kernel for the language.
    pub async fn create(
        &self,
        language: &str,
        cwd: Option<&str>,
        options: &ContextOptions,
    ) -> Result<Context, ClientError> {
        let body = serde_json::to_value(ContextRequest {
            language: Some(language),
            cwd,
            skep: options.clone(),
        })
        .expect("strings serialise");
        let operation = format!("create a {language} context");
        self.port
            .call(&operation, (Method::POST, "/contexts"), Some(&body))
            .await
    }

    /// Restarts the kernel of a context; its variables are gone.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such context.
    pub async fn restart(&self, id: &str) -> Result<(), ClientError> {
        let path = format!("/contexts/{}/restart", segment(id));
        self.port
            .call_silent(
                &format!("restart context `{id}`"),
                (Method::POST, &path),
                None,
            )
            .await
            .map(drop)
    }

    /// Removes a context and ends its kernel.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such context.
    pub async fn remove(&self, id: &str) -> Result<(), ClientError> {
        let path = format!("/contexts/{}", segment(id));
        self.port
            .call_silent(
                &format!("remove context `{id}`"),
                (Method::DELETE, &path),
                None,
            )
            .await
            .map(drop)
    }

    /// The texts that could stand at the cursor of `code`: after so many characters of it. Only
    /// Skep has this, and the three below.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; refused with 409 while the context runs code.
    pub async fn complete(
        &self,
        id: &str,
        code: &str,
        cursor: u64,
    ) -> Result<Completions, ClientError> {
        self.ask(id, "complete", &at_cursor(code, cursor, false))
            .await
    }

    /// The documentation of the name at the cursor of `code`, with its source if that is wanted.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; refused with 409 while the context runs code.
    pub async fn inspect(
        &self,
        id: &str,
        code: &str,
        cursor: u64,
        with_source: bool,
    ) -> Result<Inspection, ClientError> {
        self.ask(id, "inspect", &at_cursor(code, cursor, with_source))
            .await
    }

    /// State of `code` at a prompt: it can be run, or needs another line.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; refused with 409 while the context runs code.
    pub async fn is_complete(
        &self,
        id: &str,
        code: &str,
    ) -> Result<CompletenessAnswer, ClientError> {
        let body = CodeAtCursor {
            code: code.to_owned(),
            ..CodeAtCursor::default()
        };
        self.ask(id, "is_complete", &body).await
    }

    /// The language of a context, and the kernel that runs it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; refused with 409 while the context runs code.
    pub async fn info(&self, id: &str) -> Result<KernelInfo, ClientError> {
        let path = format!("/contexts/{}/info", segment(id));
        let operation = format!("ask for the kernel of context `{id}`");
        self.port.call(&operation, (Method::GET, &path), None).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        id: &str,
        question: &str,
        body: &CodeAtCursor,
    ) -> Result<T, ClientError> {
        let path = format!("/contexts/{}/{question}", segment(id));
        let body = serde_json::to_value(body).expect("strings and numbers serialise");
        let operation = format!("ask context `{id}` about code");
        self.port
            .call(&operation, (Method::POST, &path), Some(&body))
            .await
    }

    /// The history of a context until now, as the text of a notebook. Only Skep has it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such context.
    pub async fn notebook(&self, id: &str) -> Result<Bytes, ClientError> {
        let path = format!("/contexts/{}/notebook", segment(id));
        let operation = format!("read the history of context `{id}`");
        let response = self
            .port
            .call_silent(&operation, (Method::GET, &path), None)
            .await?;
        self.port.bytes(&operation, response).await
    }
}

fn at_cursor(code: &str, cursor: u64, source: bool) -> CodeAtCursor {
    CodeAtCursor {
        code: code.to_owned(),
        cursor: Some(cursor),
        source,
    }
}

/// Executions of the interpreter of one sandbox, by the ID that [`Execution::id`] has. Only Skep
/// has them.
#[derive(Debug, Clone)]
pub struct Executions {
    port: Port,
}

impl Executions {
    pub(crate) fn new(port: Port) -> Self {
        Self { port }
    }

    /// Streams the rest of an execution whose connection broke while the code ran on.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it is forgotten already, or somebody listens.
    pub async fn attach(&self, id: &str) -> Result<Execution, ClientError> {
        let path = format!("/executions/{}", segment(id));
        let request = self.port.request(Method::GET, &path).await?;
        let operation = format!("attach to execution `{id}`");
        let response = self.port.send(&operation, request).await?;
        Ok(Execution::new(&self.port, response, None))
    }

    /// Resources that an execution has used until now.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it has ended.
    pub async fn usage(&self, id: &str) -> Result<Usage, ClientError> {
        let path = format!("/executions/{}/usage", segment(id));
        let operation = format!("read the usage of execution `{id}`");
        self.port.call(&operation, (Method::GET, &path), None).await
    }

    /// Answers an execution that asks for input: with a line, without its end, or with `None` for
    /// the end of input.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; refused with 409 if it does not ask, not found if it has ended.
    pub async fn input(&self, id: &str, value: Option<String>) -> Result<(), ClientError> {
        let path = format!("/executions/{}/input", segment(id));
        let body = serde_json::to_value(InputReply { value }).expect("a string serialises");
        self.port
            .call_silent(
                &format!("answer execution `{id}`"),
                (Method::POST, &path),
                Some(&body),
            )
            .await
            .map(drop)
    }

    /// Interrupts an execution, as Ctrl-C would. Its stream says how it ended.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it has ended.
    pub async fn interrupt(&self, id: &str) -> Result<(), ClientError> {
        let path = format!("/executions/{}/interrupt", segment(id));
        self.port
            .call_silent(
                &format!("interrupt execution `{id}`"),
                (Method::POST, &path),
                None,
            )
            .await
            .map(drop)
    }
}

/// An ID as one segment of a path, which it cannot leave.
pub(crate) fn segment(id: &str) -> String {
    utf8_percent_encode(id, NON_ALPHANUMERIC).to_string()
}
