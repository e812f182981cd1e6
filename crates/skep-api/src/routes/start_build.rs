//! `POST /v2/templates/{id}/builds/{build}`

mod steps;

use axum::extract::State;
use axum::http::StatusCode;
use skep_control::{RequestDigest, RequestedBase, StartRequest};
use skep_types::{BuildId, Redacted, RegistryCredentials};
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::Body;
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::PathSegments;

/// Starts a build that waits. The same request may come several times: clients repeat it.
pub(crate) async fn start_build(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegments(template, build): PathSegments,
    Body(body): Body<rest::StartBuild>,
) -> Result<StatusCode, ApiError> {
    let build = build_id(&build)?;
    let template = template.parse()?;
    let request = request(body)?;
    let control = edge.control();
    let starting = control.start_version(&authorized.caller, template, build, request);
    starting.await?;
    Ok(StatusCode::ACCEPTED)
}

pub(super) fn build_id(text: &str) -> Result<BuildId, ApiError> {
    text.parse().map_err(|error| {
        ApiError::bad_request("invalid_build_id", format!("Invalid build ID: {error}"))
    })
}

fn request(mut body: rest::StartBuild) -> Result<StartRequest, ApiError> {
    // Credentials are in no digest either: it is recorded.
    let registry = body.from_image_registry.take();
    let text = serde_json::to_vec(&body).map_err(ApiError::validation)?;
    let digest = RequestDigest::of(&[&text]);
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let base = match (given(body.from_image), given(body.from_template)) {
        (Some(reference), None) => RequestedBase::Image {
            reference,
            credentials: registry.map(credentials).transpose()?,
        },
        (None, Some(reference)) => RequestedBase::Template(reference),
        (Some(_), Some(_)) => {
            return Err(invalid(
                "a build begins with `fromImage` or `fromTemplate`, not with both",
            ));
        }
        (None, None) => {
            return Err(invalid(
                "a build begins with `fromImage` or `fromTemplate`; neither was given",
            ));
        }
    };
    Ok(StartRequest {
        base,
        steps: steps::read(body.steps.unwrap_or_default()),
        start_command: given(body.start_cmd),
        ready_command: given(body.ready_cmd),
        force: body.force.unwrap_or_default(),
        digest,
    })
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::bad_request("invalid_build", message)
}

fn credentials(registry: rest::ImageRegistry) -> Result<RegistryCredentials, ApiError> {
    let needed = |value: Option<String>, key: &str| {
        let kind = &registry.kind;
        value.ok_or_else(|| {
            invalid(format!(
                "`fromImageRegistry` of type `{kind}` needs `{key}`"
            ))
        })
    };
    match registry.kind.as_str() {
        "registry" => Ok(RegistryCredentials::Basic {
            username: needed(registry.username.clone(), "username")?,
            password: Redacted::new(needed(registry.password.clone(), "password")?),
        }),
        "aws" => {
            let secret = registry.aws_secret_access_key.clone();
            Ok(RegistryCredentials::Aws {
                access_key_id: needed(registry.aws_access_key_id.clone(), "awsAccessKeyId")?,
                secret_access_key: Redacted::new(needed(secret, "awsSecretAccessKey")?),
                region: needed(registry.aws_region.clone(), "awsRegion")?,
            })
        }
        "gcp" => {
            let account = registry.service_account_json.clone();
            Ok(RegistryCredentials::Gcp {
                service_account: Redacted::new(needed(account, "serviceAccountJson")?),
            })
        }
        other => Err(invalid(format!(
            "`fromImageRegistry` has the unknown type `{other}`; it is `registry`, `aws` or `gcp`"
        ))),
    }
}
