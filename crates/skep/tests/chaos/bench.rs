//! `skep bench`, a round or two of each part: that it runs and what it reports, not how fast.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;

use crate::installation::{CACHE, Installation};

const SLIM: &str = "code-interpreter-slim";

/// The template of these tests: with an interpreter if somebody has built it on this host.
static TEMPLATE: LazyLock<&str> = LazyLock::new(|| {
    let listed = skep(&["template", "list", "--json", "--cache-dir"])
        .arg(&*CACHE)
        .output()
        .unwrap();
    let templates: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let is_built = templates.iter().any(|template| template["name"] == SLIM);
    eprintln!("interpreter template built: {is_built}");
    if is_built { SLIM } else { "base" }
});

fn skep(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
    command.args(arguments).env_remove("E2B_API_KEY");
    command
}

fn bench(arguments: &[&str]) -> Output {
    skep(&["bench"])
        .args(arguments)
        .args(["--template", &TEMPLATE])
        .env("SKEP_CACHE_DIR", &*CACHE)
        .output()
        .unwrap()
}

/// The report of a run that goes well.
#[track_caller]
fn report(arguments: &[&str]) -> Value {
    let output = bench(&[arguments, &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a part, checks the shape of its report, and that it has these measurements: the second
/// list only where there is an interpreter.
#[track_caller]
fn check(arguments: &[&str], always: &[&str], interpreted: &[&str]) -> Value {
    let report = report(arguments);
    assert_eq!(report["what"], arguments[0]);
    for key in ["version", "profile", "started_at"] {
        assert!(report[key].is_string(), "{key}: {report}");
    }
    for key in ["kernel", "processor"] {
        assert!(report["machine"][key].is_string(), "{key}: {report}");
    }
    for key in [
        "cores",
        "memory_bytes",
        "cgroup_version",
        "load_before",
        "load_after",
    ] {
        assert!(report["machine"][key].is_number(), "{key}: {report}");
    }
    let measured = report["measurements"].as_array().unwrap();
    for measurement in measured {
        check_measurement(measurement);
    }
    let ids: BTreeSet<&str> = measured
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    let mut expected: BTreeSet<&str> = always.iter().copied().collect();
    if *TEMPLATE == SLIM {
        expected.extend(interpreted);
    }
    assert_eq!(ids, expected);
    report
}

#[track_caller]
fn check_measurement(measurement: &Value) {
    let samples = measurement["samples"].as_array().unwrap();
    let summary = &measurement["summary"];
    assert_eq!(summary["count"], samples.len(), "{measurement}");
    let values = ["min", "p50", "p95", "p99", "max"].map(|key| summary[key].as_f64().unwrap());
    assert!(values.is_sorted(), "{measurement}");
    assert!(measurement["title"].is_string() && measurement["unit"].is_string());
}

#[test]
fn the_bench_tells_the_way_to_the_first_result_step_by_step() {
    let steps = [
        "tti.empty_request",
        "tti.create",
        "tti.ready",
        "tti.first_command",
        "tti.kill",
    ];
    let folder = tempfile::tempdir().unwrap();
    let (json, svg) = (
        folder.path().join("tti.json"),
        folder.path().join("tti.svg"),
    );
    let files = [
        "--output",
        json.to_str().unwrap(),
        "--svg",
        svg.to_str().unwrap(),
    ];
    let rounds = ["tti", "--rounds", "3", "--warmup", "1"];
    let report = check(
        &[&rounds[..], &files].concat(),
        &steps,
        &["tti.first_result"],
    );
    let written: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(written, report);
    let drawn = std::fs::read_to_string(svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("<circle"));
    assert_eq!(
        report["measurements"][1]["samples"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(report["targets"].as_array().unwrap().len(), 1);
}

#[test]
fn the_bench_measures_commands_and_code() {
    let always = ["exec.empty_request", "exec.host_command", "exec.command"];
    check(
        &["exec", "--rounds", "2", "--warmup", "0"],
        &always,
        &["exec.run_code"],
    );
}

#[test]
fn the_bench_measures_many_at_once() {
    let always = [
        "burst.create",
        "burst.first_result",
        "burst.total",
        "burst.total_per_sandbox",
        "burst.asked",
        "burst.succeeded",
    ];
    check(
        &["burst", "3", "--rounds", "1", "--warmup", "0"],
        &always,
        &[],
    );
}

#[test]
fn the_bench_weighs_idle_sandboxes() {
    let always = [
        "density.answer",
        "density.answered",
        "density.idle_processor",
        "density.private_memory",
        "density.private_memory_beside",
        "density.processes",
        "density.proportional_memory",
        "density.server_idle_processor",
        "density.server_memory",
        "density.server_memory_alone",
        "density.shared_memory",
    ];
    let report = check(&["density", "2", "--window", "1"], &always, &[]);
    let measured = report["measurements"].as_array().unwrap();
    let private = measured
        .iter()
        .find(|one| one["id"] == "density.private_memory");
    let least = private.unwrap()["summary"]["min"].as_f64().unwrap();
    assert!(least > 0.0, "a sandbox without memory: {report}");
}

#[test]
fn the_bench_measures_streams_files_and_the_way_through_the_server() {
    let stream = [
        "stream", "--lines", "100", "--size", "1", "--rounds", "1", "--warmup", "0",
    ];
    check(
        &stream,
        &[
            "stream.first_line",
            "stream.command_lines",
            "stream.command_bytes",
        ],
        &[
            "stream.code_first_line",
            "stream.code_lines",
            "stream.code_bytes",
        ],
    );
    let files = [
        "files.copy",
        "files.upload",
        "files.download",
        "files.server_peak_before",
        "files.server_peak_after",
        "files.agent_peak_before",
        "files.agent_peak_after",
    ];
    check(&["files", "--size", "2", "--rounds", "1"], &files, &[]);
    let proxy = [
        "proxy.request",
        "proxy.direct_request",
        "proxy.throughput",
        "proxy.direct_throughput",
    ];
    check(
        &["proxy", "--size", "1", "--rounds", "2", "--warmup", "0"],
        &proxy,
        &[],
    );
}

#[test]
fn the_bench_measures_what_leaves_through_the_egress_proxy() {
    let measured = [
        "connections",
        "throughput",
        "new_request",
        "kept_request",
        "idle_memory",
    ];
    let of = |route: &str| measured.map(|name| format!("egress.{route}_{name}"));
    let has_squid = Command::new("squid")
        .arg("-v")
        .output()
        .is_ok_and(|output| output.status.success());
    let mut names = [of("direct"), of("opaque"), of("transformed")].concat();
    names.extend(of("squid").into_iter().filter(|_| has_squid));
    // Without a proxy there is none whose memory grows.
    names.retain(|name| name != "egress.direct_idle_memory");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let rounds = ["egress", "--size", "1", "--rounds", "1", "--warmup", "0"];
    check(&rounds, &names, &[]);
}

#[test]
fn the_bench_kills_its_server_and_finds_its_sandbox_again() {
    check(
        &["restart", "--rounds", "1", "--warmup", "0", "--pool", "0"],
        &["restart.server_ready", "restart.adopted"],
        &[
            "restart.new_context",
            "restart.new_context_result",
            "restart.context_restart",
            "restart.context_restart_result",
        ],
    );
}

#[test]
fn the_bench_copies_a_context() {
    check(
        &["context", "--rounds", "1", "--warmup", "0"],
        &[],
        &[
            "context.plain_fork",
            "context.checkpoint",
            "context.rollback",
            "context.rollback_result",
            "context.fork",
            "context.fork_result",
        ],
    );
}

#[test]
fn the_bench_measures_every_language_of_the_template() {
    let rounds = ["languages", "--rounds", "1", "--warmup", "0"];
    let of = |language: &str, rival: &[&str]| {
        let own = [
            "first_result",
            "new_context",
            "next_context",
            "run_code",
            "private_memory",
        ];
        let all = own.iter().chain(rival);
        all.map(|name| format!("languages.{language}.{name}"))
            .collect::<Vec<_>>()
    };
    let series = [
        of("python", &["program"]),
        of("javascript", &["program"]),
        of("typescript", &[]),
        of("bash", &["program"]),
    ]
    .concat();
    let names: Vec<&str> = series.iter().map(String::as_str).collect();
    let report = check(&[&rounds[..], &["--settle", "0"]].concat(), &[], &names);
    if *TEMPLATE == SLIM {
        let text = report["measurements"].to_string();
        assert!(text.contains("javascript: run_code, warm"), "{text}");
    }
}

#[test]
fn the_bench_compares_with_floors_and_rivals() {
    let rounds = ["compare", "--rounds", "1", "--warmup", "0"];
    if *TEMPLATE != SLIM {
        // Nothing can be compared without an interpreter, and that is said.
        let output = bench(&rounds);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("hint: use `--template"), "{errors}");
        return;
    }
    let series = [
        "compare.run_code",
        "compare.ipykernel_execute",
        "compare.shell_execute",
        "compare.jupyter_execute",
        "compare.ready",
        "compare.namespaces",
        "compare.first_result",
        "compare.ipykernel_start",
        "compare.first_context",
        "compare.new_context",
        "compare.jupyter_new_kernel",
    ];
    let report = check(&rounds, &series, &[]);
    assert_eq!(report["targets"].as_array().unwrap().len(), 5);
}

#[test]
fn the_bench_measures_a_server_that_runs_already() {
    let installation = Installation::start();
    let (url, key) = installation.address_and_key();
    let against = ["--against", &url, "--api-key", &key];
    let rounds = ["tti", "--rounds", "1", "--warmup", "0"];
    let measured = report(&[&rounds[..], &against].concat());
    assert_eq!(measured["subject"]["own"], false);
    assert_eq!(measured["subject"]["url"], url);

    let refused = bench(&[&["proxy"][..], &against].concat());
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{errors}");
    assert!(errors.contains("hint: leave `--against` out"), "{errors}");

    let refused = bench(&["exec", "--against", &url, "--api-key", "e2b_wrong"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{errors}");
    assert!(errors.contains("hint: give the server's key"), "{errors}");
}
