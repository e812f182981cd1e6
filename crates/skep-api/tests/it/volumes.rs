//! Volumes and their files.

use serde_json::Value;

use crate::server::{Answer, Server};

/// A volume of the server's team.
struct Volume<'a> {
    server: &'a Server,
    id: String,
    bearer: String,
}

impl<'a> Volume<'a> {
    async fn new(server: &'a Server, body: &str) -> Self {
        let answer = server.send(&format!("POST /volumes {body}")).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        let made = answer.json();
        Self {
            server,
            id: made["volumeID"].as_str().unwrap().to_owned(),
            bearer: format!("Bearer {}", made["token"].as_str().unwrap()),
        }
    }

    async fn send(&self, method: &str, rest: &str) -> Answer {
        let line = format!("{method} /volumecontent/{}/{rest}", self.id);
        let headers = [("Authorization", self.bearer.as_str())];
        self.server.send_with(&headers, &line).await
    }

    /// Sends, and compares the status and the code.
    async fn check(&self, method: &str, rest: &str, expected: &str) -> Value {
        let answer = self.send(method, rest).await;
        let json = serde_json::from_str(&answer.body).unwrap_or(Value::Null);
        let code = json["code"]
            .as_str()
            .map(|code| format!(" {code}"))
            .unwrap_or_default();
        let found = format!("{}{code}", answer.status);
        assert_eq!(found, expected, "{method} {rest}: {}", answer.body);
        json
    }
}

#[tokio::test]
async fn a_volume_is_made_listed_shown_and_deleted() {
    let server = Server::new().await;
    server.check("GET /volumes", "200 []").await;
    let volume = Volume::new(&server, r#"{"name":"my-vol"}"#).await;
    let id = &volume.id;
    let listed = r#"200 [{"name":"my-vol","skep":{"createdAt":"TIME","readOnly":false,"sizeMB":10240},"volumeID":"UUID"}]"#;
    server.check("GET /volumes", listed).await;
    let shown = r#"200 {"name":"my-vol","skep":{"createdAt":"TIME","readOnly":false,"sizeMB":10240,"usedBy":[],"usedBytes":4096},"token":"TOKEN","volumeID":"UUID"}"#;
    server.check(&format!("GET /volumes/{id}"), shown).await;
    for (body, expected) in [
        (
            r#"{"name":"my-vol"}"#,
            r#"400 {"code":400,"error_code":"volume_exists","message":"Volume with name 'my-vol' already exists"}"#,
        ),
        (
            r#"{"name":"a b"}"#,
            r#"400 {"code":400,"error_code":"invalid_volume_name","message":"Invalid volume name"}"#,
        ),
        (
            r#"{"name":"big","skep":{"sizeMB":99999999}}"#,
            r#"400 {"code":400,"error_code":"invalid_volume_size","message":"the size of a volume is 1 to 10240 MB"}"#,
        ),
        (
            r#"{"name":"copy","skep":{"source":"nothing"}}"#,
            r#"404 {"code":404,"error_code":"volume_not_found","message":"Volume not found"}"#,
        ),
    ] {
        server
            .check(&format!("POST /volumes {body}"), expected)
            .await;
    }
    let missing =
        r#"404 {"code":404,"error_code":"volume_not_found","message":"Volume not found"}"#;
    // Another team has no such volume, and can have one of the same name.
    let (_, other) = server.second_team().await;
    for line in [
        format!("GET /volumes/{id}"),
        format!("DELETE /volumes/{id}"),
    ] {
        server.check_as(&other, &line, missing).await;
    }
    server.check_as(&other, "GET /volumes", "200 []").await;
    let same = server.send_as(&other, r#"POST /volumes {"name":"my-vol"}"#);
    assert_eq!(same.await.status, 201);

    server.check(&format!("DELETE /volumes/{id}"), "204").await;
    for line in [
        format!("DELETE /volumes/{id}"),
        format!("GET /volumes/{id}"),
        "GET /volumes/not-an-id".to_owned(),
    ] {
        server.check(&line, missing).await;
    }
    volume.check("GET", "dir?path=/", "401 UNAUTHORIZED").await;
}

#[tokio::test]
async fn files_are_handled_as_the_contract_says() {
    let server = Server::new().await;
    let volume = Volume::new(&server, r#"{"name":"v"}"#).await;
    let entry = volume.check("PUT", "file?path=%2Fa hello", "201").await;
    assert_eq!(
        (
            &entry["name"],
            &entry["type"],
            &entry["path"],
            &entry["size"]
        ),
        (&"a".into(), &"file".into(), &"/a".into(), &5.into())
    );
    let owned = (&entry["mode"], &entry["uid"], &entry["gid"]);
    assert_eq!(owned, (&0o666.into(), &1000.into(), &1000.into()));
    let read = volume.send("GET", "file?path=a").await;
    assert_eq!((read.status, read.body.as_str()), (200, "hello"));
    assert_eq!(read.header("content-length"), Some("5"));
    volume.check("PUT", "file?path=/empty", "201").await;
    let read = volume.send("GET", "file?path=/empty").await;
    assert_eq!(read.header("content-length"), Some("0"));

    for (method, rest, expected) in [
        ("PUT", "file?path=/a x", "409 PATH_ALREADY_EXISTS"),
        ("PUT", "file?path=/a&force=true x", "201"),
        ("PUT", "file?path=/d/e x", "404 PATH_NOT_FOUND"),
        (
            "PUT",
            "file?path=/d/e&force=true&uid=5&gid=6&mode=384 x",
            "201",
        ),
        (
            "PUT",
            "file?path=/d&force=true x",
            "409 PATH_ALREADY_EXISTS",
        ),
        ("PUT", "file?path=/a/b&force=true x", "400 INVALID_REQUEST"),
        ("PUT", "file?path=/s&mode=2541 x", "400 INVALID_REQUEST"),
        ("PUT", "file?path=/s&uid=70000 x", "400 INVALID_REQUEST"),
        ("GET", "file?path=/d", "400 NOT_SUPPORTED"),
        ("GET", "file?path=/none", "404 PATH_NOT_FOUND"),
        ("GET", "file", "400 INVALID_REQUEST"),
        ("GET", "path?path=/../etc/passwd", "400 INVALID_REQUEST"),
        ("GET", "path?path=/%00", "400 INVALID_REQUEST"),
        ("GET", "dir?path=/a", "404 PATH_NOT_FOUND"),
        ("GET", "dir?path=/&depth=11", "400 DEPTH_OUT_OF_RANGE"),
        ("POST", "dir?path=/d", "409 PATH_ALREADY_EXISTS"),
        ("POST", "dir?path=/d&force=true", "201"),
        ("POST", "dir?path=/x/y", "404 PATH_NOT_FOUND"),
        ("POST", "dir?path=a+b%2F%C3%BC&force=true&mode=448", "201"),
        ("PATCH", "path?path=/a {}", "200"),
        (
            "PATCH",
            r#"path?path=/a {"mode":4000}"#,
            "400 INVALID_REQUEST",
        ),
        (
            "PATCH",
            r#"path?path=/none {"uid":1}"#,
            "404 PATH_NOT_FOUND",
        ),
        ("DELETE", "path?path=/", "400 CANNOT_DELETE_ROOT"),
        ("DELETE", "path?path=/none", "404 PATH_NOT_FOUND"),
    ] {
        volume.check(method, rest, expected).await;
    }
    let changed = volume
        .check("PATCH", r#"path?path=/a {"gid":7,"mode":384}"#, "200")
        .await;
    assert_eq!(
        (&changed["gid"], &changed["mode"]),
        (&7.into(), &384.into())
    );
    let paths = async |rest: &str| -> Vec<String> {
        let answer = volume.check("GET", rest, "200").await;
        let entries = answer.as_array().unwrap().iter();
        let paths = entries.map(|entry| entry["path"].as_str().unwrap().to_owned());
        paths.collect()
    };
    assert_eq!(paths("dir?path=/").await, ["/a", "/a b", "/d", "/empty"]);
    let all = ["/a", "/a b", "/a b/ü", "/d", "/d/e", "/empty"];
    assert_eq!(paths("dir?path=/&depth=3").await, all);
    assert_eq!(volume.send("DELETE", "path?path=/d").await.status, 204);
    assert_eq!(paths("dir?path=/&depth=0").await, ["/a", "/a b", "/empty"]);
}

#[tokio::test]
async fn a_token_opens_its_own_volume_and_a_key_opens_none() {
    let server = Server::new().await;
    let one = Volume::new(&server, r#"{"name":"one"}"#).await;
    let other = Volume::new(&server, r#"{"name":"other"}"#).await;
    one.check("PUT", "file?path=/a secret", "201").await;
    let line = format!("GET /volumecontent/{}/file?path=/a", one.id);
    let key = format!("Bearer {}", server.key);
    for headers in [
        vec![],
        vec![("Authorization", other.bearer.as_str())],
        vec![("Authorization", key.as_str())],
        vec![("X-API-KEY", server.key.as_str())],
        vec![("Authorization", "Bearer ")],
    ] {
        let answer = server.send_with(&headers, &line).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (401, &"UNAUTHORIZED".into())
        );
        assert!(!answer.body.contains("secret"));
    }
}

#[tokio::test]
async fn a_snapshot_is_read_and_never_written() {
    let server = Server::new().await;
    let volume = Volume::new(&server, r#"{"name":"v"}"#).await;
    volume.check("PUT", "file?path=/a then", "201").await;
    let body = r#"{"name":"s","skep":{"source":"v","readOnly":true}}"#;
    let snapshot = Volume::new(&server, body).await;
    volume
        .check("PUT", "file?path=/a&force=true now", "201")
        .await;
    assert_eq!(snapshot.send("GET", "file?path=/a").await.body, "then");
    for (method, rest) in [
        ("PUT", "file?path=/b x"),
        ("POST", "dir?path=/d"),
        ("PATCH", "path?path=/a {}"),
        ("DELETE", "path?path=/a"),
    ] {
        snapshot.check(method, rest, "403 READ_ONLY").await;
    }
    let body = format!(r#"{{"name":"c","skep":{{"source":"{}"}}}}"#, snapshot.id);
    let clone = Volume::new(&server, &body).await;
    clone.check("PUT", "file?path=/b x", "201").await;
}

#[tokio::test]
async fn a_volume_in_a_sandbox_is_shown_and_not_deleted() {
    let server = Server::new().await;
    let volume = Volume::new(&server, r#"{"name":"v"}"#).await;
    let mounts =
        r#""volumeMounts":[{"name":"v","path":"/mnt/b/"},{"name":"v:ro","path":"/mnt/a"}]"#;
    let id = server
        .create(&format!(r#"{{"templateID":"base",{mounts}}}"#))
        .await;
    let shown = server.send(&format!("GET /sandboxes/{id}")).await.json();
    let expected = serde_json::json!([
        {"name": "v", "path": "/mnt/a", "readOnly": true},
        {"name": "v", "path": "/mnt/b"}
    ]);
    assert_eq!(shown["volumeMounts"], expected);
    let refused = server.send(&format!("DELETE /volumes/{}", volume.id)).await;
    assert_eq!(refused.status, 409);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(id.as_str()), "{message}");
    let shown = server
        .send(&format!("GET /volumes/{}", volume.id))
        .await
        .json();
    assert_eq!(shown["skep"]["usedBy"], serde_json::json!([id.as_str()]));
    assert_eq!(
        server.send(&format!("DELETE /sandboxes/{id}")).await.status,
        204
    );
    server
        .check(&format!("DELETE /volumes/{}", volume.id), "204")
        .await;
}

#[tokio::test]
async fn mounts_that_cannot_be_had_are_all_named() {
    let server = Server::new().await;
    Volume::new(&server, r#"{"name":"v"}"#).await;
    let mounts = r#"[{"name":"none","path":"/a"},{"name":"v","path":""},{"name":"v","path":"a"},{"name":"v","path":"/a/../b"},{"name":"v","path":"/p"},{"name":"v","path":"/p/"},{"name":"v","path":"/proc/x"}]"#;
    let line = format!(r#"POST /v2/sandboxes {{"templateID":"base","volumeMounts":{mounts}}}"#);
    let answer = server.send(&line).await;
    assert_eq!(answer.status, 400);
    let expected = "invalid mounts:\n\t- volume mount #0: volume 'none' not found\n\t- volume mount #1: path cannot be empty\n\t- volume mount #2: path must be absolute\n\t- volume mount #3: path must not contain any '.' or '..' components\n\t- volume mount #5: path '/p' is already used\n\t- volume mount #6: path '/proc/x' belongs to the system; choose another, such as /mnt/data";
    assert_eq!(answer.json()["message"], expected);
    assert_eq!(server.nodes.count(), 0);
}

#[tokio::test]
async fn a_volume_is_in_no_other_that_somebody_may_write_to() {
    let server = Server::new().await;
    Volume::new(&server, r#"{"name":"v"}"#).await;
    let body = r#"{"name":"s","skep":{"source":"v","readOnly":true}}"#;
    Volume::new(&server, body).await;
    let create = async |mounts: &str| {
        let line = format!(r#"POST /v2/sandboxes {{"templateID":"base","volumeMounts":{mounts}}}"#);
        server.send(&line).await
    };
    for (mounts, number) in [
        (
            r#"[{"name":"v","path":"/a"},{"name":"s","path":"/a/b/c"}]"#,
            1,
        ),
        // In either order.
        (
            r#"[{"name":"s","path":"/a/b/c"},{"name":"v","path":"/a"}]"#,
            1,
        ),
        // Others write to it through theirs.
        (
            r#"[{"name":"v:ro","path":"/a"},{"name":"v","path":"/a/b/c"}]"#,
            1,
        ),
        (
            r#"[{"name":"s","path":"/"},{"name":"v","path":"/a"},{"name":"v","path":"/a/b/c"}]"#,
            2,
        ),
    ] {
        let refused = create(mounts).await;
        assert_eq!(refused.status, 400, "{mounts}");
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        let reason =
            format!("volume mount #{number}: path '/a/b/c' is in the volume at '/a': whoever");
        assert!(message.contains(&reason), "{mounts}: {message}");
    }
    assert_eq!(server.nodes.count(), 0);
    // Nobody writes to a snapshot, and a name that begins with another is not in it.
    let beside = r#"[{"name":"s","path":"/a"},{"name":"v","path":"/a/b"},{"name":"v","path":"/ab"},{"name":"v","path":"/a.b"}]"#;
    assert_eq!(create(beside).await.status, 201);
}

#[tokio::test]
async fn a_team_has_so_many_volumes_and_no_more() {
    let limits = skep_control::TeamLimits {
        volumes: 1,
        ..skep_control::TeamLimits::default()
    };
    let server = Server::with(limits, skep_api::Access::Keys).await;
    Volume::new(&server, r#"{"name":"v"}"#).await;
    let refused = server.send(r#"POST /volumes {"name":"w"}"#).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error_code"], "too_many_volumes");
}

#[tokio::test]
async fn a_volume_in_a_bucket_is_refused_with_the_reason() {
    let server = Server::new().await;
    for request in [
        r#"POST /volumes {"name":"s3://bucket/data"}"#,
        r#"POST /volumes {"name":"v","skep":{"source":"s3://bucket/data"}}"#,
    ] {
        let refused = server.send(request).await;
        assert_eq!(refused.status, 501, "{request}");
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        let (place, reason) = message.split_once(" cannot be a volume: ").unwrap();
        assert_eq!(place, "'s3://bucket/data'");
        assert!(reason.contains("a bucket has no locks"), "{reason}");
    }
    let mounts = r#"[{"name":"s3://bucket","path":"/mnt"}]"#;
    let line = format!(r#"POST /v2/sandboxes {{"templateID":"base","volumeMounts":{mounts}}}"#);
    let refused = server.send(&line).await;
    assert_eq!(refused.status, 400);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("#0: 's3://bucket' is a place elsewhere"),
        "{message}"
    );
}
