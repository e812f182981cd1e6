//! `POST /sandboxes` and `POST /v2/sandboxes`

mod identity;
mod ingress;
mod refusals;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use skep_control::{
    CreateRequest, IdempotencyKey, Lifetime, MountRequest, RequestDigest, TeamLimits,
};
use skep_types::{OnTimeout, Redacted, Secrets};
use skep_wire::headers::SECRET_ENVS;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::RawBody;
use crate::egress::{EgressBody, NewProxy, sealed};
use crate::error::ApiError;
use crate::render;
use crate::router::Edge;

/// Limit on the metadata of a sandbox, in bytes.
const METADATA_LIMIT: usize = 64 * 1024;

/// Kernel's limit on one environment variable, in bytes.
const VARIABLE_LIMIT: usize = 128 * 1024;

/// Half of what the kernel accepts of an environment and arguments together, in bytes.
const ENVIRONMENT_LIMIT: usize = 1024 * 1024;

/// Generations of the route, which differ in defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    /// Clients send everything.
    First,
    /// Clients send only what their user said.
    Second,
}

impl Generation {
    fn usual_timeout(self) -> i64 {
        match self {
            Self::First => 15,
            Self::Second => 300,
        }
    }

    /// Returns true if the caller asked for an agent that demands a token. Every sandbox has one all
    /// the same: some clients can be told apart behind one address by their token alone.
    fn is_secure(self, asked: Option<bool>) -> bool {
        match self {
            Self::First => asked.unwrap_or(false),
            Self::Second => true,
        }
    }
}

/// `POST /sandboxes`
pub(crate) async fn create_sandbox(
    authorized: Authorized,
    State(edge): State<Edge>,
    headers: HeaderMap,
    body: RawBody,
) -> Result<(StatusCode, Json<rest::Sandbox>), ApiError> {
    create(&authorized, &edge, &headers, &body, Generation::First).await
}

/// `POST /v2/sandboxes`
pub(crate) async fn create_sandbox_v2(
    authorized: Authorized,
    State(edge): State<Edge>,
    headers: HeaderMap,
    body: RawBody,
) -> Result<(StatusCode, Json<rest::Sandbox>), ApiError> {
    create(&authorized, &edge, &headers, &body, Generation::Second).await
}

async fn create(
    authorized: &Authorized,
    edge: &Edge,
    headers: &HeaderMap,
    body: &RawBody,
    generation: Generation,
) -> Result<(StatusCode, Json<rest::Sandbox>), ApiError> {
    let caller = &authorized.caller;
    caller.may_change()?;
    let mut asked: rest::NewSandbox = body.parse()?;
    let options = asked.skep.get_or_insert_default();
    options.secret_envs.extend(secret_envs(headers)?);
    let idempotency = idempotency(headers, &asked, generation)?;
    let (mut request, proxy) = read(asked, caller.limits, generation)?;
    request.egress = sealed(edge.control(), caller, request.egress, proxy).await?;
    request.idempotency = idempotency;
    let order = edge.control().create(caller, request).await?;
    let sandbox = render::sandbox(&order, edge.domain());
    Ok((StatusCode::CREATED, Json(sandbox)))
}

fn read(
    body: rest::NewSandbox,
    limits: TeamLimits,
    generation: Generation,
) -> Result<(CreateRequest, Option<NewProxy>), ApiError> {
    let ingress = ingress::read(body.network.as_ref())?;
    refusals::check(&body)?;
    // Whoever closes the ports does not mean to leave the agent open.
    let is_secure = generation.is_secure(body.secure) || ingress.is_private;
    let timeout = body.timeout.unwrap_or(generation.usual_timeout());
    let variables = body.env_vars.unwrap_or_default();
    let secrets = secrets(body.skep.unwrap_or_default(), &variables)?;
    let mounts = body.volume_mounts.unwrap_or_default();
    let identity = identity::read(body.iam)?;
    let network = EgressBody::of_new(body.network.as_ref(), body.allow_internet_access);
    let (egress, proxy) = network.read()?;
    identity::check(&identity, &egress)?;
    let request = CreateRequest {
        mounts: mounts.into_iter().map(mount_request).collect(),
        template: body.template_id.parse()?,
        lifetime: Lifetime::new(timeout, limits.lifetime)?,
        is_open: !is_secure,
        ingress,
        on_timeout: match body.auto_pause {
            Some(true) => OnTimeout::Pause(render::image_kind(body.auto_pause_memory)),
            Some(false) | None => OnTimeout::Kill,
        },
        auto_resume: body.auto_resume.is_some_and(|resume| resume.enabled),
        egress,
        identity,
        metadata: metadata(body.metadata.unwrap_or_default())?,
        env: Redacted::new(environment(variables)?),
        secrets,
        idempotency: None,
    };
    Ok((request, proxy))
}

fn size(pairs: &BTreeMap<String, String>) -> usize {
    pairs
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum()
}

/// Metadata is kept in memory for as long as the sandbox lives, so there is an end to it.
fn metadata(pairs: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ApiError> {
    if size(&pairs) > METADATA_LIMIT {
        return Err(ApiError::validation("metadata is larger than 64 KiB"));
    }
    Ok(pairs)
}

/// No process can have a variable with an empty name, an equals sign in its name, or a zero
/// byte anywhere; and the kernel refuses to start one whose environment is too large.
fn environment(variables: BTreeMap<String, String>) -> Result<Vec<(String, String)>, ApiError> {
    let possible = |(name, value): (&String, &String)| {
        !name.is_empty()
            && !name.contains(['=', '\0'])
            && !value.contains('\0')
            && name.len() + value.len() + 2 <= VARIABLE_LIMIT
    };
    if variables.iter().all(possible) && size(&variables) <= ENVIRONMENT_LIMIT {
        return Ok(variables.into_iter().collect());
    }
    Err(ApiError::validation(
        "envVars has a variable with a name, value or size that no process can have",
    ))
}

/// A volume as it was asked for. Clients whose mounts have only a name and a path write `NAME:ro`.
fn mount_request(mount: rest::VolumeMount) -> MountRequest {
    let (name, read_only) = match mount.name.strip_suffix(":ro") {
        Some(name) => (name.to_owned(), true),
        None => (mount.name, mount.read_only),
    };
    MountRequest {
        name,
        path: mount.path,
        read_only,
    }
}

/// Names of secret variables in a header: the SDKs send headers of their users, and no fields.
fn secret_envs(headers: &HeaderMap) -> Result<Vec<String>, ApiError> {
    let mut names = Vec::new();
    for value in headers.get_all(SECRET_ENVS) {
        let text = value.to_str().map_err(|_unreadable| {
            ApiError::validation(format!("{SECRET_ENVS} is not readable"))
        })?;
        let listed = text.split(',').map(str::trim);
        names.extend(listed.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    Ok(names)
}

/// Values that must not be shown: those that are given, and those of the named variables.
fn secrets(
    options: rest::SandboxOptions,
    variables: &BTreeMap<String, String>,
) -> Result<Secrets, ApiError> {
    let mut values = options.secrets;
    for name in &options.secret_envs {
        match variables.get(name) {
            Some(value) => values.push(value.clone()),
            None => {
                return Err(ApiError::validation(format!(
                    "'{name}' is to be secret and is not in envVars"
                )));
            }
        }
    }
    Secrets::new(values)
        .map_err(|error| ApiError::validation(format!("skep.secrets is not accepted: {error}")))
}

/// The name of a request, and a digest of what it asks for: clients that repeat it may write it in
/// another order.
fn idempotency(
    headers: &HeaderMap,
    asked: &rest::NewSandbox,
    generation: Generation,
) -> Result<Option<(IdempotencyKey, RequestDigest)>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let key = value.to_str().unwrap_or_default().parse()?;
    let route: &[u8] = match generation {
        Generation::First => b"/sandboxes",
        Generation::Second => b"/v2/sandboxes",
    };
    let asked = serde_json::to_vec(asked).map_err(ApiError::validation)?;
    Ok(Some((key, RequestDigest::of(&[route, &asked]))))
}
