//! One build of a template.

use std::io;
use std::time::Duration;

use futures_util::{Stream, stream};
use reqwest::{Body, Method};
use skep_wire::rest::{
    BuildInfo, BuildLogEntry, BuildReason, BuildStatus, FileUpload, RequestedTemplate, StartBuild,
};
use tokio::io::AsyncReadExt as _;

use crate::client::Client;
use crate::error::ClientError;

/// Interval between two looks at a build, as the official clients have it.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Bytes that are read of an archive at once.
const PIECE: usize = 64 << 10;

/// A build of a template: it is requested, then files are uploaded, then it is started.
#[derive(Debug, Clone)]
pub struct TemplateBuild {
    client: Client,
    requested: RequestedTemplate,
}

impl TemplateBuild {
    pub(crate) fn new(client: &Client, requested: RequestedTemplate) -> Self {
        Self {
            client: client.clone(),
            requested,
        }
    }

    /// Id of the template, which is stable over its builds.
    pub fn template_id(&self) -> &str {
        &self.requested.template_id
    }

    /// Id of the build.
    pub fn build_id(&self) -> &str {
        &self.requested.build_id
    }

    /// Tags that the version will have.
    pub fn tags(&self) -> &[String] {
        &self.requested.tags
    }

    /// Names of the template, with their namespaces.
    pub fn names(&self) -> &[String] {
        &self.requested.names
    }

    /// Reference that means this build and never another.
    pub fn reference(&self) -> String {
        format!("{}:{}", self.template_id(), self.build_id())
    }

    /// Asks where files with this hash are to be uploaded, and whether they are there.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn upload_link(&self, files_hash: &str) -> Result<FileUpload, ClientError> {
        let path = ["templates", self.template_id(), "files", files_hash];
        let request = self.client.request(Method::GET, self.client.url(&path));
        let operation = "ask where to upload files";
        self.client.call(operation, request).await
    }

    /// Uploads a tar archive, compressed by gzip or not, and tells how many bytes were sent so far.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if it is larger than the server allows.
    pub async fn upload(
        &self,
        link: &FileUpload,
        archive: std::fs::File,
        length: u64,
        sent: impl FnMut(u64) + Send + 'static,
    ) -> Result<(), ClientError> {
        let body = Body::wrap_stream(pieces(tokio::fs::File::from_std(archive), sent));
        let request = self.client.put(&link.url, length).body(body);
        self.client.send("upload files", request).await.map(drop)
    }

    /// Starts the build. It goes on by itself from then on; the same call may be repeated.
    ///
    /// # Errors
    ///
    /// [`ClientError`]. What a step cannot do is told by the log.
    pub async fn start(&self, order: &StartBuild) -> Result<(), ClientError> {
        let (template, build) = (self.template_id(), self.build_id());
        let path = ["v2", "templates", template, "builds", build];
        let request = self.client.request(Method::POST, self.client.url(&path));
        let operation = format!("start build `{build}`");
        let sending = self.client.send(&operation, request.json(order));
        sending.await.map(drop)
    }

    /// The log of the build from its beginning.
    pub fn log(&self) -> TemplateBuildLog {
        TemplateBuildLog {
            build: self.clone(),
            read: 0,
            status: BuildStatus::Waiting,
            reason: None,
            is_over: false,
        }
    }

    /// Ends the build, whose state is an error then. Only Skep can.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; a conflict if it has ended before.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        let (template, build) = (self.template_id(), self.build_id());
        let path = ["skep", "templates", template, "builds", build, "cancel"];
        let request = self.client.request(Method::POST, self.client.url(&path));
        let operation = format!("cancel build `{build}`");
        self.client.send(&operation, request).await.map(drop)
    }

    async fn look(&self, offset: usize) -> Result<BuildInfo, ClientError> {
        let (template, build) = (self.template_id(), self.build_id());
        let path = ["templates", template, "builds", build, "status"];
        let mut url = self.client.url(&path);
        url.query_pairs_mut()
            .append_pair("logsOffset", &offset.to_string())
            .append_pair("limit", "100");
        let request = self.client.request(Method::GET, url);
        let operation = format!("follow build `{build}`");
        self.client.call(&operation, request).await
    }
}

/// The log of a build, read as it grows.
#[derive(Debug)]
pub struct TemplateBuildLog {
    build: TemplateBuild,
    /// Number of entries that were read.
    read: usize,
    status: BuildStatus,
    reason: Option<BuildReason>,
    is_over: bool,
}

impl TemplateBuildLog {
    /// The next entries, once there are any; `None` when the build has ended and everything was
    /// read.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; the build goes on, and so does the log with the next call.
    pub async fn next(&mut self) -> Result<Option<Vec<BuildLogEntry>>, ClientError> {
        while !self.is_over {
            let seen = self.build.look(self.read).await?;
            self.read += seen.log_entries.len();
            self.status = seen.status;
            self.reason = seen.reason;
            let has_ended = matches!(seen.status, BuildStatus::Ready | BuildStatus::Error);
            if !seen.log_entries.is_empty() {
                return Ok(Some(seen.log_entries));
            }
            self.is_over = has_ended;
            if !has_ended {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        }
        Ok(None)
    }

    /// State of the build when it was last looked at.
    pub fn status(&self) -> BuildStatus {
        self.status
    }

    /// Reason of the failure, if the build has failed.
    pub fn reason(&self) -> Option<&BuildReason> {
        self.reason.as_ref()
    }
}

/// The bytes of a file, and the number of those that were taken.
fn pieces(
    file: tokio::fs::File,
    sent: impl FnMut(u64) + Send + 'static,
) -> impl Stream<Item = io::Result<Vec<u8>>> + Send + 'static {
    stream::try_unfold((file, sent, 0), |(mut file, mut sent, before)| async move {
        let mut piece = vec![0; PIECE];
        let length = file.read(&mut piece).await?;
        if length == 0 {
            return Ok(None);
        }
        piece.truncate(length);
        let all = before + length as u64;
        sent(all);
        Ok(Some((piece, (file, sent, all))))
    })
}
