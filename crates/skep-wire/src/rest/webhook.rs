//! Webhooks of a team.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Body of `POST /events/webhooks`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewWebhook {
    /// Name, for people.
    pub name: String,
    /// Address that events are sent to.
    pub url: String,
    /// Types of events.
    pub events: Vec<String>,
    /// Secret that signs what is sent.
    pub signature_secret: String,
    /// False if nothing is sent yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

impl fmt::Debug for NewWebhook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NewWebhook")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Body of `PATCH /events/webhooks/{id}`; what is absent stays.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateWebhook {
    /// Name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Address that events are sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Types of events, at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<String>>,
    /// Secret that signs what is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature_secret: Option<String>,
    /// False if nothing is sent any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

impl fmt::Debug for UpdateWebhook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("UpdateWebhook")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A webhook, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Unique id, a UUID.
    pub id: String,
    /// Team that owns it.
    pub team_id: String,
    /// Name, for people.
    pub name: String,
    /// Address that events are sent to.
    pub url: String,
    /// Types of events.
    pub events: Vec<String>,
    /// False if nothing is sent.
    pub enabled: bool,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of its last change.
    pub updated_at: Timestamp,
}

/// A page of deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDeliveries {
    /// The deliveries.
    pub data: Vec<WebhookDelivery>,
    /// Begin of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An event that was sent to a webhook, or will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDelivery {
    /// Unique id, the same at every attempt.
    pub delivery_id: String,
    /// The webhook.
    pub webhook_id: String,
    /// `pending`, `delivered` or `failed`.
    pub status: String,
    /// Id of the event.
    pub event_id: String,
    /// Type of the event.
    pub event_type: String,
    /// The sandbox that it happened to.
    pub sandbox_id: String,
    /// Time at which the event was recorded.
    pub created_at: Timestamp,
    /// Time of the next attempt, if there will be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// The newest attempts, the oldest first.
    pub attempts: Vec<WebhookAttempt>,
}

/// An attempt to deliver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookAttempt {
    /// Time at which it began.
    pub attempted_at: Timestamp,
    /// Time that it took, in milliseconds.
    pub duration_ms: u64,
    /// Status that the receiver answered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// Kind of its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
}

/// Numbers of a webhook's deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookStats {
    /// All of them.
    pub total: u64,
    /// Those that wait.
    pub pending: u64,
    /// Those that were taken.
    pub delivered: u64,
    /// Those that were given up.
    pub failed: u64,
    /// Attempts of all of them.
    pub attempts: u64,
}

/// Answer of `POST /skep/webhooks/{id}/redeliver`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redelivered {
    /// Number of dead letters that are sent again.
    pub redelivered: u64,
}
