//! Pausing and resuming, on a host that can and on one that cannot.

use skep_types::{Capabilities, Obstacle, Phase};

use crate::server::Server;

#[tokio::test]
async fn a_sandbox_is_paused_once_and_resumed_once_where_its_host_can() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let send = async |line: &str| server.send(&format!("POST /sandboxes/{id}/{line}")).await;
    assert_eq!(send("pause").await.text(), "204");
    let again = send(r#"pause {"memory":true}"#).await;
    assert_eq!((again.status, &again.json()["code"]), (409, &409.into()));
    let sentence = format!("Error pausing sandbox - sandbox '{id}' is already paused");
    assert_eq!(again.json()["message"], sentence);
    let listed = server.send("GET /v2/sandboxes?state=paused").await;
    assert_eq!(listed.json()[0]["sandboxID"], id.as_str());
    assert_eq!(listed.json()[0]["pauseMode"], "full");
    assert_eq!(send(r#"timeout {"timeout":60}"#).await.status, 404);
    let resumed = send(r#"resume {"timeout":60}"#).await;
    assert_eq!(resumed.status, 201);
    assert_eq!(resumed.json()["sandboxID"], id.as_str());
    let again = send("resume").await;
    assert_eq!(again.status, 409);
    let sentence = format!("Sandbox {id} is already running");
    assert_eq!(again.json()["message"], sentence);
}

#[tokio::test]
async fn a_connection_resumes_a_paused_sandbox_and_extends_a_running_one() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let body =
        r#"{"templateID":"base","timeout":600,"autoPause":true,"autoResume":{"enabled":true}}"#;
    let id = server.create(body).await;
    let send = async |line: String| server.send(&format!("POST {line}")).await;
    let pause = async || {
        assert_eq!(
            send(format!("/sandboxes/{id}/pause {{}}")).await.status,
            204
        )
    };
    let token = async || {
        let detail = server.send(&format!("GET /sandboxes/{id}")).await.json();
        detail["envdAccessToken"].clone()
    };
    let before = token().await;
    let v1 = format!("/sandboxes/{id}/connect");
    let v2 = format!("/v2/sandboxes/{id}/connect");
    for line in [
        format!(r#"{v1} {{"timeout":60}}"#),
        format!(r#"{v1} {{"timeout":0}}"#),
        v2.clone(),
        format!("{v2} {{}}"),
        format!(r#"{v2} {{"timeout":60,"memory":false}}"#),
    ] {
        pause().await;
        assert_eq!(send(line.clone()).await.status, 201, "{line}");
        assert_eq!(send(line.clone()).await.status, 200, "{line}");
    }
    let detail = server.send(&format!("GET /sandboxes/{id}")).await.json();
    assert_eq!(detail["envdAccessToken"], before);
    assert_eq!(detail["lifecycle"]["onTimeout"], "pause");
    assert_eq!(detail["lifecycle"]["autoResume"], true);
    assert_eq!(detail.get("pauseMode"), None);
    let zero = send(format!(r#"{v2} {{"timeout":0}}"#)).await;
    assert_eq!(zero.status, 400);
    let long = send(r#"/v2/sandboxes/iunknown/connect {"timeout":99999999}"#.to_owned()).await;
    assert_eq!(
        long.status, 400,
        "said before anybody looks for the sandbox"
    );
}

#[tokio::test]
async fn a_resume_changes_the_fate_of_a_sandbox_only_if_it_says_so() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let body = r#"{"templateID":"base","autoPause":true,"autoPauseMemory":false}"#;
    let id = server.create(body).await;
    let fate = async |line: &str| {
        let paused = server.send(&format!("POST /sandboxes/{id}/pause")).await;
        assert_eq!(paused.status, 204);
        let line = format!("POST /sandboxes/{id}/resume{line}");
        assert_eq!(server.send(&line).await.status, 201);
        let detail = server.send(&format!("GET /sandboxes/{id}")).await.json();
        detail["lifecycle"]["onTimeout"].clone()
    };
    assert_eq!(fate("").await, "pause");
    assert_eq!(fate(r#" {"autoPause":false}"#).await, "kill");
    assert_eq!(fate(r#" {"autoPause":true}"#).await, "pause");
}

#[tokio::test]
async fn a_silent_agent_is_told_as_such() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let id = server.create(r#"{"templateID":"base"}"#).await;
    server.nodes.silence_agents(true);
    let pause = format!("POST /sandboxes/{id}/pause");
    let refused = server
        .send(&format!(r#"{pause} {{"requireHealthyGuest":true}}"#))
        .await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("should-retry"), Some("false"));
    assert_eq!(server.send(&pause).await.status, 204);
    let detail = server.send(&format!("GET /sandboxes/{id}")).await.json();
    assert_eq!(detail["envdUnresponsiveAtPause"], true);
    let connect = format!("POST /v2/sandboxes/{id}/connect");
    let refused = server.send(&connect).await;
    assert_eq!(refused.status, 409);
    let code = "sandbox_snapshot_guest_agent_unresponsive";
    assert_eq!(refused.json()["error_code"], code);
    let anew = server
        .send(&format!(r#"{connect} {{"memory":false}}"#))
        .await;
    assert_eq!(anew.status, 201);
}

#[tokio::test]
async fn what_a_pause_does_not_keep_is_said_in_the_answers() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let shown = server.send(&format!("GET /sandboxes/{id}")).await.json();
    assert_eq!(shown.get("keptIn"), None);
    let pause = format!("POST /sandboxes/{id}/pause");
    assert_eq!(server.send(&pause).await.status, 204);
    server.nodes.set_obstacle(&id, Obstacle::Debugger);
    for line in [
        format!("GET /sandboxes/{id}"),
        "GET /v2/sandboxes?state=paused".to_owned(),
    ] {
        let shown = server.send(&line).await.json();
        let shown = shown.get(0).unwrap_or(&shown);
        assert_eq!(
            (&shown["keptIn"], &shown["obstacle"]),
            (&"memory".into(), &"debugger".into())
        );
        assert_eq!(shown["lost"], serde_json::json!([]));
    }
    let connect = format!("POST /v2/sandboxes/{id}/connect");
    let resumed = server.send(&connect).await.json();
    assert_eq!(resumed["keptIn"], "memory");
    let running = server.send(&connect).await.json();
    assert_eq!(running.get("keptIn"), None, "nothing was resumed");
    assert_eq!(
        server
            .send(&format!(r#"{pause} {{"memory":false}}"#))
            .await
            .status,
        204
    );
    let resumed = server.send(&connect).await.json();
    assert_eq!(resumed["keptIn"], "files");
    assert_eq!(resumed["lost"][0], "processes");
}

#[tokio::test]
async fn what_cannot_be_combined_is_refused_before_anything_is_started() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    for body in [
        r#"{"templateID":"base","autoPauseMemory":false}"#,
        r#"{"templateID":"base","autoPause":true,"autoPauseMemory":false,"autoResume":{"enabled":true}}"#,
    ] {
        let refused = server.send(&format!("POST /v2/sandboxes {body}")).await;
        assert_eq!(refused.status, 400, "{body}");
    }
    assert_eq!(server.nodes.count(), 0);
    server.nodes.set_capabilities(Capabilities::default());
    let body = r#"{"templateID":"base","autoPause":true}"#;
    let refused = server.send(&format!("POST /v2/sandboxes {body}")).await;
    assert_eq!((refused.status, server.nodes.count()), (501, 0));
}

#[tokio::test]
async fn a_host_that_cannot_pause_says_so_and_the_sandbox_runs_on() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    for body in ["", r#" {"memory":true}"#, r#" {"memory":false}"#] {
        let answer = server
            .send(&format!("POST /sandboxes/{id}/pause{body}"))
            .await;
        assert_eq!(answer.status, 501, "{body}");
    }
    let shown = server.send(&format!("GET /sandboxes/{id}")).await;
    assert_eq!(shown.json()["state"], "running");
}

/// Refusals in each phase: status, and words of the message.
#[tokio::test]
async fn what_does_not_fit_to_what_is_under_way_is_refused_by_name() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let pause = format!("POST /sandboxes/{id}/pause");
    let connect = format!("POST /v2/sandboxes/{id}/connect");
    let resume = format!("POST /sandboxes/{id}/resume");
    let snapshot = format!(r#"POST /sandboxes/{id}/snapshots {{"memory":false}}"#);
    let fork = format!("POST /sandboxes/{id}/fork");
    let timeout = format!(r#"POST /sandboxes/{id}/timeout {{"timeout":60}}"#);
    let network = format!("PUT /sandboxes/{id}/network {{}}");
    let detail = format!("GET /sandboxes/{id}");
    for (phase, line, status, says) in [
        (
            Phase::Pausing,
            &snapshot,
            409,
            "cannot be snapshotted while in 'pausing' state",
        ),
        (
            Phase::Pausing,
            &fork,
            409,
            "cannot be forked while in 'pausing' state",
        ),
        (Phase::Pausing, &timeout, 409, "is being paused or resumed"),
        (Phase::Pausing, &network, 409, "while in 'pausing' state"),
        (
            Phase::Snapshotting,
            &resume,
            409,
            "snapshot is currently being created",
        ),
        (
            Phase::Snapshotting,
            &snapshot,
            409,
            "while in 'snapshotting' state",
        ),
        (
            Phase::Snapshotting,
            &fork,
            409,
            "cannot be forked while in 'snapshotting' state",
        ),
        (
            Phase::Snapshotting,
            &network,
            409,
            "while in 'snapshotting' state",
        ),
        (Phase::Resuming, &snapshot, 409, "while in 'resuming' state"),
        (
            Phase::Resuming,
            &fork,
            409,
            "cannot be forked while in 'resuming' state",
        ),
        (Phase::Resuming, &timeout, 409, "is being paused or resumed"),
        (Phase::Resuming, &network, 409, "while in 'resuming' state"),
        (Phase::Paused, &pause, 409, "is already paused"),
        (Phase::Paused, &fork, 409, "is paused and cannot be forked"),
        (Phase::Paused, &timeout, 404, "is paused; resume it first"),
        (Phase::Paused, &network, 404, "doesn't exist"),
        (Phase::Stopping, &pause, 404, "doesn't exist"),
        (Phase::Stopping, &connect, 409, "is being killed"),
        (Phase::Stopping, &resume, 404, "doesn't exist"),
        (Phase::Stopping, &snapshot, 404, "doesn't exist"),
        (Phase::Stopping, &fork, 404, "doesn't exist"),
        (Phase::Stopping, &timeout, 409, "is being killed"),
        (Phase::Stopping, &network, 409, "is being killed"),
        (Phase::Stopping, &detail, 404, "doesn't exist"),
    ] {
        server.nodes.set_phase(&id, phase);
        let answer = server.send(line).await;
        let message = answer.json()["message"].to_string();
        assert_eq!(answer.status, status, "{phase:?} {line}: {message}");
        assert!(message.contains(says), "{phase:?} {line}: {message}");
    }
}

#[tokio::test]
async fn a_snapshot_is_shown_like_the_template_that_it_is_and_its_sandbox_knows_where_it_stands() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let history = format!("GET /skep/sandboxes/{id}/checkpoints");
    assert_eq!(server.send(&history).await.text(), "200 []");
    let unknown = history.replace(id.as_str(), "iiiiiiiiiiiiiiiiiiiii");
    assert_eq!(server.send(&unknown).await.status, 404);
    let snapshot = async |body: &str| {
        let line = format!("POST /sandboxes/{id}/snapshots {body}");
        let taken = server.send(&line).await;
        assert_eq!(taken.status, 201, "{body}");
        taken.json()
    };
    let first = snapshot(r#"{"name":"mine:v1","memory":false}"#).await;
    let second = snapshot(r#"{"memory":false}"#).await;
    assert_eq!(second["parentID"], first["checkpointID"]);
    let shown = server.send(&history).await.json();
    assert_eq!(shown[0]["isCurrent"], true);
    assert_eq!(shown[1].get("isCurrent"), None);
    let unnamed = second["snapshotID"].as_str().unwrap();
    let (unnamed, _) = unnamed.split_once(':').unwrap();
    for name in ["mine", unnamed] {
        let alias = server.send(&format!("GET /templates/aliases/{name}")).await;
        let detail = server.send(&format!("GET /templates/{name}")).await;
        assert_eq!((alias.status, detail.status), (200, 200), "{name}");
        let template = alias.json()["templateID"].clone();
        assert_eq!(detail.json()["templateID"], template);
        let create = format!(r#"POST /sandboxes {{"templateID":{template}}}"#);
        // By its id alone it is the tag `default`, which the named one lacks.
        let status = if name == "mine" { 404 } else { 201 };
        assert_eq!(server.send(&create).await.status, status, "{name}");
    }
    let full = server.send(&format!("DELETE /templates/{unnamed}")).await;
    assert_eq!(full.status, 204);
    let shown = server.send(&history).await.json();
    assert_eq!(shown[0]["checkpointID"], first["checkpointID"]);
    assert_eq!(
        shown[0]["isCurrent"], true,
        "the next before is where it is"
    );
}
