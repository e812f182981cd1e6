//! The two RPC services, registered by the names that the SDKs call.

use std::future::Future;
use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::map_request;
use buffa::Message;
use connectrpc::{
    ConnectError, ConnectRpcService, Handler, JsonDeserialize, JsonSerialize, Limits,
    RequestContext, Response, Router, ServiceStream, StreamingHandler, client_streaming_handler_fn,
    handler_fn, streaming_handler_fn,
};
use http::{HeaderMap, HeaderValue};

use crate::agent::Agent;
use crate::filesystem;
use crate::process;

/// The largest message. What a client writes to a process at once is the only large one.
const MAX_MESSAGE: usize = 32 << 20;

/// Header with the milliseconds that the caller waits.
const TIMEOUT_HEADER: &str = "connect-timeout-ms";

/// Returns the routes of everything below `/process.Process/` and `/filesystem.Filesystem/`.
pub(crate) fn routes(agent: &Arc<Agent>) -> axum::Router<Arc<Agent>> {
    let services = services(agent);
    axum::Router::new()
        .route_service("/process.Process/{method}", services.clone())
        .route_service("/filesystem.Filesystem/{method}", services)
        .layer(map_request(async |mut request: Request| {
            normalise_deadline(request.headers_mut());
            request
        }))
}

fn services(agent: &Arc<Agent>) -> ConnectRpcService {
    let router = filesystem_service(process_service(Router::new(), agent), agent);
    let limits = Limits::default()
        .with_max_message_size(MAX_MESSAGE)
        .with_max_request_body_size(MAX_MESSAGE);
    ConnectRpcService::new(router).with_limits(limits)
}

fn process_service(router: Router, agent: &Arc<Agent>) -> Router {
    use process::service;
    const NAME: &str = "process.Process";
    let streaming = {
        let agent = Arc::clone(agent);
        client_streaming_handler_fn(move |context, requests| {
            let agent = Arc::clone(&agent);
            async move { Response::ok(service::stream_input(agent, context, requests).await?) }
        })
    };
    router
        .route(NAME, "List", unary(agent, service::list))
        .route_server_stream(NAME, "Start", server_stream(agent, service::start_process))
        .route_server_stream(NAME, "Connect", server_stream(agent, service::connect))
        .route(NAME, "Update", unary(agent, service::update))
        .route(NAME, "SendInput", unary(agent, service::send_input))
        .route_client_stream(NAME, "StreamInput", streaming)
        .route(NAME, "SendSignal", unary(agent, service::send_signal))
        .route(NAME, "CloseStdin", unary(agent, service::close_stdin))
}

fn filesystem_service(router: Router, agent: &Arc<Agent>) -> Router {
    use filesystem::service;
    use filesystem::watch::service as watch;
    const NAME: &str = "filesystem.Filesystem";
    router
        .route(NAME, "Stat", unary(agent, service::stat_entry))
        .route(NAME, "MakeDir", unary(agent, service::make_dir))
        .route(NAME, "Move", unary(agent, service::move_entry))
        .route(NAME, "ListDir", unary(agent, service::list_dir))
        .route(NAME, "Remove", unary(agent, service::remove_entry))
        .route_server_stream(NAME, "WatchDir", server_stream(agent, watch::watch_dir))
        .route(NAME, "CreateWatcher", unary(agent, watch::create_watcher))
        .route(
            NAME,
            "GetWatcherEvents",
            unary(agent, watch::get_watcher_events),
        )
        .route(NAME, "RemoveWatcher", unary(agent, watch::remove_watcher))
}

fn unary<Req, Res, F, Fut>(
    agent: &Arc<Agent>,
    call: F,
) -> impl Handler<Req, Res, Body = Res> + use<Req, Res, F, Fut>
where
    F: Fn(Arc<Agent>, RequestContext, Req) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Res, ConnectError>> + Send + 'static,
    Req: Message + JsonDeserialize + Send + 'static,
    Res: Message + JsonSerialize + Send + 'static,
{
    let agent = Arc::clone(agent);
    handler_fn(move |context, request| {
        let answer = call(Arc::clone(&agent), context, request);
        async move { Response::ok(answer.await?) }
    })
}

fn server_stream<Req, Res, F, Fut>(
    agent: &Arc<Agent>,
    call: F,
) -> impl StreamingHandler<Req, Res, Item = Res> + use<Req, Res, F, Fut>
where
    F: Fn(Arc<Agent>, RequestContext, Req) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ServiceStream<Res>, ConnectError>> + Send + 'static,
    Req: Message + JsonDeserialize + Send + 'static,
    Res: Message + JsonSerialize + Send + 'static,
{
    let agent = Arc::clone(agent);
    streaming_handler_fn(move |context, request| {
        let answer = call(Arc::clone(&agent), context, request);
        async move { Response::ok(answer.await?) }
    })
}

/// Writes the caller's deadline as the RPC layer reads it: whole milliseconds, of at most ten
/// digits. By contract zero is no deadline, and year-old Python clients send `500.0`.
fn normalise_deadline(headers: &mut HeaderMap) {
    let Some(header) = headers.get(TIMEOUT_HEADER) else {
        return;
    };
    let milliseconds = header
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse::<f64>().ok());
    match milliseconds {
        Some(milliseconds) if milliseconds > 0.0 && milliseconds < 1e10 => {
            let whole = format!("{:.0}", milliseconds.ceil());
            headers.insert(
                TIMEOUT_HEADER,
                HeaderValue::from_str(&whole).expect("digits"),
            );
        }
        // Nothing, for ever, or not a number.
        Some(_) | None => {
            headers.remove(TIMEOUT_HEADER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_whole_milliseconds_or_none() {
        for (sent, read) in [
            ("60000", Some("60000")),
            ("500.0", Some("500")),
            ("0.2", Some("1")),
            ("0", None),
            ("-5", None),
            ("soon", None),
            ("99999999999999", None),
        ] {
            let mut headers = HeaderMap::from_iter([(
                http::HeaderName::from_static(TIMEOUT_HEADER),
                HeaderValue::from_static(sent),
            )]);
            normalise_deadline(&mut headers);
            let found = headers
                .get(TIMEOUT_HEADER)
                .map(|value| value.to_str().unwrap());
            assert_eq!(found, read, "{sent}");
        }
    }
}
