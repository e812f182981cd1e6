//! Webhooks of a team.

use reqwest::Method;
use skep_wire::rest::{NewWebhook, Redelivered, UpdateWebhook, Webhook, WebhookDeliveries};

use crate::client::Client;
use crate::error::ClientError;

/// The webhooks of the team that the client's key belongs to. Their secrets go in and never come out.
#[derive(Debug, Clone, Copy)]
pub struct Webhooks<'a> {
    client: &'a Client,
}

impl<'a> Webhooks<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Makes a webhook, which is sent what happens from then on.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn create(&self, webhook: &NewWebhook) -> Result<Webhook, ClientError> {
        let url = self.client.url(&["events", "webhooks"]);
        let request = self.client.request(Method::POST, url).json(webhook);
        self.client.call("create a webhook", request).await
    }

    /// All webhooks, without their secrets.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn list(&self) -> Result<Vec<Webhook>, ClientError> {
        let url = self.client.url(&["events", "webhooks"]);
        let request = self.client.request(Method::GET, url);
        self.client.call("list webhooks", request).await
    }

    /// Changes a webhook.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such webhook.
    pub async fn update(&self, id: &str, update: &UpdateWebhook) -> Result<Webhook, ClientError> {
        let url = self.client.url(&["events", "webhooks", id]);
        let request = self.client.request(Method::PATCH, url).json(update);
        let operation = format!("change the webhook `{id}`");
        self.client.call(&operation, request).await
    }

    /// Removes a webhook, and what waits for it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such webhook.
    pub async fn delete(&self, id: &str) -> Result<(), ClientError> {
        let url = self.client.url(&["events", "webhooks", id]);
        let request = self.client.request(Method::DELETE, url);
        let operation = format!("delete the webhook `{id}`");
        self.client.send(&operation, request).await.map(drop)
    }

    /// The newest deliveries to a webhook, at most a hundred.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such webhook.
    pub async fn deliveries(&self, id: &str, limit: u32) -> Result<WebhookDeliveries, ClientError> {
        let mut url = self.client.url(&["events", "webhooks", id, "deliveries"]);
        url.query_pairs_mut()
            .append_pair("limit", &limit.to_string());
        let request = self.client.request(Method::GET, url);
        let operation = format!("list deliveries to the webhook `{id}`");
        self.client.call(&operation, request).await
    }

    /// The newest deliveries that were given up, of all webhooks, at most a hundred.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn dead_letters(&self, limit: u32) -> Result<WebhookDeliveries, ClientError> {
        let mut url = self.client.url(&["skep", "webhooks", "dead-letters"]);
        url.query_pairs_mut()
            .append_pair("limit", &limit.to_string());
        let request = self.client.request(Method::GET, url);
        self.client.call("list dead letters", request).await
    }

    /// Sends what was given up of a webhook again; returns how much that is.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such webhook.
    pub async fn redeliver(&self, id: &str) -> Result<u64, ClientError> {
        let url = self.client.url(&["skep", "webhooks", id, "redeliver"]);
        let request = self.client.request(Method::POST, url);
        let operation = format!("send dead letters of the webhook `{id}` again");
        let answer: Redelivered = self.client.call(&operation, request).await?;
        Ok(answer.redelivered)
    }
}
