//! The server is killed, at any moment, and the next one finds everything.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use skep_isolation::{Isolation, LaunchRecord};
use skep_native::{Native, NativeConfig};

use crate::bench::{Bench, DEADLINE, ask, block_on, request_from};

crate::tests![
    whatever_a_killed_server_was_doing_the_next_one_leaves_nothing,
    a_sandbox_of_a_killed_server_answers_and_is_adopted,
];

/// A server in a process of its own, which launches and destroys until it is killed.
pub(crate) fn serve(arguments: &[String]) -> ExitCode {
    let [data_dir, layer] = arguments else {
        return ExitCode::FAILURE;
    };
    let config = NativeConfig::new(data_dir, std::env::current_exe().unwrap());
    let layer = PathBuf::from(layer);
    block_on(async {
        let native = Native::start(config).await.unwrap();
        say("ready");
        loop {
            let (first, second) = tokio::join!(
                native.launch(request_from(&layer)),
                native.launch(request_from(&layer))
            );
            let (first, second) = (first.unwrap(), second.unwrap());
            say(&first.record().0);
            second.destroy().await.unwrap();
            say("destroyed");
            first.destroy().await.unwrap();
        }
    });
    ExitCode::SUCCESS
}

pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

pub(crate) fn start_server(bench: &Bench) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .arg("server")
        .args([bench.config.host.data_dir.as_path(), &bench.layer()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(server.stdout.take().unwrap());
    (server, output)
}

pub(crate) fn next_line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

async fn whatever_a_killed_server_was_doing_the_next_one_leaves_nothing() {
    let mut bench = Bench::new().await;
    // Each is seen a little later in a launch than the one before.
    let moments = ["", "directory", "memory", "freezer", "link", "loop device"];
    for moment in moments.repeat(3) {
        bench.stop().await;
        let (mut server, mut output) = start_server(&bench);
        assert_eq!(next_line(&mut output), "ready");
        skep_testkit::wait_until(DEADLINE, async || {
            let left = bench.left();
            let seen = moment.is_empty() || left.iter().any(|thing| thing.starts_with(moment));
            seen.then_some(()).ok_or(moment)
        })
        .await;
        server.kill().unwrap();
        server.wait().unwrap();
        bench.start().await;
        bench.native().sweep().await.unwrap();
        bench.wait_until_empty().await;
    }
    bench.finish().await;
}

async fn a_sandbox_of_a_killed_server_answers_and_is_adopted() {
    let mut bench = Bench::new().await;
    bench.stop().await;
    let (mut server, mut output) = start_server(&bench);
    assert_eq!(next_line(&mut output), "ready");
    let record = LaunchRecord(next_line(&mut output));
    server.kill().unwrap();
    server.wait().unwrap();
    bench.start().await;
    let adopted = bench.native().adopt(record).await.unwrap();
    // The other one, which nobody has a record of, is swept away.
    bench.native().sweep().await.unwrap();
    assert_eq!(ask(&adopted, "agent pid").await, "1");
    adopted.destroy().await.unwrap();
    drop(adopted);
    assert!(Path::new(&bench.layer()).exists());
    bench.finish().await;
}
