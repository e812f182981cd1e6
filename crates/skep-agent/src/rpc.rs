//! The two RPC services, registered by the names that the SDKs call.

use std::future::Future;
use std::sync::Arc;

use buffa::Message;
use connectrpc::{
    ConnectError, ConnectRpcService, Handler, JsonDeserialize, JsonSerialize, Limits,
    RequestContext, Response, Router, ServiceStream, StreamingHandler, client_streaming_handler_fn,
    handler_fn, streaming_handler_fn,
};

use crate::agent::Agent;
use crate::{filesystem, process};

/// The largest message. What a client writes to a process at once is the only large one.
const MAX_MESSAGE: usize = 32 << 20;

/// Returns the service of everything below `/process.Process/` and `/filesystem.Filesystem/`.
pub(crate) fn services(agent: &Arc<Agent>) -> ConnectRpcService {
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
