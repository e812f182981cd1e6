//! Requests of a route: each is judged, gets its headers, and is sent.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional, copy_bidirectional_with_sizes};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{TcpStream, UnixStream};
use tokio_util::codec::{FramedRead, FramedWrite};

use super::desk::Desk;
use super::host::{Client, Host};
use super::upstream::{Traffic, Upstream};
use crate::headers::forget_connection;
use crate::message::{Connection, Ended, Pace, Refusal, Route, Speech};
use crate::pipe::{AnswerHead, Frame, Frames, PipeBody, RequestHead, Source, Trailers, pump};

/// Time limit for a host to begin its answer. Long, because some compute before they speak.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// Time limit for the end of a request that is answered.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes that an opaque connection holds in each direction.
const BUFFER: usize = 16 * 1024;

/// Serves a route until one of its ends is closed. The server hears of it.
pub(super) async fn serve(
    desk: Arc<Desk>,
    client: Arc<Client>,
    route: Route,
    [pipe, socket]: [OwnedFd; 2],
) {
    let _done = Done(Arc::clone(&desk), route.route);
    let pipe = UnixStream::from_std(pipe.into());
    let stream = TcpStream::from_std(socket.into());
    let (Ok(mut pipe), Ok(stream)) = (pipe, stream) else {
        return;
    };
    let traffic = Traffic::new(Arc::clone(&desk));
    let mut upstream = Upstream::new(stream, Arc::clone(&traffic));
    match &route.speech {
        Speech::Opaque { pace } => {
            traffic.count_for(pace.clone().map(|pace| desk.meter(pace)));
            let passed = copy_bidirectional_with_sizes(&mut pipe, &mut upstream, BUFFER, BUFFER);
            // However it ended, it is over; the other process tells of it.
            drop(passed.await);
            traffic.settle();
        }
        Speech::Requests { secure, h2 } => {
            let versions = (*secure, *h2);
            let (reader, writer) = pipe.into_split();
            let requests = Requests {
                desk,
                client,
                route: &route,
                versions,
                traffic,
                upstream: Some(upstream),
                host: None,
            };
            requests
                .serve(FramedRead::new(reader, Frames), writer)
                .await;
        }
    }
}

/// Tells the server that a route is over.
struct Done(Arc<Desk>, Connection);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.done(self.1);
    }
}

/// The requests of a route, one after the other.
struct Requests<'a> {
    desk: Arc<Desk>,
    client: Arc<Client>,
    route: &'a Route,
    /// Over TLS; and in HTTP/2, if the host speaks that.
    versions: (bool, bool),
    traffic: Arc<Traffic>,
    /// The connection, until somebody speaks on it.
    upstream: Option<Upstream>,
    host: Option<Host>,
}

impl Requests<'_> {
    async fn serve(mut self, mut source: Source, mut writer: OwnedWriteHalf) {
        while let Some(head) = self.next(&mut source).await {
            let Some(head) = RequestHead::read(&head) else {
                return;
            };
            let next = self.exchange(head, source, writer).await;
            self.traffic.settle();
            let Some(next) = next else {
                return;
            };
            (source, writer) = next;
        }
    }

    /// The next request. None comes any more when the host takes none.
    async fn next(&mut self, source: &mut Source) -> Option<Bytes> {
        let Some(host) = self.host.as_mut() else {
            return head_in(source).await;
        };
        let head = tokio::select! {
            biased;
            head = head_in(source) => head?,
            () = host.leave() => return None,
        };
        // The other process asks again, if that is all right, when nothing comes back.
        host.is_ready().await.then_some(head)
    }

    /// One request and its answer. The pipe comes back if more can follow.
    async fn exchange(
        &mut self,
        head: RequestHead,
        source: Source,
        writer: OwnedWriteHalf,
    ) -> Option<(Source, OwnedWriteHalf)> {
        let before = self.traffic.so_far();
        let mut noted = Noted {
            desk: Arc::clone(&self.desk),
            traffic: Arc::clone(&self.traffic),
            before,
            ended: Ended {
                host: Some(self.route.host.clone()),
                port: self.route.port,
                method: Some(head.method.to_string()),
                path: Some(head.target.path().to_owned()),
                rule: self.route.rule.clone(),
                ..Ended::default()
            },
        };
        let (body, back) = PipeBody::new(source, head.length, Trailers::None);
        let is_upgrade = head.is_upgrade;
        // When nobody waits for the answer any more, the server ends the connection.
        let sent = self.send(head, body).await.and_then(|answer| {
            let is_switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
            // Nobody has asked for another protocol.
            (is_upgrade || !is_switched)
                .then_some(answer)
                .ok_or(Refusal::BrokenOff)
        });
        let mut answer = match sent {
            Ok(answer) => answer,
            Err(refusal) => {
                noted.refused(refusal);
                let mut writer = FramedWrite::new(writer, Frames);
                writer.send(Frame::Refused(refusal)).await.ok()?;
                return None;
            }
        };
        noted.ended.status = Some(answer.status().as_u16());
        let is_switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
        let upgraded = is_switched.then(|| hyper::upgrade::on(&mut answer));
        let (head, body) = answer_head(answer)?;
        let mut writer = FramedWrite::new(writer, Frames);
        writer.send(Frame::Head(head)).await.ok()?;
        let writer = writer.into_inner();
        if let Some(upgraded) = upgraded {
            let source = back.wait().await?;
            tunnel(upgraded, source, writer).await;
            return None;
        }
        let writer = pump(body, writer, Trailers::Kept).await?;
        drop(noted);
        // An answer that comes before the request has ended is the last.
        let source = tokio::time::timeout(GRACE, back.wait()).await.ok()??;
        Some((source, writer))
    }

    async fn send(
        &mut self,
        head: RequestHead,
        body: PipeBody,
    ) -> Result<Response<Incoming>, Refusal> {
        let (method, path) = (head.method.as_str(), head.target.path());
        let (headers, pace) = self.desk.judge(self.route.route, method, path).await?;
        self.count_for(pace);
        if let Some(upstream) = self.upstream.take() {
            let greeted = self.client.greet(upstream, &self.route.host, self.versions);
            self.host = Some(greeted.await?);
        }
        let host = self.host.as_mut().ok_or(Refusal::BrokenOff)?;
        let request = request(head, body, headers, self.route, host.is_http2())?;
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, host.send(request)).await;
        answer
            .map_err(|_| Refusal::BrokenOff)?
            .map_err(|_| Refusal::BrokenOff)
    }

    fn count_for(&self, pace: Option<Pace>) {
        let meter = pace.map(|pace| self.desk.meter(pace));
        self.traffic.count_for(meter);
    }
}

async fn head_in(source: &mut Source) -> Option<Bytes> {
    match source.next().await {
        Some(Ok(Frame::Head(head))) => Some(head),
        Some(_) | None => None,
    }
}

/// The request as the host gets it: without what was for the connection that it came over, with the
/// host that was judged, and with the rule's headers in place of those of the same name.
fn request<B>(
    head: RequestHead,
    body: B,
    values: Vec<(String, String)>,
    route: &Route,
    is_http2: bool,
) -> Result<Request<B>, Refusal> {
    let secure = matches!(route.speech, Speech::Requests { secure: true, .. });
    let authority = match (route.port, secure) {
        (443, true) | (80, false) => route.host.clone(),
        (port, _) => format!("{}:{port}", route.host),
    };
    let mut headers = head.headers;
    let has_trailers = headers.get(TE).is_some_and(|te| te == "trailers");
    forget_connection(&mut headers);
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT, HOST] {
        headers.remove(name);
    }
    if !is_http2 {
        join_cookies(&mut headers)?;
    }
    for (name, value) in values {
        let name: HeaderName = name.parse().map_err(|_| Refusal::NoValue)?;
        let mut value = HeaderValue::try_from(value).map_err(|_| Refusal::NoValue)?;
        // Kept out of tables that compress headers.
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    if is_http2 {
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = Uri::builder()
            .scheme("https")
            .authority(authority)
            .path_and_query(head.target)
            .build()
            .map_err(|_| Refusal::NotUnderstood)?;
        if has_trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
    } else {
        *request.uri_mut() = Uri::from(head.target);
        let authority = HeaderValue::try_from(authority).map_err(|_| Refusal::NoName)?;
        headers.insert(HOST, authority);
        if head.is_upgrade {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        }
    }
    *request.headers_mut() = headers;
    Ok(request)
}

/// Puts cookies together, which HTTP/2 has apart: hosts of HTTP/1.1 read the first alone.
fn join_cookies(headers: &mut HeaderMap) -> Result<(), Refusal> {
    let cookies: Vec<_> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if cookies.len() > 1 {
        let joined = HeaderValue::from_bytes(&cookies.join(&b"; "[..]));
        headers.insert(COOKIE, joined.map_err(|_| Refusal::NotUnderstood)?);
    }
    Ok(())
}

/// An answer as the other process gets it.
fn answer_head(answer: Response<Incoming>) -> Option<(Bytes, Incoming)> {
    use hyper::body::Body as _;

    let (parts, body) = answer.into_parts();
    let mut headers: HeaderMap = parts.headers;
    forget_connection(&mut headers);
    headers.remove(TRANSFER_ENCODING);
    let head = AnswerHead {
        status: parts.status,
        length: body.size_hint().exact(),
        headers,
    };
    Some((head.write()?, body))
}

/// Passes on what is said in another protocol, until one side has no more to say.
async fn tunnel(upgraded: hyper::upgrade::OnUpgrade, source: Source, writer: OwnedWriteHalf) {
    let Ok(upgraded) = upgraded.await else {
        return;
    };
    let mut theirs = TokioIo::new(upgraded);
    // What came with the last frame is the first that is said.
    let parts = source.into_parts();
    if theirs.write_all(&parts.read_buf).await.is_err() {
        return;
    }
    let mut ours = tokio::io::join(parts.io, writer);
    drop(copy_bidirectional(&mut ours, &mut theirs).await);
}

/// A request that is noted when it is over.
struct Noted {
    desk: Arc<Desk>,
    traffic: Arc<Traffic>,
    /// Bytes of requests before it on the same connection.
    before: (u64, u64),
    ended: Ended,
}

impl Noted {
    fn refused(&mut self, refusal: Refusal) {
        self.ended.refusal = Some(refusal);
        self.ended.status = Some(refusal.status());
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let (sent, received) = self.traffic.so_far();
        let mut ended = std::mem::take(&mut self.ended);
        ended.sent = sent.saturating_sub(self.before.0);
        ended.received = received.saturating_sub(self.before.1);
        self.desk.note(ended);
    }
}

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing {
    //! A check that a request is what was judged, whatever a frame says.

    use super::*;

    /// Makes the request of a head in both versions of HTTP. Panics if it is for another host, has a
    /// value of the sandbox in place of a rule's, or something that is for a connection.
    pub(crate) fn write_request(head: RequestHead) {
        let route = Route {
            route: 0,
            host: "a.test".to_owned(),
            port: 443,
            rule: None,
            speech: Speech::Requests {
                secure: true,
                h2: true,
            },
        };
        for is_http2 in [false, true] {
            let values = vec![("X-Key".to_owned(), "value".to_owned())];
            let Ok(request) = request(head.clone(), (), values, &route, is_http2) else {
                continue;
            };
            let headers = request.headers();
            let all = |name: &str| {
                let values = headers.get_all(name).iter();
                values.map(HeaderValue::as_bytes).collect::<Vec<_>>()
            };
            assert_eq!(all("x-key"), [b"value"]);
            let hosts: &[&[u8]] = if is_http2 { &[] } else { &[b"a.test"] };
            assert_eq!(all("host"), hosts);
            let authority = request.uri().authority().map(|name| name.as_str());
            assert_eq!(authority, is_http2.then_some("a.test"));
            for name in [
                "content-length",
                "transfer-encoding",
                "expect",
                "keep-alive",
            ] {
                assert_eq!(all(name), [b""; 0], "{name}");
            }
            if !is_http2 {
                assert!(all("cookie").len() <= 1 && all("te").is_empty());
                assert_eq!(all("upgrade").len(), usize::from(head.is_upgrade));
            }
            assert_ne!(request.method(), hyper::Method::CONNECT);
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::Method;

    use super::fuzzing::write_request;
    use super::*;

    #[test]
    fn what_a_frame_says_of_connection_and_host_does_not_count() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "b.test"),
            ("x-key", "mine"),
            ("X-Key", "mine too"),
            ("connection", "x-key, cookie, keep-alive"),
            ("content-length", "7"),
            ("content-length", "8"),
            ("transfer-encoding", "chunked"),
            ("expect", "100-continue"),
            ("keep-alive", "1"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
        ] {
            headers.append(
                name.parse::<HeaderName>().unwrap(),
                HeaderValue::from_static(value),
            );
        }
        write_request(RequestHead {
            method: Method::POST,
            target: "/".parse().unwrap(),
            is_upgrade: false,
            length: None,
            headers,
        });
    }

    #[test]
    fn cookies_are_put_together() {
        let mut headers = HeaderMap::new();
        for cookie in ["a=1", "b=2"] {
            headers.append(COOKIE, HeaderValue::from_static(cookie));
        }
        join_cookies(&mut headers).unwrap();
        let cookies: Vec<_> = headers.get_all(COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1; b=2"]);
    }
}
