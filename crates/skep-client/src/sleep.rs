//! Sandboxes that sleep, are kept and copied.

use std::time::Duration;

use reqwest::Method;
use skep_wire::rest::{
    self, Connect, Fork, ForkedSandbox, Kept, NewSnapshot, Pause, Rollback, Snapshot,
};

use crate::client::Client;
use crate::error::ClientError;
use crate::sandbox::Sandbox;

impl Sandbox {
    /// Pauses the sandbox with its memory, or keeps its files alone.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it is gone, a conflict if it is paused already.
    pub async fn pause(&self, keep_memory: bool) -> Result<(), ClientError> {
        let body = Pause {
            memory: Some(keep_memory),
            require_healthy_guest: None,
        };
        let url = self.url(&["pause"]);
        let request = self.client.request(Method::POST, url).json(&body);
        let operation = format!("pause sandbox `{}`", self.id);
        self.client.send(&operation, request).await.map(drop)
    }

    /// Lets the sandbox go on if it is paused, and live for at least this long. Tells what it went on from, and
    /// what is not kept there; `None` if it ran, or if the server is none of ours.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it is gone.
    pub async fn resume(&self, timeout: Option<Duration>) -> Result<Option<Kept>, ClientError> {
        self.go_on(timeout, None).await
    }

    /// Does the same without the memory: the sandbox starts anew on its files. One that runs is left
    /// alone.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it is gone.
    pub async fn start_anew(&self, timeout: Option<Duration>) -> Result<Option<Kept>, ClientError> {
        self.go_on(timeout, Some(false)).await
    }

    async fn go_on(
        &self,
        timeout: Option<Duration>,
        memory: Option<bool>,
    ) -> Result<Option<Kept>, ClientError> {
        let body = Connect {
            timeout: timeout.map(seconds),
            memory,
        };
        let url = self.client.url(&["v2", "sandboxes", &self.id, "connect"]);
        let request = self.client.request(Method::POST, url).json(&body);
        let operation = format!("resume sandbox `{}`", self.id);
        let answer: rest::Sandbox = self.client.call(&operation, request).await?;
        Ok(answer.kept)
    }

    /// Keeps the sandbox as it is now, as a template.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it is gone.
    pub async fn snapshot(
        &self,
        name: Option<&str>,
        keep_memory: bool,
    ) -> Result<Snapshot, ClientError> {
        let body = NewSnapshot {
            name: name.map(str::to_owned),
            memory: Some(keep_memory),
        };
        let url = self.url(&["snapshots"]);
        let request = self.client.request(Method::POST, url).json(&body);
        let operation = format!("take a snapshot of sandbox `{}`", self.id);
        self.client.call(&operation, request).await
    }

    /// Makes copies of the running sandbox, and tells what became of each.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; there is no copy.
    pub async fn fork(&self, count: u32) -> Result<Vec<ForkedSandbox>, ClientError> {
        let body = Fork {
            timeout: None,
            count: Some(count.into()),
        };
        let url = self.url(&["fork"]);
        let request = self.client.request(Method::POST, url).json(&body);
        let operation = format!("fork sandbox `{}`", self.id);
        self.client.call(&operation, request).await
    }

    /// Puts the sandbox back to a snapshot, in place.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if either is gone.
    pub async fn roll_back(&self, snapshot: &str) -> Result<(), ClientError> {
        let body = Rollback {
            snapshot_id: snapshot.to_owned(),
            timeout: None,
        };
        let path = ["skep", "sandboxes", &self.id, "rollback"];
        let request = self.client.request(Method::POST, self.client.url(&path));
        let operation = format!("put sandbox `{}` back", self.id);
        let call = self.client.call(&operation, request.json(&body));
        call.await.map(|_: rest::Sandbox| ())
    }
}

impl Client {
    /// The snapshots of the team, the newest first.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, ClientError> {
        let url = self.url(&["snapshots"]);
        self.pages("list snapshots", &url).await
    }

    /// Forgets a snapshot with all its tags.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is none.
    pub async fn forget_snapshot(&self, snapshot: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, self.url(&["templates", snapshot]));
        let operation = format!("delete snapshot `{snapshot}`");
        self.send(&operation, request).await.map(drop)
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
