//! Creation of sandboxes.

use std::time::Duration;

use skep_api::Access;
use skep_control::{NodeCreateError, TeamLimits};
use skep_testkit::wait_until;
use skep_types::{AccessToken, Egress, EndReason, HostResource, SandboxId};

use crate::server::Server;

const CREATED: &str = r#"201 {"alias":"base","clientID":"6532622b","domain":"sandbox.test","envdAccessToken":"TOKEN","envdVersion":"0.6.13","sandboxID":"SANDBOX","templateID":"ID","trafficAccessToken":"TOKEN"}"#;

const YEAR_OLD_PYTHON: &str = r#"{"templateID":"base","allow_internet_access":true,"autoPause":false,"envVars":{},"metadata":{},"secure":true,"timeout":300}"#;

#[tokio::test]
async fn every_generation_of_clients_gets_its_sandbox() {
    let server = Server::new().await;
    for line in [
        r#"POST /v2/sandboxes {"templateID":"base","metadata":{},"envVars":{}}"#,
        r#"POST /v2/sandboxes {"templateID":"base"}"#,
        r#"POST /v2/sandboxes {"templateID":" Base:default ","secure":false,"novelty":1}"#,
        r#"POST /sandboxes {"templateID":"base","timeout":300,"secure":true,"allow_internet_access":true}"#,
        &format!("POST /sandboxes {YEAR_OLD_PYTHON}"),
        r#"POST /sandboxes {"templateID":"base","secure":true,"network":{"allowPublicTraffic":true}}"#,
        r#"POST /v2/sandboxes {"templateID":"base","network":{"allowPublicTraffic":null},"volumeMounts":[],"iam":{"tokens":{}},"mcp":{"time":{}},"autoResume":{"enabled":false},"autoPauseMemory":true}"#,
    ] {
        server.check(line, CREATED).await;
    }
    assert_eq!(server.nodes.count(), 7);
}

#[tokio::test]
async fn every_sandbox_has_a_token_and_only_the_first_generation_can_do_without() {
    let server = Server::new().await;
    for (body, is_secure) in [
        (r#"{"templateID":"base"}"#, false),
        (r#"{"templateID":"base","secure":false}"#, false),
        (r#"{"templateID":"base","secure":true}"#, true),
    ] {
        for (route, is_second) in [("/sandboxes", false), ("/v2/sandboxes", true)] {
            let answer = server.send(&format!("POST {route} {body}")).await;
            assert_eq!(answer.status, 201);
            let made = answer.json();
            let id = made["sandboxID"].as_str().unwrap().parse().unwrap();
            let is_open = server.nodes.spec(&id).unwrap().is_open;
            assert_eq!(is_open, !is_secure && !is_second, "POST {route} {body}");
            let token = made["envdAccessToken"].as_str().unwrap();
            let traffic = made["trafficAccessToken"].as_str().unwrap();
            assert_eq!(AccessToken::from_record(token).traffic().reveal(), traffic);
        }
    }
}

#[tokio::test]
async fn the_machine_is_given_what_was_asked_for() {
    let server = Server::new().await;
    let id = server
        .create(r#"{"templateID":"base","timeout":42,"allow_internet_access":false,"envVars":{"A":"1"}}"#)
        .await;
    let spec = server.nodes.spec(&id).unwrap();
    assert_eq!(spec.lifetime, Duration::from_secs(42));
    assert_eq!(spec.egress, Egress::closed());
    assert_eq!(*spec.env.reveal(), [("A".to_owned(), "1".to_owned())]);

    let id = server
        .create(r#"{"templateID":"base","envVars":{"KEY":"hunter2222"},"skep":{"secrets":["another"],"secretEnvs":["KEY"]}}"#)
        .await;
    let spec = server.nodes.spec(&id).unwrap();
    assert!(spec.secrets.reveal().eq(["another", "hunter2222"]));

    let id = server.create(r#"{"templateID":"base"}"#).await;
    let spec = server.nodes.spec(&id).unwrap();
    assert!(spec.secrets.is_empty());
    assert_eq!(spec.lifetime, Duration::from_secs(300));
    assert_eq!(spec.egress, Egress::default());

    let answer = server
        .send(r#"POST /sandboxes {"templateID":"base"}"#)
        .await;
    let id: SandboxId = answer.json()["sandboxID"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(
        server.nodes.spec(&id).unwrap().lifetime,
        Duration::from_secs(15)
    );
}

#[tokio::test]
async fn a_bad_request_is_refused_before_anything_runs() {
    let server = Server::new().await;
    for (body, expected) in [
        (
            r#"{"templateID":"base","timeout":0}"#,
            r#"400 {"code":400,"error_code":"invalid_timeout","message":"Timeout must be greater than 0"}"#,
        ),
        (
            r#"{"templateID":"base","timeout":-5}"#,
            r#"400 {"code":400,"error_code":"invalid_timeout","message":"Timeout must be greater than 0"}"#,
        ),
        (
            r#"{"templateID":"base","timeout":86401}"#,
            r#"400 {"code":400,"error_code":"invalid_timeout","message":"Timeout cannot be greater than 24 hours"}"#,
        ),
        (
            r#"{"timeout":10}"#,
            r#"400 {"code":400,"error_code":"validation_error","message":"validation error: missing field `templateID` at line 1 column 14"}"#,
        ),
        (
            r#"{"templateID":"base","timeout":"long"}"#,
            r#"400 {"code":400,"error_code":"validation_error","message":"validation error: invalid type: string \"long\", expected i64 at line 1 column 37"}"#,
        ),
        (
            r#"{"templateID":"#,
            r#"400 {"code":400,"error_code":"invalid_json","message":"Error when parsing request: EOF while parsing a value at line 1 column 14"}"#,
        ),
        (
            r#"{"templateID":"no such name"}"#,
            r#"400 {"code":400,"error_code":"invalid_template","message":"Invalid template: `no such name` is not a template name; use [namespace/]name[:tag] of a-z, 0-9, `-` and `_`"}"#,
        ),
        (
            r#"{"templateID":"nope"}"#,
            r#"404 {"code":404,"error_code":"template_not_found","message":"template 'nope' not found"}"#,
        ),
        (
            r#"{"templateID":"base:v9"}"#,
            r#"404 {"code":404,"error_code":"template_tag_not_found","message":"tag 'v9' does not exist for template 'base'"}"#,
        ),
        (
            r#"{"templateID":"base","skep":{"secret":["hunter2222"]}}"#,
            r#"400 {"code":400,"error_code":"validation_error","message":"validation error: unknown field `secret`, expected `secrets` or `secretEnvs` at line 1 column 54"}"#,
        ),
        (
            r#"{"templateID":"base","skep":{"secrets":"hunter2222"}}"#,
            r#"400 {"code":400,"error_code":"validation_error","message":"validation error: a field of `skep` has the wrong type at line 1 column 53"}"#,
        ),
        (
            r#"{"templateID":"base","skep":{"secrets":["short"]}}"#,
            r#"400 {"code":400,"error_code":"validation_error","message":"validation error: skep.secrets is not accepted: a secret has at least 6 bytes"}"#,
        ),
        (
            r#"{"templateID":"base","envVars":{"KEY":"hunter2222"},"skep":{"secretEnvs":["KYE"]}}"#,
            r#"400 {"code":400,"error_code":"validation_error","message":"validation error: 'KYE' is to be secret and is not in envVars"}"#,
        ),
        (
            r#"{"templateID":"base","envVars":{"A=B":"1"}}"#,
            r#"400 {"code":400,"error_code":"validation_error","message":"validation error: envVars has a variable with a name, value or size that no process can have"}"#,
        ),
    ] {
        for route in ["/sandboxes", "/v2/sandboxes"] {
            server
                .check(&format!("POST {route} {body}"), expected)
                .await;
        }
    }
    assert_eq!(server.nodes.count(), 0);
}

#[tokio::test]
async fn what_would_fill_the_server_or_stop_every_process_is_refused() {
    let server = Server::new().await;
    let status = async |field: &str, size: usize| {
        let value = "x".repeat(size);
        let line =
            format!(r#"POST /v2/sandboxes {{"templateID":"base","{field}":{{"k":"{value}"}}}}"#);
        server.send(&line).await.status
    };
    assert_eq!(status("metadata", 64 * 1024 - 1).await, 201);
    assert_eq!(status("metadata", 64 * 1024).await, 400);
    assert_eq!(status("envVars", 128 * 1024 - 3).await, 201);
    assert_eq!(status("envVars", 128 * 1024 - 2).await, 400);
    let many: Vec<_> = (0..11)
        .map(|number| format!(r#""k{number}":"{}""#, "x".repeat(100_000)))
        .collect();
    let line = format!(
        r#"POST /v2/sandboxes {{"templateID":"base","envVars":{{{}}}}}"#,
        many.join(",")
    );
    assert_eq!(server.send(&line).await.status, 400);
}

#[tokio::test]
async fn what_does_not_work_yet_is_refused_and_never_ignored() {
    let server = Server::new().await;
    for (field, status, message) in [
        (
            r#""autoPause":true"#,
            501,
            "pausing a sandbox when its time is over is not available on this server yet",
        ),
        (
            r#""autoPauseMemory":false"#,
            400,
            "validation error: autoPauseMemory=false only applies when autoPause is true.",
        ),
        (
            r#""iam":{"tokens":{"a":{"audience":"b","tokenType":"X509-SVID"}}}"#,
            400,
            "iam.tokens.a.tokenType: only \"JWT-SVID\" is supported",
        ),
        (
            r#""network":{"egressProxy":{"address":"x"}}"#,
            400,
            "Invalid egress proxy config: address must be host:port, with a name or an address of \
             IPv4 and a port from 1 to 65535",
        ),
        (
            r#""network":{"rules":{"*":[]}}"#,
            400,
            "Rule domain \"*\" is not a valid domain name.",
        ),
        (
            r#""network":{"allowOut":["example.com"]},"allow_internet_access":false"#,
            400,
            "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all other traffic.",
        ),
        (
            r#""network":{"denyOut":["example.com"]}"#,
            400,
            "invalid denied CIDR example.com",
        ),
    ] {
        let line = format!(r#"POST /v2/sandboxes {{"templateID":"base",{field}}}"#);
        let answer = server.send(&line).await;
        assert_eq!(
            (answer.status, answer.json()["message"].as_str()),
            (status, Some(message)),
            "{field}"
        );
    }
    assert_eq!(server.nodes.count(), 0);
}

#[tokio::test]
async fn the_ports_of_a_sandbox_are_closed_masked_and_spoken_to_as_its_owner_says() {
    let server = Server::new().await;
    let network = r#"{"allowPublicTraffic":false,"maskRequestHost":"localhost:${PORT}","httpsPorts":[8443,443]}"#;
    for route in ["/sandboxes", "/v2/sandboxes"] {
        let line = format!(r#"POST {route} {{"templateID":"base","network":{network}}}"#);
        let made = server.send(&line).await.json();
        let id: SandboxId = made["sandboxID"].as_str().unwrap().parse().unwrap();
        let spec = server.nodes.spec(&id).unwrap();
        assert!(spec.ingress.is_private && !spec.is_open, "{route}");
        assert_eq!(
            spec.ingress.host_mask.as_ref().unwrap().host_for(7),
            "localhost:7"
        );
        assert!(spec.ingress.https_ports.contains(443));
        let detail = server.send(&format!("GET /sandboxes/{id}")).await.json();
        assert_eq!(
            detail["network"].to_string(),
            r#"{"allowPublicTraffic":false,"httpsPorts":[443,8443],"maskRequestHost":"localhost:${PORT}"}"#
        );
        // The token is the same when somebody connects.
        let line = format!(r#"POST /sandboxes/{id}/connect {{"timeout":60}}"#);
        let connected = server.send(&line).await.json();
        assert_eq!(connected["trafficAccessToken"], made["trafficAccessToken"]);
    }
    let id = server
        .create(r#"{"templateID":"base","network":{"httpsPorts":null}}"#)
        .await;
    let detail = server.send(&format!("GET /sandboxes/{id}")).await.json();
    assert_eq!(detail.get("network"), None);
}

#[tokio::test]
async fn rules_for_ports_that_mean_nothing_are_refused_in_the_words_of_the_contract() {
    let server = Server::new().await;
    let many = (1..=129).map(|port| port.to_string()).collect::<Vec<_>>();
    let many = format!(r#""httpsPorts":[{}]"#, many.join(","));
    for (field, message) in [
        (many.as_str(), "HTTPS ports can have at most 128 entries."),
        (
            r#""httpsPorts":[0]"#,
            "HTTPS port must be between 1 and 65535: 0",
        ),
        (
            r#""httpsPorts":[65536]"#,
            "HTTPS port must be between 1 and 65535: 65536",
        ),
        (
            r#""httpsPorts":[49983]"#,
            "HTTPS backend routing is not supported for reserved port 49983",
        ),
        (
            r#""httpsPorts":[443,443]"#,
            "HTTPS port 443 is specified more than once.",
        ),
        (
            r#""maskRequestHost":"a b""#,
            "mask request host is not valid: a b",
        ),
        (
            r#""maskRequestHost":"a\r\nx: y""#,
            "mask request host is not valid: a\r\nx: y",
        ),
        (
            r#""maskRequestHost":"höst""#,
            "mask request host 'höst' is not ASCII. Use the form of the name that begins with xn--.",
        ),
    ] {
        let line = format!(r#"POST /v2/sandboxes {{"templateID":"base","network":{{{field}}}}}"#);
        let answer = server.send(&line).await;
        let json = answer.json();
        assert_eq!(answer.status, 400, "{field}");
        assert_eq!(
            json["message"].as_str().unwrap(),
            format!("validation error: {message}")
        );
    }
    assert_eq!(server.nodes.count(), 0);
}

#[tokio::test]
async fn the_quota_counts_what_lives_and_says_that_waiting_does_not_help() {
    let limits = TeamLimits {
        sandboxes: 2,
        ..TeamLimits::default()
    };
    let server = Server::with(limits, Access::Keys).await;
    let first = server.create(r#"{"templateID":"base"}"#).await;
    let second = server.create(r#"{"templateID":"base"}"#).await;
    let answer = server
        .send(r#"POST /sandboxes {"templateID":"base"}"#)
        .await;
    assert_eq!(
        answer.text(),
        r#"429 {"code":429,"error_code":"too_many_sandboxes","message":"you have reached the limit of 2 running sandboxes; kill one, or ask the operator for more"}"#
    );
    assert_eq!(answer.header("should-retry"), Some("false"));
    assert_eq!(answer.header("retry-after"), None);

    // One is killed, the other's time runs out without anybody looking.
    server
        .check(&format!("DELETE /sandboxes/{first}"), "204")
        .await;
    assert!(server.nodes.end(&second, EndReason::Timeout).await);
    server.create(r#"{"templateID":"base"}"#).await;
    server.create(r#"{"templateID":"base"}"#).await;
    let answer = server
        .send(r#"POST /sandboxes {"templateID":"base"}"#)
        .await;
    assert_eq!(answer.status, 429);
}

#[tokio::test]
async fn a_machine_without_room_refuses_before_anything_is_left() {
    let limits = TeamLimits {
        sandboxes: 1,
        ..TeamLimits::default()
    };
    let server = Server::with(limits, Access::Keys).await;
    let line = r#"POST /v2/sandboxes {"templateID":"base"}"#;
    let headers = [
        ("X-API-Key", server.key.as_str()),
        ("Idempotency-Key", "once"),
    ];
    for (resource, lacking) in [
        (HostResource::Memory, "memory"),
        (HostResource::Disk, "disk space"),
        (HostResource::Processes, "room for processes"),
    ] {
        server.nodes.lack(Some(resource));
        let answer = server.send_with(&headers, line).await;
        let message = format!(
            "the server is short of {lacking} and takes no more sandboxes now; kill some that you do not need, or try again later"
        );
        assert_eq!(
            answer.text(),
            format!(
                r#"503 {{"code":503,"error_code":"sandbox_capacity_unavailable","message":"{message}"}}"#
            )
        );
        assert_eq!(answer.headers["retry-after"], "5");
        assert_eq!(answer.headers["should-retry"], "true");
    }
    let records = server.send("GET /skep/sandboxes?all=true").await;
    assert_eq!(records.text(), "200 []");
    // Its place in the quota is free, and so is its name.
    server.nodes.lack(None);
    assert_eq!(server.send_with(&headers, line).await.status, 201);
    assert_eq!(server.nodes.count(), 1);
}

#[tokio::test]
async fn a_failed_start_is_told_with_advice_and_gives_its_place_back() {
    let limits = TeamLimits {
        sandboxes: 1,
        ..TeamLimits::default()
    };
    let server = Server::with(limits, Access::Keys).await;
    let because = || "no such luck".into();
    for (error, expected, retry) in [
        (
            NodeCreateError::NoRoom(HostResource::Slots),
            r#"503 {"code":503,"error_code":"sandbox_capacity_unavailable","message":"the server is short of places for sandboxes and takes no more sandboxes now; kill some that you do not need, or try again later"}"#,
            Some("5"),
        ),
        (
            NodeCreateError::Failed(because()),
            r#"503 {"code":503,"error_code":"sandbox_create_failed","message":"the sandbox did not come up; try again"}"#,
            Some("1"),
        ),
        (
            NodeCreateError::Refused(because()),
            r#"500 {"code":500,"error_code":"sandbox_create_refused","message":"the sandbox could not be started; the operator finds the reason in the log"}"#,
            None,
        ),
        (
            NodeCreateError::StartCommand("it ended".to_owned()),
            r#"400 {"code":400,"error_code":"start_command_failed","message":"the template's start command did not make the sandbox ready: it ended"}"#,
            None,
        ),
        (
            NodeCreateError::Stopping,
            r#"503 {"code":503,"error_code":"server_stopping","message":"the server is about to stop"}"#,
            Some("2"),
        ),
    ] {
        server.nodes.refuse_next(error);
        let answer = server
            .send(r#"POST /sandboxes {"templateID":"base"}"#)
            .await;
        assert_eq!(answer.text(), expected);
        assert_eq!(answer.header("retry-after"), retry, "{expected}");
        assert_eq!(
            answer.header("should-retry"),
            retry.map(|_| "true"),
            "{expected}"
        );
    }
    assert_eq!(server.listed("GET /v2/sandboxes").await, [""; 0]);
    assert_eq!(server.listed("GET /skep/sandboxes").await, [""; 0]);
    let all = server.send("GET /skep/sandboxes?all=true").await.json();
    let reasons: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["endReason"])
        .collect();
    assert_eq!(reasons, ["start_failed"; 5]);
    server.create(r#"{"templateID":"base"}"#).await;
}

#[tokio::test]
async fn a_caller_that_hangs_up_changes_nothing() {
    let server = Server::new().await;
    server.nodes.hold();
    let request = server.send(r#"POST /v2/sandboxes {"templateID":"base"}"#);
    // Long enough for the host to be asked, and then nobody waits any more.
    let hung_up = tokio::select! {
        answer = request => Some(answer.status),
        () = asked(&server) => None,
    };
    assert_eq!(hung_up, None);
    assert_eq!(server.nodes.count(), 0);
    server.nodes.release();
    wait_until(Duration::from_secs(10), async || {
        match server.listed("GET /v2/sandboxes").await.len() {
            1 => Ok(()),
            count => Err(format!("{count} sandboxes")),
        }
    })
    .await;
}

async fn asked(server: &Server) {
    wait_until(Duration::from_secs(10), async || {
        match server.nodes.waiting() {
            0 => Err("the machine was not asked"),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_header_names_secret_variables_for_clients_that_send_no_fields_of_ours() {
    let server = Server::new().await;
    let headers = [
        ("X-API-KEY", server.key.as_str()),
        ("X-Skep-Secret-Envs", "KEY, OTHER"),
    ];
    let line = r#"POST /v2/sandboxes {"templateID":"base","envVars":{"KEY":"hunter2222","OTHER":"another","A":"shown-1"}}"#;
    let answer = server.send_with(&headers, line).await;
    let id = answer.json()["sandboxID"].as_str().unwrap().parse();
    let spec = server.nodes.spec(&id.unwrap()).unwrap();
    assert!(spec.secrets.reveal().eq(["another", "hunter2222"]));

    let line = r#"POST /v2/sandboxes {"templateID":"base"}"#;
    let refused = server.send_with(&headers, line).await;
    assert_eq!(
        refused.text(),
        r#"400 {"code":400,"error_code":"validation_error","message":"validation error: 'KEY' is to be secret and is not in envVars"}"#
    );
}

#[tokio::test]
async fn a_repeated_request_is_answered_like_the_first() {
    let server = Server::new().await;
    let headers = [
        ("X-API-KEY", server.key.as_str()),
        ("Idempotency-Key", "try-1"),
    ];
    let line = r#"POST /v2/sandboxes {"templateID":"base","envVars":{"A":"1"}}"#;
    let first = server.send_with(&headers, line).await;
    let again = server.send_with(&headers, line).await;
    assert_eq!((again.status, &again.body), (201, &first.body));
    let written_otherwise =
        r#"POST /v2/sandboxes { "envVars" : {"A":"1"}, "timeout": null, "templateID":"base" }"#;
    let again = server.send_with(&headers, written_otherwise).await;
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(server.nodes.count(), 1);

    let other = r#"POST /v2/sandboxes {"templateID":"base","envVars":{"A":"2"}}"#;
    let mismatch = server.send_with(&headers, other).await;
    assert_eq!(
        mismatch.text(),
        r#"409 {"code":409,"error_code":"idempotency_request_mismatch","message":"this idempotency key was used for another request"}"#
    );
    // The same words from another team are another request.
    let (_, second) = server.second_team().await;
    let theirs = [("X-API-KEY", second.as_str()), ("Idempotency-Key", "try-1")];
    let answer = server.send_with(&theirs, other).await;
    assert_eq!(answer.status, 201);
    assert_eq!(server.nodes.count(), 2);

    // Still so after the server was restarted, and after the sandbox ended.
    let body = first.body.clone();
    let id: SandboxId = first.json()["sandboxID"].as_str().unwrap().parse().unwrap();
    let server = server.restarted().await;
    server
        .check(&format!("DELETE /sandboxes/{id}"), "204")
        .await;
    let headers = [
        ("X-API-KEY", server.key.as_str()),
        ("Idempotency-Key", "try-1"),
    ];
    let again = server.send_with(&headers, line).await;
    assert_eq!((again.status, again.body), (201, body));
}

#[tokio::test]
async fn a_repeated_request_waits_for_the_first_and_may_be_tried_again_when_it_failed() {
    let server = Server::new().await;
    let headers = [
        ("X-API-KEY", server.key.as_str()),
        ("Idempotency-Key", "try-2"),
    ];
    let line = r#"POST /v2/sandboxes {"templateID":"base"}"#;
    server.nodes.hold();
    server
        .nodes
        .refuse_next(NodeCreateError::Refused("no".into()));
    let meanwhile = async {
        asked(&server).await;
        let answer = server.send_with(&headers, line).await;
        server.nodes.release();
        answer
    };
    let (first, meanwhile) = tokio::join!(server.send_with(&headers, line), meanwhile);
    assert_eq!(
        meanwhile.text(),
        r#"409 {"code":409,"error_code":"idempotency_in_progress","message":"a request with this idempotency key is in progress"}"#
    );
    assert_eq!(meanwhile.header("should-retry"), Some("true"));
    assert_eq!(meanwhile.header("retry-after"), Some("1"));
    assert_eq!(first.status, 500);
    assert_eq!(server.send_with(&headers, line).await.status, 201);
}

#[tokio::test]
async fn a_request_that_the_server_died_in_is_not_guessed_at() {
    let server = Server::new().await;
    server.nodes.hold();
    let headers = [
        ("X-API-KEY", server.key.as_str()),
        ("Idempotency-Key", "try-3"),
    ];
    let line = r#"POST /v2/sandboxes {"templateID":"base"}"#;
    let broken_off = tokio::select! {
        answer = server.send_with(&headers, line) => Some(answer.status),
        () = asked(&server) => None,
    };
    assert_eq!(broken_off, None);
    let server = server.restarted().await;
    let headers = [
        ("X-API-KEY", server.key.as_str()),
        ("Idempotency-Key", "try-3"),
    ];
    let answer = server.send_with(&headers, line).await;
    assert_eq!(
        answer.text(),
        r#"422 {"code":422,"error_code":"idempotency_outcome_unknown","message":"the outcome of the first request with this idempotency key is not known"}"#
    );
    assert_eq!(answer.header("should-retry"), Some("false"));
}

#[tokio::test]
async fn an_idempotency_key_has_a_form() {
    let server = Server::new().await;
    let headers = [
        ("X-API-KEY", server.key.as_str()),
        ("Idempotency-Key", "No Good"),
    ];
    let answer = server
        .send_with(&headers, r#"POST /v2/sandboxes {"templateID":"base"}"#)
        .await;
    assert_eq!(
        answer.text(),
        r#"400 {"code":400,"error_code":"validation_error","message":"validation error: an idempotency key is 1 to 255 characters of a-z, 0-9 and `-`"}"#
    );
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_recorded_is_not_left_running() {
    let server = Server::new().await;
    // Whatever is wrong with the database, nothing can be written into this table any more.
    let vandal = rusqlite::Connection::open(server.directory().join("skep.db")).unwrap();
    vandal
        .execute_batch("ALTER TABLE sandboxes RENAME TO elsewhere")
        .unwrap();
    server
        .check(
            r#"POST /v2/sandboxes {"templateID":"base"}"#,
            r#"500 {"code":500,"error_code":"internal_server_error","message":"the server cannot read or write its database"}"#,
        )
        .await;
    assert_eq!(server.nodes.count(), 0);
}
