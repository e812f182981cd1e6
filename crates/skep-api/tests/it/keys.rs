//! Making and revoking keys.

use crate::server::Server;

#[tokio::test]
async fn a_key_is_shown_once_works_and_can_be_revoked() {
    let server = Server::new().await;
    let answer = server.send(r#"POST /api-keys {"name":" laptop "}"#).await;
    assert_eq!(answer.status, 201);
    let made = answer.json();
    let key = made["key"].as_str().unwrap();
    assert_eq!(key.len(), 44);
    assert_eq!(made["name"], "laptop");
    let mask = &made["mask"];
    assert_eq!(
        (mask["prefix"].as_str(), mask["valueLength"].as_u64()),
        (Some("e2b_"), Some(40))
    );
    assert_eq!(mask["maskedValuePrefix"], key[4..6]);
    assert_eq!(mask["maskedValueSuffix"], key[40..]);
    assert_eq!(server.send_as(key, "GET /v2/sandboxes").await.status, 200);

    let listed = server.send("GET /api-keys").await;
    assert!(!listed.body.contains(key), "a list shows no key");
    assert_eq!(listed.json().as_array().unwrap().len(), 2);

    let id = made["id"].as_str().unwrap();
    server
        .check(&format!(r#"PATCH /api-keys/{id} {{"name":"desk"}}"#), "202")
        .await;
    let renamed = server.send("GET /api-keys").await.json();
    assert_eq!(renamed[1]["name"], "desk");

    server.check(&format!("DELETE /api-keys/{id}"), "204").await;
    let not_found = r#"404 {"code":404,"error_code":"key_not_found","message":"id not found"}"#;
    server
        .check(&format!("DELETE /api-keys/{id}"), not_found)
        .await;
    assert_eq!(server.send_as(key, "GET /v2/sandboxes").await.status, 401);
}

#[tokio::test]
async fn a_key_needs_a_name() {
    let server = Server::new().await;
    for name in ["", "  ", &"x".repeat(129)] {
        let answer = server
            .send(&format!(r#"POST /api-keys {{"name":"{name}"}}"#))
            .await;
        assert_eq!(answer.status, 400, "{name}");
    }
}

#[tokio::test]
async fn no_part_of_a_key_is_in_the_record() {
    let server = Server::new().await;
    let made = server
        .send(r#"POST /api-keys {"name":"laptop"}"#)
        .await
        .json();
    let key = made["key"].as_str().unwrap();
    server.store.flush().await.unwrap();
    let file = std::fs::read(server.directory().join("skep.db")).unwrap();
    let contains = |text: &str| {
        let mut windows = file.windows(text.len());
        windows.any(|window| window == text.as_bytes())
    };
    assert!(contains("laptop"), "the record is where the test looks");
    assert!(!contains(&key[4..20]));
    assert!(!contains(&key[28..]));
}

#[tokio::test]
async fn access_tokens_are_not_issued() {
    let server = Server::new().await;
    assert_eq!(server.send("POST /access-tokens {}").await.status, 410);
    assert_eq!(server.send("DELETE /access-tokens/x").await.status, 404);
}

#[tokio::test]
async fn a_team_has_at_most_a_hundred_keys() {
    let server = Server::new().await;
    let there = server.send("GET /api-keys").await.json();
    for _ in there.as_array().unwrap().len()..100 {
        let answer = server
            .send(r#"POST /api-keys {"name":"one of many"}"#)
            .await;
        assert_eq!(answer.status, 201);
    }
    server
        .check(
            r#"POST /api-keys {"name":"one more"}"#,
            r#"409 {"code":409,"error_code":"too_many_keys","message":"the team has 100 API keys, as many as it may; revoke one first"}"#,
        )
        .await;
}
