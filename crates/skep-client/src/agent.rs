//! The agent of one sandbox, reached through the server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde_json::json;
use skep_wire::agent::AGENT_PORT;

use crate::connect::frame;
use crate::port::Port;
use crate::rest::{Client, ClientError};

/// How long a short call to an agent may take.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// The agent of one sandbox.
#[derive(Debug, Clone)]
pub struct Agent {
    port: Port,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TerminalSize {
    /// Characters in a line.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
}

impl Client {
    /// The agent of the sandbox `id`, which asks for `access_token`.
    pub fn agent(&self, id: &str, access_token: Option<&str>) -> Agent {
        Agent {
            port: self.port(id, AGENT_PORT, access_token),
        }
    }
}

impl Agent {
    /// Whether the agent answers.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if it does not.
    pub async fn health(&self) -> Result<(), ClientError> {
        let request = self.port.request(Method::GET, "/health");
        self.port.send(request.timeout(TIMEOUT)).await.map(drop)
    }

    /// Types `input` into the terminal of a process.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; `not_found` if the process has ended.
    pub async fn type_in(&self, pid: u32, input: &[u8]) -> Result<(), ClientError> {
        let body = json!({
            "process": { "pid": pid },
            "input": { "pty": STANDARD.encode(input) },
        });
        self.call("SendInput", &body).await
    }

    /// Gives the terminal of a process another size.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; `not_found` if the process has ended.
    pub async fn resize(&self, pid: u32, size: TerminalSize) -> Result<(), ClientError> {
        let body = json!({ "process": { "pid": pid }, "pty": { "size": size } });
        self.call("Update", &body).await
    }

    /// Ends a process at once.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; `not_found` if the process has ended already.
    pub async fn kill(&self, pid: u32) -> Result<(), ClientError> {
        let body = json!({ "process": { "pid": pid }, "signal": "SIGNAL_SIGKILL" });
        self.call("SendSignal", &body).await
    }

    /// Writes a file, and the directories above it. A relative path begins in the user's home.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if there is no space.
    pub async fn write_file(
        &self,
        path: &str,
        content: impl Into<reqwest::Body>,
    ) -> Result<(), ClientError> {
        let path = utf8_percent_encode(path, NON_ALPHANUMERIC);
        let request = self
            .port
            .request(Method::POST, &format!("/files?path={path}"))
            .header("content-type", "application/octet-stream")
            .body(content);
        self.port.send(request).await.map(drop)
    }

    async fn call(&self, method: &str, body: &impl Serialize) -> Result<(), ClientError> {
        let request = self.request(method).timeout(TIMEOUT).json(body);
        self.port.send(request).await.map(drop)
    }

    /// Starts a call that is answered by a stream.
    pub(crate) async fn stream(
        &self,
        method: &str,
        user: Option<&str>,
        message: &impl Serialize,
    ) -> Result<Response, ClientError> {
        let message = serde_json::to_vec(message).expect("strings and maps of strings serialise");
        let mut request = self
            .request(method)
            .header("content-type", "application/connect+json")
            .header("keepalive-ping-interval", "50")
            .body(frame(&message));
        if let Some(user) = user {
            request = request.basic_auth(user, Some(""));
        }
        self.port.send(request).await
    }

    fn request(&self, method: &str) -> RequestBuilder {
        self.port
            .request(Method::POST, &format!("/process.Process/{method}"))
            .header("connect-protocol-version", "1")
    }
}
