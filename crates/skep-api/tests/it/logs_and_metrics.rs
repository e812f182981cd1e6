//! Metrics and logs of sandboxes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use skep_types::{LogEntry, LogLevel, Usage};

use crate::server::Server;

#[tokio::test]
async fn the_first_point_is_there_at_once_and_is_the_average_since_the_start() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let ago = Timestamp::now() - SignedDuration::from_secs(100);
    server.nodes.set_started_at(&id, ago);
    let usage = Usage {
        cpu_time: Duration::from_secs(50),
        memory_bytes: 3,
        cache_bytes: 2,
        disk_bytes: 5,
        memory_average_bytes: 4,
        disk_read_bytes: 6,
        disk_written_bytes: 7,
        ..Usage::default()
    };
    server.nodes.set_usage(&id, usage);
    let point = server
        .send(&format!("GET /sandboxes/{id}/metrics"))
        .await
        .json()[0]
        .clone();
    let percent = point["cpuUsedPct"].as_f64().unwrap();
    assert!((45.0..=50.0).contains(&percent), "{percent}");
    let at: Timestamp = point["timestamp"].as_str().unwrap().parse().unwrap();
    assert_eq!(point["timestampUnix"], at.as_second());
    let numbers = [
        "cpuCount",
        "memUsed",
        "memTotal",
        "memCache",
        "diskUsed",
        "diskTotal",
        "memAverage",
        "diskRead",
        "diskWritten",
    ]
    .map(|name| point[name].as_u64().unwrap());
    assert_eq!(numbers, [2, 3, 1 << 30, 2, 5, 10 << 30, 4, 6, 7]);

    let many = server
        .send(&format!("GET /sandboxes/metrics?sandbox_ids={id},unknown"))
        .await;
    assert_eq!(many.json()["sandboxes"][id.as_str()]["memUsed"], 3);
    assert_eq!(many.json()["sandboxes"].as_object().unwrap().len(), 1);
}

#[tokio::test]
async fn a_range_is_in_seconds_or_milliseconds() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let now = Timestamp::now();
    let count = async |query: String| {
        let answer = server
            .send(&format!("GET /sandboxes/{id}/metrics?{query}"))
            .await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        answer.json().as_array().unwrap().len()
    };
    // A client cuts the end of its range to whole seconds; the point of now is still in it.
    let (seconds, millis) = (now.as_second(), now.as_millisecond());
    assert_eq!(
        count(format!("start={}&end={seconds}", seconds - 60)).await,
        1
    );
    assert_eq!(
        count(format!("start={}&end={millis}", millis - 60_000)).await,
        1
    );
    assert_eq!(count("start=1000&end=2000".to_owned()).await, 0);
    assert_eq!(count(format!("start={}", seconds + 1000)).await, 0);

    server
        .check(
            &format!("GET /sandboxes/{id}/metrics?start=20&end=10"),
            r#"400 {"code":400,"error_code":"invalid_time_range","message":"Invalid time range for metrics"}"#,
        )
        .await;
    let answer = server
        .send(&format!("GET /sandboxes/{id}/metrics?start=-1"))
        .await;
    assert_eq!(answer.status, 400);
    server
        .check("GET /sandboxes/unknown/metrics", "200 []")
        .await;
}

#[tokio::test]
async fn at_most_a_hundred_sandboxes_are_measured_at_once() {
    let server = Server::new().await;
    let ids = |count: usize| {
        let ids: Vec<_> = (0..count).map(|number| format!("i{number}")).collect();
        ids.join(",")
    };
    server
        .check(
            &format!("GET /sandboxes/metrics?sandbox_ids={}", ids(101)),
            r#"400 {"code":400,"error_code":"too_many_sandboxes_requested","message":"Too many sandboxes requested, maximum is 100"}"#,
        )
        .await;
    let line = format!("GET /sandboxes/metrics?sandbox_ids={}", ids(100));
    server.check(&line, r#"200 {"sandboxes":{}}"#).await;
}

async fn with_log(server: &Server) -> skep_types::SandboxId {
    let id = server.create(r#"{"templateID":"base"}"#).await;
    for (second, level, message) in [
        (1, LogLevel::Debug, "booting"),
        (2, LogLevel::Info, "ready \"now\""),
        (3, LogLevel::Error, "broken"),
    ] {
        let entry = LogEntry {
            at: Timestamp::from_second(1_700_000_000 + second).unwrap(),
            level,
            message: message.to_owned(),
            fields: BTreeMap::from([("pid".to_owned(), second.to_string())]),
        };
        server.nodes.log(&id, entry);
    }
    id
}

#[tokio::test]
async fn each_line_of_the_first_generation_is_a_flat_object_with_a_level() {
    let server = Server::new().await;
    let id = with_log(&server).await;
    let logs = server
        .send(&format!("GET /sandboxes/{id}/logs"))
        .await
        .json();
    let lines = logs["logs"].as_array().unwrap();
    assert_eq!(lines.len(), 3);
    let line: Value = serde_json::from_str(lines[1]["line"].as_str().unwrap()).unwrap();
    assert_eq!(
        line.to_string(),
        r#"{"level":"info","logger":"sandbox","message":"ready \"now\"","pid":"2"}"#
    );
    assert_eq!(logs["logEntries"][2]["fields"]["pid"], "3");

    let tail = format!("GET /sandboxes/{id}/logs?start=1700000002000&limit=1");
    let logs = server.send(&tail).await.json();
    assert_eq!(logs["logEntries"].as_array().unwrap().len(), 1);
    assert_eq!(logs["logEntries"][0]["message"], "ready \"now\"");
    let unknown = r#"200 {"logEntries":[],"logs":[]}"#;
    server.check("GET /sandboxes/unknown/logs", unknown).await;
}

#[tokio::test]
async fn the_second_generation_filters_and_goes_both_ways() {
    let server = Server::new().await;
    let id = with_log(&server).await;
    let messages = async |query: &str| {
        let answer = server
            .send(&format!("GET /v2/sandboxes/{id}/logs{query}"))
            .await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        let logs = answer.json()["logs"].as_array().unwrap().clone();
        let texts = logs
            .iter()
            .map(|log| log["message"].as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>().join("|")
    };
    assert_eq!(messages("").await, "broken|ready \"now\"|booting");
    assert_eq!(
        messages("?direction=forward").await,
        "booting|ready \"now\"|broken"
    );
    assert_eq!(messages("?level=info&limit=1").await, "broken");
    assert_eq!(messages("?search=boot").await, "booting");
    assert_eq!(
        messages("?cursor=1700000002000").await,
        "ready \"now\"|booting"
    );
    for bad in [
        "limit=1001",
        "direction=up",
        "level=loud",
        "cursor=x",
        &format!("search={}", "x".repeat(257)),
    ] {
        let answer = server
            .send(&format!("GET /v2/sandboxes/{id}/logs?{bad}"))
            .await;
        assert_eq!(answer.status, 400, "{bad}");
        assert!(answer.body.contains("validation error"), "{bad}");
    }
}

#[tokio::test]
async fn a_team_sees_how_much_it_ran() {
    let server = Server::new().await;
    let team = &server.team.id;
    let highest = async |metric: &str| {
        let line = format!("GET /teams/{team}/metrics/max?metric={metric}");
        let answer = server.send(&line).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["value"].as_f64().unwrap()
    };
    server
        .check(&format!("GET /teams/{team}/metrics"), "200 []")
        .await;
    assert_eq!(highest("concurrent_sandboxes").await, 0.0);

    for _ in 0..3 {
        server.create(r#"{"templateID":"base"}"#).await;
    }
    assert_eq!(highest("concurrent_sandboxes").await, 3.0);
    assert!(highest("sandbox_start_rate").await > 0.0);
    let now = Timestamp::now().as_second();
    let line = format!(
        "GET /teams/{team}/metrics?start={}&end={}",
        now - 60,
        now + 1
    );
    let points = server.send(&line).await.json();
    let last = points.as_array().unwrap().last().unwrap();
    assert_eq!(last["concurrentSandboxes"], 3);
}

#[tokio::test]
async fn a_team_sees_no_others_and_no_future() {
    let server = Server::new().await;
    let (other, _) = server.second_team().await;
    let team = &server.team.id;
    for (line, status, text) in [
        (
            format!("GET /teams/{}/metrics", other.id),
            403,
            "not authorized",
        ),
        (
            format!("GET /teams/{team}/metrics?end=9999999999"),
            400,
            "end time cannot be after",
        ),
        (
            format!("GET /teams/{team}/metrics?start=20&end=10"),
            400,
            "start time cannot be after",
        ),
        (
            format!("GET /teams/{team}/metrics/max"),
            400,
            "parameter `metric` is required",
        ),
        (
            format!("GET /teams/{team}/metrics/max?metric=joy"),
            400,
            "must be one of",
        ),
    ] {
        let answer = server.send(&line).await;
        assert_eq!(answer.status, status, "{line}: {}", answer.body);
        assert!(answer.body.contains(text), "{line}: {}", answer.body);
    }
}
