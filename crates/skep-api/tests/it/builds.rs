//! Builds of templates, as the clients ask for them.

use std::time::Duration;

use skep_api::Access;
use skep_control::TeamLimits;
use skep_testkit::wait_until;
use skep_types::{BuildId, BuildPhase, LogLevel};

use crate::server::{Answer, Server};

async fn request(server: &Server, body: &str) -> (String, String) {
    let answer = server.send(&format!("POST /v3/templates {body}")).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let text = |key: &str| answer.json()[key].as_str().unwrap().to_owned();
    (text("templateID"), text("buildID"))
}

async fn start(server: &Server, (template, build): &(String, String), body: &str) {
    let line = format!("POST /v2/templates/{template}/builds/{build} {body}");
    let answer = server.send(&line).await;
    assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{line}");
}

/// The state of a build when it has ended.
async fn ended(server: &Server, (template, build): &(String, String)) -> Answer {
    let line = format!("GET /templates/{template}/builds/{build}/status");
    wait_until(Duration::from_secs(10), async || {
        let answer = server.send(&line).await;
        match answer.json()["status"].as_str() {
            Some("ready" | "error") => Ok(answer),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

async fn build(server: &Server, name: &str) -> (String, String) {
    let requested = request(server, &format!(r#"{{"name":"{name}"}}"#)).await;
    start(server, &requested, r#"{"fromTemplate":"base","steps":[]}"#).await;
    server.builds.succeed();
    assert_eq!(ended(server, &requested).await.json()["status"], "ready");
    requested
}

#[tokio::test]
async fn events_name_the_build_that_a_sandbox_is_of() {
    let server = Server::new().await;
    let (template, build) = build(&server, "app").await;
    let id = server.create(r#"{"templateID":"app"}"#).await;
    let told = server.send(&format!("GET /events/sandboxes/{id}")).await;
    assert_eq!(told.json()[0]["sandboxTemplateId"], template.as_str());
    assert_eq!(told.json()[0]["sandboxBuildId"], build.as_str());
}

#[tokio::test]
async fn a_template_goes_from_its_request_to_a_sandbox() {
    let server = Server::new().await;
    server
        .check(
            r#"POST /v3/templates {"name":"App","cpuCount":4,"memoryMB":2048}"#,
            r#"202 {"aliases":["app"],"buildID":"UUID","names":["default/app"],"public":false,"tags":["default"],"templateID":"ID"}"#,
        )
        .await;
    let requested = request(&server, r#"{"name":"default/app:v1","tags":["V2"]}"#).await;
    let (template, build) = &requested;
    let status = format!("GET /templates/{template}/builds/{build}/status?limit=100");
    server
        .check(
            &status,
            r#"200 {"buildID":"UUID","logEntries":[],"logs":[],"status":"waiting","templateID":"ID"}"#,
        )
        .await;
    let hash = "a".repeat(64);
    let body = format!(
        r#"{{"fromTemplate":"base","force":false,"steps":[{{"type":"COPY","args":["a","/a","",""],"force":false,"filesHash":"{hash}","gzip":true}}],"startCmd":"","readyCmd":"sleep 1"}}"#
    );
    start(&server, &requested, &body).await;
    start(&server, &requested, &body).await;
    let other = format!(r#"POST /v2/templates/{template}/builds/{build} {{"fromImage":"x"}}"#);
    server
        .check(
            &other,
            r#"400 {"code":400,"error_code":"build_not_waiting","message":"build is not in waiting state"}"#,
        )
        .await;
    assert_eq!(server.send(&status).await.json()["status"], "building");
    let order = server.builds.orders().pop().unwrap();
    assert_eq!(order.start_command, None, "an empty one is none");
    assert_eq!(order.steps.len(), 1);
    server.builds.log(LogLevel::Info, "[builder 1/1] COPY a /a");
    server.builds.succeed();
    assert_eq!(
        ended(&server, &requested).await.text(),
        r#"200 {"buildID":"UUID","logEntries":[{"level":"info","message":"[builder 1/1] COPY a /a","step":"1","timestamp":"TIME"}],"logs":[],"status":"ready","templateID":"ID"}"#
    );
    for name in ["app:v1", "default/app:v2", &format!("app:{build}")] {
        let create = format!(r#"POST /v2/sandboxes {{"templateID":"{name}"}}"#);
        let made = server.send(&create).await.json();
        assert_eq!(made["templateID"], template.as_str(), "{name}");
        assert_eq!(made["alias"], "app");
    }
    server
        .check(
            r#"POST /v2/sandboxes {"templateID":"app"}"#,
            r#"503 {"code":503,"error_code":"template_not_ready","message":"template 'app' is not ready yet"}"#,
        )
        .await;
}

#[tokio::test]
async fn a_failure_says_which_step_it_was() {
    let server = Server::new().await;
    let requested = request(&server, r#"{"name":"app"}"#).await;
    start(&server, &requested, r#"{"fromImage":"debian"}"#).await;
    server.builds.log(LogLevel::Info, "fine");
    server.builds.log(LogLevel::Error, "not fine");
    let phase = Some(BuildPhase::Step(1));
    server.builds.fail(phase, "failed to run command 'x'");
    let failed = ended(&server, &requested).await.text();
    let reason = r#""reason":{"logEntries":[{"level":"error","message":"not fine","step":"1","timestamp":"TIME"}],"message":"failed to run command 'x'","step":"1"}"#;
    assert!(failed.contains(reason), "{failed}");
    for (body, step) in [
        (r#"{"fromTemplate":"nope"}"#, "base"),
        (
            r#"{"fromTemplate":"base","steps":[{"type":"RUN","args":["true"]},{"type":"ENV","args":["A"]}]}"#,
            "2",
        ),
    ] {
        let requested = request(&server, r#"{"name":"app"}"#).await;
        start(&server, &requested, body).await;
        let failed = ended(&server, &requested).await.json();
        assert_eq!(failed["reason"]["step"], step, "{failed}");
    }
}

#[tokio::test]
async fn requests_that_cannot_be_are_refused_in_words_that_clients_know() {
    let limits = TeamLimits {
        builds: 1,
        ..TeamLimits::default()
    };
    let server = Server::with(limits, Access::Keys).await;
    let refused = async |line: &str, expected: &str| {
        let answer = server.send(line).await;
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        let text = format!("{} {message}", answer.status);
        assert!(text.starts_with(expected), "{line}: {text}");
    };
    for (body, expected) in [
        (r#"{"cpuCount":2}"#, "400 Name is required"),
        (r#"{"name":"a b"}"#, "400 Invalid name: "),
        (r#"{"name":"other/app"}"#, "400 Invalid name: "),
        (r#"{"name":"app","tags":["a:b"]}"#, "400 Invalid tag: "),
        (r#"{"name":"app","cpuCount":0}"#, "400 validation error"),
        (r#"{"name":"app","cpuCount":3}"#, "400 CPU count must be 1"),
        (r#"{"name":"app","memoryMB":64}"#, "400 validation error"),
        (
            r#"{"name":"app","memoryMB":999998}"#,
            "400 Memory can't be higher than",
        ),
    ] {
        refused(&format!("POST /v3/templates {body}"), expected).await;
    }
    let (template, build) = request(&server, r#"{"name":"app"}"#).await;
    let another = request(&server, r#"{"name":"another"}"#).await;
    let unknown = BuildId::random();
    let begin = format!("POST /v2/templates/{template}/builds");
    let body = r#"{"fromImage":"a"}"#;
    let registry = r#"{"fromImage":"a","fromImageRegistry":{"type":"ftp"}}"#;
    let both = r#"{"fromImage":"a","fromTemplate":"b"}"#;
    refused(&format!("{begin}/{build} {both}"), "400 a build begins").await;
    refused(&format!("{begin}/{build} {{}}"), "400 a build begins").await;
    refused(&format!("{begin}/{build} {registry}"), "400 `fromImageR").await;
    refused(&format!("{begin}/x {body}"), "400 Invalid build ID").await;
    refused(&format!("{begin}/{unknown} {body}"), "404 ").await;
    refused(&format!("{begin}/{} {body}", another.1), "404 ").await;
    let status = format!("GET /templates/{template}/builds/{unknown}/status");
    let missing = format!("400 Build '{unknown}' not found");
    refused(&status, &missing).await;
    let (_, key) = server.second_team().await;
    let start_it = format!("{begin}/{build} {body}");
    assert_eq!(server.send_as(&key, &start_it).await.status, 403);
    start(&server, &(template, build), body).await;
    let (template, build) = another;
    let second = format!("POST /v2/templates/{template}/builds/{build} {body}");
    refused(&second, "429 ").await;
    refused(r#"POST /v3/templates {"name":"third"}"#, "429 ").await;
    for docker in ["POST /templates {}", "POST /templates/x {}"] {
        refused(docker, "400 building from a pushed Docker image").await;
    }
}

#[tokio::test]
async fn files_are_uploaded_by_a_link_without_a_key() {
    let server = Server::new().await;
    let (template, _) = request(&server, r#"{"name":"app"}"#).await;
    let hash = "a".repeat(64);
    let path = format!("GET /templates/{template}/files/{hash}");
    let link = async |headers: &[(&str, &str)]| {
        let mut all = vec![("X-API-KEY", server.key.as_str())];
        all.extend_from_slice(headers);
        let answer = server.send_with(&all, &path).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        let body = answer.json();
        let url = body["url"].as_str().unwrap().to_owned();
        (body["present"].as_bool().unwrap(), url)
    };
    let proxied = [("Host", "a.test"), ("X-Forwarded-Proto", "https")];
    let (_, url) = link(&proxied).await;
    assert!(url.starts_with("https://a.test/_upload/"), "{url}");
    let (is_present, url) = link(&[("Host", "b.test:3000")]).await;
    assert!(!is_present);
    let place = url.strip_prefix("http://b.test:3000").unwrap();
    let put = async |place: &str, length: &str, body: &str| {
        let line = format!("PUT {place} {body}");
        let headers = [("Content-Length", length)];
        server.send_with(&headers, &line).await.status
    };
    assert_eq!(put(place, "8", "archive").await, 400);
    assert!(
        !link(&[("Host", "b")]).await.0,
        "a short one leaves nothing"
    );
    let forged = place.replace(&hash, &"b".repeat(64));
    assert_eq!(put(&forged, "7", "archive").await, 403);
    assert_eq!(put(place, "2000", &"x".repeat(2000)).await, 413);
    assert_eq!(put(place, "7", "archive").await, 200);
    assert!(link(&[("Host", "b")]).await.0);
    assert_eq!(put(place, "7", "another").await, 200);
    let wrong = format!("GET /templates/{template}/files/xyz");
    assert!(
        server
            .send(&wrong)
            .await
            .text()
            .contains("Invalid files hash")
    );
    let unknown = format!("GET /templates/nope/files/{hash}");
    assert_eq!(server.send(&unknown).await.status, 404);
}

#[tokio::test]
async fn a_server_without_keys_takes_uploads_of_no_type() {
    let server = Server::with(TeamLimits::default(), Access::Trusted).await;
    let json = [("Host", "localhost"), ("Content-Type", "application/json")];
    let body = r#"POST /v3/templates {"name":"app"}"#;
    let requested = server.send_with(&json, body).await.json();
    let template = requested["templateID"].as_str().unwrap();
    let path = format!("GET /templates/{template}/files/{}", "a".repeat(64));
    let link = server.send_with(&json, &path).await.json();
    let place = link["url"]
        .as_str()
        .unwrap()
        .strip_prefix("http://localhost")
        .unwrap();
    let put = format!("PUT {place} archive");
    let answer = server.send_with(&[("Host", "localhost")], &put).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[tokio::test]
async fn an_old_client_hears_of_the_end_with_the_last_page() {
    let server = Server::new().await;
    let requested = request(&server, r#"{"name":"app"}"#).await;
    start(&server, &requested, r#"{"fromTemplate":"base"}"#).await;
    for number in 0..250 {
        server.builds.log(LogLevel::Info, &number.to_string());
    }
    server.builds.succeed();
    ended(&server, &requested).await;
    let (template, build) = &requested;
    let page = async |agent: &str, offset: usize| {
        let headers = [("X-API-KEY", server.key.as_str()), ("User-Agent", agent)];
        let line = format!("GET /templates/{template}/builds/{build}/status?logsOffset={offset}");
        let body = server.send_with(&headers, &line).await.json();
        let entries = body["logEntries"].as_array().unwrap().clone();
        let first = entries
            .first()
            .map(|entry| entry["message"].to_string())
            .unwrap_or_default();
        format!("{} {} {first}", body["status"], entries.len())
    };
    let (old, new) = ("e2b-python-sdk/2.7.0", "e2b-python-sdk/2.63.0");
    assert_eq!(page(old, 0).await, r#""building" 100 "0""#);
    assert_eq!(page(old, 200).await, r#""ready" 50 "200""#);
    assert_eq!(page(new, 0).await, r#""ready" 100 "0""#);
    assert_eq!(page(new, 250).await, r#""ready" 0 "#);
    let logs = format!("GET /templates/{template}/builds/{build}/logs?direction=backward&limit=1");
    assert_eq!(server.send(&logs).await.json()["logs"][0]["message"], "249");
}

#[tokio::test]
async fn tags_move_and_go() {
    let server = Server::new().await;
    let (_, one) = build(&server, "app").await;
    let (template, two) = build(&server, "app").await;
    let assign = async |target: &str, tags: &str| {
        let body = format!(r#"{{"target":"{target}","tags":{tags}}}"#);
        server.send(&format!("POST /templates/tags {body}")).await
    };
    let first = format!("app:{one}");
    let assigned = assign(&first, r#"["Prod","prod"]"#).await.json();
    assert_eq!(assigned["tags"], serde_json::json!(["prod"]));
    assert_eq!(assigned["buildID"], one.as_str());
    let moved = assign("app", r#"["prod"]"#).await.json();
    assert_eq!(moved["buildID"], two.as_str(), "the newest is the default");
    assert_eq!(assign(&first, r#"["default"]"#).await.status, 201);
    let listed = format!("GET /templates/{template}/tags");
    let listed = server.send(&listed).await.json();
    assert_eq!(listed[0]["tag"], "default");
    assert_eq!(listed[0]["buildID"], one.as_str());
    assert_eq!(listed[1]["tag"], "prod");
    for (target, tags, status) in [
        ("app", "[]", 400),
        ("app", r#"[":x"]"#, 400),
        ("app:", r#"["x"]"#, 400),
        ("nope", r#"["x"]"#, 404),
        ("app:nope", r#"["x"]"#, 404),
        ("base", r#"["x"]"#, 403),
    ] {
        assert_eq!(assign(target, tags).await.status, status, "{target} {tags}");
    }
    let remove = async |name: &str, tag: &str| {
        let body = format!(r#"{{"name":"{name}","tags":["{tag}"]}}"#);
        let line = format!("DELETE /templates/tags {body}");
        server.send(&line).await.status
    };
    assert_eq!(remove("nope", "default").await, 400);
    assert_eq!(remove("app:prod", "prod").await, 400);
    assert_eq!(remove("nope", "prod").await, 404);
    assert_eq!(remove("app", "prod").await, 204);
    for (name, status) in [
        ("app%3Aprod", 404),
        ("app%3Adefault", 200),
        ("default%2Fapp", 200),
    ] {
        let line = format!("GET /templates/aliases/{name}");
        assert_eq!(server.send(&line).await.status, status, "{name}");
    }
}

#[tokio::test]
async fn another_team_uses_what_is_public_and_changes_nothing() {
    let server = Server::new().await;
    let (template, _) = build(&server, "app").await;
    let (_, key) = server.second_team().await;
    let theirs = async |line: &str| server.send_as(&key, line).await.status;
    let create = r#"POST /v2/sandboxes {"templateID":"default/app"}"#;
    assert_eq!(theirs(create).await, 403);
    assert_eq!(theirs("GET /templates/aliases/default%2Fapp").await, 403);
    assert_eq!(theirs(&format!("GET /templates/{template}")).await, 403);
    assert_eq!(theirs("GET /templates/app").await, 404);
    assert_eq!(theirs(&format!("DELETE /templates/{template}")).await, 403);
    assert_eq!(theirs("DELETE /templates/default%2Fapp").await, 404);
    server
        .check(
            r#"PATCH /v2/templates/app {"public":true}"#,
            r#"200 {"names":["default/app"]}"#,
        )
        .await;
    assert_eq!(theirs(create).await, 201);
    let change = format!(r#"PATCH /v2/templates/{template} {{"public":false}}"#);
    assert_eq!(theirs(&change).await, 403);
    assert_eq!(theirs("PATCH /v2/templates/nope {}").await, 404);
    let null = r#"PATCH /templates/app {"public":false}"#;
    server.check(null, "200 null").await;
}

#[tokio::test]
async fn a_template_in_use_stays_and_one_that_is_gone_frees_its_name() {
    let server = Server::new().await;
    let (template, _) = build(&server, "app").await;
    let sandbox = server.create(r#"{"templateID":"app"}"#).await;
    server
        .check(
            "DELETE /templates/app",
            r#"400 {"code":400,"error_code":"template_in_use","message":"cannot delete template 'app' because there are running sandboxes using it"}"#,
        )
        .await;
    let kill = format!("DELETE /sandboxes/{sandbox}");
    server.check(&kill, "204").await;
    server.check("DELETE /templates/app", "204").await;
    assert_eq!(server.send("DELETE /templates/app").await.status, 404);
    assert_eq!(server.send("DELETE /templates/base").await.status, 403);
    let (again, _) = request(&server, r#"{"name":"app"}"#).await;
    assert_ne!(again, template);
    server
        .check(
            &format!("GET /templates/{again}"),
            r#"200 {"aliases":["app"],"builds":[{"buildID":"UUID","cpuCount":2,"createdAt":"TIME","diskSizeMB":10240,"envdVersion":"0.6.13","memoryMB":1024,"status":"waiting","updatedAt":"TIME"}],"createdAt":"TIME","lastSpawnedAt":null,"names":["default/app"],"public":false,"spawnCount":0,"templateID":"ID","updatedAt":"TIME"}"#,
        )
        .await;
}

#[tokio::test]
async fn versions_are_told_with_their_content_and_what_the_tags_mean() {
    let server = Server::new().await;
    let (_, first) = build(&server, "app").await;
    let (_, second) = build(&server, "app:v2").await;
    let history = server.send("GET /skep/templates/app/builds").await.json();
    let rows = history["builds"].as_array().unwrap();
    assert_eq!(rows[0]["buildID"], second.as_str());
    assert_eq!(rows[0]["tags"], serde_json::json!(["v2"]));
    assert_eq!(rows[1]["tags"], serde_json::json!(["default"]));
    // Both made the same, so they are the same.
    let content = rows[0]["contentID"].as_str().unwrap();
    assert_eq!(rows[1]["contentID"], content);
    let short = &content[..12];
    let found = server
        .send(&format!("GET /skep/templates/app@{short}"))
        .await;
    assert_eq!(found.json()["buildID"], second.as_str(), "{}", found.body);
    let sandbox = format!(r#"POST /sandboxes {{"templateID":"app@{short}"}}"#);
    assert_eq!(server.send(&sandbox).await.status, 201);
    let strange = server.send("GET /skep/templates/app@0123456789").await;
    assert_eq!(strange.status, 404, "{}", strange.body);
    // Rolling back is giving the tag to another version.
    let back = format!(r#"POST /templates/tags {{"target":"app:{first}","tags":["v2"]}}"#);
    assert_eq!(server.send(&back).await.status, 201);
    let now = server.send("GET /skep/templates/app:v2").await.json();
    assert_eq!(now["buildID"], first.as_str());
}

#[tokio::test]
async fn a_version_is_deleted_only_if_nothing_uses_it() {
    let server = Server::new().await;
    let (_, old) = build(&server, "app").await;
    let (_, new) = build(&server, "app").await;
    let delete = |build: &str| format!("DELETE /skep/templates/app/builds/{build}");
    let tagged = server.send(&delete(&new)).await;
    assert_eq!(tagged.status, 409, "{}", tagged.body);
    assert!(
        tagged.body.contains("the tag 'default' means it"),
        "{}",
        tagged.body
    );
    let sandbox = format!(r#"POST /sandboxes {{"templateID":"app:{old}"}}"#);
    let sandbox = server.send(&sandbox).await.json();
    let used = server.send(&delete(&old)).await;
    assert!(used.body.contains("running sandboxes"), "{}", used.body);
    let id = sandbox["sandboxID"].as_str().unwrap();
    assert_eq!(
        server.send(&format!("DELETE /sandboxes/{id}")).await.status,
        204
    );
    wait_until(Duration::from_secs(10), async || {
        let deleted = server.send(&delete(&old)).await;
        (deleted.status == 204).then_some(()).ok_or(deleted.body)
    })
    .await;
    assert_eq!(server.send(&delete(&old)).await.status, 404);
    let history = server.send("GET /skep/templates/app/builds").await.json();
    assert_eq!(history["builds"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_build_is_cancelled_once() {
    let server = Server::new().await;
    let requested = request(&server, r#"{"name":"app"}"#).await;
    start(&server, &requested, r#"{"fromTemplate":"base","steps":[]}"#).await;
    let (template, build) = &requested;
    let cancel = format!("POST /skep/templates/{template}/builds/{build}/cancel");
    assert_eq!(server.send(&cancel).await.status, 204);
    let state = ended(&server, &requested).await.json();
    assert_eq!(state["reason"]["message"], "build was cancelled");
    assert_eq!(server.builds.cancelled().len(), 1);
    let again = server.send(&cancel).await;
    assert!(again.body.contains("build_ended"), "{}", again.body);
}
