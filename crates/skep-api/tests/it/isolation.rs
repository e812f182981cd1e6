//! Two teams do not know of each other.

use skep_types::Usage;

use crate::server::Server;

#[tokio::test]
async fn another_teams_sandbox_does_not_exist() {
    let server = Server::new().await;
    let (_, stranger) = server.second_team().await;
    let id = server
        .create(r#"{"templateID":"base","metadata":{"secret":"plan"}}"#)
        .await;
    server.nodes.set_usage(&id, Usage::default());
    for line in [
        format!("GET /sandboxes/{id}"),
        format!("DELETE /sandboxes/{id}"),
        format!(r#"POST /sandboxes/{id}/timeout {{"timeout":0}}"#),
        format!("POST /sandboxes/{id}/refreshes"),
        format!(r#"POST /sandboxes/{id}/connect {{"timeout":10}}"#),
        format!("POST /v2/sandboxes/{id}/connect"),
        format!("POST /sandboxes/{id}/resume"),
        format!("POST /sandboxes/{id}/pause"),
        format!("POST /sandboxes/{id}/fork"),
        format!("POST /sandboxes/{id}/snapshots {{}}"),
        format!("PUT /sandboxes/{id}/network {{}}"),
    ] {
        // The same answer as for one that never was, but for the name.
        let never = line.replace(id.as_str(), "nobody");
        let expected = server.send_as(&stranger, &never).await;
        let answer = server.send_as(&stranger, &line).await;
        assert_eq!(answer.status, 404, "{line}");
        assert_eq!(
            answer.body.replace(id.as_str(), "nobody"),
            expected.body,
            "{line}"
        );
    }
    for (line, empty) in [
        ("GET /sandboxes".to_owned(), "200 []"),
        ("GET /v2/sandboxes".to_owned(), "200 []"),
        (
            "GET /v2/sandboxes?metadata=secret%3Dplan".to_owned(),
            "200 []",
        ),
        ("GET /skep/sandboxes?all=true".to_owned(), "200 []"),
        (format!("GET /sandboxes/{id}/metrics"), "200 []"),
        (
            format!("GET /sandboxes/metrics?sandbox_ids={id}"),
            r#"200 {"sandboxes":{}}"#,
        ),
        (
            format!("GET /sandboxes/{id}/logs"),
            r#"200 {"logEntries":[],"logs":[]}"#,
        ),
        (format!("GET /v2/sandboxes/{id}/logs"), r#"200 {"logs":[]}"#),
    ] {
        server.check_as(&stranger, &line, empty).await;
    }
    let total = server.send_as(&stranger, "GET /v2/sandboxes").await;
    assert_eq!(total.header("x-total-running"), Some("0"));
    assert_eq!(
        server.send(&format!("GET /sandboxes/{id}")).await.status,
        200
    );
}

#[tokio::test]
async fn a_cursor_of_another_team_shows_only_ones_own() {
    let server = Server::new().await;
    let (_, stranger) = server.second_team().await;
    server.create(r#"{"templateID":"base"}"#).await;
    server.create(r#"{"templateID":"base"}"#).await;
    let page = server.send("GET /v2/sandboxes?limit=1").await;
    let token = page.header("x-next-token").unwrap();
    let line = format!("GET /v2/sandboxes?limit=1&nextToken={token}");
    server.check_as(&stranger, &line, "200 []").await;
}

#[tokio::test]
async fn a_full_team_does_not_keep_another_out() {
    let limits = skep_control::TeamLimits {
        sandboxes: 1,
        ..skep_control::TeamLimits::default()
    };
    let server = Server::with(limits, skep_api::Access::Keys).await;
    let (_, stranger) = server.second_team().await;
    server.create(r#"{"templateID":"base"}"#).await;
    server
        .create_as(&stranger, r#"{"templateID":"base"}"#)
        .await;
    let answer = server
        .send_as(&stranger, r#"POST /sandboxes {"templateID":"base"}"#)
        .await;
    assert_eq!(answer.status, 429);
}

#[tokio::test]
async fn keys_of_another_team_do_not_exist() {
    let server = Server::new().await;
    let (_, stranger) = server.second_team().await;
    let ours = server.send("GET /api-keys").await.json();
    let id = ours[0]["id"].as_str().unwrap();
    let not_found = r#"404 {"code":404,"error_code":"key_not_found","message":"id not found"}"#;
    server
        .check_as(&stranger, &format!("DELETE /api-keys/{id}"), not_found)
        .await;
    server
        .check_as(
            &stranger,
            &format!(r#"PATCH /api-keys/{id} {{"name":"x"}}"#),
            not_found,
        )
        .await;
    let theirs = server.send_as(&stranger, "GET /api-keys").await.json();
    assert_eq!(theirs.as_array().unwrap().len(), 1);
    assert_ne!(theirs[0]["id"], ours[0]["id"]);
}
