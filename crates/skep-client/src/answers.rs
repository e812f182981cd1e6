//! Answers that are read as a whole. Who sends them may be anybody: they have limits.

use std::time::Duration;

use reqwest::{Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::error::{Cause, ClientError};

/// Length above which the body of a refusal is a page for a browser.
const LONGEST_REFUSAL: usize = 2000;
/// Size of the part of a refusal that is read. An agent may send anything.
const LARGEST_REFUSAL: usize = 64 << 10;
/// Time limit for the body of a refusal. What it refuses may have had none.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the largest answer that is read as a whole.
const LARGEST_ANSWER: usize = 16 << 20;

/// Body of a refusal: `message` from our server, `detail` or plain text from interpreters.
#[derive(Deserialize)]
struct Refusal {
    message: Option<String>,
    detail: Option<serde_json::Value>,
}

/// Reads an answer as JSON.
pub(crate) async fn read<T: DeserializeOwned>(
    operation: &str,
    response: Response,
) -> Result<T, ClientError> {
    let failed = |cause| ClientError::new(operation, cause);
    let body = bounded(response, LARGEST_ANSWER).await.map_err(failed)?;
    serde_json::from_slice(&body).map_err(|error| failed(Cause::Answer(Box::new(error))))
}

/// The body of an answer that is not larger than that.
async fn bounded(mut response: Response, most: usize) -> Result<Vec<u8>, Cause> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(bytes)) if body.len() + bytes.len() <= most => body.extend_from_slice(&bytes),
            Ok(Some(_)) => {
                let message = format!("the answer has more than {most} bytes");
                return Err(Cause::Answer(message.into()));
            }
            Ok(None) => return Ok(body),
            Err(error) => return Err(Cause::Answer(Box::new(error.without_url()))),
        }
    }
}

/// The refusal in an answer.
pub(crate) async fn refusal(response: Response) -> Cause {
    let status: StatusCode = response.status();
    let read = timeout(REFUSAL_TIMEOUT, bounded(response, LARGEST_REFUSAL)).await;
    let body = read.ok().and_then(Result::ok).unwrap_or_default();
    let message = reason(&String::from_utf8_lossy(&body));
    Cause::Refused {
        status: status.as_u16(),
        message: message.unwrap_or_else(|| format!("the server answered {status}")),
    }
}

/// The part of a refusal's body that a person can read.
fn reason(body: &str) -> Option<String> {
    match serde_json::from_str::<Refusal>(body) {
        Ok(Refusal {
            message: Some(message),
            ..
        }) => Some(message),
        Ok(Refusal { detail, .. }) => {
            let detail = detail?;
            let text = detail.as_str().or_else(|| detail[0]["msg"].as_str());
            text.map(str::to_owned)
        }
        Err(_) => {
            let text = body.trim();
            let is_readable = (1..LONGEST_REFUSAL).contains(&text.len()) && !text.starts_with('<');
            is_readable.then(|| text.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Method;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::client::Client;

    /// Answers one request with this, and then with so many bytes more.
    async fn answered<T: DeserializeOwned>(head: &str, more: usize) -> Result<T, ClientError> {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", server.local_addr().unwrap());
        let answering = async {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            stream.write_all(head.as_bytes()).await.unwrap();
            // Who has read enough hangs up.
            let piece = vec![b' '; 64 << 10];
            let mut sent = 0;
            while sent < more && stream.write_all(&piece).await.is_ok() {
                sent += piece.len();
            }
            stream
        };
        let client = Client::direct(&url, "").unwrap();
        let request = client.request(Method::GET, client.url(&["x"]));
        let (read, _stream) = tokio::join!(client.call("ask", request), answering);
        read
    }

    #[tokio::test]
    async fn an_answer_without_an_end_is_not_read_to_it() {
        const ENDLESS: usize = 64 << 20;
        let ok = format!("HTTP/1.1 200 OK\r\ncontent-length: {ENDLESS}\r\n\r\n");
        let error = answered::<serde_json::Value>(&ok, ENDLESS)
            .await
            .unwrap_err();
        assert!(matches!(error.cause(), Cause::Answer(_)), "{error:?}");
        let refused = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {ENDLESS}\r\n\r\n");
        let error = answered::<serde_json::Value>(&refused, ENDLESS)
            .await
            .unwrap_err();
        assert_eq!(error.status(), Some(400));
        // The control: an answer that is not too large.
        let ok = "HTTP/1.1 200 OK\r\ncontent-length: 131076\r\n\r\ntrue";
        assert!(answered::<bool>(ok, 128 << 10).await.unwrap());
    }

    #[test]
    fn a_refusal_is_read_whoever_wrote_it() {
        for (body, expected) in [
            (
                r#"{"code":404,"message":"no such sandbox"}"#,
                Some("no such sandbox"),
            ),
            (r#"{"detail":"Not Found"}"#, Some("Not Found")),
            (r#"{"detail":[{"loc":[],"msg":"wrong"}]}"#, Some("wrong")),
            ("Context x not found", Some("Context x not found")),
            ("<html>", None),
            ("", None),
        ] {
            assert_eq!(reason(body).as_deref(), expected, "{body}");
        }
    }
}
