//! Requests as text, so that seeds can be read and written by people.
//!
//! Looser than HTTP: lines end with or without a carriage return, the version may be missing,
//! and the body is all that follows the first empty line. What hyper would refuse before it
//! reaches us is refused here too.

use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};

/// A request that could have come over the wire.
pub(crate) struct Message {
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
}

impl Message {
    /// Reads a request; `None` if no server would take it for one.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let (head, body) = split_head(text);
        let mut lines = head
            .split(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let mut words = lines.next()?.split(|byte| *byte == b' ');
        let method = Method::from_bytes(words.next()?).ok()?;
        let uri = Uri::try_from(words.next()?).ok()?;
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_11;
        for line in lines.filter(|line| !line.is_empty()) {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            request.headers_mut().append(
                HeaderName::from_bytes(name).ok()?,
                HeaderValue::from_bytes(value).ok()?,
            );
        }
        let (parts, ()) = request.into_parts();
        Some(Self {
            parts,
            body: Bytes::copy_from_slice(body),
        })
    }

    /// The request as a server gets it.
    pub(crate) fn request(&self) -> Request<Body> {
        Request::from_parts(self.parts.clone(), Body::from(self.body.clone()))
    }
}

fn split_head(text: &[u8]) -> (&[u8], &[u8]) {
    let marks: [&[u8]; 2] = [b"\r\n\r\n", b"\n\n"];
    let ends = marks.iter().filter_map(|mark| {
        let end = text
            .windows(mark.len())
            .position(|window| window == *mark)?;
        Some((end, end + mark.len()))
    });
    match ends.min() {
        Some((end, start)) => (&text[..end], &text[start..]),
        None => (text, &[]),
    }
}
