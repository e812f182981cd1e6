//! Everything that a volume can be asked.

use skep_wire::rest;

use super::Walk;

impl Walk<'_> {
    pub(super) async fn volumes(&mut self) {
        let made = r#"POST /volumes {"name":"walked"}"#;
        let made = self.send(made).await.json();
        let text = |key: &str| made[key].as_str().unwrap().to_owned();
        let (id, bearer) = (text("volumeID"), format!("Bearer {}", text("token")));
        let copy = r#"{"name":"copy","skep":{"source":"walked","readOnly":true}}"#;
        self.send(&format!("POST /volumes {copy}")).await;
        let content = format!("/volumecontent/{id}");
        for line in [
            format!("PUT {content}/file?path=/a hello"),
            format!("GET {content}/file?path=/a"),
            format!("POST {content}/dir?path=/d"),
            format!("GET {content}/dir?path=/"),
            format!("GET {content}/path?path=/a"),
            format!(r#"PATCH {content}/path?path=/a {{"mode":384}}"#),
            format!("DELETE {content}/path?path=/a"),
            format!("GET {content}/path?path=/a"),
        ] {
            self.send_with(&[("Authorization", &bearer)], &line).await;
        }
        self.linked(&id, &bearer).await;
        for line in [
            "GET /volumes".to_owned(),
            format!("GET /volumes/{id}"),
            format!("DELETE /volumes/{id}"),
        ] {
            self.send(&line).await;
        }
        let options = rest::VolumeOptions {
            size_mb: Some(1),
            source: Some("walked".to_owned()),
            read_only: true,
        };
        let volume = rest::NewVolume {
            name: "walked".to_owned(),
            skep: Some(options),
        };
        self.compare_request("NewVolume", &volume);
        let change = rest::VolumeEntryChange {
            uid: Some(1),
            gid: Some(1),
            mode: Some(0o600),
        };
        self.compare_request("VolumeEntryChange", &change);
    }

    /// A link, which only a sandbox can make.
    async fn linked(&mut self, id: &str, bearer: &str) {
        let volumes = self.server.volumes.clone();
        std::os::unix::fs::symlink("d", volumes.shown(id.parse().unwrap()).join("l")).unwrap();
        let line = format!("GET /volumecontent/{id}/path?path=/l");
        self.send_with(&[("Authorization", bearer)], &line).await;
    }
}
