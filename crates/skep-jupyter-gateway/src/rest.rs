//! The routes of Jupyter's REST API that kernels have.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Visitor;
use crate::activity::written;
use crate::failure::Failure;
use crate::gateway::Gateway;
use crate::kernelspecs;

/// Number of variables that a client may give to a kernel.
const MOST_VARIABLES: usize = 256;

/// Body of a request for a kernel. A notebook's path is the client's own business.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NewKernel {
    name: Option<String>,
    env: BTreeMap<String, String>,
}

type Gateways = State<Arc<Gateway>>;
type Answer = Result<Json<Value>, Failure>;

pub(crate) async fn version() -> Json<Value> {
    Json(json!({"version": env!("CARGO_PKG_VERSION")}))
}

pub(crate) async fn status(
    State(gateway): Gateways,
    Extension(visitor): Extension<Visitor>,
) -> Answer {
    let kernels = gateway.list(&visitor).await?;
    let connections: u64 = kernels
        .iter()
        .filter_map(|kernel| kernel["connections"].as_u64())
        .sum();
    let last = kernels
        .iter()
        .filter_map(|kernel| kernel["last_activity"].as_str());
    let started = written(gateway.started);
    Ok(Json(json!({
        "started": started,
        "last_activity": last.max().unwrap_or(&started),
        "connections": connections,
        "kernels": kernels.len(),
    })))
}

pub(crate) async fn kernelspecs(
    State(gateway): Gateways,
    Extension(visitor): Extension<Visitor>,
) -> Answer {
    let specs = kernelspecs::list(&visitor.client, &gateway.settings.template).await?;
    Ok(Json(kernelspecs::rendered(&specs)))
}

pub(crate) async fn kernelspec(
    State(gateway): Gateways,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Answer {
    let usual = &gateway.settings.template;
    match kernelspecs::find(&visitor.client, usual, Some(&name)).await? {
        Some(spec) => Ok(Json(spec.rendered())),
        None => Err(Failure::new(
            StatusCode::NOT_FOUND,
            format!("there is no kernelspec `{name}`"),
        )),
    }
}

pub(crate) async fn list(
    State(gateway): Gateways,
    Extension(visitor): Extension<Visitor>,
) -> Answer {
    Ok(Json(Value::Array(gateway.list(&visitor).await?)))
}

pub(crate) async fn start(
    State(gateway): Gateways,
    Extension(visitor): Extension<Visitor>,
    body: Bytes,
) -> Result<Response, Failure> {
    let NewKernel { name, env } = read_body(&body)?;
    let kernel = gateway.start(&visitor, name.as_deref(), env).await?;
    let rendered = kernel.rendered();
    let id = rendered["id"].as_str().unwrap_or_default();
    let location = format!("/skep/jupyter/api/kernels/{id}");
    let place = [(header::LOCATION, location)];
    Ok((StatusCode::CREATED, place, Json(rendered)).into_response())
}

pub(crate) async fn get(
    State(gateway): Gateways,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<String>,
) -> Answer {
    let kernel = gateway.find(&visitor, &id).await?;
    Ok(Json(kernel.rendered()))
}

pub(crate) async fn shut_down(
    State(gateway): Gateways,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    let kernel = gateway.find(&visitor, &id).await?;
    kernel.shut_down(&visitor.client).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn interrupt(
    State(gateway): Gateways,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    gateway.find(&visitor, &id).await?.interrupt();
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn restart(
    State(gateway): Gateways,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<String>,
) -> Answer {
    let kernel = gateway.find(&visitor, &id).await?;
    kernel.restart(&visitor.client).await?;
    Ok(Json(kernel.rendered()))
}

pub(crate) async fn unknown() -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        "this gateway has kernels and kernelspecs, and nothing else of Jupyter's API",
    )
}

fn read_body(body: &[u8]) -> Result<NewKernel, Failure> {
    // Clients that do not care which kernel they get send nothing.
    if body.trim_ascii().is_empty() {
        return Ok(NewKernel::default());
    }
    let bad = |message: String| Failure::new(StatusCode::BAD_REQUEST, message);
    let new: NewKernel = serde_json::from_slice(body)
        .map_err(|error| bad(format!("the body does not say which kernel: {error}")))?;
    if new.env.len() > MOST_VARIABLES {
        let message = format!("a kernel takes {MOST_VARIABLES} variables at most");
        return Err(bad(message));
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_may_say_nothing() {
        for (body, expected) in [
            ("", None),
            (" ", None),
            ("{}", None),
            (r#"{"name": null}"#, None),
            (
                r#"{"name": "ir", "path": "a.ipynb", "env": {"A": "1"}}"#,
                Some("ir"),
            ),
        ] {
            let new = read_body(body.as_bytes()).unwrap();
            assert_eq!(new.name.as_deref(), expected, "{body}");
        }
        for body in ["[]x", r#"{"env": {"A": 1}}"#, r#"{"name": 1}"#] {
            let refused = read_body(body.as_bytes()).unwrap_err().into_response();
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{body}");
        }
    }
}
