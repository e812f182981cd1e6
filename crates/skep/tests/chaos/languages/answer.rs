//! The collected answer of an execution.

use skep_client::Execution;
use skep_wire::interpreter::{AnswerLine, Outcome, RaisedError, Usage};

/// All of an answer.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) error: Option<RaisedError>,
    /// The outcome that the receipt tells.
    pub(crate) outcome: Outcome,
    pub(crate) usage: Option<Usage>,
    /// Reason for which the variables of earlier executions are gone.
    pub(crate) restarted: Option<String>,
}

impl Answer {
    /// Reads an execution to its end.
    pub(crate) async fn read(mut execution: Execution) -> Result<Self, String> {
        let mut answer = Self::default();
        loop {
            let line = execution.next().await;
            match line.map_err(|error| format!("{error:?}"))? {
                Some(AnswerLine::Stdout { text, .. }) => answer.stdout += &text,
                Some(AnswerLine::Stderr { text, .. }) => answer.stderr += &text,
                Some(AnswerLine::Error(error)) => answer.error = Some(error),
                Some(AnswerLine::ContextRestarted { reason }) => answer.restarted = Some(reason),
                Some(AnswerLine::Receipt { outcome, usage }) => {
                    answer.outcome = outcome;
                    answer.usage = Some(usage);
                }
                Some(AnswerLine::OutputLost { bytes }) => return Err(format!("{bytes} are lost")),
                Some(_) => {}
                None => return Ok(answer),
            }
        }
    }

    /// The kind of its error, which is the same in every language.
    pub(crate) fn kind(&self) -> Option<Outcome> {
        self.error.as_ref()?.kind
    }
}
