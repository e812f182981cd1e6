//! Files over plain HTTP.

mod upload;

use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};

use async_compression::tokio::bufread::{GzipDecoder, GzipEncoder};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::agent::{Answer, TestAgent, USER_ID, streamed};

const RAW: (&str, &str) = ("content-type", "application/octet-stream");
const FORM: (&str, &str) = ("content-type", "multipart/form-data; boundary=XX");

fn form(parts: &[(&str, &str, &str)]) -> String {
    let mut body = String::new();
    for (name, file, content) in parts {
        body.push_str(&format!(
            "--XX\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\r\n{content}\r\n"
        ));
    }
    body + "--XX--\r\n"
}

fn told(answer: &Answer) -> String {
    let body = answer.json();
    format!(
        "{} {} {}",
        answer.status.as_u16(),
        body["code"],
        body["message"].as_str().unwrap()
    )
}

async fn gzip(data: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    GzipEncoder::new(data)
        .read_to_end(&mut packed)
        .await
        .unwrap();
    packed
}

#[tokio::test]
async fn a_file_travels_there_and_back() {
    let agent = TestAgent::start();
    let answer = agent
        .post(
            "/files?path=dir/hello.txt",
            &[FORM],
            form(&[("file", "ignored", "hällo")]),
        )
        .await;
    assert_eq!(
        answer.json(),
        json!([{"path": agent.at("dir/hello.txt"), "name": "hello.txt", "type": "file"}])
    );
    let about = std::fs::metadata(agent.at("dir/hello.txt")).unwrap();
    assert_eq!((about.uid(), about.mode() & 0o777), (USER_ID, 0o644));
    let answer = agent.get("/files?path=dir/hello.txt").await;
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "hällo"));
    assert_eq!(answer.header("content-length"), Some("6"));
    assert_eq!(
        answer.header("content-disposition"),
        Some("inline; filename=hello.txt")
    );
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
}

#[tokio::test]
async fn what_is_missing_or_no_file_is_told_as_the_contract_says() {
    let agent = TestAgent::start();
    std::fs::create_dir(agent.at("dir")).unwrap();
    let (gone, dir) = (agent.at("gone"), agent.at("dir"));
    let get = |path: &'static str| agent.get(path);
    assert_eq!(
        told(&get("/files?path=gone").await),
        format!("404 404 path '{gone}' does not exist")
    );
    assert_eq!(
        told(&get("/files?path=dir").await),
        format!("400 400 path '{dir}' is a directory")
    );
    assert!(told(&get("/files?path=~x").await).starts_with("400 400 "));
    let stranger = told(&get("/files?path=a&username=nobody2").await);
    assert!(
        stranger.starts_with("401 401 error looking up user 'nobody2'"),
        "{stranger}"
    );
    let post =
        async |path: &str, kind: &str| agent.post(path, &[("content-type", kind)], "x").await;
    assert_eq!(
        told(&post("/files?path=dir", "application/octet-stream").await),
        format!("400 400 path is a directory: {dir}")
    );
    assert_eq!(
        told(&post("/files", "application/octet-stream").await),
        "400 400 path query parameter is required for raw body upload"
    );
    assert_eq!(
        told(&post("/files?path=a", "text/plain").await),
        "400 400 unsupported content type: text/plain"
    );
    assert_eq!(
        agent.post("/files?path=a", &[], "x").await.status,
        StatusCode::BAD_REQUEST
    );
    let coded = agent
        .post("/files?path=a", &[RAW, ("content-encoding", "br")], "x")
        .await;
    assert_eq!(coded.status, StatusCode::BAD_REQUEST);
    std::fs::write(agent.at("plain"), "").unwrap();
    assert_eq!(
        post("/files?path=plain/below", "application/octet-stream")
            .await
            .status,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn pipes_devices_and_descriptors_neither_block_nor_open() {
    let agent = TestAgent::start();
    let pipe = agent.at("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        0o666.into(),
        0,
    )
    .unwrap();
    symlink("/proc/self/fd/0", agent.at("magic")).unwrap();
    for path in ["pipe", "magic", "/dev/zero", "/dev/stdin", "/proc/self/mem"] {
        let read = agent.get(&format!("/files?path={path}")).await.status;
        let written = agent
            .post(&format!("/files?path={path}"), &[RAW], "x")
            .await
            .status;
        for status in [read, written] {
            assert!(
                status.is_client_error() || status.is_server_error(),
                "{path} {status}"
            );
        }
    }
    let proc = agent.get("/files?path=/proc/version").await;
    assert!(
        proc.text().starts_with("Linux"),
        "files that claim to be empty are read to their end"
    );
}

#[tokio::test]
async fn an_empty_file_has_the_length_zero() {
    let agent = TestAgent::start();
    agent.post("/files?path=empty", &[RAW], "").await;
    let answer = agent.get("/files?path=empty").await;
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (StatusCode::OK, Some("0"))
    );
}

#[tokio::test]
async fn gzip_is_understood_in_both_directions() {
    let agent = TestAgent::start();
    let text = "again and again ".repeat(50_000);
    let packed = gzip(text.as_bytes()).await;
    let answer = agent
        .post(
            "/files?path=big.txt",
            &[RAW, ("content-encoding", "gzip")],
            packed,
        )
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(std::fs::read_to_string(agent.at("big.txt")).unwrap(), text);
    let answer = agent
        .get_with("/files?path=big.txt", &[("accept-encoding", "gzip")])
        .await;
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut unpacked = String::new();
    GzipDecoder::new(&answer.body[..])
        .read_to_string(&mut unpacked)
        .await
        .unwrap();
    assert_eq!(unpacked, text);
    let answer = agent
        .get_with(
            "/files?path=big.txt",
            &[("accept-encoding", "gzip, deflate, br")],
        )
        .await;
    assert_eq!(
        (answer.header("content-encoding"), answer.body.len()),
        (None, text.len())
    );
    let answer = agent
        .get_with(
            "/files?path=big.txt",
            &[("accept-encoding", "identity;q=0")],
        )
        .await;
    assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE);
    let broken = agent
        .post(
            "/files?path=broken",
            &[RAW, ("content-encoding", "gzip")],
            "no gzip",
        )
        .await;
    assert_eq!(
        (broken.status, agent.home().join("broken").exists()),
        (StatusCode::BAD_REQUEST, false)
    );
}

#[tokio::test]
async fn parts_of_a_file_and_unchanged_files_can_be_asked_for() {
    let agent = TestAgent::start();
    let content: Vec<u8> = (0..700_000_u32)
        .map(|number| (number % 251) as u8)
        .collect();
    std::fs::write(agent.at("data.bin"), &content).unwrap();
    for (range, part) in [
        ("bytes=0-9", 0..10),
        ("bytes=300000-699998", 300_000..699_999),
        ("bytes=-5", 699_995..700_000),
    ] {
        let answer = agent
            .get_with(
                "/files?path=data.bin",
                &[("range", range), ("accept-encoding", "gzip")],
            )
            .await;
        assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT);
        assert_eq!(answer.body, &content[part.clone()], "{range}");
        let expected = format!("bytes {}-{}/700000", part.start, part.end - 1);
        assert_eq!(answer.header("content-range"), Some(expected.as_str()));
    }
    let whole = agent.get("/files?path=data.bin").await;
    assert_eq!(
        (whole.header("content-length"), &whole.body[..]),
        (Some("700000"), &content[..])
    );
    let beyond = agent
        .get_with("/files?path=data.bin", &[("range", "bytes=700000-")])
        .await;
    assert_eq!(beyond.status, StatusCode::RANGE_NOT_SATISFIABLE);
    let modified = whole.header("last-modified").unwrap();
    let same = agent
        .get_with("/files?path=data.bin", &[("if-modified-since", modified)])
        .await;
    assert_eq!(
        (same.status, same.body.len()),
        (StatusCode::NOT_MODIFIED, 0)
    );
    let older = [("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")];
    assert_eq!(
        agent.get_with("/files?path=data.bin", &older).await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn a_large_file_is_received_and_sent_piece_by_piece() {
    let agent = TestAgent::start();
    let pieces = (0..=255_u8)
        .chain(0..=143)
        .map(|number| Bytes::from(vec![number; 50_000]));
    let expected: Vec<u8> = pieces.clone().flatten().collect();
    for _ in 0..2 {
        let body = streamed(futures_util::stream::iter(pieces.clone()));
        let response = agent
            .send(Method::POST, "/files?path=large", &[RAW], body)
            .await;
        assert_eq!(response.status(), StatusCode::OK);
        let mut written = Vec::new();
        std::fs::File::open(agent.at("large"))
            .unwrap()
            .read_to_end(&mut written)
            .unwrap();
        assert!(written == expected);
    }
    assert!(agent.get("/files?path=large").await.body == expected);
}

#[tokio::test]
async fn composing_joins_files_and_removes_them() {
    let agent = TestAgent::start();
    for (name, text) in [("p1", "one "), ("p2", "two")] {
        std::fs::write(agent.at(name), text).unwrap();
    }
    std::fs::write(agent.at("kept"), "kept").unwrap();
    let json_type = [("content-type", "application/json")];
    let compose = |body: Value| agent.post("/files/compose", &json_type, body.to_string());
    let missing = agent.at("p3");
    let refused = compose(json!({"source_paths": ["p1", "p3"], "destination": "kept"})).await;
    assert_eq!(
        told(&refused),
        format!("404 404 source file not found: {missing}")
    );
    assert_eq!(std::fs::read_to_string(agent.at("kept")).unwrap(), "kept");
    for body in [
        json!({"source_paths": [], "destination": "x"}),
        json!({"source_paths": ["p1"]}),
        json!({"source_paths": ["p1"], "destination": "./p1"}),
        json!({"source_paths": ["/tmp"], "destination": "x"}),
    ] {
        assert_eq!(
            compose(body.clone()).await.status,
            StatusCode::BAD_REQUEST,
            "{body}"
        );
    }
    let answer = compose(json!({"source_paths": ["p1", "p2"], "destination": "out/all"})).await;
    assert_eq!(
        answer.json(),
        json!({"path": agent.at("out/all"), "name": "all", "type": "file"})
    );
    assert_eq!(
        std::fs::read_to_string(agent.at("out/all")).unwrap(),
        "one two"
    );
    assert_eq!(
        std::fs::metadata(agent.at("out/all")).unwrap().uid(),
        USER_ID
    );
    assert!(!agent.home().join("p1").exists() && !agent.home().join("p2").exists());
}
