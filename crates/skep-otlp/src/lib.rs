//! Export of traces to a collector that speaks OTLP over HTTP.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{StatusCode, Url};
use skep_telemetry::trace::{self, TraceOptions};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Time limit for the collector to take one batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Spans on their way to the collector.
#[derive(Debug)]
pub struct Exporter {
    stop: CancellationToken,
    sending: JoinHandle<Option<()>>,
}

/// Errors in the configuration of the collector.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// The endpoint is not a URL of HTTP.
    #[error("`{0}` is not the URL of a collector; write http://host:4318")]
    Endpoint(String),
    /// The headers cannot be read. The text is not repeated: it holds secrets.
    #[error("`traces.headers` is not a list `name=value,…` with percent-encoded values")]
    Headers,
    /// No HTTP client can be made.
    #[error("cannot set up HTTP")]
    Setup(#[source] reqwest::Error),
}

/// Failure to deliver a batch, which is then lost.
#[derive(Debug, thiserror::Error)]
enum DeliverError {
    #[error("the collector does not answer")]
    Unreachable(#[source] reqwest::Error),
    #[error("the collector answered {0}")]
    Refused(StatusCode),
}

impl Exporter {
    /// Sends spans to the collector at `endpoint` from now on, with `headers` as OpenTelemetry
    /// writes them in a variable.
    ///
    /// # Errors
    ///
    /// If they cannot be understood. Whether the collector is there is not looked at: it may come
    /// and go.
    pub fn start(
        endpoint: &str,
        headers: &str,
        options: &TraceOptions,
    ) -> Result<Self, ExporterError> {
        let url = url(endpoint)?;
        let headers = parse_headers(headers).ok_or(ExporterError::Headers)?;
        let client = skep_http::http_client()
            .default_headers(headers)
            .timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(ExporterError::Setup)?;
        let outbox = trace::start(options);
        let stop = CancellationToken::new();
        let sending = outbox.run(stop.clone(), move |batch| {
            deliver(client.clone(), url.clone(), batch)
        });
        Ok(Self {
            sending: skep_telemetry::spawn("send traces", sending),
            stop,
        })
    }

    /// Sends what is left, within a moment.
    pub async fn finish(self) {
        self.stop.cancel();
        if self.sending.await.is_err() {
            tracing::error!("trace exporter panicked, last spans were not sent");
        }
    }
}

async fn deliver(client: reqwest::Client, url: Url, batch: Vec<u8>) -> Result<(), DeliverError> {
    let sent = client
        .post(url)
        .header(CONTENT_TYPE, "application/x-protobuf")
        .body(batch)
        .send();
    match sent.await.map_err(DeliverError::Unreachable)?.status() {
        status if status.is_success() => Ok(()),
        status => Err(DeliverError::Refused(status)),
    }
}

/// The URL at which a collector at `endpoint` takes traces.
fn url(endpoint: &str) -> Result<Url, ExporterError> {
    let wrong = || ExporterError::Endpoint(endpoint.to_owned());
    let mut url = Url::parse(endpoint).map_err(|_| wrong())?;
    if !["http", "https"].contains(&url.scheme()) {
        return Err(wrong());
    }
    url.path_segments_mut()
        .map_err(|()| wrong())?
        .pop_if_empty()
        .extend(["v1", "traces"]);
    Ok(url)
}

/// `name=value,name=value`, as OpenTelemetry writes headers in a variable.
fn parse_headers(text: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name.trim()).ok()?, value);
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_is_added_to_the_collectors() {
        for (endpoint, expected) in [
            ("http://c:4318", "http://c:4318/v1/traces"),
            ("http://c:4318/", "http://c:4318/v1/traces"),
            ("https://c/otlp", "https://c/otlp/v1/traces"),
        ] {
            assert_eq!(url(endpoint).unwrap().as_str(), expected);
        }
        for wrong in ["c:4318", "ftp://c", ""] {
            url(wrong).unwrap_err();
        }
    }

    #[test]
    fn headers_are_read_as_the_standard_writes_them() {
        let read = parse_headers("authorization=Basic%20abc, x-scope = 7 ").unwrap();
        assert_eq!(read["authorization"], "Basic abc");
        assert_eq!(read["x-scope"], "7");
        assert!(parse_headers("").unwrap().is_empty());
        for wrong in ["authorization", "a b=c", "a=%0a"] {
            assert!(parse_headers(wrong).is_none(), "{wrong}");
        }
    }
}
