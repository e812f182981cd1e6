//! All routes of the interpreter.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use serde_json::json;
use skep_kernels::{
    ContextError, ContextInfo, Execution, ExecutionInfo, InputError, OnLoss, StartError,
};
use skep_telemetry::Chain;
use skep_wire::headers::{ACCESS_TOKEN, EXECUTION_ID, REQUEST_NAME, TRAFFIC_TOKEN};
use skep_wire::interpreter::{self as wire, CANCEL_PATH, OutputForm};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::Interpreter;
use crate::answer::Answer;
use crate::cancellation::is_name;
use crate::line;
use crate::request::{Execute, NewContext, Refusal, Target, input_reply};

/// Code with data in it, and variables of a megabyte each.
const MAX_BODY: usize = 64 << 20;

/// Time for which `/health` waits for the first kernel.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn routes(interpreter: Arc<Interpreter>) -> Router {
    Router::new()
        .route("/health", get(health).head(method_not_allowed))
        .route("/execute", post(execute))
        .route("/executions", get(running).head(method_not_allowed))
        .route("/executions/{id}", get(attach).head(method_not_allowed))
        .route("/executions/{id}/usage", get(used).head(method_not_allowed))
        .route("/executions/{id}/interrupt", post(interrupt))
        .route("/executions/{id}/input", post(input))
        .route("/contexts", get(list).head(method_not_allowed).post(create))
        .route("/contexts/{id}", axum::routing::delete(remove))
        .route("/contexts/{id}/restart", post(restart))
        .route(
            "/contexts/{id}/notebook",
            get(notebook).head(method_not_allowed),
        )
        .merge(crate::questions::routes())
        .merge(crate::copies::routes())
        .route(CANCEL_PATH, post(cancel))
        .fallback(|| async { detail(StatusCode::NOT_FOUND, "Not Found") })
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(cors())
        .with_state(interpreter)
}

/// Tells whoever asks for anything that there is no interpreter.
pub(crate) fn absent() -> Router {
    let reason = "The template of this sandbox has no interpreter: \
                  create one from a template that has, such as code-interpreter-v1";
    Router::new()
        .fallback(async move || text(StatusCode::NOT_FOUND, reason))
        .layer(cors())
}

/// Browsers may call from anywhere: what protects the sandbox is its token, not an origin. A page
/// has no token that its user did not give it, and no browser adds one by itself, as it would a
/// cookie; without one a page can ask for nothing but `/health`.
fn cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(AllowOrigin::any())
        .allow_methods([
            Method::DELETE,
            Method::GET,
            Method::HEAD,
            Method::OPTIONS,
            Method::PATCH,
            Method::POST,
            Method::PUT,
        ])
        .allow_headers(AllowHeaders::mirror_request())
        .max_age(Duration::from_secs(600))
}

pub(crate) async fn method_not_allowed() -> Response {
    detail(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
}

/// `GET /health`: answers when code can run at once.
async fn health(State(interpreter): State<Arc<Interpreter>>) -> Response {
    let ready = tokio::time::timeout(HEALTH_TIMEOUT, interpreter.contexts.ready()).await;
    match ready {
        Ok(Ok(())) => Json("OK").into_response(),
        Ok(Err(error)) => {
            tracing::warn!(error = %Chain(&error), "there is no kernel");
            text(StatusCode::SERVICE_UNAVAILABLE, Chain(&error).to_string())
        }
        Err(_elapsed) => text(StatusCode::SERVICE_UNAVAILABLE, "the kernel is starting"),
    }
}

/// `POST /execute`: the headers come at once, whoever is before this execution.
async fn execute(
    State(interpreter): State<Arc<Interpreter>>,
    _: MayRunCode,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failed> {
    let Execute {
        target,
        mut request,
        form,
    } = Execute::parse(&body)?;
    let id = match target {
        Target::Context(id) => id,
        Target::Language(language) => interpreter.contexts.default_of(&language)?,
    };
    let name = request_name(&headers);
    if name.is_some() {
        // Only the proxy, which names its requests, can tell a caller that has left from a server
        // that was killed; it says so on a connection of its own. A broken connection alone says
        // nothing then.
        request.on_loss = OnLoss::Continue;
    }
    request.cancel = interpreter.cancellations.register(name);
    Ok(answer(interpreter.contexts.execute(&id, request)?, form))
}

/// `GET /executions/{id}`: the rest of an answer whose connection broke while the code ran on.
async fn attach(
    State(interpreter): State<Arc<Interpreter>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Failed> {
    interpreter.check_token(&headers)?;
    match interpreter.contexts.attach(&id).await {
        Some(execution) => Ok(answer(execution, OutputForm::Contract)),
        None => Err(Failed::NoExecution(id)),
    }
}

/// `GET /executions`: what waits or runs now, and what it has used.
async fn running(
    State(interpreter): State<Arc<Interpreter>>,
    headers: HeaderMap,
) -> Result<Json<Vec<wire::RunningExecution>>, Failed> {
    interpreter.check_token(&headers)?;
    let all = interpreter.contexts.executions();
    Ok(Json(all.into_iter().map(as_of_now).collect()))
}

/// `GET /executions/{id}/usage`: one of them.
async fn used(
    State(interpreter): State<Arc<Interpreter>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<wire::RunningExecution>, Failed> {
    interpreter.check_token(&headers)?;
    match interpreter.contexts.execution(&id) {
        Some(execution) => Ok(Json(as_of_now(execution))),
        None => Err(Failed::NoExecution(id)),
    }
}

/// `POST /executions/{id}/interrupt`: as Ctrl-C would. Whoever reads its answer reads on.
async fn interrupt(
    State(interpreter): State<Arc<Interpreter>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<()>, Failed> {
    interpreter.check_token(&headers)?;
    if interpreter.contexts.interrupt(&id) {
        Ok(Json(()))
    } else {
        Err(Failed::NoExecution(id))
    }
}

/// `POST /executions/{id}/input`: the answer to code that asks for input.
async fn input(
    State(interpreter): State<Arc<Interpreter>>,
    _: MayRunCode,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Failed> {
    let reply = input_reply(&body)?;
    match interpreter.contexts.input(&id, reply.value).await {
        Ok(()) => Ok(Json(()).into_response()),
        Err(InputError::NotFound { id }) => Err(Failed::NoExecution(id)),
        Err(error @ InputError::NotAsked) => Ok(text(StatusCode::CONFLICT, error.to_string())),
    }
}

fn as_of_now(execution: ExecutionInfo) -> wire::RunningExecution {
    let (state, wall, spent) = match execution.running {
        Some(progress) => ("running", progress.wall, progress.spent),
        None => ("queued", Duration::ZERO, None),
    };
    wire::RunningExecution {
        id: execution.id,
        context_id: execution.context,
        state,
        usage: line::usage(wall, execution.queued, spent),
    }
}

fn answer(execution: Execution, form: OutputForm) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/x-ndjson".to_owned()),
        (HeaderName::from_static(EXECUTION_ID), execution.id.clone()),
    ];
    (headers, Body::new(Answer::new(execution, form))).into_response()
}

impl Interpreter {
    pub(crate) fn check_token(&self, headers: &HeaderMap) -> Result<(), Failed> {
        if self.authorizer.admits(shown(headers, ACCESS_TOKEN)) {
            Ok(())
        } else {
            Err(Failed::Unauthorized)
        }
    }

    /// Either token. The traffic token opens contexts but runs no code.
    fn check_context_token(&self, headers: &HeaderMap) -> Result<(), Failed> {
        // The SDKs show this one on the routes of contexts, and no other there.
        let traffic = shown(headers, TRAFFIC_TOKEN);
        if self.authorizer.admits(shown(headers, ACCESS_TOKEN))
            || self.authorizer.admits_traffic(traffic)
        {
            Ok(())
        } else {
            Err(Failed::NoContextToken)
        }
    }
}

/// A caller that has shown the access token. As an argument before the body it is asked for before
/// the body is read: otherwise anybody could have the agent keep 64 MiB for each request.
pub(crate) struct MayRunCode;

impl FromRequestParts<Arc<Interpreter>> for MayRunCode {
    type Rejection = Failed;

    async fn from_request_parts(
        parts: &mut Parts,
        interpreter: &Arc<Interpreter>,
    ) -> Result<Self, Failed> {
        interpreter.check_token(&parts.headers).map(|()| Self)
    }
}

/// A caller that has shown either token, asked for as early as [`MayRunCode`].
pub(crate) struct MayUseContexts;

impl FromRequestParts<Arc<Interpreter>> for MayUseContexts {
    type Rejection = Failed;

    async fn from_request_parts(
        parts: &mut Parts,
        interpreter: &Arc<Interpreter>,
    ) -> Result<Self, Failed> {
        interpreter
            .check_context_token(&parts.headers)
            .map(|()| Self)
    }
}

fn shown<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    headers.get(name).map(|value| value.as_bytes())
}

/// Returns the name that the proxy gave a request.
fn request_name(headers: &HeaderMap) -> Option<&str> {
    let name = headers.get(REQUEST_NAME)?.to_str().ok()?;
    is_name(name).then_some(name)
}

/// `POST /skep/cancel`, from the proxy alone: the caller of a request has left.
async fn cancel(State(interpreter): State<Arc<Interpreter>>, headers: HeaderMap) -> StatusCode {
    match request_name(&headers) {
        Some(name) if interpreter.cancellations.cancel(name) => StatusCode::NO_CONTENT,
        Some(_) | None => StatusCode::NOT_FOUND,
    }
}

/// `GET /contexts`: lists all contexts.
async fn list(
    State(interpreter): State<Arc<Interpreter>>,
    headers: HeaderMap,
) -> Result<Json<Vec<wire::Context>>, Failed> {
    interpreter.check_context_token(&headers)?;
    let all = interpreter.contexts.list();
    Ok(Json(all.into_iter().map(context).collect()))
}

/// `POST /contexts`: makes a context, and answers when its kernel runs.
async fn create(
    State(interpreter): State<Arc<Interpreter>>,
    _: MayUseContexts,
    body: Bytes,
) -> Result<Json<wire::Context>, Failed> {
    let request = NewContext::parse(&body)?;
    let contexts = &interpreter.contexts;
    let made = contexts
        .create(&request.language, request.directory)
        .await?;
    // A context that would show the caller's secrets must not be.
    if let Err(error) = contexts.mark(&made.id, &request.secrets) {
        contexts.remove(&made.id).await?;
        return Err(error.into());
    }
    Ok(Json(context(made)))
}

/// `POST /contexts/{id}/restart`: replaces the kernel of a context.
async fn restart(
    State(interpreter): State<Arc<Interpreter>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<()>, Failed> {
    interpreter.check_context_token(&headers)?;
    interpreter.contexts.restart(&id).await?;
    Ok(Json(()))
}

/// `GET /contexts/{id}/notebook`: what happened in a context until now, as a file for Jupyter.
async fn notebook(
    State(interpreter): State<Arc<Interpreter>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Failed> {
    interpreter.check_token(&headers)?;
    let history = interpreter.contexts.history(&id)?;
    Ok(crate::notebook::response(history))
}

/// `DELETE /contexts/{id}`: ends a context and its kernel.
async fn remove(
    State(interpreter): State<Arc<Interpreter>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<()>, Failed> {
    interpreter.check_context_token(&headers)?;
    interpreter.contexts.remove(&id).await?;
    Ok(Json(()))
}

pub(crate) fn context(info: ContextInfo) -> wire::Context {
    wire::Context {
        id: info.id,
        language: info.language,
        cwd: info.directory,
    }
}

/// Reasons for which a request was not fulfilled.
pub(crate) enum Failed {
    Unauthorized,
    NoContextToken,
    NoExecution(String),
    Refused(Refusal),
    Context(ContextError),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ContextError> for Failed {
    fn from(error: ContextError) -> Self {
        Self::Context(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        match self {
            Self::Unauthorized => text(
                StatusCode::UNAUTHORIZED,
                "show the sandbox's access token in X-Access-Token",
            ),
            Self::NoContextToken => text(
                StatusCode::UNAUTHORIZED,
                "show the sandbox's traffic access token in E2B-Traffic-Access-Token, \
                 or its access token in X-Access-Token",
            ),
            Self::NoExecution(id) => {
                text(StatusCode::NOT_FOUND, format!("Execution {id} not found"))
            }
            Self::Refused(Refusal::Both) => text(
                StatusCode::BAD_REQUEST,
                "Only one of context_id or language can be provided",
            ),
            Self::Refused(Refusal::Invalid(detail)) => {
                let body = Json(json!({ "detail": detail }));
                (StatusCode::UNPROCESSABLE_ENTITY, body).into_response()
            }
            Self::Context(error) => refusal(&error),
        }
    }
}

fn refusal(error: &ContextError) -> Response {
    match error {
        ContextError::NotFound { id } => {
            text(StatusCode::NOT_FOUND, format!("Context {id} not found"))
        }
        ContextError::Start(StartError::NotInstalled {
            language,
            installed,
        }) => {
            let reason = json!({
                "message": format!(
                    "The '{language}' kernel is not available. Please pick another suitable kernel instead, or install that kernel. Installed: {}.",
                    installed.join(", "),
                ),
                "short_message": format!("{language} not found"),
            });
            let message = format!("Failed to create context: {reason}");
            text(StatusCode::INTERNAL_SERVER_ERROR, message)
        }
        ContextError::Start(error) => {
            tracing::warn!(error = %Chain(error), "kernel does not start");
            let message = format!("Failed to create context: {}", Chain(error));
            text(StatusCode::INTERNAL_SERVER_ERROR, message)
        }
        ContextError::Secrets(error) => text(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
        ContextError::Full { .. } | ContextError::TooMany { .. } => {
            text(StatusCode::TOO_MANY_REQUESTS, error.to_string())
        }
    }
}

pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into()).into_response()
}

fn detail(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({ "detail": text }))).into_response()
}
