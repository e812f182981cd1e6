//! Bodies of answers to clients.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use skep_telemetry::trace::EndOnDrop;
use skep_types::SandboxId;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::client::connection::{Dependence, RequestGuard};
use crate::refusal;
use crate::refusal::envelope::{self, Boundary};
use crate::request::hangup::Hangup;
use crate::reset_on_close::ResetOnClose;
use crate::routing::route::Routes;
use crate::upstream::{InFlight, PooledConnection};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Reason for which an answer was cut.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cut {
    /// The sandbox has ended.
    #[error("the sandbox has ended")]
    SandboxEnded,
    /// The service in the sandbox broke off.
    #[error("the service in the sandbox broke off its answer")]
    Upstream(#[source] hyper::Error),
    /// Too many requests are under way for callers that have shown nothing.
    #[error("too many requests from this address")]
    TooManyRequests,
    /// The API broke off.
    #[error("the answer broke off")]
    Api(#[source] BoxError),
}

/// An answer's body, from wherever it comes.
///
/// It never yields an empty frame: a client's HTTP/2 stack gives up on a connection that has
/// carried a hundred of them.
pub(crate) struct ClientBody {
    source: Source,
    serving: RequestGuard,
    /// True while the client has yet to make room for the last frame.
    untaken: bool,
    /// Ends the span of the request with the body, so that it tells how long the whole answer took.
    ending: Option<EndOnDrop>,
}

pub(crate) enum Source {
    Api(UnsyncBoxBody<Bytes, BoxError>),
    Proxy(Full<Bytes>),
    Sandbox(Box<SandboxBody>),
}

impl ClientBody {
    pub(crate) fn new(source: Source, serving: RequestGuard) -> Self {
        Self {
            source,
            serving,
            untaken: false,
            ending: None,
        }
    }

    /// Ends the span of the request with the answer.
    pub(crate) fn ending(mut self, ending: EndOnDrop) -> Self {
        self.ending = Some(ending);
        self
    }

    /// Notes that the client has made room: whoever polls for more, or drops the body, has done so.
    fn taken(&mut self) {
        if std::mem::take(&mut self.untaken) {
            self.serving.taken();
        }
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        self.taken();
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        self.taken();
        loop {
            let frame = match &mut self.source {
                Source::Api(body) => {
                    ready!(Pin::new(body).poll_frame(context)).map(|frame| frame.map_err(Cut::Api))
                }
                Source::Proxy(body) => ready!(Pin::new(body).poll_frame(context))
                    .map(|frame| frame.map_err(|never| match never {})),
                Source::Sandbox(body) => ready!(body.poll_frame(context)),
            };
            match frame {
                Some(Ok(frame)) if frame.data_ref().is_some_and(Bytes::is_empty) => {}
                frame => {
                    if let Some(Ok(_)) = frame {
                        self.untaken = self.serving.handed_out();
                    }
                    return Poll::Ready(frame);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Api(body) => body.is_end_stream(),
            Source::Proxy(body) => body.is_end_stream(),
            Source::Sandbox(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Api(body) => body.size_hint(),
            Source::Proxy(body) => body.size_hint(),
            Source::Sandbox(body) => body.upstream.size_hint(),
        }
    }
}

/// Teller of the end of a sandbox, for a caller who may know.
pub(crate) struct Departing {
    pub(crate) routes: Arc<dyn Routes>,
    pub(crate) id: SandboxId,
}

impl Departing {
    /// The end of the sandbox in words, if it has ended.
    pub(crate) async fn words(&self) -> Option<String> {
        // The caller has shown the token already.
        self.routes.departure(&self.id, &|_| true).await
    }
}

/// An answer that a sandbox is giving.
pub(crate) struct SandboxBody {
    upstream: Incoming,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Given back when the answer is complete, closed when it is dropped earlier.
    pooled: Option<PooledConnection>,
    hangup: Hangup,
    /// Set if the stream is to end in words when the sandbox ends.
    end_notice: Option<Boundary>,
    departing: Option<Departing>,
    /// Sentence that ends the stream, while it is asked for.
    notice: Option<BoxFuture<'static, String>>,
    /// Armed when the answer is cut, so that HTTP/1.1 clients see a reset.
    reset: Option<ResetOnClose>,
    complete: bool,
    _in_flight: InFlight,
    _dependence: Option<Dependence>,
}

/// Parts of a [`SandboxBody`] besides the sandbox's answer.
pub(crate) struct Attendance {
    pub(crate) ended: WaitForCancellationFutureOwned,
    pub(crate) pooled: PooledConnection,
    pub(crate) hangup: Hangup,
    pub(crate) end_notice: bool,
    pub(crate) departing: Option<Departing>,
    pub(crate) reset: Option<ResetOnClose>,
    pub(crate) in_flight: InFlight,
    pub(crate) dependence: Option<Dependence>,
}

impl SandboxBody {
    pub(crate) fn new(upstream: Incoming, attendance: Attendance) -> Self {
        // Behind a declared length there is no room for words.
        let framed = upstream.size_hint().exact().is_none();
        let mut body = Self {
            upstream,
            ended: Box::pin(attendance.ended),
            pooled: Some(attendance.pooled),
            hangup: attendance.hangup,
            end_notice: (attendance.end_notice && framed).then(Boundary::default),
            departing: attendance.departing,
            notice: None,
            reset: attendance.reset,
            complete: false,
            _in_flight: attendance.in_flight,
            _dependence: attendance.dependence,
        };
        if body.upstream.is_end_stream() {
            body.complete();
        }
        body
    }

    fn is_end_stream(&self) -> bool {
        self.complete && self.notice.is_none()
    }

    fn complete(&mut self) {
        self.complete = true;
        self.hangup.answered();
        if let Some(pooled) = self.pooled.take() {
            pooled.keep();
        }
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        if self.notice.is_some() {
            return self.poll_notice(context);
        }
        if self.complete {
            return Poll::Ready(None);
        }
        if self.ended.as_mut().poll(context).is_ready() {
            return self.poll_cut(Cut::SandboxEnded, context);
        }
        match ready!(Pin::new(&mut self.upstream).poll_frame(context)) {
            Some(Ok(frame)) => {
                if let (Some(boundary), Some(data)) = (&mut self.end_notice, frame.data_ref()) {
                    boundary.advance(data);
                }
                // Nobody polls again behind the last frame of a body whose length is known, and a
                // drop would be taken for a caller that left.
                if self.upstream.is_end_stream() {
                    self.complete();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => self.poll_cut(Cut::Upstream(error), context),
            None => {
                self.complete();
                Poll::Ready(None)
            }
        }
    }

    /// Ends an answer that is not complete: in words if there is room for them, or else so that
    /// nobody can take it for complete.
    fn poll_cut(
        &mut self,
        reason: Cut,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        self.complete = true;
        // It was not the caller who left.
        self.hangup.answered();
        self.pooled = None;
        if self
            .end_notice
            .take()
            .is_some_and(|boundary| boundary.is_open())
        {
            let departing = self.departing.take();
            self.notice = Some(Box::pin(async move {
                let departure = match departing {
                    Some(departing) => departing.words().await,
                    None => None,
                };
                refusal::not_found(departure.as_deref())
            }));
            return self.poll_notice(context);
        }
        if let Some(reset) = &self.reset {
            reset.arm();
        }
        Poll::Ready(Some(Err(reason)))
    }

    fn poll_notice(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let Some(notice) = &mut self.notice else {
            return Poll::Ready(None);
        };
        let sentence = ready!(notice.as_mut().poll(context));
        self.notice = None;
        let words = envelope::end_with_error("unavailable", &sentence);
        Poll::Ready(Some(Ok(Frame::data(words))))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::time::Instant;

    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;
    use crate::ProxyConfig;
    use crate::client::admission::Admission;
    use crate::client::connection::ActivityTracker;

    #[tokio::test]
    async fn empty_frames_are_kept_from_the_client() {
        let pieces = ["", "one", "", "", "two", ""];
        let frames = pieces.map(|piece| Ok::<_, BoxError>(Frame::data(Bytes::from(piece))));
        let source = StreamBody::new(futures_util::stream::iter(frames));
        let admission = Arc::new(Admission::new(&ProxyConfig::new("skep.test")));
        let permit = admission.admit(Ipv4Addr::LOCALHOST.into()).unwrap();
        let activity = Arc::new(ActivityTracker::new(Instant::now(), permit));
        let serving = activity.request(true, false).unwrap();
        let mut body = ClientBody::new(Source::Api(source.boxed_unsync()), serving);
        let mut seen = Vec::new();
        while let Some(frame) = body.frame().await {
            seen.push(frame.unwrap().into_data().unwrap());
        }
        assert_eq!(seen, ["one", "two"]);
    }
}
