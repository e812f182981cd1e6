//! Answers to code that asks for input.

use skep_jupyter::frame::Request;
use tokio::sync::oneshot;

use super::running::RunningExecution;
use crate::kernel::Kernel;

/// Reasons for which nobody takes an answer.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// There is no such execution, or not any more.
    #[error("execution {id} not found")]
    NotFound {
        /// Id that the caller named.
        id: String,
    },
    /// It does not ask: it never did, was answered already, or waits for its turn.
    #[error("the code does not ask for input")]
    NotAsked,
}

/// A line for code that asks.
pub(super) struct Input {
    pub(super) execution: String,
    /// `None` for the end of input.
    pub(super) value: Option<String>,
}

pub(super) fn tell(answer: oneshot::Sender<Result<(), InputError>>, told: Result<(), InputError>) {
    if answer.send(told).is_err() {
        tracing::debug!("nobody waits to hear of the answer any more");
    }
}

impl RunningExecution {
    /// Hands an answer to the kernel, if this is the execution that it is for and it asks.
    pub(super) fn take_input(
        &mut self,
        input: &Input,
        kernel: &mut Box<dyn Kernel>,
    ) -> Result<(), InputError> {
        // Another execution of the context waits behind this one, and has not asked anything.
        if !self.sink.is_of(&input.execution) {
            return Err(InputError::NotAsked);
        }
        let request = self.asked.take().ok_or(InputError::NotAsked)?;
        kernel.send(&Request::InputReply {
            parent: &request,
            value: input.value.as_deref(),
        });
        Ok(())
    }
}
