//! The vault.

use std::os::unix::fs::PermissionsExt;

use skep_control::FillError;
use skep_types::HeaderTemplate;

use crate::logged::Logged;
use crate::server::Server;

const VALUE: &str = "hunter2-hunter2-hunter2";

#[tokio::test]
async fn a_secret_is_kept_found_changed_and_deleted_and_never_shown() {
    let server = Server::new().await;
    let body = format!(r#"{{"name":"My-Key","value":"{VALUE}","metadata":{{"a":"b"}}}}"#);
    let answer = server.send(&format!("POST /secrets {body}")).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let made = answer.json();
    assert_eq!(made["name"], "my-key");
    assert_eq!(made["currentVersion"], 1);
    assert_eq!(made["metadata"]["a"], "b");
    let id = made["secretID"].as_str().unwrap();
    for (line, status) in [
        (format!("POST /secrets {body}"), 409),
        ("GET /secrets".to_owned(), 200),
        ("GET /secrets/MY-KEY".to_owned(), 200),
        (format!("GET /secrets/{id}"), 200),
        (format!(r#"POST /secrets/{id} {{"value":"{VALUE}"}}"#), 200),
        (
            format!(r#"POST /secrets/my-key {{"value":["{VALUE}"]}}"#),
            400,
        ),
        (
            format!(r#"POST /secrets/my-key {{"value":"{VALUE}\n"}}"#),
            400,
        ),
        ("GET /secrets/sec_none".to_owned(), 400),
        ("GET /secrets/none".to_owned(), 404),
        ("GET /secrets/a%20b/c?d".to_owned(), 404),
        ("GET /secrets/a/b/c".to_owned(), 404),
    ] {
        let answer = server.send(&line).await;
        assert_eq!(answer.status, status, "{line}: {}", answer.body);
        assert!(!answer.body.contains(VALUE), "{line}: {}", answer.body);
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{line}");
    }
    let found = server.send("GET /secrets/my-key").await.json();
    assert_eq!(found["currentVersion"], 2);
    assert_eq!(found["metadata"]["a"], "b");
    server.check("DELETE /secrets/my-key", "204").await;
    server
        .check(
            "DELETE /secrets/my-key",
            r#"404 {"code":404,"error_code":"secret_not_found","message":"Secret not found"}"#,
        )
        .await;
}

#[tokio::test]
async fn a_team_has_a_limit_and_pages_and_nothing_of_another() {
    let server = Server::new().await;
    for number in 0..50 {
        let line = format!(r#"POST /secrets {{"name":"s{number:02}","value":"{VALUE}"}}"#);
        assert_eq!(server.send(&line).await.status, 201);
    }
    let full = server
        .send(r#"POST /secrets {"name":"more","value":"x"}"#)
        .await;
    assert_eq!(
        (full.status, &full.json()["error_code"]),
        (409, &"secret_limit_reached".into())
    );
    let page = server.send("GET /secrets?limit=30").await;
    assert_eq!(page.json().as_array().unwrap().len(), 30);
    let token = page.header("x-next-token").unwrap().to_owned();
    let rest = server
        .send(&format!("GET /secrets?limit=30&nextToken={token}"))
        .await;
    assert_eq!(rest.json().as_array().unwrap().len(), 20);
    assert_eq!(rest.header("x-next-token"), None);
    assert_eq!(rest.json()[0]["name"], "s30");
    let (_, key) = server.second_team().await;
    let headers = [("X-API-Key", key.as_str())];
    for (line, status) in [
        ("GET /secrets/s00", 404),
        (r#"POST /secrets/s00 {"value":"x"}"#, 404),
        ("DELETE /secrets/s00", 404),
        (r#"POST /secrets {"name":"s00","value":"x"}"#, 201),
    ] {
        assert_eq!(
            server.send_with(&headers, line).await.status,
            status,
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_value_is_sealed_in_the_database_and_filled_into_headers_of_its_own_team() {
    let server = Server::new().await;
    let line = format!(r#"POST /secrets {{"name":"key","value":"{VALUE}"}}"#);
    assert_eq!(server.send(&line).await.status, 201);
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let template = HeaderTemplate::parse("Bearer ${e2b.secrets.key}").unwrap();
    let filled = server.control.fill_header(&id, &template).await.unwrap();
    assert_eq!(*filled, format!("Bearer {VALUE}"));
    let unknown = HeaderTemplate::parse("${e2b.secrets.other}").unwrap();
    assert_eq!(
        server.control.fill_header(&id, &unknown).await,
        Err(FillError::NoSecret("other".parse().unwrap()))
    );
    // A change counts at once.
    let line = r#"POST /secrets/key {"value":"another"}"#;
    assert_eq!(server.send(line).await.status, 200);
    let filled = server.control.fill_header(&id, &template).await.unwrap();
    assert_eq!(*filled, "Bearer another");
    server.store.flush().await.unwrap();
    let files = std::fs::read_dir(server.store.path().parent().unwrap()).unwrap();
    for file in files {
        let path = file.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let is_there = |value: &[u8]| bytes.windows(value.len()).any(|part| part == value);
            assert!(!is_there(VALUE.as_bytes()), "{}", path.display());
            // Control: what is not secret is found this way.
            if path == server.store.path() {
                assert!(is_there(b"default"));
            }
        }
    }
}

#[tokio::test]
async fn a_new_key_seals_everything_and_the_old_one_can_go() {
    let server = Server::new().await;
    let line = format!(r#"POST /secrets {{"name":"key","value":"{VALUE}"}}"#);
    assert_eq!(server.send(&line).await.status, 201);
    let path = server.store.path().with_extension("key");
    let old = std::fs::read_to_string(&path).unwrap();
    let new = "5a".repeat(32);
    let write = |text: &str| {
        std::fs::remove_file(&path).unwrap();
        let key = std::fs::File::create_new(&path).unwrap();
        key.set_permissions(PermissionsExt::from_mode(0o600))
            .unwrap();
        std::fs::write(&path, text).unwrap();
    };
    write(&format!("{new}\n{old}"));
    let server = server.restarted().await;
    server.control.open_vault().await.unwrap();
    write(&new);
    let server = server.restarted().await;
    server.control.open_vault().await.unwrap();
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let template = HeaderTemplate::parse("${e2b.secrets.key}").unwrap();
    let filled = server.control.fill_header(&id, &template).await.unwrap();
    assert_eq!(*filled, VALUE);
    // Control: with neither it does not open, and nothing is sent in its place.
    write(&"00".repeat(32));
    let server = server.restarted().await;
    server.control.open_vault().await.unwrap();
    assert_eq!(
        server.control.fill_header(&id, &template).await,
        Err(FillError::Unavailable)
    );
}

#[tokio::test]
async fn no_log_line_holds_a_value_however_much_is_logged() {
    let (logged, _guard) = Logged::start();
    let server = Server::new().await;
    for line in [
        format!(r#"POST /secrets {{"name":"key","value":"{VALUE}"}}"#),
        format!(r#"POST /secrets {{"name":"key","value":"{VALUE}"}}"#),
        format!(r#"POST /secrets {{"name":"key","value":["{VALUE}"]}}"#),
        format!(r#"POST /secrets/key {{"value":"{VALUE}"}}"#),
    ] {
        server.send(&line).await;
    }
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let template = HeaderTemplate::parse("${e2b.secrets.key}").unwrap();
    server.control.fill_header(&id, &template).await.unwrap();
    // The key is gone, and the secret cannot be read.
    std::fs::remove_file(server.store.path().with_extension("key")).unwrap();
    let server = server.restarted().await;
    server.control.open_vault().await.unwrap();
    let lost = server.control.fill_header(&id, &template).await;
    assert_eq!(lost, Err(FillError::Unavailable));
    let text = logged.text();
    assert!(!text.contains(VALUE), "{text}");
    // Control: what happened to it is there.
    assert!(text.contains("a secret cannot be read"), "{text}");
}
