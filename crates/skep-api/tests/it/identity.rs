//! Identity tokens, and how others verify them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use skep_control::FillError;
use skep_types::{HeaderTemplate, SandboxId};

use crate::server::Server;

/// The head and the claims of a token that is filled in for a request of a sandbox.
async fn minted(server: &Server, id: &SandboxId) -> (Value, Value) {
    let template = HeaderTemplate::parse("Bearer ${e2b.identity.tokens.Aws}").unwrap();
    let filled = server.control.fill_header(id, &template).await.unwrap();
    let token = filled.strip_prefix("Bearer ").unwrap();
    let mut parts = token
        .split('.')
        .map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
    let mut read = || serde_json::from_slice(&parts.next().unwrap()).unwrap();
    (read(), read())
}

#[tokio::test]
async fn a_token_is_minted_for_each_request_by_a_key_that_the_next_server_has() {
    let server = Server::new().await;
    let iam = json!({"tokens": {"Aws": {"audience": "sts.test", "tokenType": "JWT-SVID"}}});
    let id = server
        .create(&json!({"templateID": "base", "iam": iam}).to_string())
        .await;
    let (head, claims) = minted(&server, &id).await;
    let keys = server
        .send_with(&[], "GET /.well-known/jwks.json")
        .await
        .json();
    assert_eq!(head["kid"], keys["keys"][0]["kid"]);
    assert_eq!(claims["aud"], "sts.test");
    assert_eq!(claims["sandbox"], id.as_str());
    assert_eq!(
        claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(),
        300
    );
    let (_, other) = minted(&server, &id).await;
    assert_ne!(claims["jti"], other["jti"]);
    let unknown = HeaderTemplate::parse("${e2b.identity.tokens.aws}").unwrap();
    let refused = server.control.fill_header(&id, &unknown).await.unwrap_err();
    assert_eq!(refused, FillError::NoToken("aws".to_owned()));
    let server = server.restarted().await;
    let after = server
        .send_with(&[], "GET /.well-known/jwks.json")
        .await
        .json();
    assert_eq!(after, keys);
}

#[tokio::test]
async fn everybody_may_know_the_issuer_and_its_keys() {
    let server = Server::new().await;
    let configuration = server
        .send_with(&[], "GET /.well-known/openid-configuration")
        .await;
    assert_eq!(configuration.status, 200);
    let configuration = configuration.json();
    assert_eq!(configuration["issuer"], "https://api.skep.test");
    let keys_at = "https://api.skep.test/.well-known/jwks.json";
    assert_eq!(configuration["jwks_uri"], keys_at);
    let keys = server
        .send_with(&[], "GET /.well-known/jwks.json")
        .await
        .json();
    let [key] = keys["keys"].as_array().unwrap().as_slice() else {
        panic!("{keys}");
    };
    assert_eq!(key["kty"], "EC");
    assert_eq!(key["alg"], "ES256");
    assert!(key.get("d").is_none(), "the private half stays here");
    let again = server
        .send_with(&[], "GET /.well-known/jwks.json")
        .await
        .json();
    assert_eq!(again, keys);
}

#[tokio::test]
async fn tokens_are_refused_in_the_contracts_words() {
    let server = Server::new().await;
    let token = r#"{"audience":"a","tokenType":"JWT-SVID"}"#;
    let many: Vec<_> = (0..6)
        .map(|number| format!(r#""t{number}":{token}"#))
        .collect();
    for (tokens, said) in [
        (many.join(","), "iam.tokens: too many tokens: 6 (max 5)"),
        (
            format!(r#""":{token}"#),
            "iam.tokens: token name must not be empty",
        ),
        (
            r#""a":{"tokenType":"JWT-SVID"}"#.to_owned(),
            "iam.tokens.a.audience: audience is required",
        ),
        (
            r#""a":{"audience":"x"}"#.to_owned(),
            "iam.tokens.a.tokenType: only \"JWT-SVID\" is supported",
        ),
    ] {
        let body = format!(r#"{{"templateID":"base","iam":{{"tokens":{{{tokens}}}}}}}"#);
        let answer = server.send(&format!("POST /sandboxes {body}")).await;
        assert_eq!(
            (answer.status, &answer.json()["message"]),
            (400, &json!(said))
        );
    }
    for junk in [
        "7",
        r#"{"tokens":7}"#,
        r#"{"tokens":{"a":7}}"#,
        r#"{"tokens":{"a":{"audience":7}}}"#,
    ] {
        let body = format!(r#"{{"templateID":"base","iam":{junk}}}"#);
        let answer = server.send(&format!("POST /sandboxes {body}")).await;
        assert_eq!(answer.status, 400, "{junk}");
    }
}

#[tokio::test]
async fn rules_name_only_tokens_that_the_sandbox_has() {
    let server = Server::new().await;
    server
        .nodes
        .set_capabilities(skep_types::Capabilities::all());
    let rules = |name: &str| {
        let value = format!("${{e2b.identity.tokens.{name}}}");
        json!({"a.test": [{"transform": {"headers": {"x": value}}}]})
    };
    let iam = json!({"tokens": {"Aws": {"audience": "a", "tokenType": "JWT-SVID"}}});
    let body =
        |name: &str| json!({"templateID": "base", "iam": iam, "network": {"rules": rules(name)}});
    let refused = server
        .send(&format!("POST /sandboxes {}", body("gcp")))
        .await;
    assert_eq!(refused.status, 400);
    let id = server.create(&body("Aws").to_string()).await;
    let put = |name: &str| {
        format!(
            "PUT /sandboxes/{id}/network {}",
            json!({"rules": rules(name)})
        )
    };
    assert_eq!(server.send(&put("Aws")).await.status, 204);
    let refused = server.send(&put("gcp")).await;
    assert_eq!(refused.status, 400);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("\"gcp\""), "{message}");
}
