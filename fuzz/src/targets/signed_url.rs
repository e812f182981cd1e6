//! Links to files: the proxy finds the sandbox by them and the agent lets them in, so both must
//! read them alike. The path, the username and the expiration, one per line, then the query of
//! somebody who has no signature.

use http::request::Parts;
use http::{Method, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use skep_agent::fuzzing::Link;
use skep_proxy::fuzzing::is_signed_with;
use skep_types::AccessToken;

use crate::pieces::texts;

const TOKEN: &str = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";

/// Characters that Python's `quote` leaves alone.
const PYTHON: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

pub(super) fn check(data: &[u8]) {
    let [path, username, expiration, forged] = texts(data);
    // The proxy hashes nothing longer: no file and no user can be called so.
    if path.len() > 4096 || username.len() > 256 {
        return;
    }
    let token = AccessToken::from_record(TOKEN);
    for is_for_writing in [false, true] {
        let link = Link {
            path: &path,
            is_for_writing,
            username: &username,
            expiration: expiration.parse().ok(),
        };
        let signature = link.sign(TOKEN);
        for query in spellings(link, &signature) {
            let head = head(&query, is_for_writing).expect("an encoded query");
            assert!(is_signed_with(&head, &token), "{query}");
            let other = self::head(&query, !is_for_writing).expect("an encoded query");
            assert!(!is_signed_with(&other, &token), "{query}");
        }
        if let Some(head) = head(&forged, is_for_writing) {
            assert!(!is_signed_with(&head, &token), "{forged} is forged");
        }
    }
}

/// A link as each SDK writes it.
fn spellings(link: Link<'_>, signature: &str) -> [String; 2] {
    let python = |text: &str| utf8_percent_encode(text, PYTHON).to_string();
    let javascript = |text: &str| python(text).replace("%20", "+").replace('~', "%7E");
    let query = |encode: &dyn Fn(&str) -> String| {
        let mut query = format!(
            "path={}&username={}&signature={}",
            encode(link.path),
            encode(link.username),
            encode(signature)
        );
        if let Some(expiration) = link.expiration {
            query.push_str(&format!("&signature_expiration={expiration}"));
        }
        query
    };
    [query(&python), query(&javascript)]
}

fn head(query: &str, is_for_writing: bool) -> Option<Parts> {
    let method = if is_for_writing {
        Method::POST
    } else {
        Method::GET
    };
    let request = Request::builder()
        .method(method)
        .uri(format!("/files?{query}"));
    Some(request.body(()).ok()?.into_parts().0)
}
