//! Telling a client that there is no room, in the protocol it speaks.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::protocol::{Opening, Protocols};
use crate::client::serve::builder;
use crate::refusal::Refusal;
use crate::refusal::error_format::ErrorFormat;

/// Time limit for a connection that is turned away to say something and to hear it.
const REJECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which the body of a request is read that is refused anyway. Closing with a part of it
/// unread would destroy the answer on its way.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers one request on a connection with a refusal, and closes it.
pub(crate) async fn reject(stream: TcpStream, protocols: Protocols, refusal: Refusal) {
    let told = timeout(REJECT_TIMEOUT, async {
        match protocols.open(&stream).await {
            // Whoever speaks the wrong protocol is told that there is no room, too.
            Opening::ClearText | Opening::NotTls => refuse(stream, &refusal).await,
            Opening::Tls(tls) => match tls.accept(stream).await {
                Ok(stream) => refuse(stream, &refusal).await,
                Err(error) => tracing::debug!(%error, "TLS handshake failed"),
            },
            Opening::Gone => {}
        }
    });
    if told.await.is_err() {
        tracing::debug!("client gone before the refusal was delivered");
    }
}

async fn refuse<I>(io: I, refusal: &Refusal)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answered = tokio::sync::Notify::new();
    let service = service_fn(|request| {
        answered.notify_one();
        answer(request, refusal)
    });
    let builder = builder();
    let http = builder.serve_connection(TokioIo::new(io), service);
    tokio::pin!(http);
    let result = tokio::select! {
        result = http.as_mut() => result,
        () = answered.notified() => {
            http.as_mut().graceful_shutdown();
            http.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "client gone before the refusal was delivered");
    }
}

fn answer(
    request: Request<Incoming>,
    refusal: &Refusal,
) -> impl Future<Output = Result<Response<Full<Bytes>>, Infallible>> + use<> {
    let (parts, mut body) = request.into_parts();
    let mut response = refusal.render(&ErrorFormat::of(&parts)).map(Full::new);
    if parts.version != Version::HTTP_2 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    async move {
        let rest = async { while let Some(Ok(_)) = body.frame().await {} };
        if timeout(BODY_TIMEOUT, rest).await.is_err() {
            tracing::debug!("client kept sending after the refusal");
        }
        Ok(response)
    }
}
