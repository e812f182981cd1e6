//! One attempt to deliver.

use std::error::Error;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use skep_control::{AttemptRecord, OutgoingDelivery};
use skep_http::{Destinations, NameError, PrivateName, PublicNames};
use skep_types::AttemptFailure;

use crate::signature;

/// Time limit for a receiver to be found, to connect and to answer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Two HTTP clients, of which one connects to public addresses alone.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    public: Client,
    trusted: Client,
    destinations: Destinations,
}

impl Sender {
    pub(crate) fn new(destinations: Destinations) -> Result<Self, reqwest::Error> {
        Ok(Self {
            public: client().dns_resolver(PublicNames).build()?,
            trusted: client().build()?,
            destinations,
        })
    }

    /// Sends a delivery once and tells what became of it. Nothing of the answer is read but its status.
    pub(crate) async fn attempt(
        &self,
        delivery: &OutgoingDelivery,
        body: Vec<u8>,
        at: Timestamp,
    ) -> AttemptRecord {
        let begun = Instant::now();
        let sent = self.send(delivery, body, at).await;
        let (answer, failure) = match sent {
            Ok(status) if (200..300).contains(&status) => (Some(status), None),
            Ok(status) => (Some(status), Some(AttemptFailure::Http)),
            Err(failure) => (None, Some(failure)),
        };
        AttemptRecord {
            at,
            duration: begun.elapsed(),
            answer,
            failure,
        }
    }

    async fn send(
        &self,
        delivery: &OutgoingDelivery,
        body: Vec<u8>,
        at: Timestamp,
    ) -> Result<u16, AttemptFailure> {
        // Again, and not only when it was registered: the operator may have changed their mind.
        let destination = self
            .destinations
            .parse(&delivery.url)
            .map_err(|_denied| AttemptFailure::Request)?;
        let secret = delivery
            .secret
            .as_ref()
            .ok_or(AttemptFailure::Signature)?
            .reveal()
            .as_bytes();
        let client = if destination.is_trusted {
            &self.trusted
        } else {
            &self.public
        };
        let sent = client
            .post(destination.url)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header("e2b-webhook-id", delivery.webhook.to_string())
            .header("e2b-delivery-id", delivery.id.to_string())
            .header("e2b-signature-version", "v1")
            .header("e2b-signature", signature::plain(secret, &body))
            .header("skep-signature", signature::timed(secret, at, &body))
            .body(body)
            .send();
        match sent.await {
            Ok(answer) => Ok(answer.status().as_u16()),
            Err(error) => {
                let (webhook, failure) = (delivery.webhook.to_string(), failure(&error));
                // Paths of receivers are often as good as their passwords.
                let error = error.without_url();
                tracing::debug!(webhook, error = %skep_telemetry::Chain(&error), "a webhook was not reached");
                Err(failure)
            }
        }
    }
}

/// A client that goes where it is sent and nowhere else: no proxy, which would look up the name once
/// more, no redirects, and no connection that is kept after its check.
fn client() -> ClientBuilder {
    skep_http::http_client()
        .user_agent(concat!("skep-webhooks/", env!("CARGO_PKG_VERSION")))
        .timeout(ATTEMPT_TIMEOUT)
        .no_proxy()
        .redirect(Policy::none())
        .pool_max_idle_per_host(0)
}

fn failure(error: &reqwest::Error) -> AttemptFailure {
    if error.is_timeout() {
        return AttemptFailure::Timeout;
    }
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<PrivateName>() {
            return AttemptFailure::Request;
        }
        if error.is::<NameError>() {
            return AttemptFailure::Dns;
        }
        cause = error.source();
    }
    AttemptFailure::Transport
}
