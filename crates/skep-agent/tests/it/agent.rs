//! An agent for one test, and a client for it.

use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use skep_agent::{Listen, Options, Orphans};

type BoxBody = http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>;

/// An agent on its own port, whose users `user` and `root` have homes in a directory of its own.
pub(crate) struct TestAgent {
    pub(crate) address: SocketAddr,
    directory: tempfile::TempDir,
    client: Client<HttpConnector, BoxBody>,
    pub(crate) headers: HeaderMap,
}

pub(crate) const CONTROL_TOKEN: &str = "control-secret";

/// The ids of the test's `user`: real ones, so that rights are real.
pub(crate) const USER_ID: u32 = 65534;

impl TestAgent {
    pub(crate) fn start() -> Self {
        Self::with(&json!({}))
    }

    /// Starts an agent whose configuration is the usual one with `changes`.
    pub(crate) fn with(changes: &Value) -> Self {
        Self::with_options(changes, |_| ())
    }

    /// Starts an agent whose configuration and options are the usual ones with these changes.
    pub(crate) fn with_options(changes: &Value, change: impl FnOnce(&mut Options)) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self::over(changes, client, change)
    }

    /// Starts an agent that is spoken to in cleartext HTTP/2.
    pub(crate) fn over_http2() -> Self {
        let client = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build_http();
        Self::over(&json!({}), client, |_| ())
    }

    fn over(
        changes: &Value,
        client: Client<HttpConnector, BoxBody>,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        open_to_all(directory.path());
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        std::os::unix::fs::chown(&home, Some(USER_ID), Some(USER_ID)).unwrap();
        let root_home = directory.path().join("root");
        std::fs::create_dir(&root_home).unwrap();
        let passwd = format!(
            "root:x:0:0::{}:/bin/bash\nuser:x:{USER_ID}:{USER_ID}::{}:/bin/bash\n",
            root_home.display(),
            home.display()
        );
        std::fs::write(directory.path().join("passwd"), passwd).unwrap();
        let group = format!("root:x:0:\nuser:x:{USER_ID}:\nextra:x:4242:user\n");
        std::fs::write(directory.path().join("group"), group).unwrap();

        let mut config = json!({
            "controlToken": CONTROL_TOKEN,
            "sandboxId": "i123",
            "templateId": "base",
            "defaultUser": "user",
        });
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut options = Options::new(descriptor_with(config.to_string().as_bytes()));
        options.listen = Listen::On(listener);
        options.passwd = directory.path().join("passwd");
        options.group = directory.path().join("group");
        options.identity_directory = directory.path().join("run").to_str().unwrap().to_owned();
        options.orphans = Orphans::Leave;
        change(&mut options);
        std::thread::spawn(move || skep_agent::run(options).unwrap());
        Self {
            address,
            directory,
            client,
            headers: HeaderMap::new(),
        }
    }

    /// A client for an agent that runs elsewhere.
    pub(crate) fn at_address(address: SocketAddr) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self {
            address,
            directory: tempfile::tempdir().unwrap(),
            client,
            headers: HeaderMap::new(),
        }
    }

    /// Adds a header to every request from now on.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, value.parse().unwrap());
        self
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// A path in the user's home, as text.
    pub(crate) fn at(&self, name: &str) -> String {
        self.home().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: BoxBody,
    ) -> Response<Incoming> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address));
        request.headers_mut().unwrap().extend(self.headers.clone());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.client
            .request(request.body(body).unwrap())
            .await
            .unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[]).await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        Answer::of(self.send(Method::GET, path, headers, whole("")).await).await
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        Answer::of(self.send(Method::POST, path, headers, whole(body)).await).await
    }
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    async fn of(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub(crate) fn whole(body: impl Into<Bytes>) -> BoxBody {
    Full::new(body.into()).boxed()
}

/// A body that is sent as it comes, without a length.
pub(crate) fn streamed(pieces: impl Stream<Item = Bytes> + Send + Sync + 'static) -> BoxBody {
    use futures_util::StreamExt;
    BodyExt::boxed(StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))))
}

fn open_to_all(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn descriptor_with(content: &[u8]) -> std::os::fd::OwnedFd {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    File::from(write).write_all(content).unwrap();
    read
}
