//! Calling the routes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use skep_interpreter::Authorizer;
use skep_kernels::Contexts;
use skep_kernels::fake::{FakeKernels, FakeSettings};
use tower::ServiceExt;

/// The token of the sandbox under test.
pub(crate) const TOKEN: &str = "sandbox-token";
/// Token that opens its contexts alone.
pub(crate) const TRAFFIC_TOKEN: &str = "traffic-token";

struct TokenAuthorizer;

impl Authorizer for TokenAuthorizer {
    fn admits(&self, token: Option<&[u8]>) -> bool {
        token == Some(TOKEN.as_bytes())
    }

    fn admits_traffic(&self, token: Option<&[u8]>) -> bool {
        token == Some(TRAFFIC_TOKEN.as_bytes())
    }
}

/// Authorization in a sandbox that has no tokens.
struct OpenAuthorizer;

impl Authorizer for OpenAuthorizer {
    fn admits(&self, _token: Option<&[u8]>) -> bool {
        true
    }

    fn admits_traffic(&self, _token: Option<&[u8]>) -> bool {
        true
    }
}

/// An interpreter, and a hand on its kernels.
pub(crate) struct Interpreter {
    pub(crate) kernels: Arc<FakeKernels>,
    routes: Router,
}

pub(crate) fn interpreter() -> Interpreter {
    behind(Arc::new(TokenAuthorizer))
}

/// One that asks for nothing: what an attack does there is what tokens hold elsewhere.
pub(crate) fn open_interpreter() -> Interpreter {
    behind(Arc::new(OpenAuthorizer))
}

fn behind(authorizer: Arc<dyn Authorizer>) -> Interpreter {
    let kernels = Arc::new(FakeKernels::default());
    let launcher = Arc::new(Arc::clone(&kernels));
    let settings = Arc::new(FakeSettings::default());
    let contexts = Contexts::new(launcher, settings, &["python"]);
    Interpreter {
        kernels,
        routes: skep_interpreter::routes(contexts, authorizer),
    }
}

impl Interpreter {
    pub(crate) async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.routes.clone().oneshot(request).await.unwrap()
    }

    /// Status and body of a request without a body of its own.
    pub(crate) async fn call(&self, method: &str, path: &str) -> (StatusCode, String) {
        self.call_with(method, path, Body::empty()).await
    }

    pub(crate) async fn call_with(
        &self,
        method: &str,
        path: &str,
        body: impl Into<Body>,
    ) -> (StatusCode, String) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("x-access-token", TOKEN);
        let response = self.send(request.body(body.into()).unwrap()).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// The answer to an execution, not yet read.
    pub(crate) async fn execute(&self, body: Value, name: Option<&str>) -> Response<Body> {
        let mut request = Request::builder()
            .method("POST")
            .uri("/execute")
            .header("x-access-token", TOKEN);
        if let Some(name) = name {
            request = request.header("x-skep-request", name);
        }
        self.send(request.body(Body::from(body.to_string())).unwrap())
            .await
    }

    /// All lines of an execution but the receipt, parsed.
    pub(crate) async fn run(&self, code: &str) -> Vec<Value> {
        let response = self.execute(json!({ "code": code }), None).await;
        assert_eq!(response.status(), StatusCode::OK);
        lines(response.into_body()).await
    }
}

/// All lines of a body but the receipt, parsed.
pub(crate) async fn lines(body: Body) -> Vec<Value> {
    let bytes = body.collect().await.unwrap().to_bytes();
    assert!(bytes.is_ascii() && bytes.ends_with(b"\n"), "{bytes:?}");
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] != "receipt")
        .collect()
}

/// The next piece of a body, as text.
pub(crate) async fn piece(body: &mut Body) -> String {
    let frame = tokio::time::timeout(Duration::from_secs(60), body.frame())
        .await
        .expect("a piece comes in time")
        .unwrap()
        .unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}
