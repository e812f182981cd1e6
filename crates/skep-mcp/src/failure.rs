//! Failures of tools, in words that help a model on.

use rmcp::model::{CallToolResult, ContentBlock};
use skep_client::{Cause, ClientError};
use skep_telemetry::Chain;

use crate::clean::pictured;

/// A tool could not do what it was asked: what went wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    message: String,
    advice: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            advice: Some(advice.into()),
        }
    }

    pub(crate) fn text(&self) -> String {
        let text = match &self.advice {
            Some(advice) => format!("{}\n{advice}", self.message),
            None => self.message.clone(),
        };
        pictured(&text)
    }

    /// The same failure with other advice, unless it has some.
    pub(crate) fn advise(mut self, advice: &str) -> Self {
        self.advice.get_or_insert_with(|| advice.to_owned());
        self
    }

    pub(crate) fn into_result(self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text(self.text())])
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self {
            message: Chain(&error).to_string(),
            advice: advice(&error).map(str::to_owned),
        }
    }
}

/// The next step after a failed call.
fn advice(error: &ClientError) -> Option<&'static str> {
    match error.cause() {
        Cause::Refused {
            status: 401 | 403, ..
        } => Some("The API key is not accepted. Ask the user to set E2B_API_KEY to a valid one."),
        Cause::Refused { status: 429, .. } => Some(
            "Stop sandboxes that are not needed any more (list_sandboxes, stop_sandbox), or wait a little, and try again.",
        ),
        Cause::Refused {
            status: 502 | 503 | 507,
            ..
        } => Some("Try again in a moment; if it stays so, the user has to look at the server."),
        Cause::Unreachable { .. } => {
            Some("The server does not answer. Ask the user to start it with `skep up`.")
        }
        Cause::Lost(_) => Some(
            "The sandbox may have ended meanwhile. Call the tool again: without `sandbox` a new one is made if need be.",
        ),
        Cause::Refused { .. }
        | Cause::Agent { .. }
        | Cause::Address(_)
        | Cause::Setup(_)
        | Cause::Answer(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_to_do_and_cannot_write_on_a_terminal() {
        let failure = Failure::new("cannot read `\u{1b}[2J`", "Look with list_files.");
        assert_eq!(
            failure.text(),
            "cannot read `\u{241b}[2J`\nLook with list_files."
        );
        let kept = failure.clone().advise("other");
        assert_eq!(kept, failure);
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_to_be_started() {
        let client = skep_client::Client::new("http://127.0.0.1:1", "").unwrap();
        let error = client.health().await.unwrap_err();
        assert!(Failure::from(error).text().contains("`skep up`"));
    }
}
