//! Credentials of a request, before anybody has acted on it.

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Uri};
use skep_types::AccessToken;
use skep_wire::headers::{ACCESS_TOKEN, API_KEY, TRAFFIC_TOKEN};

use crate::client::admission::Credentials;
use crate::routing::route::Route;

/// Path of the kernel gateway, whose clients may show a key in the address, and nowhere else.
const JUPYTER: &str = "/skep/jupyter/";

/// Returns true if a request carries anything that may prove right, whatever its destination.
pub(crate) fn shows_any(headers: &HeaderMap, uri: &Uri) -> bool {
    let names = [API_KEY, AUTHORIZATION.as_str(), ACCESS_TOKEN, TRAFFIC_TOKEN];
    names.iter().any(|name| headers.contains_key(*name)) || shows_in_address(uri)
}

fn shows_in_address(uri: &Uri) -> bool {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    uri.path().starts_with(JUPYTER)
        && pairs.any(|pair| {
            pair.strip_prefix("token=")
                .is_some_and(|key| !key.is_empty())
        })
}

/// Credentials of a request to the API. Only the API knows if a key is right.
pub(crate) fn shown_to_api(headers: &HeaderMap, uri: &Uri) -> Credentials {
    let is_shown = headers.contains_key(API_KEY) || headers.contains_key(AUTHORIZATION);
    if is_shown || shows_in_address(uri) {
        Credentials::Key
    } else {
        Credentials::None
    }
}

/// Credentials of a request to a port of a sandbox.
pub(crate) fn shown_to_sandbox(route: &Route, parts: &Parts) -> Credentials {
    shown_to_holder(route.access_token.as_ref(), parts)
}

/// Credentials of a request to a port of the sandbox that has this token.
pub(crate) fn shown_to_holder(token: Option<&AccessToken>, parts: &Parts) -> Credentials {
    // A signed link says nothing about its caller: links are made to be passed on, and whether one
    // still counts only the agent knows.
    if token.is_some_and(|token| is_shown(token, parts)) {
        Credentials::Token
    } else {
        Credentials::None
    }
}

/// Returns true if a request shows this token of a sandbox, or the one for its services.
pub(crate) fn is_shown(token: &AccessToken, parts: &Parts) -> bool {
    let text = |name: &str| {
        let shown = parts.headers.get(name);
        shown.and_then(|value| value.to_str().ok())
    };
    let access = || text(ACCESS_TOKEN).is_some_and(|shown| token.matches(shown));
    let traffic = || text(TRAFFIC_TOKEN).is_some_and(|shown| token.traffic().matches(shown));
    access() || traffic()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::fake::FakeRoutes;

    fn shown(uri: &str, header: Option<(&str, &str)>) -> Credentials {
        let route = FakeRoutes::default().publish_as(|route| {
            route.access_token = Some(AccessToken::from_record("secret"));
        });
        let mut request = Request::get(uri);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        shown_to_sandbox(&route, &request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_key_in_the_address_counts_at_the_kernel_gateway_alone() {
        for (address, expected) in [
            (
                "/skep/jupyter/api/kernels?x=1&token=e2b_a",
                Credentials::Key,
            ),
            ("/skep/jupyter/api/kernels?token=", Credentials::None),
            (
                "/skep/jupyter/api/kernels?my_token=e2b_a",
                Credentials::None,
            ),
            ("/sandboxes?token=e2b_a", Credentials::None),
        ] {
            let uri = Uri::from_static(address);
            let headers = HeaderMap::new();
            assert_eq!(shown_to_api(&headers, &uri), expected, "{address}");
            assert_eq!(shows_any(&headers, &uri), expected == Credentials::Key);
        }
    }

    #[test]
    fn a_token_is_shown_and_a_signed_link_is_not_one() {
        assert_eq!(
            shown("/files", Some((ACCESS_TOKEN, "secret"))),
            Credentials::Token
        );
        assert_eq!(
            shown("/files", Some((ACCESS_TOKEN, "other"))),
            Credentials::None
        );
        // `a:read:user:secret`, hashed as the contract says.
        let signature = "v1_";
        let digest = base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD_NO_PAD,
            <sha2::Sha256 as sha2::Digest>::digest("a:read:user:secret"),
        );
        let encoded = digest.replace('+', "%2B").replace('/', "%2F");
        let link = format!("/files?path=a&username=user&signature={signature}{encoded}");
        let parts = Request::get(&link).body(()).unwrap().into_parts().0;
        let url = crate::routing::signed_url::SignedUrl::read(&parts).unwrap();
        assert!(url.is_signed_with(&AccessToken::from_record("secret")));
        assert_eq!(shown(&link, None), Credentials::None);
    }
}
