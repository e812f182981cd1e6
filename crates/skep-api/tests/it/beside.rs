//! Routes of others, mounted beside the API.

use skep_api::Access;
use skep_control::{ApiKey, TeamLimits};

use crate::server::Server;

const PATH: &str = "GET /beside";

#[tokio::test]
async fn they_have_the_callers_of_the_api() {
    let server = Server::new().await;
    let (second, other) = server.second_team().await;
    let bearer = format!("Bearer {}", server.key);
    for (header, expected) in [
        (("x-api-key", server.key.as_str()), &server.team.id),
        (("authorization", bearer.as_str()), &server.team.id),
        (("x-api-key", other.as_str()), &second.id),
    ] {
        let answer = server.send_with(&[header], PATH).await;
        assert_eq!(answer.text(), format!("200 {expected} true"));
    }
    let wrong = format!("Bearer {}", ApiKey::random().reveal());
    for headers in [&[][..], &[("authorization", wrong.as_str())]] {
        let answer = server.send_with(headers, PATH).await;
        assert_eq!(answer.status, 401, "{headers:?}");
        let challenge = answer.header("www-authenticate");
        assert_eq!(challenge, Some(r#"Bearer realm="skep""#));
    }
}

#[tokio::test]
async fn a_browser_is_not_led_to_them_with_a_key_or_without() {
    for access in [Access::Keys, Access::Trusted] {
        let server = Server::with(TeamLimits::default(), access).await;
        let key = ("x-api-key", server.key.as_str());
        for (name, value) in [
            ("host", "evil.example"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
        ] {
            let answer = server.send_with(&[key, (name, value)], PATH).await;
            assert_eq!(answer.status, 403, "{access:?} {name}: {value}");
        }
        let own = [key, ("host", "localhost"), ("origin", "http://localhost")];
        let answer = server.send_with(&own, PATH).await;
        assert_eq!(answer.status, 200, "{access:?}: {}", answer.body);
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}
