//! Webhooks of teams, and what became of what was sent to them.

use std::fmt;
use std::str::FromStr;

use crate::IdError;
use crate::uuid::Uuid;

/// A webhook, which never returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WebhookId(Uuid);

/// An event on its way to a webhook, however often it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(Uuid);

macro_rules! uuid_id {
    ($name:ident, $kind:literal) => {
        impl $name {
            /// A new id that nobody can guess.
            pub fn random() -> Self {
                Self(Uuid::random())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let id = Uuid::parse(text).map(Self);
                id.ok_or_else(|| IdError::new($kind, text))
            }
        }
    };
}

uuid_id!(WebhookId, "webhook");
uuid_id!(DeliveryId, "delivery");

/// State of a delivery.
///
/// ```text
/// Pending ──► Delivered
///    │  ▲
///    ▼  │ sent again by its team
///   Failed
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryStatus {
    /// It waits to be sent, for the first time or again.
    Pending,
    /// The receiver has taken it.
    Delivered,
    /// It was given up: a dead letter.
    Failed,
}

impl DeliveryStatus {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Failed];

    /// The stable word of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

/// Kind of the failure of an attempt, in the contract's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptFailure {
    /// The receiver answered, and not with a success.
    Http,
    /// Its name cannot be resolved.
    Dns,
    /// It did not answer in time.
    Timeout,
    /// No connection could be made, or it broke.
    Transport,
    /// The request may not be sent: the URL leads to an address that is denied.
    Request,
    /// The secret that signs cannot be read.
    Signature,
    /// Too many deliveries of the webhook waited already.
    Canceled,
}

impl AttemptFailure {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Http,
        Self::Dns,
        Self::Timeout,
        Self::Transport,
        Self::Request,
        Self::Signature,
        Self::Canceled,
    ];

    /// The stable word of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http_error",
            Self::Dns => "dns_error",
            Self::Timeout => "timeout",
            Self::Transport => "transport_error",
            Self::Request => "request_error",
            Self::Signature => "signature_error",
            Self::Canceled => "canceled",
        }
    }
}

macro_rules! from_word {
    ($name:ident) => {
        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.into_iter().find(|word| word.as_str() == text);
                found.ok_or_else(|| text.to_owned())
            }
        }
    };
}

from_word!(DeliveryStatus);
from_word!(AttemptFailure);
