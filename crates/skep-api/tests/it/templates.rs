//! Templates of sandboxes.

use jiff::Timestamp;
use skep_api::Access;
use skep_control::{FakeTemplates, TeamLimits, TemplateInfo};
use skep_types::{Resources, TeamId, TemplateId};

use crate::server::Server;

#[tokio::test]
async fn templates_are_listed_with_how_much_they_are_used() {
    let server = Server::new().await;
    server.create(r#"{"templateID":"base"}"#).await;
    server.create(r#"{"templateID":"base"}"#).await;
    let listed = r#"200 [{"aliases":["base"],"buildCount":1,"buildID":"UUID","buildStatus":"ready","cpuCount":2,"createdAt":"TIME","createdBy":null,"diskSizeMB":10240,"envdVersion":"0.6.13","lastSpawnedAt":"TIME","memoryMB":1024,"names":["base"],"public":true,"spawnCount":2,"templateID":"ID","updatedAt":"TIME"},{"aliases":["code-interpreter-v1"],"buildCount":1,"buildID":"UUID","buildStatus":"ready","cpuCount":2,"createdAt":"TIME","createdBy":null,"diskSizeMB":10240,"envdVersion":"0.6.13","lastSpawnedAt":null,"memoryMB":1024,"names":["code-interpreter-v1"],"public":true,"spawnCount":0,"templateID":"ID","updatedAt":"TIME"}]"#;
    server.check("GET /templates", listed).await;
    server.check("GET /v2/templates?limit=100", listed).await;
    let ours = format!("GET /templates?teamID={}", server.team.id);
    server.check(&ours, listed).await;
    server
        .check(
            "GET /templates?teamID=another",
            r#"400 {"code":400,"error_code":"team_mismatch","message":"Team ID param mismatch with the API key"}"#,
        )
        .await;
}

#[tokio::test]
async fn a_name_is_free_taken_or_another_teams() {
    let private = TemplateInfo {
        id: TemplateId::random(),
        names: vec!["private".to_owned()],
        owner: Some(TeamId::random()),
        public: false,
        resources: Resources::default(),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    };
    let templates = FakeTemplates::named(&["base"]).with(private.clone());
    let server = Server::with_templates(TeamLimits::default(), Access::Keys, templates).await;
    let alias = async |name: &str| {
        server
            .send(&format!("GET /templates/aliases/{name}"))
            .await
            .text()
    };
    assert_eq!(
        alias("base").await,
        r#"200 {"public":true,"templateID":"ID"}"#
    );
    assert_eq!(
        alias("nope").await,
        r#"404 {"code":404,"error_code":"template_not_found","message":"template 'nope' not found"}"#
    );
    assert_eq!(
        alias("base:v1").await,
        r#"404 {"code":404,"error_code":"template_tag_not_found","message":"tag 'v1' does not exist for template 'base'"}"#
    );
    // One segment, whatever is encoded in it.
    assert_eq!(
        alias("my-team%2Fsnap%3Av1").await,
        r#"404 {"code":404,"error_code":"template_not_found","message":"template 'my-team/snap:v1' not found"}"#
    );
    assert_eq!(
        alias(private.id.as_str()).await,
        r#"403 {"code":403,"error_code":"template_forbidden","message":"You don't have access to this template alias"}"#
    );
    // By name it is hidden, by id it is refused.
    let create = async |name: &str| {
        let line = format!(r#"POST /v2/sandboxes {{"templateID":"{name}"}}"#);
        server.send(&line).await.status
    };
    assert_eq!(create("private").await, 404);
    assert_eq!(create(private.id.as_str()).await, 403);
}
