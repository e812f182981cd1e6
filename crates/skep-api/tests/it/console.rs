//! Opening the console.

use skep_api::Access;
use skep_control::TeamLimits;
use skep_store::Key;

use crate::server::Server;

const USELESS: &str = r#"401 {"code":401,"error_code":"invalid_ticket","message":"the link was opened already, or is too old; `skep console` prints another"}"#;

async fn ticket(server: &Server) -> String {
    let issued = server.send("POST /skep/console/tickets").await;
    assert_eq!(issued.status, 201, "{}", issued.body);
    assert_eq!(issued.header("cache-control"), Some("no-store"));
    let ticket = issued.json()["ticket"].as_str().unwrap().to_owned();
    assert_eq!(ticket.len(), 43);
    ticket
}

#[tokio::test]
async fn a_ticket_is_good_for_one_key_that_expires() {
    let server = Server::new().await;
    let ticket = ticket(&server).await;
    let line = format!(r#"POST /skep/console/sessions {{"ticket":"{ticket}"}}"#);
    let opened = server.send_with(&[], &line).await;
    assert_eq!(opened.status, 201, "{}", opened.body);
    assert_eq!(opened.header("cache-control"), Some("no-store"));
    let session = opened.json();
    assert_eq!(session["team"]["teamID"], server.team.id.to_string());
    let key = session["apiKey"].as_str().unwrap();
    assert_eq!(server.send_as(key, "GET /v2/sandboxes").await.status, 200);
    assert_eq!(server.send_with(&[], &line).await.text(), USELESS);

    let listed = server.send("GET /api-keys").await.json();
    assert_eq!(listed[1]["name"], "console");
    assert_eq!(listed[1]["expiresAt"], session["expiresAt"]);
    let id = listed[1]["id"].as_str().unwrap();
    server.check(&format!("DELETE /api-keys/{id}"), "204").await;
    assert_eq!(server.send_as(key, "GET /v2/sandboxes").await.status, 401);
}

#[tokio::test]
async fn without_a_ticket_there_is_no_key_and_without_a_key_no_ticket() {
    let server = Server::new().await;
    let guess = format!(
        r#"POST /skep/console/sessions {{"ticket":"{}"}}"#,
        "A".repeat(43)
    );
    assert_eq!(server.send_with(&[], &guess).await.text(), USELESS);
    let asked = server.send_with(&[], "POST /skep/console/tickets").await;
    assert_eq!(asked.status, 401);
    assert_eq!(
        server.send("GET /api-keys").await.json()[1],
        serde_json::Value::Null
    );
}

#[tokio::test]
async fn a_team_has_so_many_tickets_at_a_time() {
    let server = Server::new().await;
    for _ in 0..32 {
        ticket(&server).await;
    }
    let refused = server.send("POST /skep/console/tickets").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error_code"], "too_many_tickets");
}

#[tokio::test]
async fn a_key_that_has_expired_opens_nothing() {
    let server = Server::new().await;
    let key = skep_control::ApiKey::random();
    let record = key.record(server.team.id.clone(), "old");
    let made = record.created_at;
    for (expires_at, status) in [
        (made + jiff::SignedDuration::from_hours(1), 200),
        (made, 401),
    ] {
        let key = skep_control::ApiKey::random();
        let record = Key {
            expires_at: Some(expires_at),
            ..key.record(server.team.id.clone(), "old")
        };
        server.store.keys().insert(record).recorded().await.unwrap();
        let answer = server.send_as(key.reveal(), "GET /v2/sandboxes").await;
        assert_eq!(answer.status, status);
    }
    let listed = server.send("GET /api-keys").await.json();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
}

#[tokio::test]
async fn a_browser_is_shown_the_console_and_a_program_is_not() {
    let server = Server::new().await;
    let page = [("accept", "text/html,application/xhtml+xml;q=0.9")];
    let led = server.send_with(&page, "GET /").await;
    assert_eq!(
        (led.status, led.header("location")),
        (303, Some("/console/"))
    );
    assert_eq!(
        server.send_with(&page, "GET /console/").await.body,
        "the console"
    );
    for headers in [&[][..], &[("accept", "application/json")]] {
        assert_eq!(server.send_with(headers, "GET /").await.status, 404);
    }
    assert_eq!(server.send_with(&page, "GET /unknown").await.status, 404);
}

#[tokio::test]
async fn a_server_that_trusts_everybody_opens_its_console_to_no_other_site() {
    let server = Server::with(TeamLimits::default(), Access::Trusted).await;
    let own = [("host", "127.0.0.1:3000"), ("sec-fetch-site", "none")];
    assert_eq!(server.send_with(&own, "GET /console/").await.status, 200);
    let foreign = [("host", "127.0.0.1:3000"), ("sec-fetch-site", "cross-site")];
    for line in ["GET /console/", "POST /skep/console/tickets"] {
        assert_eq!(server.send_with(&foreign, line).await.status, 403, "{line}");
    }
}

#[tokio::test]
async fn a_key_among_the_protocols_of_a_socket_is_a_key() {
    let server = Server::new().await;
    let with = |key: &str| format!("skep.v1, skep.key.{key}");
    let (right, wrong) = (with(&server.key), with("e2b_00"));
    for (offered, status) in [(&right, 200), (&wrong, 401)] {
        let headers = [("sec-websocket-protocol", offered.as_str())];
        let answer = server.send_with(&headers, "GET /beside").await;
        assert_eq!(answer.status, status, "{offered}");
    }
}
