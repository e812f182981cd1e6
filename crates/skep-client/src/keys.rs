//! API keys of a team.

use reqwest::Method;
use skep_wire::rest::{ApiKey, ApiKeyName, CreatedApiKey};

use crate::client::Client;
use crate::error::ClientError;

/// The API keys of the team that the client's key belongs to.
#[derive(Debug, Clone, Copy)]
pub struct ApiKeys<'a> {
    client: &'a Client,
}

impl<'a> ApiKeys<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Creates a key. Its secret is in this answer and in no other.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn create(&self, name: &str) -> Result<CreatedApiKey, ClientError> {
        let body = ApiKeyName {
            name: name.to_owned(),
        };
        let url = self.client.url(&["api-keys"]);
        let request = self.client.request(Method::POST, url).json(&body);
        self.client
            .call(&format!("create the API key `{name}`"), request)
            .await
    }

    /// All keys, without their secrets.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn list(&self) -> Result<Vec<ApiKey>, ClientError> {
        let url = self.client.url(&["api-keys"]);
        let request = self.client.request(Method::GET, url);
        self.client.call("list API keys", request).await
    }

    /// Revokes a key: it opens nothing from now on.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such key.
    pub async fn revoke(&self, id: &str) -> Result<(), ClientError> {
        let url = self.client.url(&["api-keys", id]);
        let request = self.client.request(Method::DELETE, url);
        self.client
            .send(&format!("revoke the API key `{id}`"), request)
            .await
            .map(drop)
    }
}
