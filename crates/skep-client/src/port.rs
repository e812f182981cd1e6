//! One port of one sandbox, reached through the server.

use bytes::Bytes;
use reqwest::{Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use skep_wire::headers::ACCESS_TOKEN;
use skep_wire::interpreter::INTERPRETER_PORT;

use crate::answers::read;
use crate::error::{Cause, ClientError, Origin};
use crate::sandbox::Sandbox;

/// One port of one sandbox. Requests to it are routed by the server and show the sandbox's access
/// token. Use it for services of your own; for commands, files and code there are better types.
#[derive(Debug, Clone)]
pub struct Port {
    sandbox: Sandbox,
    number: u16,
}

impl Port {
    pub(crate) fn new(sandbox: &Sandbox, number: u16) -> Self {
        Self {
            sandbox: sandbox.clone(),
            number,
        }
    }

    /// A request to `path`, which begins with a slash, without a time limit.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the sandbox's access token is not known yet, and cannot be read.
    pub async fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, ClientError> {
        let Sandbox { client, id, .. } = &self.sandbox;
        let request = client.request_to((id, self.number), method, path);
        Ok(match self.sandbox.access_token().await? {
            Some(token) => request.header(ACCESS_TOKEN, token),
            None => request,
        })
    }

    /// Sends a request; every status but success is an error. `operation` completes the sentence
    /// "cannot … in sandbox `id`".
    ///
    /// # Errors
    ///
    /// [`ClientError`] as the sandbox, the server or the network made it.
    pub async fn send(
        &self,
        operation: &str,
        request: RequestBuilder,
    ) -> Result<Response, ClientError> {
        let sent = self
            .sandbox
            .client
            .send(&self.full(operation), request)
            .await;
        sent.map_err(|error| error.of_sandbox(self.origin(), &self.sandbox.id))
    }

    /// Makes a call with the time limit of calls, whose answer says nothing more.
    pub(crate) async fn call_silent(
        &self,
        operation: &str,
        (method, path): (Method, &str),
        body: Option<&serde_json::Value>,
    ) -> Result<Response, ClientError> {
        let timeout = self.sandbox.client.call_timeout();
        let mut request = self.request(method, path).await?.timeout(timeout);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.send(operation, request).await
    }

    /// Makes a call with the time limit of calls, and reads the answer as JSON.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        operation: &str,
        request: (Method, &str),
        body: Option<&serde_json::Value>,
    ) -> Result<T, ClientError> {
        let response = self.call_silent(operation, request, body).await?;
        read(&self.full(operation), response)
            .await
            .map_err(|error| error.of_sandbox(self.origin(), &self.sandbox.id))
    }

    /// Makes a call that was built already, with the time limit of calls, and reads the answer as
    /// JSON.
    pub(crate) async fn call_built<T: DeserializeOwned>(
        &self,
        operation: &str,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        let request = request.timeout(self.sandbox.client.call_timeout());
        let response = self.send(operation, request).await?;
        read(&self.full(operation), response)
            .await
            .map_err(|error| error.of_sandbox(self.origin(), &self.sandbox.id))
    }

    /// Reads the rest of an answer.
    pub(crate) async fn bytes(
        &self,
        operation: &str,
        response: Response,
    ) -> Result<Bytes, ClientError> {
        response
            .bytes()
            .await
            .map_err(|error| self.failed(operation, Cause::Lost(Some(error.without_url()))))
    }

    pub(crate) fn failed(&self, operation: &str, cause: Cause) -> ClientError {
        ClientError::new(self.full(operation), cause).of_sandbox(self.origin(), &self.sandbox.id)
    }

    fn full(&self, operation: &str) -> String {
        format!("{operation} in sandbox `{}`", self.sandbox.id)
    }

    fn origin(&self) -> Origin {
        if self.number == INTERPRETER_PORT {
            Origin::Interpreter
        } else {
            Origin::Sandbox
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::client::Client;

    use super::*;

    async fn built(client: &Client, token: Option<&str>) -> reqwest::Request {
        let sandbox = client.sandbox("i1").with_access_token(token);
        let request = sandbox.port(49999).request(Method::GET, "/health").await;
        request.unwrap().build().unwrap()
    }

    #[tokio::test]
    async fn a_sandbox_is_at_the_server_unless_it_has_a_name() {
        let client = Client::new("https://api.skep.test:8443", "").unwrap();
        let at_server = built(&client, None).await;
        assert_eq!(
            at_server.url().as_str(),
            "https://api.skep.test:8443/health"
        );
        let named = client.with_sandbox_domain("skep.test:8443");
        let at_name = built(&named, None).await;
        assert_eq!(
            at_name.url().as_str(),
            "https://49999-i1.skep.test:8443/health"
        );
    }

    #[tokio::test]
    async fn a_request_says_to_whom_it_goes_and_shows_the_token() {
        let client = Client::new("http://127.0.0.1:1", "").unwrap();
        let request = built(&client, Some("secret")).await;
        let header = |name: &str| request.headers()[name].to_str().unwrap();
        assert_eq!(header("e2b-sandbox-id"), "i1");
        assert_eq!(header("e2b-sandbox-port"), "49999");
        assert_eq!(header("x-access-token"), "secret");
    }

    #[tokio::test]
    async fn an_error_names_the_operation_and_the_sandbox() {
        let client = Client::new("http://127.0.0.1:1", "").unwrap();
        let sandbox = client.sandbox("i1").with_access_token(None);
        let error = sandbox.commands().kill(7).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot kill process 7 in sandbox `i1`");
        assert!(error.is_unreachable());
        assert_eq!(error.sandbox(), Some("i1"));
    }
}
