//! Secrets of a team.

use reqwest::Method;
use skep_wire::rest::{NewSecret, Secret, UpdateSecret};

use crate::client::Client;
use crate::error::ClientError;

/// The secrets of the team that the client's key belongs to. Their values go in and never come out.
#[derive(Debug, Clone, Copy)]
pub struct Secrets<'a> {
    client: &'a Client,
}

impl<'a> Secrets<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Keeps a secret.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; a conflict if there is one of that name.
    pub async fn create(&self, secret: &NewSecret) -> Result<Secret, ClientError> {
        let url = self.client.url(&["secrets"]);
        let request = self.client.request(Method::POST, url).json(secret);
        let operation = format!("create the secret `{}`", secret.name);
        self.client.call(&operation, request).await
    }

    /// All secrets, without their values. A team may have fifty, which is one page.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn list(&self) -> Result<Vec<Secret>, ClientError> {
        let url = self.client.url(&["secrets"]);
        let request = self.client.request(Method::GET, url);
        self.client.call("list secrets", request).await
    }

    /// Gives a secret another value.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such secret.
    pub async fn update(&self, name: &str, update: &UpdateSecret) -> Result<Secret, ClientError> {
        let url = self.client.url(&["secrets", name]);
        let request = self.client.request(Method::POST, url).json(update);
        self.client
            .call(&format!("update the secret `{name}`"), request)
            .await
    }

    /// Removes a secret for good.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such secret.
    pub async fn delete(&self, name: &str) -> Result<(), ClientError> {
        let url = self.client.url(&["secrets", name]);
        let request = self.client.request(Method::DELETE, url);
        self.client
            .send(&format!("delete the secret `{name}`"), request)
            .await
            .map(drop)
    }
}
