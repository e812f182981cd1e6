//! Files of a sandbox.

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Method, Response};

use crate::error::{Cause, ClientError};
use crate::port::Port;

/// Separates the parts of a form. Content may contain it: the length says where a part ends for
/// the one part that a form of ours has.
const BOUNDARY: &str = "skep-7d1c6a0e5f84b2936a1e";

/// Files of one sandbox. A relative path begins in the user's home.
#[derive(Debug, Clone)]
pub struct Files {
    port: Port,
    user: Option<String>,
}

/// The content of a file, piece by piece as it arrives.
pub struct FileStream {
    port: Port,
    operation: String,
    body: BoxStream<'static, reqwest::Result<Bytes>>,
}

impl std::fmt::Debug for FileStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FileStream")
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}

impl Files {
    pub(crate) fn new(port: Port) -> Self {
        Self { port, user: None }
    }

    /// Reads and writes as this user [default: the template's].
    #[must_use]
    pub fn as_user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Writes a file, and makes the directories above it.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if there is no space.
    pub async fn write(&self, path: &str, content: impl Into<Bytes>) -> Result<(), ClientError> {
        let request = self
            .port
            .request(Method::POST, &self.target(path))
            .await?
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(Body::from(content.into()));
        self.port
            .send(&format!("write file `{path}`"), request)
            .await
            .map(drop)
    }

    /// Writes a file of `length` bytes as they come, in the form that E2B's SDKs send. Nothing
    /// is kept in memory, and every server that speaks their protocol takes it.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if there is no space or `content` fails.
    pub async fn upload<S>(&self, path: &str, length: u64, content: S) -> Result<(), ClientError>
    where
        S: Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    {
        let head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"file\"\r\n\
             content-type: application/octet-stream\r\n\r\n"
        );
        let tail = format!("\r\n--{BOUNDARY}--\r\n");
        let whole = length + (head.len() + tail.len()) as u64;
        let part = |text: String| stream::once(async { Ok(Bytes::from(text)) });
        let form = part(head).chain(content).chain(part(tail));
        let request = self
            .port
            .request(Method::POST, &self.target(path))
            .await?
            .header(
                CONTENT_TYPE,
                format!("multipart/form-data; boundary={BOUNDARY}"),
            )
            .header(CONTENT_LENGTH, whole)
            .body(Body::wrap_stream(form));
        self.port
            .send(&format!("write file `{path}`"), request)
            .await
            .map(drop)
    }

    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such file.
    pub async fn read(&self, path: &str) -> Result<Bytes, ClientError> {
        let operation = format!("read file `{path}`");
        let response = self.get(&operation, path).await?;
        self.port.bytes(&operation, response).await
    }

    /// Reads a file piece by piece, as it arrives.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such file.
    pub async fn download(&self, path: &str) -> Result<FileStream, ClientError> {
        let operation = format!("read file `{path}`");
        let response = self.get(&operation, path).await?;
        Ok(FileStream {
            port: self.port.clone(),
            operation,
            body: response.bytes_stream().boxed(),
        })
    }

    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    async fn get(&self, operation: &str, path: &str) -> Result<Response, ClientError> {
        let request = self.port.request(Method::GET, &self.target(path)).await?;
        self.port.send(operation, request).await
    }

    fn target(&self, path: &str) -> String {
        let path = utf8_percent_encode(path, NON_ALPHANUMERIC);
        match &self.user {
            Some(user) => {
                let user = utf8_percent_encode(user, NON_ALPHANUMERIC);
                format!("/files?username={user}&path={path}")
            }
            None => format!("/files?path={path}"),
        }
    }
}

impl FileStream {
    /// The next piece; `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// [`Cause::Lost`] if the connection breaks first.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let piece = self.body.try_next().await;
        piece.map_err(|error| {
            let cause = Cause::Lost(Some(error.without_url()));
            self.port.failed(&self.operation, cause)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::Client;

    #[test]
    fn a_path_cannot_add_a_parameter() {
        let client = Client::new("http://127.0.0.1:1", "").unwrap();
        let files = client.sandbox("i1").files();
        assert_eq!(
            files.target("a&username=root"),
            "/files?path=a%26username%3Droot"
        );
        assert_eq!(
            files.as_user("user").target("b"),
            "/files?username=user&path=b"
        );
    }
}
