//! The routes of kernels, over an API that only looks like one.

#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod fake_api;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use skep_client::Client;
use skep_jupyter_gateway::{Settings, Visitor, routes};
use tower::ServiceExt as _;

use fake_api::FakeApi;

struct Gateway {
    api: FakeApi,
    routes: axum::Router,
}

impl Gateway {
    async fn start() -> Self {
        Self {
            api: FakeApi::start().await,
            routes: routes(Settings::default()),
        }
    }

    async fn ask(&self, team: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        let visitor = Visitor {
            client: Client::direct(&self.api.url, team).unwrap(),
            team: team.to_owned(),
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("/skep/jupyter/api{path}"))
            .extension(visitor)
            .body(Body::from(body.to_owned()))
            .unwrap();
        let response = self.routes.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn kernel(&self, team: &str) -> String {
        let (status, kernel) = self.ask(team, "POST", "/kernels", "").await;
        assert_eq!(status, 201, "{kernel}");
        kernel["id"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_kernel_is_there_for_its_team_and_for_nobody_else() {
    let gateway = Gateway::start().await;
    let id = gateway.kernel("a").await;
    for (method, rest) in [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/interrupt"),
        ("POST", "/restart"),
    ] {
        let path = format!("/kernels/{id}{rest}");
        let (status, said) = gateway.ask("b", method, &path, "").await;
        assert_eq!(status, 404, "{method} {path}: {said}");
    }
    let ids = |listed: Value| {
        let listed = listed.as_array().cloned().unwrap_or_default();
        listed
            .into_iter()
            .map(|kernel| kernel["id"].clone())
            .collect::<Vec<_>>()
    };
    let (_, listed) = gateway.ask("b", "GET", "/kernels", "").await;
    assert_eq!(ids(listed), [Value::Null; 0]);
    // The control: its own team finds it, and ends it.
    let (_, listed) = gateway.ask("a", "GET", "/kernels", "").await;
    assert_eq!(ids(listed), [json!(id)]);
    let path = format!("/kernels/{id}");
    assert_eq!(gateway.ask("a", "GET", &path, "").await.0, 200);
    assert_eq!(gateway.ask("a", "DELETE", &path, "").await.0, 204);
    assert_eq!(gateway.ask("a", "GET", &path, "").await.0, 404);
    assert_eq!(gateway.api.count(), 0);
}

#[tokio::test]
async fn a_gateway_that_was_restarted_finds_its_kernels() {
    let gateway = Gateway::start().await;
    let id = gateway.kernel("a").await;
    let restarted = Gateway {
        routes: routes(Settings::default()),
        api: gateway.api.clone(),
    };
    let path = format!("/kernels/{id}");
    let (status, kernel) = restarted.ask("a", "GET", &path, "").await;
    assert_eq!((status, &kernel["name"]), (200, &json!("python3")));
    assert_eq!(restarted.ask("b", "GET", &path, "").await.0, 404);
}

/// It has the metadata of the kernel's sandbox, and whoever lists sandboxes sees it first.
#[tokio::test]
async fn a_fork_of_a_kernels_sandbox_is_not_the_kernel() {
    let gateway = Gateway::start().await;
    let id = gateway.kernel("a").await;
    let own = gateway.api.ids();
    gateway.api.fork_all();
    let restarted = Gateway {
        routes: routes(Settings::default()),
        api: gateway.api.clone(),
    };
    let (_, listed) = restarted.ask("a", "GET", "/kernels", "").await;
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(gateway.api.count(), 2);
    let path = format!("/kernels/{id}");
    assert_eq!(restarted.ask("a", "DELETE", &path, "").await.0, 204);
    let left = gateway.api.ids();
    assert_eq!(left, [format!("fork-{}", own[0])]);
}

#[tokio::test]
async fn a_sandbox_whose_metadata_names_no_language_is_no_kernel() {
    let gateway = Gateway::start().await;
    let id = gateway.kernel("a").await;
    for (language, expected) in [("../../secrets", 404), ("python", 200)] {
        gateway.api.describe_all("skep.jupyter.language", language);
        let restarted = Gateway {
            routes: routes(Settings::default()),
            api: gateway.api.clone(),
        };
        let path = format!("/kernels/{id}");
        let (status, said) = restarted.ask("a", "GET", &path, "").await;
        assert_eq!(status, expected, "{said}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_api_is_told_in_its_words() {
    let gateway = Gateway::start().await;
    gateway
        .api
        .refuse(StatusCode::TOO_MANY_REQUESTS, "you already run 1 sandboxes");
    let (status, said) = gateway.ask("a", "POST", "/kernels", "").await;
    assert_eq!(status, 429);
    assert_eq!(said["message"], "you already run 1 sandboxes");
}

#[tokio::test]
async fn kernelspecs_are_the_languages_of_templates_and_of_those_built_on_them() {
    let gateway = Gateway::start().await;
    let (status, listed) = gateway.ask("a", "GET", "/kernelspecs", "").await;
    assert_eq!(status, 200, "{listed}");
    let names: Vec<_> = listed["kernelspecs"].as_object().unwrap().keys().collect();
    let languages = ["bash", "javascript", "python3", "typescript"];
    let expected: Vec<_> = languages
        .iter()
        .flat_map(|name| [(*name).to_owned(), format!("{name}.mine")])
        .collect();
    assert_eq!(names, expected.iter().collect::<Vec<_>>());
    let (status, kernel) = gateway
        .ask("a", "POST", "/kernels", r#"{"name": "bash.mine"}"#)
        .await;
    assert_eq!((status, &kernel["name"]), (201, &json!("bash.mine")));
    for unknown in ["cobol", "python3.base", "python3.none"] {
        let body = json!({"name": unknown}).to_string();
        let (status, said) = gateway.ask("a", "POST", "/kernels", &body).await;
        assert_eq!(status, 400, "{unknown}: {said}");
    }
}
