//! The pages and their files, for everybody who can reach the server: there is nothing secret in
//! them.

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HOST, IF_NONE_MATCH, REFERRER_POLICY, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;

use crate::assets::Asset;

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Policy of the frame that shows what code has made: an origin of its own even when it is opened
/// by itself, scripts, and nothing that leaves it.
const FRAME: &str = "sandbox allow-scripts; default-src 'none'; \
     script-src 'unsafe-inline' 'unsafe-eval' data: blob:; style-src 'unsafe-inline'; \
     img-src data: blob:; font-src data:; media-src data: blob:; frame-ancestors 'self'";

/// The same after the reader of an output has let it load from the internet.
const FRAME_WITH_INTERNET: &str = "sandbox allow-scripts; default-src 'none'; \
     script-src 'unsafe-inline' 'unsafe-eval' data: blob: https:; \
     style-src 'unsafe-inline' https:; img-src data: blob: https:; font-src data: https:; \
     media-src data: blob: https:; connect-src https:; frame-ancestors 'self'";

/// Query that asks the frame for that.
const WITH_INTERNET: &str = "internet";

/// The pages, below `/console/`.
pub fn pages() -> Router {
    Router::new()
        .route("/console", get(async || Redirect::permanent("/console/")))
        .route("/console/", get(page))
        .route("/console/frame", get(frame))
        .route("/console/{*path}", get(file))
}

async fn page(headers: HeaderMap) -> Response {
    let policy = page_policy(&headers);
    let mut response = answer("index.html", &headers);
    let added = response.headers_mut();
    added.insert(CONTENT_SECURITY_POLICY, policy);
    added.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

async fn frame(headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let policy = match query.as_deref() {
        Some(WITH_INTERNET) => FRAME_WITH_INTERNET,
        Some(_) | None => FRAME,
    };
    let mut response = answer("frame.html", &headers);
    let policy = HeaderValue::from_static(policy);
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, policy);
    response
}

async fn file(headers: HeaderMap, Path(path): Path<String>) -> Response {
    // The two pages have policies, under their own paths.
    if path.ends_with(".html") {
        return StatusCode::NOT_FOUND.into_response();
    }
    answer(&path, &headers)
}

fn answer(path: &str, asked: &HeaderMap) -> Response {
    let Some(asset) = Asset::find(path) else {
        return (StatusCode::NOT_FOUND, "there is no such file\n").into_response();
    };
    let mark = HeaderValue::from_static(asset.mark);
    let mut response = if has(asked, &IF_NONE_MATCH, asset.mark) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if has(asked, &ACCEPT_ENCODING, "gzip") {
        let packed = (CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        ([packed], asset.packed).into_response()
    } else {
        asset.unpacked().into_response()
    };
    let kept = if asset.never_changes() {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    headers.insert(ETAG, mark);
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Returns true if a list in a header has this among its words, not refused by a weight of zero.
fn has(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|item| {
            let (word, weight) = item.split_once(';').unwrap_or((item, ""));
            let refused = ["q=0", "q=0.0", "q=0.00", "q=0.000"].contains(&weight.trim());
            word.trim() == wanted && !refused
        })
}

/// Policy of the pages. `'unsafe-inline'` is for styles alone: the editor and the terminal make
/// style elements.
fn page_policy(headers: &HeaderMap) -> HeaderValue {
    // Some browsers do not take a socket of the same host for the same origin.
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let sockets = host
        .filter(|host| is_plain(host))
        .map(|host| format!(" ws://{host} wss://{host}"))
        .unwrap_or_default();
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
         img-src 'self' data: blob:; font-src 'self'; connect-src 'self'{sockets}; \
         frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("plain hosts are visible text")
}

/// Returns true if a host with an optional port has nothing in it that would end a part of a policy.
fn is_plain(host: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
    !host.is_empty() && host.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    async fn get(path: &str, headers: &[(&str, &str)]) -> (Response<()>, Vec<u8>) {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = pages().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        (Response::from_parts(parts, ()), body)
    }

    fn header<'a>(response: &'a Response<()>, name: &str) -> &'a str {
        let value = response.headers().get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    #[tokio::test]
    async fn the_page_loads_scripts_of_this_server_alone_and_is_asked_for_anew() {
        let (page, body) = get("/console/", &[("host", "localhost:3000")]).await;
        assert_eq!(page.status(), 200);
        assert_eq!(header(&page, "content-type"), "text/html; charset=utf-8");
        assert_eq!(header(&page, "cache-control"), "no-cache");
        let policy = header(&page, "content-security-policy");
        for part in [
            "default-src 'none';",
            "script-src 'self';",
            "connect-src 'self' ws://localhost:3000 wss://localhost:3000;",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        let text = String::from_utf8(body).unwrap();
        assert!(text.contains("/console/assets/"), "{text}");
        assert!(!text.contains("<script>"), "{text}");

        let marked = [("if-none-match", header(&page, "etag"))];
        let (again, body) = get("/console/", &marked).await;
        assert_eq!((again.status().as_u16(), body.len()), (304, 0));
    }

    #[tokio::test]
    async fn a_host_that_would_change_the_policy_is_left_out_of_it() {
        for host in ["a; script-src *", "a b", "a'b", "[::1]:3000"] {
            let (page, _) = get("/console/", &[("host", host)]).await;
            let policy = header(&page, "content-security-policy");
            assert!(policy.contains("connect-src 'self'; frame-src"), "{policy}");
        }
    }

    #[tokio::test]
    async fn the_frame_has_an_origin_of_its_own_and_no_network_unless_asked() {
        let (frame, _) = get("/console/frame", &[]).await;
        assert_eq!(header(&frame, "content-security-policy"), FRAME);
        assert!(FRAME.starts_with("sandbox allow-scripts;"));
        assert!(!FRAME.contains("http") && !FRAME.contains("connect-src"));
        let (frame, _) = get("/console/frame?internet", &[]).await;
        let policy = header(&frame, "content-security-policy");
        assert!(policy.starts_with("sandbox allow-scripts;"), "{policy}");
        assert!(policy.contains("connect-src https:;"), "{policy}");
        // Not by another path, where it would have no policy.
        for path in ["/console/frame.html", "/console/index.html"] {
            assert_eq!(get(path, &[]).await.0.status(), 404, "{path}");
        }
    }

    #[tokio::test]
    async fn files_are_packed_for_who_can_unpack_and_kept_for_good() {
        let (_, page) = get("/console/", &[]).await;
        let page = String::from_utf8(page).unwrap();
        let start = page.find("/console/assets/").unwrap();
        let path = page[start..].split('"').next().unwrap();
        let (packed, small) = get(path, &[("accept-encoding", "br, gzip;q=0.5")]).await;
        assert_eq!(header(&packed, "content-encoding"), "gzip");
        assert!(header(&packed, "cache-control").contains("immutable"));
        for refusing in ["identity", "gzip;q=0"] {
            let (plain, large) = get(path, &[("accept-encoding", refusing)]).await;
            assert_eq!(header(&plain, "content-encoding"), "");
            assert!(large.len() > small.len());
        }
        for unknown in ["/console/assets/none.js", "/console/../Cargo.toml"] {
            assert_eq!(get(unknown, &[]).await.0.status(), 404, "{unknown}");
        }
    }
}
