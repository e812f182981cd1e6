//! The sandboxes of a team.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use skep_wire::rest::{self, ListedSandbox, NewSandbox, SandboxRecord};

use crate::client::Client;
use crate::error::ClientError;
use crate::sandbox::Sandbox;

/// The sandboxes of the team that the client's key belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Sandboxes<'a> {
    client: &'a Client,
}

impl<'a> Sandboxes<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Creates a sandbox, and returns when its agent can be reached. It demands its token unless
    /// `new` says otherwise.
    ///
    /// # Cancel safety
    ///
    /// A creation whose future is dropped goes on, and the sandbox lives until its timeout.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if there is no such template, or no room on the host.
    pub async fn create(&self, new: &NewSandbox) -> Result<Sandbox, ClientError> {
        let operation = format!("create a sandbox of template `{}`", new.template_id);
        let url = self.client.url(&["sandboxes"]);
        let new = NewSandbox {
            secure: new.secure.or(Some(true)),
            ..new.clone()
        };
        let request = self.client.request(Method::POST, url).json(&new);
        let created: rest::Sandbox = self.client.call(&operation, request).await?;
        Ok(Sandbox::named(self.client, &created.sandbox_id)
            .with_access_token(created.envd_access_token.as_deref()))
    }

    /// The sandbox that runs under this ID.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is none.
    pub async fn get(&self, id: &str) -> Result<Sandbox, ClientError> {
        let detail = self.client.sandbox(id).info().await?;
        Ok(Sandbox::named(self.client, &detail.listed.sandbox_id)
            .with_access_token(detail.envd_access_token.as_deref()))
    }

    /// All sandboxes that run.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn list(&self) -> Result<Vec<ListedSandbox>, ClientError> {
        let url = self.client.url(&["v2", "sandboxes"]);
        self.client.pages("list sandboxes", &url).await
    }

    /// The sandboxes, running or paused, whose metadata has this value under this key.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn with_metadata(
        &self,
        key: &str,
        value: &str,
    ) -> Result<Vec<ListedSandbox>, ClientError> {
        let mut url = self.client.url(&["v2", "sandboxes"]);
        // As the SDKs do: each part, then the pairs as a form, and that as the value of a query.
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let pair = [key, value].map(|part| encode(&encode(part)));
        url.query_pairs_mut()
            .append_pair("metadata", &pair.join("="))
            .append_pair("state", "running,paused");
        self.client.pages("list sandboxes", &url).await
    }

    /// Records of the sandboxes that run, or of `all` there ever were, with the reasons of their
    /// ends and what they used. Only Skep has them.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn records(&self, all: bool) -> Result<Vec<SandboxRecord>, ClientError> {
        let url = self.records_url(all);
        self.client.pages("list sandboxes", &url).await
    }

    /// As [`Sandboxes::records`], but at most so many, the newest first.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn newest_records(
        &self,
        all: bool,
        most: usize,
    ) -> Result<Vec<SandboxRecord>, ClientError> {
        let url = self.records_url(all);
        let is_enough = |records: &[SandboxRecord]| records.len() >= most;
        let pages = self.client.pages_until("list sandboxes", &url, is_enough);
        let mut records = pages.await?;
        records.truncate(most);
        Ok(records)
    }

    /// The newest record that is meant, of sandboxes that run or have ended.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn find_record(
        &self,
        is_meant: impl Fn(&SandboxRecord) -> bool,
    ) -> Result<Option<SandboxRecord>, ClientError> {
        let url = self.records_url(true);
        let is_enough = |records: &[SandboxRecord]| records.iter().any(&is_meant);
        let pages = self.client.pages_until("list sandboxes", &url, is_enough);
        Ok(pages.await?.into_iter().find(|record| is_meant(record)))
    }

    fn records_url(&self, all: bool) -> reqwest::Url {
        let mut url = self.client.url(&["skep", "sandboxes"]);
        url.query_pairs_mut()
            .append_pair("all", if all { "true" } else { "false" });
        url
    }
}
