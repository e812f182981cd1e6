//! Volumes of a team, and their files.

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use futures_util::stream::{BoxStream, Stream, StreamExt as _};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Method, RequestBuilder, Url};
use skep_wire::rest::{NewVolume, Volume, VolumeAndToken, VolumeEntry, VolumeEntryChange};

use crate::client::Client;
use crate::error::{Cause, ClientError};

/// The volumes of the team that the client's key belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Volumes<'a> {
    client: &'a Client,
}

/// The files of one volume, opened with its token.
#[derive(Debug, Clone)]
pub struct VolumeFiles {
    client: Client,
    id: String,
    token: String,
}

/// The content of a file in a volume, piece by piece as it arrives.
pub struct VolumeStream {
    operation: String,
    body: BoxStream<'static, reqwest::Result<Bytes>>,
}

impl std::fmt::Debug for VolumeStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("VolumeStream");
        shown
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}

impl<'a> Volumes<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Creates a volume, or a copy of one.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn create(&self, volume: &NewVolume) -> Result<VolumeAndToken, ClientError> {
        let url = self.client.url(&["volumes"]);
        let request = self.client.request(Method::POST, url).json(volume);
        let operation = format!("create the volume `{}`", volume.name);
        self.client.call(&operation, request).await
    }

    /// All volumes, the newest first.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn list(&self) -> Result<Vec<Volume>, ClientError> {
        let url = self.client.url(&["volumes"]);
        let request = self.client.request(Method::GET, url);
        self.client.call("list volumes", request).await
    }

    /// A volume by its id, with its token and, from servers of ours, what it holds and who has it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such volume.
    pub async fn get(&self, id: &str) -> Result<VolumeAndToken, ClientError> {
        let url = self.client.url(&["volumes", id]);
        let request = self.client.request(Method::GET, url);
        let operation = format!("find the volume `{id}`");
        self.client.call(&operation, request).await
    }

    /// Deletes a volume with everything in it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; a conflict if sandboxes have it, which are named.
    pub async fn delete(&self, id: &str) -> Result<(), ClientError> {
        let url = self.client.url(&["volumes", id]);
        let request = self.client.request(Method::DELETE, url);
        let operation = format!("delete the volume `{id}`");
        self.client.send(&operation, request).await.map(drop)
    }

    /// The files of a volume.
    pub fn files(&self, volume: &VolumeAndToken) -> VolumeFiles {
        VolumeFiles {
            client: self.client.clone(),
            id: volume.volume.volume_id.clone(),
            token: volume.token.clone(),
        }
    }
}

impl VolumeFiles {
    /// Describes what is at a path.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is nothing.
    pub async fn stat(&self, path: &str) -> Result<VolumeEntry, ClientError> {
        let request = self.call(Method::GET, self.url("path", path));
        let operation = format!("look at `{path}`");
        self.client.call(&operation, request).await
    }

    /// The entries of a directory, and of those in it down to `depth` levels.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such directory.
    pub async fn list(&self, path: &str, depth: u32) -> Result<Vec<VolumeEntry>, ClientError> {
        let mut url = self.url("dir", path);
        url.query_pairs_mut()
            .append_pair("depth", &depth.to_string());
        let request = self.call(Method::GET, url);
        self.client.call(&format!("list `{path}`"), request).await
    }

    /// Makes a directory and those above it. One that is there is fine.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn make_directory(&self, path: &str) -> Result<VolumeEntry, ClientError> {
        let request = self.call(Method::POST, forced(self.url("dir", path)));
        let operation = format!("make the directory `{path}`");
        self.client.call(&operation, request).await
    }

    /// Changes owner and mode.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is nothing.
    pub async fn change(
        &self,
        path: &str,
        change: VolumeEntryChange,
    ) -> Result<VolumeEntry, ClientError> {
        let request = self.call(Method::PATCH, self.url("path", path));
        let operation = format!("change `{path}`");
        self.client.call(&operation, request.json(&change)).await
    }

    /// Removes what is at a path, and everything below it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is nothing.
    pub async fn remove(&self, path: &str) -> Result<(), ClientError> {
        let request = self.call(Method::DELETE, self.url("path", path));
        let operation = format!("remove `{path}`");
        self.client.send(&operation, request).await.map(drop)
    }

    /// Writes a file and the directories above it; one that is there is replaced when all of it has
    /// come.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if there is no space.
    pub async fn write(
        &self,
        path: &str,
        content: impl Into<Bytes>,
    ) -> Result<VolumeEntry, ClientError> {
        let request = self
            .stream(Method::PUT, forced(self.url("file", path)))
            .body(Body::from(content.into()));
        let operation = format!("write file `{path}`");
        self.client.call(&operation, request).await
    }

    /// The same of `length` bytes as they come.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if there is no space or `content` fails.
    pub async fn upload<S>(
        &self,
        path: &str,
        length: u64,
        content: S,
    ) -> Result<VolumeEntry, ClientError>
    where
        S: Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    {
        let request = self
            .stream(Method::PUT, forced(self.url("file", path)))
            .header(CONTENT_LENGTH, length)
            .body(Body::wrap_stream(content));
        let operation = format!("write file `{path}`");
        self.client.call(&operation, request).await
    }

    /// Reads a file piece by piece, as it arrives.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such file.
    pub async fn download(&self, path: &str) -> Result<VolumeStream, ClientError> {
        let operation = format!("read file `{path}`");
        let request = self.stream(Method::GET, self.url("file", path));
        let response = self.client.send(&operation, request).await?;
        let body = response.bytes_stream().boxed();
        Ok(VolumeStream { operation, body })
    }

    fn url(&self, route: &str, path: &str) -> Url {
        let mut url = self.client.url(&["volumecontent", &self.id, route]);
        url.query_pairs_mut().append_pair("path", path);
        url
    }

    /// A request with the time limit of calls.
    fn call(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.stream(method, url);
        request.timeout(self.client.call_timeout())
    }

    /// A request that takes as long as it takes.
    fn stream(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.client.anonymous_request(method, url);
        request.bearer_auth(&self.token)
    }
}

impl VolumeStream {
    /// The next piece; `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// [`Cause::Lost`] if the connection breaks first.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let piece = self.body.try_next().await;
        piece.map_err(|error| {
            let cause = Cause::Lost(Some(error.without_url()));
            ClientError::new(&self.operation, cause)
        })
    }
}

fn forced(mut url: Url) -> Url {
    url.query_pairs_mut().append_pair("force", "true");
    url
}
