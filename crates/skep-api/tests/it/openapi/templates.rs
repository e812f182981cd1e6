//! Everything that a template can be asked.

use std::time::Duration;

use jiff::Timestamp;
use skep_testkit::wait_until;
use skep_types::{BuildPhase, LogLevel};
use skep_wire::rest;

use super::Walk;

impl Walk<'_> {
    pub(super) async fn templates(&mut self) {
        let (template, build) = self.requested("/v3/templates", r#"{"name":"mine"}"#).await;
        let files = format!("GET /templates/{template}/files/{}", "a".repeat(64));
        let key = self.server.key.clone();
        let headers = [("X-API-KEY", key.as_str()), ("Host", "api.test")];
        let link = self.send_with(&headers, &files).await.json();
        let link = link["url"]
            .as_str()
            .unwrap()
            .strip_prefix("http://api.test")
            .unwrap()
            .to_owned();
        self.send_with(&[], &format!("PUT {link} archive")).await;
        let start = format!("POST /v2/templates/{template}/builds/{build}");
        self.send(&format!(r#"{start} {{"fromTemplate":"base"}}"#))
            .await;
        let builds = self.server.builds.clone();
        builds.log(LogLevel::Error, "broken");
        builds.fail(Some(BuildPhase::Step(1)), "it broke");
        self.ended(&template, &build).await;
        let failed = build;
        let (template, build) = self.requested("/v3/templates", r#"{"name":"mine"}"#).await;
        let cancel = format!("POST /skep/templates/{template}/builds/{build}/cancel");
        self.send(&cancel).await;
        self.send(&format!("GET /skep/templates/mine:{build}"))
            .await;
        let (template, build) = self.requested("/v2/templates", r#"{"alias":"mine"}"#).await;
        let start = format!("POST /v2/templates/{template}/builds/{build}");
        self.send(&format!(r#"{start} {{"fromImage":"debian"}}"#))
            .await;
        builds.succeed();
        self.ended(&template, &build).await;
        for line in [
            format!("GET /templates/{template}/builds/{build}/logs"),
            format!("GET /templates/{template}"),
            "POST /templates/mine".to_owned(),
            format!("POST /templates/{template}/builds/{build}"),
            r#"POST /templates/tags {"target":"mine","tags":["v1"]}"#.to_owned(),
            "GET /templates/mine/tags".to_owned(),
            r#"DELETE /templates/tags {"name":"mine","tags":["v1"]}"#.to_owned(),
            r#"PATCH /v2/templates/mine {"public":true}"#.to_owned(),
            r#"PATCH /templates/mine {"public":false}"#.to_owned(),
            "GET /templates".to_owned(),
            "GET /skep/templates/mine".to_owned(),
            "GET /skep/templates/base".to_owned(),
            "GET /skep/templates/mine/builds".to_owned(),
            "GET /skep/templates/mine/files?below=1".to_owned(),
            format!("DELETE /skep/templates/mine/builds/{failed}"),
            "DELETE /templates/mine".to_owned(),
        ] {
            self.send(&line).await;
        }
        self.template_requests();
        self.version_answers();
    }

    /// Answers with every field: nothing that a test plays has layers or files.
    fn version_answers(&mut self) {
        let text = || Some("x".to_owned());
        let version = rest::VersionSummary {
            build_id: "b".to_owned(),
            content_id: text(),
            status: rest::BuildStatus::Ready,
            tags: vec!["v1".to_owned()],
            bytes: Some(1),
            created_at: Timestamp::UNIX_EPOCH,
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Some(Timestamp::UNIX_EPOCH),
            reason: text(),
            cpu_count: 2,
            memory_mb: 1024,
            disk_size_mb: 1024,
        };
        let versions = rest::TemplateVersions {
            template_id: "t".to_owned(),
            names: vec!["team/app".to_owned()],
            public: false,
            builds: vec![version.clone()],
        };
        self.compare_request("TemplateVersions", &versions);
        let detail = rest::TemplateVersion {
            template_id: "t".to_owned(),
            names: versions.names,
            public: false,
            version,
            from_image: text(),
            from_template: text(),
            steps: Vec::new(),
            user: text(),
            workdir: text(),
            env_vars: [("A".to_owned(), "1".to_owned())].into(),
            start_cmd: text(),
            ready_cmd: text(),
            layers: vec![rest::VersionLayer {
                key: "k".to_owned(),
                title: text(),
                bytes: 1,
            }],
        };
        self.compare_request("TemplateVersion", &detail);
        let files = rest::VersionFiles {
            files: vec![rest::VersionFile {
                path: "/a".to_owned(),
                kind: rest::VersionFileKind::Removed,
                size: 1,
                mode: 0o644,
                modified_at: Timestamp::UNIX_EPOCH,
            }],
            has_more: false,
        };
        self.compare_request("VersionFiles", &files);
    }

    async fn requested(&mut self, path: &str, body: &str) -> (String, String) {
        let requested = self.send(&format!("POST {path} {body}")).await.json();
        let text = |key: &str| requested[key].as_str().unwrap().to_owned();
        (text("templateID"), text("buildID"))
    }

    async fn ended(&mut self, template: &str, build: &str) {
        let line = format!("GET /templates/{template}/builds/{build}/status");
        let server = self.server;
        wait_until(Duration::from_secs(10), async || {
            let answer = server.send(&line).await;
            match answer.json()["status"].as_str() {
                Some("ready" | "error") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        self.send(&line).await;
    }

    fn template_requests(&mut self) {
        let text = || Some("x".to_owned());
        let tags = || vec!["v1".to_owned()];
        let new = rest::NewTemplate {
            name: text(),
            alias: text(),
            tags: Some(tags()),
            cpu_count: Some(2),
            memory_mb: Some(1024),
            min_free_disk_mb: Some(0),
            team_id: text(),
        };
        self.compare_request("NewTemplate", &new);
        let start = rest::StartBuild {
            from_image: text(),
            from_template: text(),
            from_image_registry: Some(rest::ImageRegistry {
                kind: "aws".to_owned(),
                username: text(),
                password: text(),
                aws_access_key_id: text(),
                aws_secret_access_key: text(),
                aws_region: text(),
                service_account_json: text(),
            }),
            force: Some(true),
            steps: Some(vec![rest::BuildStep {
                kind: "RUN".to_owned(),
                args: Some(vec!["true".to_owned()]),
                files_hash: text(),
                from_template: text(),
                force: Some(false),
            }]),
            start_cmd: text(),
            ready_cmd: text(),
        };
        self.compare_request("StartBuild", &start);
        let assign = rest::AssignTags {
            target: "mine".to_owned(),
            tags: tags(),
        };
        self.compare_request("AssignTags", &assign);
        let remove = rest::RemoveTags {
            name: "mine".to_owned(),
            tags: tags(),
        };
        self.compare_request("RemoveTags", &remove);
        let update = rest::UpdateTemplate { public: Some(true) };
        self.compare_request("UpdateTemplate", &update);
    }
}
