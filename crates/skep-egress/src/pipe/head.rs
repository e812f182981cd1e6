//! Heads of requests and answers: texts with their lengths before them.

use bytes::{BufMut as _, Bytes, BytesMut};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, StatusCode};

/// Headers of a message. Nobody reads more.
const MOST_HEADERS: usize = 256;

/// Head of a request, apart from its host, which is the route's.
#[derive(Debug, Clone)]
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) target: PathAndQuery,
    /// It asks to go on as a WebSocket.
    pub(crate) is_upgrade: bool,
    /// Length of the body, if it is known.
    pub(crate) length: Option<u64>,
    pub(crate) headers: HeaderMap,
}

/// Head of an answer.
#[derive(Debug, Clone)]
pub(crate) struct AnswerHead {
    pub(crate) status: StatusCode,
    /// Length of the body, if it is known.
    pub(crate) length: Option<u64>,
    pub(crate) headers: HeaderMap,
}

impl RequestHead {
    pub(crate) fn write(&self) -> Option<Bytes> {
        let mut bytes = BytesMut::new();
        put(&mut bytes, self.method.as_str().as_bytes())?;
        put(&mut bytes, self.target.as_str().as_bytes())?;
        bytes.put_u8(self.is_upgrade.into());
        put_length(&mut bytes, self.length);
        write_headers(&mut bytes, &self.headers)?;
        Some(bytes.freeze())
    }

    pub(crate) fn read(bytes: &Bytes) -> Option<Self> {
        let mut rest = Reader(bytes.clone());
        let method = Method::from_bytes(&rest.text()?).ok()?;
        let text = rest.text()?;
        let target = PathAndQuery::from_maybe_shared(text.clone()).ok()?;
        // In the first line of a request it stands between spaces. What it is parsed from may have had a
        // fragment, which is never sent.
        let is_whole = target.as_str().as_bytes() == &text[..];
        let is_target = is_whole && (text.starts_with(b"/") || &text[..] == b"*");
        Some(Self {
            method: (method != Method::CONNECT).then_some(method)?,
            target: is_target.then_some(target)?,
            is_upgrade: rest.byte()? == 1,
            length: rest.length()?,
            headers: rest.headers()?,
        })
    }
}

impl AnswerHead {
    pub(crate) fn write(&self) -> Option<Bytes> {
        let mut bytes = BytesMut::new();
        bytes.put_u16(self.status.as_u16());
        put_length(&mut bytes, self.length);
        write_headers(&mut bytes, &self.headers)?;
        Some(bytes.freeze())
    }

    pub(crate) fn read(bytes: &Bytes) -> Option<Self> {
        let mut rest = Reader(bytes.clone());
        let status = StatusCode::from_u16(rest.number16()?).ok()?;
        Some(Self {
            status,
            length: rest.length()?,
            headers: rest.headers()?,
        })
    }
}

/// Headers alone, as they stand behind a body.
pub(crate) fn write_trailers(headers: &HeaderMap) -> Option<Bytes> {
    let mut bytes = BytesMut::new();
    write_headers(&mut bytes, headers)?;
    Some(bytes.freeze())
}

pub(crate) fn read_trailers(bytes: &Bytes) -> Option<HeaderMap> {
    Reader(bytes.clone()).headers()
}

fn write_headers(bytes: &mut BytesMut, headers: &HeaderMap) -> Option<()> {
    for (name, value) in headers {
        put(bytes, name.as_str().as_bytes())?;
        put(bytes, value.as_bytes())?;
    }
    Some(())
}

fn put(bytes: &mut BytesMut, text: &[u8]) -> Option<()> {
    bytes.put_u16(u16::try_from(text.len()).ok()?);
    bytes.put_slice(text);
    Some(())
}

fn put_length(bytes: &mut BytesMut, length: Option<u64>) {
    bytes.put_u8(length.is_some().into());
    bytes.put_u64(length.unwrap_or_default());
}

/// Bytes that are read from the front.
struct Reader(Bytes);

impl Reader {
    fn take(&mut self, count: usize) -> Option<Bytes> {
        (count <= self.0.len()).then(|| self.0.split_to(count))
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn number16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn text(&mut self) -> Option<Bytes> {
        let length = self.number16()?;
        self.take(length.into())
    }

    /// A length, if there is one; `None` if there are no bytes for it.
    fn length(&mut self) -> Option<Option<u64>> {
        let is_known = self.byte()? == 1;
        let bytes = self.take(8)?;
        let length = u64::from_be_bytes(bytes[..].try_into().ok()?);
        Some(is_known.then_some(length))
    }

    /// All headers that follow.
    fn headers(mut self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        while !self.0.is_empty() {
            let name = HeaderName::from_bytes(&self.text()?).ok()?;
            let value = HeaderValue::from_maybe_shared(self.text()?).ok()?;
            if headers.len() >= MOST_HEADERS {
                return None;
            }
            headers.append(name, value);
        }
        Some(headers)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request() -> RequestHead {
        let mut headers = HeaderMap::new();
        headers.append("a", HeaderValue::from_static("1"));
        headers.append("b", HeaderValue::from_static(""));
        headers.append("a", HeaderValue::from_bytes(&[0xe9]).unwrap());
        RequestHead {
            method: Method::POST,
            target: PathAndQuery::from_static("/a?b"),
            is_upgrade: true,
            length: Some(7),
            headers,
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let written = request().write().unwrap();
        let read = RequestHead::read(&written).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", request()));
        for end in 0..written.len() - 1 {
            // Cut between two headers, it is another head; cut elsewhere, none.
            let cut = RequestHead::read(&written.slice(..end));
            assert!(cut.is_none_or(|cut| cut.headers.len() < 3), "{end}");
        }
        let answer = AnswerHead {
            status: StatusCode::NO_CONTENT,
            length: None,
            headers: request().headers,
        };
        let read = AnswerHead::read(&answer.write().unwrap()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{answer:?}"));
    }

    #[test]
    fn what_would_be_more_than_a_target_is_none() {
        for target in ["http://a.test/", "a.test:443", "?a", "", "#", "/a#b"] {
            let mut bytes = BytesMut::new();
            put(&mut bytes, b"GET").unwrap();
            put(&mut bytes, target.as_bytes()).unwrap();
            bytes.put_u8(0);
            put_length(&mut bytes, None);
            assert!(RequestHead::read(&bytes.freeze()).is_none(), "{target:?}");
        }
        for (method, target, name, value) in [
            ("GET", "/ HTTP/1.1\r\nx: y", "a", "b"),
            ("GET", "/a b", "a", "b"),
            ("GET / HTTP/1.1\r\n", "/", "a", "b"),
            ("GET", "/", "a: b\r\nc", "d"),
            ("GET", "/", "a", "b\r\nc: d"),
            ("CONNECT", "/", "a", "b"),
        ] {
            let mut bytes = BytesMut::new();
            put(&mut bytes, method.as_bytes()).unwrap();
            put(&mut bytes, target.as_bytes()).unwrap();
            bytes.put_u8(0);
            put_length(&mut bytes, None);
            put(&mut bytes, name.as_bytes()).unwrap();
            put(&mut bytes, value.as_bytes()).unwrap();
            assert!(RequestHead::read(&bytes.freeze()).is_none(), "{target:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_head_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let bytes = Bytes::from(bytes);
            if let Some(head) = RequestHead::read(&bytes) {
                prop_assert!(RequestHead::read(&head.write().unwrap()).is_some());
            }
            drop(AnswerHead::read(&bytes));
        }
    }
}
