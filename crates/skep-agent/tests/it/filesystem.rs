//! The filesystem service.

use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Duration;

use serde_json::{Value, json};
use skep_testkit::wait_until;

use crate::agent::{TestAgent, USER_ID};
use crate::connect::Events;

const STAT: &str = "filesystem.Filesystem/Stat";
const MAKE: &str = "filesystem.Filesystem/MakeDir";
const MOVE: &str = "filesystem.Filesystem/Move";
const LIST: &str = "filesystem.Filesystem/ListDir";
const REMOVE: &str = "filesystem.Filesystem/Remove";
const WATCH: &str = "filesystem.Filesystem/WatchDir";
const CREATE_WATCHER: &str = "filesystem.Filesystem/CreateWatcher";
const GET_EVENTS: &str = "filesystem.Filesystem/GetWatcherEvents";

#[tokio::test]
async fn a_file_is_described_as_the_clients_expect() {
    let agent = TestAgent::start();
    std::fs::write(agent.at("a.txt"), "hello").unwrap();
    let entry = agent.ask(STAT, json!({"path": "a.txt"})).await["entry"].clone();
    let modified = entry["modifiedTime"].as_str().unwrap();
    modified.parse::<jiff::Timestamp>().unwrap();
    assert_eq!(
        entry,
        json!({
            "name": "a.txt", "type": "FILE_TYPE_FILE", "path": agent.at("a.txt"), "size": "5", "mode": 420,
            "permissions": "-rw-r--r--", "owner": "root", "group": "root", "modifiedTime": modified
        })
    );
    assert_eq!(
        agent.refused(STAT, json!({"path": "/nope"})).await,
        "404 not_found file not found: /nope"
    );
    assert!(
        agent
            .refused(STAT, json!({"path": "~other"}))
            .await
            .starts_with("400 invalid_argument")
    );
}

/// The first releases of Python's SDK know three fields of an entry and fail on a fourth.
#[tokio::test]
async fn the_first_clients_are_told_what_they_can_read() {
    let agent = TestAgent::start().header("user-agent", "connect-python");
    let entry =
        |name: &str| json!({"name": name, "type": "FILE_TYPE_DIRECTORY", "path": agent.at(name)});
    let made = agent.ask(MAKE, json!({"path": "old"})).await;
    assert_eq!(made, json!({"entry": entry("old")}));
    let moving = json!({"source": "old", "destination": "new"});
    assert_eq!(
        agent.ask(MOVE, moving).await,
        json!({"entry": entry("new")})
    );
    let stat = agent.ask(STAT, json!({"path": "new"})).await;
    assert_eq!(stat, json!({"entry": entry("new")}));
    let listed = agent.ask(LIST, json!({"path": "", "depth": 1})).await;
    assert_eq!(listed, json!({"entries": [entry("new")]}));
}

#[tokio::test]
async fn a_link_has_the_type_of_its_target() {
    let agent = TestAgent::start();
    std::fs::create_dir(agent.at("real")).unwrap();
    symlink("real", agent.at("link")).unwrap();
    let entry = agent.ask(STAT, json!({"path": "link"})).await["entry"].clone();
    assert_eq!(entry["type"], "FILE_TYPE_DIRECTORY");
    assert_eq!(entry["isSymlink"], true);
    assert_eq!(entry["symlinkTarget"], agent.at("real"));
    assert_eq!(entry["path"], agent.at("link"));
}

#[tokio::test]
async fn a_directory_is_made_with_its_parents_for_the_user() {
    let agent = TestAgent::start();
    let entry = agent.ask(MAKE, json!({"path": "a/b/c"})).await["entry"].clone();
    assert_eq!(
        (&entry["permissions"], &entry["owner"]),
        (&json!("drwxr-xr-x"), &json!("user"))
    );
    assert_eq!(std::fs::metadata(agent.at("a")).unwrap().uid(), USER_ID);
    let path = agent.at("a/b/c");
    assert_eq!(
        agent.refused(MAKE, json!({"path": path})).await,
        format!("409 already_exists directory already exists: {path}")
    );
    std::fs::write(agent.at("file"), "").unwrap();
    for path in ["file", "file/below"] {
        let refused = agent.refused(MAKE, json!({"path": path})).await;
        assert!(
            refused.starts_with("400 invalid_argument path is a file"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn many_may_make_the_same_parents_at_once() {
    let agent = TestAgent::start();
    let calls = (0..16).map(|number| agent.ask(MAKE, json!({"path": format!("p/q/r/{number}")})));
    assert_eq!(futures_util::future::join_all(calls).await.len(), 16);
}

#[tokio::test]
async fn moving_replaces_files_and_tells_what_is_there_now() {
    let agent = TestAgent::start();
    std::fs::write(agent.at("a"), "new").unwrap();
    std::fs::write(agent.at("b"), "old").unwrap();
    let entry = agent
        .ask(MOVE, json!({"source": "a", "destination": "b"}))
        .await["entry"]
        .clone();
    assert_eq!(entry["path"], agent.at("b"));
    assert_eq!(std::fs::read_to_string(agent.at("b")).unwrap(), "new");
    agent
        .ask(MOVE, json!({"source": "b", "destination": "x/y/b"}))
        .await;
    let gone = agent.at("a");
    assert_eq!(
        agent
            .refused(MOVE, json!({"source": "a", "destination": "c"}))
            .await,
        format!("404 not_found source file not found: {gone}")
    );
}

#[tokio::test]
async fn a_listing_is_depth_first_by_name_and_stops_at_the_depth() {
    let agent = TestAgent::start();
    for directory in ["d/b/c", "d/b-side"] {
        std::fs::create_dir_all(agent.at(directory)).unwrap();
    }
    for file in ["d/a", "d/z", "d/b/1", "d/b/c/deep"] {
        std::fs::write(agent.at(file), "").unwrap();
    }
    symlink("b", agent.at("d/link")).unwrap();
    let names = async |depth: u32, path: &str| {
        let listed = agent.ask(LIST, json!({"path": path, "depth": depth})).await;
        let listed = listed["entries"].as_array().unwrap().clone();
        let prefix = agent.at(path);
        let names = listed.iter().map(|entry| entry["path"].as_str().unwrap());
        names
            .map(|name| name.strip_prefix(&prefix).unwrap().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let one = "/a /b /b-side /link /z";
    assert_eq!(names(0, "d").await, one);
    assert_eq!(names(1, "d").await, one);
    assert_eq!(names(2, "d").await, "/a /b /b/1 /b/c /b-side /link /z");
    assert_eq!(
        names(3, "d").await,
        "/a /b /b/1 /b/c /b/c/deep /b-side /link /z"
    );
    assert_eq!(names(1, "d/link").await, "/1 /c");
}

#[tokio::test]
async fn what_cannot_be_listed_is_refused_with_the_reason() {
    let agent = TestAgent::start();
    std::fs::write(agent.at("file"), "").unwrap();
    symlink("loop", agent.at("loop")).unwrap();
    assert!(
        agent
            .refused(LIST, json!({"path": "gone"}))
            .await
            .starts_with("404 not_found")
    );
    assert!(
        agent
            .refused(LIST, json!({"path": "file"}))
            .await
            .starts_with("400 invalid_argument")
    );
    assert!(
        agent
            .refused(LIST, json!({"path": "loop"}))
            .await
            .starts_with("400 failed_precondition")
    );
}

#[tokio::test]
async fn removing_is_recursive_and_forgives_what_is_missing() {
    let agent = TestAgent::start();
    std::fs::create_dir_all(agent.at("t/u")).unwrap();
    std::fs::write(agent.at("t/u/f"), "").unwrap();
    for _ in 0..2 {
        assert_eq!(agent.ask(REMOVE, json!({"path": "t"})).await, json!({}));
    }
    assert!(!agent.home().join("t").exists());
}

#[tokio::test]
async fn the_filesystem_service_also_speaks_binary() {
    use buffa::Message;
    use skep_wire::rpc::filesystem as wire;
    let agent = TestAgent::start();
    std::fs::write(agent.at("f"), "abc").unwrap();
    let request = wire::StatRequest {
        path: "f".to_owned(),
    }
    .encode_to_vec();
    let answer = agent
        .post(
            &format!("/{STAT}"),
            &[("content-type", "application/proto")],
            request,
        )
        .await;
    let entry = wire::StatResponse::decode_from_slice(&answer.body)
        .unwrap()
        .entry
        .into_option()
        .unwrap();
    assert_eq!((entry.size, entry.path), (3, agent.at("f")));
}

/// The events as `name TYPE`.
fn told(events: &[Value]) -> Vec<String> {
    let told = events.iter().map(|event| {
        let kind = event["type"]
            .as_str()
            .unwrap()
            .strip_prefix("EVENT_TYPE_")
            .unwrap();
        format!("{} {kind}", event["name"].as_str().unwrap())
    });
    told.collect()
}

async fn watcher(agent: &TestAgent, request: Value) -> String {
    agent.ask(CREATE_WATCHER, request).await["watcherId"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn poll(agent: &TestAgent, id: &str) -> Vec<Value> {
    let answer = agent.ask(GET_EVENTS, json!({"watcherId": id})).await;
    answer
        .get("events")
        .map_or_else(Vec::new, |events| events.as_array().unwrap().clone())
}

#[tokio::test]
async fn an_upload_is_seen_at_once_as_exactly_three_events() {
    let agent = TestAgent::start();
    std::fs::create_dir(agent.at("w")).unwrap();
    let id = watcher(&agent, json!({"path": "w"})).await;
    assert!(id.starts_with('w') && id.len() == 21, "{id}");
    assert_eq!(poll(&agent, &id).await.len(), 0);
    let headers = [("content-type", "application/octet-stream")];
    agent
        .post("/files?path=w/new.txt", &headers, "content")
        .await;
    assert_eq!(
        told(&poll(&agent, &id).await),
        ["new.txt CREATE", "new.txt CHMOD", "new.txt WRITE"]
    );
    // As long as before: cutting a file shorter is a second change.
    agent
        .post("/files?path=w/new.txt", &headers, "CONTENT")
        .await;
    assert_eq!(
        told(&poll(&agent, &id).await),
        ["new.txt CHMOD", "new.txt WRITE"]
    );
    std::fs::rename(agent.at("w/new.txt"), agent.at("w/old.txt")).unwrap();
    std::fs::remove_file(agent.at("w/old.txt")).unwrap();
    assert_eq!(
        told(&poll(&agent, &id).await),
        ["new.txt RENAME", "old.txt CREATE", "old.txt REMOVE"]
    );
    agent
        .ask(
            "filesystem.Filesystem/RemoveWatcher",
            json!({"watcherId": id}),
        )
        .await;
    for method in [GET_EVENTS, "filesystem.Filesystem/RemoveWatcher"] {
        assert!(
            agent
                .refused(method, json!({"watcherId": id}))
                .await
                .starts_with("404 not_found")
        );
    }
}

#[tokio::test]
async fn new_directories_are_watched_before_they_are_told_of() {
    let agent = TestAgent::start();
    std::fs::create_dir_all(agent.at("w/sub")).unwrap();
    let id = watcher(&agent, json!({"path": "w", "recursive": true})).await;
    std::fs::write(agent.at("w/sub/x"), "").unwrap();
    agent.ask(MAKE, json!({"path": "w/new"})).await;
    let mut seen = Vec::new();
    while !told(&seen).contains(&"new CREATE".to_owned()) {
        seen.extend(poll(&agent, &id).await);
    }
    std::fs::write(agent.at("w/new/file"), "text").unwrap();
    let later = poll(&agent, &id).await;
    assert!(
        told(&seen).contains(&"sub/x CREATE".to_owned()),
        "{:?}",
        told(&seen)
    );
    assert_eq!(told(&later), ["new/file CREATE", "new/file WRITE"]);
}

#[tokio::test]
async fn what_is_put_into_a_new_directory_before_it_is_watched_is_not_missed() {
    let agent = TestAgent::start();
    std::fs::create_dir(agent.at("w")).unwrap();
    let id = watcher(&agent, json!({"path": "w", "recursive": true})).await;
    std::fs::create_dir_all(agent.at("w/a/b/c")).unwrap();
    std::fs::write(agent.at("w/a/b/c/f"), "").unwrap();
    let mut seen = Vec::new();
    wait_until(Duration::from_secs(10), || {
        let agent = &agent;
        let id = &id;
        async move { Ok::<_, String>(poll(agent, id).await) }
    })
    .await
    .into_iter()
    .for_each(|event| seen.push(event));
    while told(&seen).len() < 4 {
        seen.extend(poll(&agent, &id).await);
    }
    assert_eq!(
        told(&seen),
        ["a CREATE", "a/b CREATE", "a/b/c CREATE", "a/b/c/f CREATE"]
    );
}

#[tokio::test]
async fn a_directory_that_moves_keeps_its_watch_under_the_new_name() {
    let agent = TestAgent::start();
    std::fs::create_dir_all(agent.at("w/one/deep")).unwrap();
    let id = watcher(&agent, json!({"path": "w", "recursive": true})).await;
    std::fs::rename(agent.at("w/one"), agent.at("w/two")).unwrap();
    assert_eq!(told(&poll(&agent, &id).await), ["one RENAME", "two CREATE"]);
    std::fs::write(agent.at("w/two/deep/f"), "").unwrap();
    assert_eq!(told(&poll(&agent, &id).await), ["two/deep/f CREATE"]);
    std::fs::rename(agent.at("w/two"), agent.at("outside")).unwrap();
    assert_eq!(told(&poll(&agent, &id).await), ["two RENAME"]);
    std::fs::write(agent.at("outside/deep/g"), "").unwrap();
    assert_eq!(poll(&agent, &id).await.len(), 0);
}

async fn next_change(events: &mut Events) -> Value {
    loop {
        let event = events.event().await;
        if let Some(change) = event.get("filesystem") {
            return change.clone();
        }
    }
}

#[tokio::test]
async fn a_streamed_watch_starts_tells_and_describes() {
    let agent = TestAgent::start();
    std::fs::create_dir(agent.at("w")).unwrap();
    let request = json!({"path": "w", "includeEntry": true});
    let mut events = agent
        .stream_with(WATCH, request, &[("keepalive-ping-interval", "1")])
        .await;
    assert_eq!(events.event().await, json!({"start": {}}));
    assert_eq!(events.event().await, json!({"keepalive": {}}));
    std::fs::write(agent.at("w/f"), "abc").unwrap();
    let change = next_change(&mut events).await;
    assert_eq!(
        (&change["name"], &change["type"]),
        (&json!("f"), &json!("EVENT_TYPE_CREATE"))
    );
    assert_eq!(change["entry"]["path"], agent.at("w/f"));
    std::fs::remove_file(agent.at("w/f")).unwrap();
    loop {
        let change = next_change(&mut events).await;
        if change["type"] == "EVENT_TYPE_REMOVE" {
            assert_eq!(change.get("entry"), None);
            break;
        }
    }
}

#[tokio::test]
async fn a_streamed_watch_ends_at_its_deadline() {
    let agent = TestAgent::start();
    let events = agent
        .stream_with(WATCH, json!({"path": ""}), &[("connect-timeout-ms", "200")])
        .await;
    let (_, close) = events.rest().await;
    assert_eq!(close["error"]["code"], "deadline_exceeded");
}

#[tokio::test]
async fn only_directories_can_be_watched() {
    let agent = TestAgent::start();
    std::fs::write(agent.at("file"), "").unwrap();
    for (path, code) in [("gone", "not_found"), ("file", "invalid_argument")] {
        let (_, close) = agent
            .stream(WATCH, json!({"path": path}))
            .await
            .rest()
            .await;
        assert_eq!(close["error"]["code"], code);
        let refused = agent.refused(CREATE_WATCHER, json!({"path": path})).await;
        assert!(refused.contains(code), "{refused}");
    }
}

/// Found by fuzzing: each of these was answered `internal`, and some had done half of the work.
#[tokio::test]
async fn what_cannot_be_done_is_the_callers_mistake_and_leaves_nothing_behind() {
    let agent = TestAgent::start();
    std::fs::create_dir_all(agent.at("full/inner")).unwrap();
    std::fs::write(agent.at("full/file"), "x").unwrap();
    std::fs::write(agent.at("file"), "x").unwrap();
    let long = format!("new/{}", "n".repeat(256));
    let refused = [
        (STAT, json!({"path": long}), "400 invalid_argument"),
        (MAKE, json!({"path": long}), "400 invalid_argument"),
        (
            MAKE,
            json!({"path": agent.at("new/.")}),
            "409 already_exists",
        ),
        (
            REMOVE,
            json!({"path": agent.at("full/.")}),
            "400 invalid_argument",
        ),
        (REMOVE, json!({"path": "/"}), "400 invalid_argument"),
        (LIST, json!({"path": long}), "400 invalid_argument"),
        (
            MOVE,
            json!({"source": "full", "destination": "full/inner/deeper/x"}),
            "400 invalid_argument",
        ),
        (
            MOVE,
            json!({"source": "file", "destination": agent.at("new/directory/")}),
            "400 invalid_argument",
        ),
        (
            MOVE,
            json!({"source": "file/x", "destination": "y"}),
            "404 not_found",
        ),
    ];
    for (method, request, expected) in refused {
        let answer = agent.refused(method, request.clone()).await;
        assert!(answer.starts_with(expected), "{request}: {answer}");
        assert!(!agent.home().join("new").exists(), "{request}");
        assert!(agent.home().join("full/file").exists(), "{request}");
        assert!(
            !agent.home().join("full/inner/deeper").exists(),
            "{request}"
        );
    }
}
