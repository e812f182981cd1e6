//! Looking at sandboxes.

use jiff::{SignedDuration, Timestamp};
use skep_types::{EndReason, Phase, SandboxId, Usage};

use crate::server::Server;

#[tokio::test]
async fn a_sandbox_is_shown_in_full() {
    let server = Server::new().await;
    let id = server
        .create(r#"{"templateID":"base","allow_internet_access":true,"metadata":{"user":"ada"}}"#)
        .await;
    let expected = r#"200 {"alias":"base","allowInternetAccess":true,"clientID":"6532622b","cpuCount":2,"diskSizeMB":10240,"domain":"sandbox.test","endAt":"TIME","envdAccessToken":"TOKEN","envdVersion":"0.6.13","lifecycle":{"autoResume":false,"onTimeout":"kill"},"memoryMB":1024,"metadata":{"user":"ada"},"sandboxID":"SANDBOX","startedAt":"TIME","state":"running","templateID":"ID","volumeMounts":[]}"#;
    server
        .check(&format!("GET /sandboxes/{id}"), expected)
        .await;
    server
        .check(&format!("GET /sandboxes/{id}-6532622b"), expected)
        .await;
    let listed = r#"200 [{"alias":"base","clientID":"6532622b","cpuCount":2,"diskSizeMB":10240,"endAt":"TIME","envdVersion":"0.6.13","memoryMB":1024,"metadata":{"user":"ada"},"sandboxID":"SANDBOX","startedAt":"TIME","state":"running","templateID":"ID","volumeMounts":[]}]"#;
    server.check("GET /sandboxes", listed).await;
    server.check("GET /v2/sandboxes", listed).await;
}

#[tokio::test]
async fn the_token_is_the_same_everywhere_and_after_a_restart() {
    let server = Server::new().await;
    let created = server
        .send(r#"POST /v2/sandboxes {"templateID":"base"}"#)
        .await
        .json();
    let id = created["sandboxID"].as_str().unwrap();
    let server = server.restarted().await;
    for line in [
        format!("GET /sandboxes/{id}"),
        format!("POST /v2/sandboxes/{id}/connect"),
        format!(r#"POST /sandboxes/{id}/connect {{"timeout":10}}"#),
    ] {
        let answer = server.send(&line).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(
            answer.json()["envdAccessToken"],
            created["envdAccessToken"],
            "{line}"
        );
        assert_eq!(answer.json()["templateID"], created["templateID"], "{line}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_what_is_no_id_is_refused() {
    let server = Server::new().await;
    let gone = server.create(r#"{"templateID":"base"}"#).await;
    server
        .check(&format!("DELETE /sandboxes/{gone}"), "204")
        .await;
    for method in ["GET", "DELETE"] {
        server
            .check(
                &format!("{method} /sandboxes/non-existing"),
                r#"404 {"code":404,"error_code":"sandbox_not_found","message":"Sandbox \"non\" doesn't exist or you don't have access to it"}"#,
            )
            .await;
        let answer = server.send(&format!("{method} /sandboxes/{gone}")).await;
        assert_eq!(answer.status, 404);
        assert!(
            answer
                .body
                .contains(&format!(r#"Sandbox \"{gone}\" doesn't exist"#)),
            "{}",
            answer.body
        );
        for bad in ["a-b-c", "ABC", "a%2Fb", "..", "%ff"] {
            let answer = server.send(&format!("{method} /sandboxes/{bad}")).await;
            assert_eq!(answer.status, 400, "{bad}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn a_sandbox_that_is_ending_is_hidden_and_cannot_be_changed() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    server.nodes.set_phase(&id, Phase::Stopping);
    assert_eq!(server.listed("GET /v2/sandboxes").await, [""; 0]);
    assert_eq!(
        server.send(&format!("GET /sandboxes/{id}")).await.status,
        404
    );
    assert_eq!(
        server.send(&format!("DELETE /sandboxes/{id}")).await.status,
        404
    );
    for line in [
        format!(r#"POST /sandboxes/{id}/timeout {{"timeout":10}}"#),
        format!("POST /sandboxes/{id}/refreshes"),
        format!("POST /v2/sandboxes/{id}/connect"),
        format!("PUT /sandboxes/{id}/network {{}}"),
    ] {
        let answer = server.send(&line).await;
        let expected = format!(r#"Sandbox "{id}" is being killed"#);
        assert_eq!(answer.status, 409, "{line}");
        assert_eq!(answer.json()["message"], expected, "{line}");
    }
}

/// Five sandboxes that started a second apart, the oldest first.
async fn five(server: &Server) -> Vec<SandboxId> {
    let mut ids = Vec::new();
    for number in 0..5i64 {
        let body = format!(
            r#"{{"templateID":"{}","metadata":{{"number":"{number}","a b":"x&y"}}}}"#,
            ["base", "code-interpreter-v1"][usize::try_from(number % 2).unwrap()]
        );
        let id = server.create(&body).await;
        let start = Timestamp::from_microsecond(1_700_000_000_123_456).unwrap();
        server
            .nodes
            .set_started_at(&id, start + SignedDuration::from_secs(number));
        ids.push(id);
    }
    ids
}

fn texts<'a>(ids: impl IntoIterator<Item = &'a SandboxId>) -> Vec<String> {
    ids.into_iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn lists_are_ordered_from_the_newest_or_the_oldest() {
    let server = Server::new().await;
    let ids = five(&server).await;
    let newest = texts(ids.iter().rev());
    assert_eq!(server.listed("GET /sandboxes").await, newest);
    assert_eq!(server.listed("GET /v2/sandboxes").await, newest);
    assert_eq!(server.listed("GET /v2/sandboxes?order=desc").await, newest);
    assert_eq!(
        server.listed("GET /v2/sandboxes?order=asc").await,
        texts(&ids)
    );
}

#[tokio::test]
async fn lists_are_filtered() {
    let server = Server::new().await;
    let ids = five(&server).await;
    let list = async |query: &str| server.listed(&format!("GET /v2/sandboxes?{query}")).await;
    assert_eq!(list("metadata=number%3D3").await, texts([&ids[3]]));
    assert_eq!(
        list("metadata=a%252520b%3Dx%252526y&order=asc").await,
        texts(&ids)
    );
    assert_eq!(
        list("metadata=number%3D3%26a%252520b%3Dother").await,
        [""; 0]
    );
    assert_eq!(
        server.listed("GET /sandboxes?metadata=number%3D1").await,
        texts([&ids[1]])
    );
    assert_eq!(
        list("template=code-interpreter-v1").await,
        texts([&ids[3], &ids[1]])
    );
    assert_eq!(list("template=unknown").await, [""; 0]);
    // The moment that was shown is included.
    assert_eq!(
        list("startedAfter=2023-11-14T22:13:23.123456Z").await,
        texts([&ids[4], &ids[3]])
    );
    assert_eq!(
        list("startedAfter=2023-11-14T22:13:23.123457Z").await,
        texts([&ids[4]])
    );
    assert_eq!(
        list("startedAfter=2023-11-14T23:13:24+01:00").await,
        texts([&ids[4]])
    );
}

#[tokio::test]
async fn states_are_told_apart_and_the_running_are_counted() {
    let server = Server::new().await;
    let ids = five(&server).await;
    server.nodes.set_phase(&ids[4], Phase::Paused);
    for (query, count, running) in [
        ("", 5, Some("4")),
        ("?state=running", 4, Some("4")),
        ("?state=paused", 1, None),
        ("?state=running,paused&limit=2", 2, Some("4")),
        ("?state=running%2Cpaused", 5, Some("4")),
        ("?state=running&state=paused", 5, Some("4")),
    ] {
        let answer = server.send(&format!("GET /v2/sandboxes{query}")).await;
        assert_eq!(answer.ids().len(), count, "{query}");
        assert_eq!(answer.header("x-total-running"), running, "{query}");
    }
    let first = server.send("GET /v2/sandboxes").await.json();
    assert_eq!(first[0]["state"], "paused");
    assert_eq!(server.listed("GET /sandboxes").await.len(), 4);
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let server = Server::new().await;
    let ids = five(&server).await;
    for (order, expected) in [("desc", texts(ids.iter().rev())), ("asc", texts(&ids))] {
        let mut seen = Vec::new();
        let mut sizes = Vec::new();
        let mut next = String::new();
        loop {
            let line = format!("GET /v2/sandboxes?limit=2&order={order}&nextToken={next}");
            let answer = server.send(&line).await;
            assert_eq!(answer.header("x-total-running"), Some("5"));
            sizes.push(answer.ids().len());
            seen.extend(answer.ids());
            match answer.header("x-next-token") {
                Some(token) => next = token.to_owned(),
                None => break,
            }
        }
        assert_eq!((seen, sizes), (expected, vec![2, 2, 1]));
    }
}

#[tokio::test]
async fn a_bad_filter_is_named() {
    let server = Server::new().await;
    five(&server).await;
    let descending = server.send("GET /v2/sandboxes?limit=1").await;
    let token = descending.header("x-next-token").unwrap();
    for (query, message) in [
        (
            "limit=0",
            "validation error: parameter `limit` must be a number from 1 to 100",
        ),
        (
            "limit=101",
            "validation error: parameter `limit` must be a number from 1 to 100",
        ),
        (
            "limit=x",
            "validation error: parameter `limit` must be a number from 1 to 100",
        ),
        (
            "order=up",
            "validation error: parameter `order` must be one of desc, asc",
        ),
        (
            "state=dead",
            "validation error: parameter `state` must be one of running, paused",
        ),
        (
            "startedAfter=noon",
            "validation error: parameter `startedAfter` must be an RFC 3339 time",
        ),
        ("metadata=word", "Error parsing metadata"),
        ("metadata=a%3D%25zz", "Error parsing metadata"),
        ("nextToken=garbage", "Invalid next token"),
        (
            &format!("order=asc&nextToken={token}"),
            "Invalid next token",
        ),
        (
            "template=base:v1",
            "Invalid template: 'base:v1' has a tag, and sandboxes are not listed by tag",
        ),
    ] {
        let answer = server.send(&format!("GET /v2/sandboxes?{query}")).await;
        assert_eq!(
            (answer.status, answer.json()["message"].as_str()),
            (400, Some(message)),
            "{query}"
        );
    }
}

#[tokio::test]
async fn our_own_list_tells_how_sandboxes_ended_and_what_they_used() {
    let server = Server::new().await;
    let ended = server.create(r#"{"templateID":"base"}"#).await;
    let usage = Usage {
        cpu_time: std::time::Duration::from_millis(1500),
        memory_peak_bytes: 7,
        memory_average_bytes: 6,
        disk_bytes: 8,
        disk_read_bytes: 9,
        disk_written_bytes: 10,
        out_of_memory_kills: 1,
        ..Usage::default()
    };
    server.nodes.set_usage(&ended, usage);
    server.nodes.end(&ended, EndReason::OutOfMemory).await;
    let living = server.create(r#"{"templateID":"base"}"#).await;

    assert_eq!(server.listed("GET /skep/sandboxes").await, texts([&living]));
    let all = "GET /skep/sandboxes?all=true";
    assert_eq!(server.listed(all).await, texts([&living, &ended]));
    server
        .check(
            all,
            r#"200 [{"alias":"base","cpuCount":2,"createdAt":"TIME","diskSizeMB":10240,"endAt":"TIME","memoryMB":1024,"metadata":{},"sandboxID":"SANDBOX","startedAt":"TIME","state":"running","templateID":"ID"},{"alias":"base","cpuCount":2,"createdAt":"TIME","diskSizeMB":10240,"endAt":"TIME","endReason":"out_of_memory","memoryMB":1024,"metadata":{},"sandboxID":"SANDBOX","startedAt":"TIME","state":"ended","templateID":"ID","usage":{"cpuSeconds":1.5,"diskBytes":8,"diskReadBytes":9,"diskWrittenBytes":10,"memoryAverageBytes":6,"memoryPeakBytes":7,"outOfMemoryKills":1,"receivedBytes":0,"sentBytes":0}}]"#,
        )
        .await;
    let page = server.send(&format!("{all}&limit=1")).await;
    let token = page.header("x-next-token").unwrap();
    let rest = format!("{all}&limit=1&nextToken={token}");
    assert_eq!(server.listed(&rest).await, texts([&ended]));
    assert_eq!(server.send(&rest).await.header("x-next-token"), None);
}
