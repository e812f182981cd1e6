//! Cost of the way through the server, beside a direct connection to the sandbox.

use std::net::Ipv4Addr;
use std::time::Instant;

use skep_client::{Client, Files};
use skep_wire::agent::AGENT_PORT;

use crate::bench::{Bench, per_second};
use crate::error::BenchError;
use crate::files::fetch;
use crate::measurement::{Series, Unit};
use crate::sandbox::Sandbox;

const THROUGH: Series = Series::seconds("proxy.request", "a request through the server");
const DIRECT: Series = Series::seconds("proxy.direct_request", "the same, directly to the sandbox");
const THROUGH_BYTES: Series = Series::new(
    "proxy.throughput",
    "a download through the server",
    Unit::BytesPerSecond,
);
const DIRECT_BYTES: Series = Series::new(
    "proxy.direct_throughput",
    "the same, directly from the sandbox",
    Unit::BytesPerSecond,
);

/// The file that is fetched.
const PATH: &str = "/tmp/skep-bench";
/// A download takes so much longer than a request that one in so many rounds is enough.
const ROUNDS_PER_DOWNLOAD: u32 = 20;

pub(crate) async fn measure(bench: &mut Bench<'_>, mebibytes: u32) -> Result<(), BenchError> {
    bench.own_server()?;
    let sandbox = bench.create().await?;
    sandbox.ready().await?;
    let bytes = u64::from(mebibytes) << 20;
    sandbox
        .command(&format!("head -c {bytes} /dev/urandom > {PATH}"))
        .await?;
    let direct = sandbox.at(&direct_client(&sandbox).await?);
    for round in bench.all_rounds() {
        bench.begin_round(round);
        bench.time(THROUGH, sandbox.ready()).await?;
        bench.time(DIRECT, direct.ready()).await?;
        if round.checked_rem(ROUNDS_PER_DOWNLOAD) == Some(0) {
            bench.recorder.warm_up(false);
            let speed = download(&sandbox.files(), bytes).await?;
            bench.recorder.add(THROUGH_BYTES, speed);
            let speed = download(&direct.files(), bytes).await?;
            bench.recorder.add(DIRECT_BYTES, speed);
        }
    }
    bench.kill(&sandbox).await
}

/// A client that takes the sandbox's agent for the server.
async fn direct_client(sandbox: &Sandbox) -> Result<Client, BenchError> {
    let output = sandbox.command("hostname -I").await?;
    let text = String::from_utf8_lossy(&output);
    let address: Ipv4Addr = text
        .split_whitespace()
        .find_map(|word| word.parse().ok())
        .ok_or_else(|| BenchError::Unexpected {
            what: "`hostname -I`",
            found: format!("no address in `{}`", text.trim()),
        })?;
    Ok(Client::new(&format!("http://{address}:{AGENT_PORT}"), "")?)
}

async fn download(files: &Files, expected: u64) -> Result<f64, BenchError> {
    let start = Instant::now();
    let mut came = 0;
    fetch(files, PATH, |bytes| {
        came += bytes.len() as u64;
        Ok(())
    })
    .await?;
    let took = start.elapsed();
    if came == expected {
        return Ok(per_second(came as f64, took));
    }
    Err(BenchError::Unexpected {
        what: "a download",
        found: format!("{came} of {expected} bytes came"),
    })
}
