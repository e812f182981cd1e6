//! Output of commands and of code: when the first line comes, and how much a second.

use std::time::Instant;

use skep_client::CommandStream;

use crate::bench::{Bench, per_second};
use crate::error::BenchError;
use crate::measurement::{Series, Unit};
use crate::sandbox::{Sandbox, next_output};

const FIRST: Series = Series::seconds("stream.first_line", "first line of a command");
const LINES: Series = Series::new(
    "stream.command_lines",
    "lines of a command, printed with `seq`",
    Unit::LinesPerSecond,
);
const BYTES: Series = Series::new(
    "stream.command_bytes",
    "output of a command",
    Unit::BytesPerSecond,
);
const CODE_FIRST: Series = Series::seconds("stream.code_first_line", "first line of code");
const CODE_LINES: Series = Series::new(
    "stream.code_lines",
    "lines of code, one `print` each",
    Unit::LinesPerSecond,
);
const CODE_BYTES: Series = Series::new("stream.code_bytes", "output of code", Unit::BytesPerSecond);

/// A line of text of 64 bytes, its end included.
const TEXT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde";

pub(crate) async fn measure(
    bench: &mut Bench<'_>,
    lines: u32,
    mebibytes: u32,
) -> Result<(), BenchError> {
    let (sandbox, interprets) = bench.warm_sandbox().await?;
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    let bytes = usize::try_from(u64::from(mebibytes) << 20).unwrap_or(usize::MAX);
    for round in bench.all_rounds() {
        bench.begin_round(round);
        commands(bench, &sandbox, lines, bytes).await?;
        if interprets {
            code(bench, &sandbox, lines, bytes).await?;
        }
    }
    bench.kill(&sandbox).await
}

async fn commands(
    bench: &mut Bench<'_>,
    sandbox: &Sandbox,
    lines: usize,
    bytes: usize,
) -> Result<(), BenchError> {
    let first = "echo first";
    let start = Instant::now();
    let mut stream = sandbox.start(first).await?;
    next_output(&mut stream, first).await?;
    bench.since(FIRST, start);
    drain(&mut stream, first).await?;

    let command = format!("seq 1 {lines}");
    let start = Instant::now();
    let mut stream = sandbox.start(&command).await?;
    let (_, came) = drain(&mut stream, &command).await?;
    bench
        .recorder
        .add(LINES, per_second(came as f64, start.elapsed()));
    expect("lines of a command", lines, came)?;

    let command = format!("yes {TEXT} | head -c {bytes}");
    let start = Instant::now();
    let mut stream = sandbox.start(&command).await?;
    let (came, _) = drain(&mut stream, &command).await?;
    bench
        .recorder
        .add(BYTES, per_second(came as f64, start.elapsed()));
    expect("bytes of a command", bytes, came)
}

async fn code(
    bench: &mut Bench<'_>,
    sandbox: &Sandbox,
    lines: usize,
    bytes: usize,
) -> Result<(), BenchError> {
    bench.time(CODE_FIRST, sandbox.run_code("print(1)")).await?;

    let code = format!("for i in range({lines}): print(i)");
    let start = Instant::now();
    let printed = sandbox.run_code(&code).await?;
    bench.recorder.add(
        CODE_LINES,
        per_second(printed.lines as f64, start.elapsed()),
    );
    expect("lines of code", lines, printed.lines)?;

    let repeats = bytes / (TEXT.len() + 1);
    let code = format!("for i in range({repeats}): print('{TEXT}')");
    let start = Instant::now();
    let printed = sandbox.run_code(&code).await?;
    bench.recorder.add(
        CODE_BYTES,
        per_second(printed.bytes as f64, start.elapsed()),
    );
    expect("bytes of code", repeats * (TEXT.len() + 1), printed.bytes)
}

/// Reads to the end; how many bytes and lines came.
async fn drain(stream: &mut CommandStream, line: &str) -> Result<(usize, usize), BenchError> {
    let (mut bytes, mut lines) = (0, 0);
    while let Some(output) = next_output(stream, line).await? {
        bytes += output.len();
        lines += output.iter().filter(|byte| **byte == b'\n').count();
    }
    Ok((bytes, lines))
}

/// A stream that loses something is not fast.
fn expect(what: &'static str, sent: usize, came: usize) -> Result<(), BenchError> {
    if sent == came {
        return Ok(());
    }
    Err(BenchError::Unexpected {
        what,
        found: format!("{came} of {sent} came"),
    })
}
