//! Copies of a context's memory: forks, checkpoints, and the way back. Only Skep has them.

use reqwest::Method;
use skep_wire::interpreter::{Checkpoint, Context, RollbackRequest};

use crate::error::ClientError;
use crate::interpreter::{Contexts, segment};

impl Contexts {
    /// Makes a context with a copy of everything in the memory of this one. Both go on.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; refused with 501 if contexts of this language cannot be copied, and with
    /// 409 while the context runs code or has threads.
    pub async fn fork(&self, id: &str) -> Result<Context, ClientError> {
        let path = format!("/contexts/{}/fork", segment(id));
        let operation = format!("fork context `{id}`");
        self.port
            .call(&operation, (Method::POST, &path), None)
            .await
    }

    /// Keeps the present state of a context, so that it can be gone back to.
    ///
    /// # Errors
    ///
    /// [`ClientError`], as of [`Contexts::fork`].
    pub async fn checkpoint(&self, id: &str) -> Result<Checkpoint, ClientError> {
        let path = format!("/contexts/{}/checkpoints", segment(id));
        let operation = format!("checkpoint context `{id}`");
        self.port
            .call(&operation, (Method::POST, &path), None)
            .await
    }

    /// The checkpoints of a context, the newest last.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such context.
    pub async fn checkpoints(&self, id: &str) -> Result<Vec<Checkpoint>, ClientError> {
        let path = format!("/contexts/{}/checkpoints", segment(id));
        let operation = format!("list the checkpoints of context `{id}`");
        self.port.call(&operation, (Method::GET, &path), None).await
    }

    /// Puts the state of a checkpoint in place of the present one. The checkpoint stays.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such checkpoint, refused with 410 if it was lost,
    /// and with 409 while the context runs code.
    pub async fn roll_back(&self, id: &str, checkpoint: &str) -> Result<(), ClientError> {
        let path = format!("/contexts/{}/rollback", segment(id));
        let operation = format!("roll context `{id}` back");
        let body = serde_json::to_value(RollbackRequest {
            checkpoint_id: checkpoint.to_owned(),
            files: false,
        })
        .expect("a string serialises");
        self.port
            .call_silent(&operation, (Method::POST, &path), Some(&body))
            .await
            .map(drop)
    }

    /// Removes a checkpoint, which gives its memory back.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such checkpoint.
    pub async fn remove_checkpoint(&self, id: &str, checkpoint: &str) -> Result<(), ClientError> {
        let (context, place) = (segment(id), segment(checkpoint));
        let path = format!("/contexts/{context}/checkpoints/{place}");
        let operation = format!("remove checkpoint {checkpoint} of context `{id}`");
        self.port
            .call_silent(&operation, (Method::DELETE, &path), None)
            .await
            .map(drop)
    }
}
