//! The routes of questions about code that is not run, for prompts and editors.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use skep_jupyter::{Answer, Bundle, Completeness, Question};
use skep_kernels::AskError;
use skep_telemetry::Chain;
use skep_wire::interpreter as wire;

use crate::Interpreter;
use crate::request::Refusal;
use crate::routes::{Failed, MayRunCode, method_not_allowed, text};

pub(crate) fn routes() -> Router<Arc<Interpreter>> {
    Router::new()
        .route("/contexts/{id}/complete", post(complete))
        .route("/contexts/{id}/inspect", post(inspect))
        .route("/contexts/{id}/is_complete", post(is_complete))
        .route("/contexts/{id}/info", get(info).head(method_not_allowed))
}

/// `POST /contexts/{id}/complete`: the texts that could stand at the cursor.
async fn complete(
    State(interpreter): State<Arc<Interpreter>>,
    _: MayRunCode,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Failed> {
    let wire::CodeAtCursor { code, cursor, .. } = parse(&body)?;
    interpreter
        .ask(&id, Question::Complete { code, cursor })
        .await
}

/// `POST /contexts/{id}/inspect`: the documentation of the name at the cursor.
async fn inspect(
    State(interpreter): State<Arc<Interpreter>>,
    _: MayRunCode,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Failed> {
    let wire::CodeAtCursor {
        code,
        cursor,
        source,
    } = parse(&body)?;
    let question = Question::Inspect {
        code,
        cursor,
        with_source: source,
    };
    interpreter.ask(&id, question).await
}

/// `POST /contexts/{id}/is_complete`: whether a prompt should ask for another line.
async fn is_complete(
    State(interpreter): State<Arc<Interpreter>>,
    _: MayRunCode,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Failed> {
    let wire::CodeAtCursor { code, .. } = parse(&body)?;
    interpreter.ask(&id, Question::IsComplete { code }).await
}

/// `GET /contexts/{id}/info`: the language and the kernel.
async fn info(
    State(interpreter): State<Arc<Interpreter>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Failed> {
    interpreter.check_token(&headers)?;
    interpreter.ask(&id, Question::Info).await
}

impl Interpreter {
    async fn ask(&self, id: &str, question: Question) -> Result<Response, Failed> {
        match self.contexts.ask(id, question).await {
            Ok(answer) => Ok(rendered(answer)),
            Err(AskError::Context(error)) => Err(error.into()),
            Err(error @ AskError::Busy) => Ok(text(StatusCode::CONFLICT, error.to_string())),
            Err(error @ AskError::Refused { .. }) => {
                let body = Json(json!({ "detail": error.to_string() }));
                Ok((StatusCode::UNPROCESSABLE_ENTITY, body).into_response())
            }
            Err(error @ AskError::Silent) => {
                Ok(text(StatusCode::GATEWAY_TIMEOUT, error.to_string()))
            }
            Err(error @ AskError::Ended) => {
                tracing::warn!(error = %Chain(&error), "question has no answer");
                Ok(text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
            }
        }
    }
}

fn parse(body: &[u8]) -> Result<wire::CodeAtCursor, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        // The text is not repeated: it is somebody's code.
        Refusal::Invalid(json!([{
            "type": "value_error",
            "loc": ["body"],
            "msg": error.to_string(),
        }]))
    })
}

fn rendered(answer: Answer) -> Response {
    match answer {
        Answer::Completions {
            matches,
            start,
            end,
        } => Json(wire::Completions {
            matches,
            cursor_start: start,
            cursor_end: end,
        })
        .into_response(),
        Answer::Inspection(found) => Json(wire::Inspection {
            found: found.is_some(),
            data: found.as_ref().map(data).unwrap_or_default(),
        })
        .into_response(),
        Answer::Completeness { state, indent } => Json(wire::CompletenessAnswer {
            status: match state {
                Completeness::Complete => wire::Completeness::Complete,
                Completeness::Incomplete => wire::Completeness::Incomplete,
                Completeness::Invalid => wire::Completeness::Invalid,
                Completeness::Unknown => wire::Completeness::Unknown,
            },
            indent,
        })
        .into_response(),
        Answer::Info(info) => Json(wire::KernelInfo {
            language: info.language,
            version: info.version,
            mimetype: info.mimetype,
            file_extension: info.file_extension,
            kernel: info.kernel,
        })
        .into_response(),
    }
}

fn data(bundle: &Bundle) -> Map<String, Value> {
    bundle
        .entries
        .iter()
        .filter_map(|(mime, value)| {
            // What a kernel writes may be a number that no value can hold.
            let value = serde_json::from_str(value.as_str()).ok()?;
            Some((mime.clone(), value))
        })
        .collect()
}
