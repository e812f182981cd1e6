//! Webhooks of teams: who is told of events, and by what secret the receiver knows us.

use skep_store::{StoreError, WebhookChange, WebhookRecord, WebhookRemoval};
use skep_types::{EventKind, TeamId, WebhookId};

use crate::control::now;
use crate::{Caller, Control, SecretError, SecretValue};

/// Limit on the webhooks of a team.
const MOST_WEBHOOKS: u32 = 10;
/// Number of deliveries of a webhook deleted in one transaction.
const BATCH: u32 = 500;

/// A webhook to be made.
#[derive(Debug)]
pub struct NewWebhook {
    /// Name, for people.
    pub name: String,
    /// Address that events are sent to, which its maker has checked.
    pub url: String,
    /// Events that it is told, at least one.
    pub kinds: Vec<EventKind>,
    /// Secret that signs what it is sent.
    pub secret: SecretValue,
    /// True if it is told from now on.
    pub is_enabled: bool,
}

/// A change of a webhook; what is `None` stays.
#[derive(Debug, Default)]
pub struct WebhookUpdate {
    /// Another name.
    pub name: Option<String>,
    /// Another address.
    pub url: Option<String>,
    /// Other events.
    pub kinds: Option<Vec<EventKind>>,
    /// Another secret.
    pub secret: Option<SecretValue>,
    /// On or off.
    pub is_enabled: Option<bool>,
}

/// Failure to make, change or find a webhook.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The team has no such webhook.
    #[error("no such webhook")]
    NotFound,
    /// The team has as many as it may.
    #[error("team has {limit} webhooks already")]
    TooMany {
        /// The webhooks that a team may have.
        limit: u32,
    },
    /// The vault cannot be used for its secret.
    #[error("cannot seal the secret of a webhook")]
    Vault(#[source] SecretError),
    /// The webhooks could not be read or written.
    #[error(transparent)]
    Record(#[from] StoreError),
}

/// The one thing that a sealed secret opens for.
pub(crate) fn context(team: &TeamId, id: WebhookId) -> String {
    format!("webhook/{team}/{id}")
}

impl Control {
    /// Makes a webhook of the caller's team. It is told what happens from then on.
    ///
    /// # Errors
    ///
    /// [`WebhookError`]
    pub async fn create_webhook(
        &self,
        caller: &Caller,
        webhook: NewWebhook,
    ) -> Result<WebhookRecord, WebhookError> {
        let at = now();
        let record = WebhookRecord {
            id: WebhookId::random(),
            team: caller.team.id.clone(),
            name: webhook.name,
            url: webhook.url,
            kinds: webhook.kinds,
            is_enabled: webhook.is_enabled,
            created_at: at,
            updated_at: at,
        };
        let sealed = self
            .seal_signature(caller, record.id, &webhook.secret)
            .await?;
        let webhooks = self.inner.store.webhooks();
        let inserting = webhooks.insert_within(record.clone(), sealed, MOST_WEBHOOKS);
        if inserting.recorded().await? {
            Ok(record)
        } else {
            Err(WebhookError::TooMany {
                limit: MOST_WEBHOOKS,
            })
        }
    }

    /// The webhooks of the caller's team, the oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub async fn webhooks(&self, caller: &Caller) -> Result<Vec<WebhookRecord>, StoreError> {
        let team = caller.team.id.clone();
        self.inner.store.webhooks().list(team).await
    }

    /// A webhook of the caller's team.
    ///
    /// # Errors
    ///
    /// [`WebhookError::NotFound`] or [`WebhookError::Record`].
    pub async fn find_webhook(
        &self,
        caller: &Caller,
        id: WebhookId,
    ) -> Result<WebhookRecord, WebhookError> {
        let team = caller.team.id.clone();
        let found = self.inner.store.webhooks().find(team, id).await?;
        found.ok_or(WebhookError::NotFound)
    }

    /// Changes a webhook of the caller's team. What waits goes to the new address, signed by the new
    /// secret.
    ///
    /// # Errors
    ///
    /// [`WebhookError`]
    pub async fn update_webhook(
        &self,
        caller: &Caller,
        id: WebhookId,
        update: WebhookUpdate,
    ) -> Result<WebhookRecord, WebhookError> {
        let sealed = match &update.secret {
            Some(secret) => Some(self.seal_signature(caller, id, secret).await?),
            None => None,
        };
        let change = WebhookChange {
            name: update.name,
            url: update.url,
            kinds: update.kinds,
            sealed,
            is_enabled: update.is_enabled,
        };
        let webhooks = self.inner.store.webhooks();
        let updating = webhooks.update(caller.team.id.clone(), id, change, now());
        let updated = updating.recorded().await?.ok_or(WebhookError::NotFound)?;
        // What has waited while it was off can go.
        self.inner.store.events().announce();
        Ok(updated)
    }

    /// Removes a webhook of the caller's team, and what waits for it.
    ///
    /// # Errors
    ///
    /// [`WebhookError::NotFound`] or [`WebhookError::Record`].
    pub async fn delete_webhook(&self, caller: &Caller, id: WebhookId) -> Result<(), WebhookError> {
        loop {
            let webhooks = self.inner.store.webhooks();
            let deleting = webhooks.delete(caller.team.id.clone(), id, BATCH);
            match deleting.recorded().await? {
                WebhookRemoval::Missing => return Err(WebhookError::NotFound),
                WebhookRemoval::Unfinished => {}
                WebhookRemoval::Done => return Ok(()),
            }
        }
    }

    async fn seal_signature(
        &self,
        caller: &Caller,
        id: WebhookId,
        secret: &SecretValue,
    ) -> Result<Vec<u8>, WebhookError> {
        let context = context(&caller.team.id, id);
        let sealed = self.inner.vault.seal(&context, secret).await;
        sealed.map_err(WebhookError::Vault)
    }
}
