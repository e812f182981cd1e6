//! Events of the sandboxes of a team.

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use reqwest::{Method, Url};
use skep_wire::rest::SandboxEvent;

use crate::client::Client;
use crate::error::{Cause, ClientError};

const FOLLOW: &str = "follow events";
/// Longest event that is read.
const LONGEST_EVENT: usize = 1 << 20;

/// Events of the team that the client's key belongs to.
#[derive(Debug, Clone)]
pub struct Events<'a> {
    client: &'a Client,
    sandbox: Option<String>,
    types: Vec<String>,
}

/// Events as they happen.
pub struct EventFeed {
    body: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    /// Bytes of an event that has no end yet.
    begun: Vec<u8>,
}

impl std::fmt::Debug for EventFeed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EventFeed").finish_non_exhaustive()
    }
}

impl<'a> Events<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self {
            client,
            sandbox: None,
            types: Vec::new(),
        }
    }

    /// Only events of this sandbox.
    #[must_use]
    pub fn of(self, sandbox: impl Into<String>) -> Self {
        let sandbox = Some(sandbox.into());
        Self { sandbox, ..self }
    }

    /// Only events of these types, as `created` or `sandbox.lifecycle.created`.
    #[must_use]
    pub fn types(self, types: Vec<String>) -> Self {
        Self { types, ..self }
    }

    /// The newest `limit` events, the oldest first.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if nothing is known of the sandbox.
    pub async fn list(&self, limit: u32) -> Result<Vec<SandboxEvent>, ClientError> {
        let mut url = match &self.sandbox {
            Some(id) => self.client.url(&["events", "sandboxes", id]),
            None => self.client.url(&["events", "sandboxes"]),
        };
        url.query_pairs_mut()
            .append_pair("limit", &limit.to_string());
        self.add_types(&mut url);
        let request = self.client.request(Method::GET, url);
        let mut events: Vec<SandboxEvent> = self.client.call("list events", request).await?;
        events.reverse();
        Ok(events)
    }

    /// Events from now on.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn follow(&self) -> Result<EventFeed, ClientError> {
        let mut url = self.client.url(&["skep", "events"]);
        if let Some(id) = &self.sandbox {
            url.query_pairs_mut().append_pair("sandboxID", id);
        }
        self.add_types(&mut url);
        let request = self.client.endless(Method::GET, url);
        let response = self.client.send(FOLLOW, request).await?;
        Ok(EventFeed {
            body: response.bytes_stream().boxed(),
            begun: Vec::new(),
        })
    }

    fn add_types(&self, url: &mut Url) {
        if !self.types.is_empty() {
            let types = self.types.join(",");
            url.query_pairs_mut().append_pair("types", &types);
        }
    }
}

impl EventFeed {
    /// The next event; `None` when the server has ended the feed.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the connection breaks, or something else comes.
    pub async fn next(&mut self) -> Result<Option<SandboxEvent>, ClientError> {
        loop {
            if let Some(text) = take_event(&mut self.begun) {
                let Some(data) = data_of(&text) else {
                    continue;
                };
                let event = serde_json::from_str(&data);
                let wrong = |error| ClientError::new(FOLLOW, Cause::Answer(Box::new(error)));
                return event.map(Some).map_err(wrong);
            }
            if self.begun.len() > LONGEST_EVENT {
                return Err(ClientError::new(FOLLOW, Cause::Lost(None)));
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.begun.extend_from_slice(&bytes),
                Some(Err(error)) => {
                    let lost = Cause::Lost(Some(error.without_url()));
                    return Err(ClientError::new(FOLLOW, lost));
                }
                None => return Ok(None),
            }
        }
    }
}

/// Takes the first whole event off what was read.
fn take_event(begun: &mut Vec<u8>) -> Option<String> {
    let end = begun.windows(2).position(|pair| pair == b"\n\n")?;
    let event: Vec<u8> = begun.drain(..end + 2).collect();
    Some(String::from_utf8_lossy(&event).into_owned())
}

/// The data of an event; `None` for what only keeps the connection alive.
fn data_of(event: &str) -> Option<String> {
    let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
    let data: Vec<&str> = lines
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    (!data.is_empty()).then(|| data.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_off_one_by_one_and_comments_are_none() {
        let mut begun = b": alive\n\nid: 7\nevent: a\ndata: {\"x\":1}\n\nid: 8\nda".to_vec();
        let first = take_event(&mut begun).unwrap();
        assert_eq!(data_of(&first), None);
        let second = take_event(&mut begun).unwrap();
        assert_eq!(data_of(&second).as_deref(), Some("{\"x\":1}"));
        assert_eq!(take_event(&mut begun), None);
        assert_eq!(begun, b"id: 8\nda");
    }
}
