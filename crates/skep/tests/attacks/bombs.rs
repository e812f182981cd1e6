//! Bombs: programs that take all they can get.
//!
//! Each must reach its limit and be told so, while the agent of its own sandbox goes on
//! answering. What a neighbour feels of it is measured and printed; a time is no test.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use skep_client::{ExecEvent, ExecOptions, ExecStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::product::Product;
use crate::sentinels::Sentinels;
use crate::target::{Target, Verdict, command};

/// How long an agent may take to say that it is well.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much a flood of output is, and how much of it is read.
const FLOOD: u64 = 1 << 30;
const READ_OF_FLOOD: u64 = 32 << 20;
/// What an agent may use whatever the sandbox does.
const AGENT_MEMORY: u64 = 64 << 20;

/// One bomb.
#[derive(Debug, Clone)]
pub(crate) struct Bomb {
    pub(crate) name: String,
    /// How the reason starts that it must be given.
    expect: String,
    source: String,
}

/// All bombs that are programs.
pub(crate) fn all() -> Vec<Bomb> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks/bombs");
    let library = fs::read_to_string(folder.join("bomb.py")).unwrap();
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("bomb.py"))
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let expect = text
            .lines()
            .find_map(|line| line.strip_prefix("# Expect: "));
        Bomb {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            expect: expect.unwrap().to_owned(),
            source: format!("{library}\n\n{text}"),
        }
    };
    paths.into_iter().map(read).collect()
}

impl Bomb {
    /// Sets it off beside a neighbour.
    pub(crate) async fn set_off(
        &self,
        product: &Product,
        sentinels: &Sentinels,
    ) -> Result<String, String> {
        let (offender, neighbour) = (
            product.create(sentinels).await,
            product.create(sentinels).await,
        );
        let before = latencies(&neighbour, 8).await;
        let command = command(&self.source);
        let (verdict, seen) = watch(
            product,
            &offender,
            &neighbour,
            offender.judge("root", &command),
        )
        .await;
        let answered = health(product, &offender).await;
        product.kill(&offender).await;
        product.kill(&neighbour).await;
        let report = format!("{verdict}; {}", seen.report(&before));
        let is_held = matches!(&verdict, Verdict::Held(reason) if reason.starts_with(&self.expect));
        match (is_held, answered, seen.agent_failures.as_slice()) {
            (true, Ok(()), []) => Ok(report),
            (_, answered, failures) => Err(format!("{report}; {answered:?} {failures:?}")),
        }
    }
}

/// Lets a command print a gibibyte to somebody who reads a little of it, then nothing, and then
/// goes away. It must wait, nothing may be kept in memory, and it must end when nobody listens.
pub(crate) async fn flood(product: &Product, sentinels: &Sentinels) -> Result<String, String> {
    let offender = product.create(sentinels).await;
    let neighbour = product.create(sentinels).await;
    let before = latencies(&neighbour, 8).await;
    let agent = offender.client.agent(&offender.id, Some(&offender.token));
    let script = format!("head -c {FLOOD} /dev/zero; echo over > /tmp/over");
    let options = ExecOptions::default();
    let arguments = ["-c".to_owned(), script];
    let mut events = agent.exec("sh", &arguments, &options).await.unwrap();
    let start = Instant::now();
    let (arrived, mut seen) = watch(product, &offender, &neighbour, read_some(&mut events)).await;
    let rate = arrived as f64 / start.elapsed().as_secs_f64() / f64::from(1 << 20);
    // Nobody reads for as long as this takes.
    let (_, quiet) = watch(product, &offender, &neighbour, latencies(&neighbour, 30)).await;
    let resident = product.agent_memory(&offender.id);
    let unread = offender.run("user", "cat", &["/tmp/over".into()]).await;
    let waits = unread.unwrap().code != 0;
    drop(events);
    skep_testkit::wait_until(PATIENCE * 6, async || {
        let over = offender.run("user", "cat", &["/tmp/over".into()]).await;
        match over.unwrap().code {
            0 => Ok(()),
            _ => Err("the command still prints"),
        }
    })
    .await;
    product.kill(&offender).await;
    product.kill(&neighbour).await;
    seen.agent_failures.extend(quiet.agent_failures);
    let report = format!(
        "{rate:.0} MiB/s; agent of {} MiB; {}",
        resident >> 20,
        seen.report(&before)
    );
    match (
        waits && resident < AGENT_MEMORY,
        seen.agent_failures.as_slice(),
    ) {
        (true, []) => Ok(report),
        (_, failures) => Err(format!("waits: {waits}; {report} {failures:?}")),
    }
}

async fn read_some(events: &mut ExecStream) -> u64 {
    let mut arrived = 0;
    while arrived < READ_OF_FLOOD {
        match events.next().await.unwrap() {
            Some(ExecEvent::Stdout(bytes)) => arrived += u64::try_from(bytes.len()).unwrap(),
            Some(_) => {}
            None => panic!("the stream ended after {arrived} bytes"),
        }
    }
    arrived
}

/// What was seen while a bomb was going off.
#[derive(Debug, Default)]
struct Seen {
    neighbour: Vec<Duration>,
    agent_answers: usize,
    agent_failures: Vec<String>,
}

impl Seen {
    fn report(&self, before: &[Duration]) -> String {
        let mut text = format!("agent answered {} times; neighbour", self.agent_answers);
        for (when, times) in [("before", before), ("during", &self.neighbour)] {
            let mut sorted = times.to_vec();
            sorted.sort();
            let milliseconds =
                |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
            let middle = milliseconds(sorted.get(sorted.len() / 2));
            let most = milliseconds(sorted.last());
            write!(text, " {when} {middle:.0} ms (at most {most:.0})").unwrap();
        }
        text
    }
}

/// Watches agent and neighbour until `bomb` is over.
async fn watch<T>(
    product: &Product,
    offender: &Target,
    neighbour: &Target,
    bomb: impl Future<Output = T>,
) -> (T, Seen) {
    let mut seen = Seen::default();
    let mut bomb = std::pin::pin!(bomb);
    loop {
        let look = async {
            let health = health(product, offender).await;
            (health, latencies(neighbour, 1).await)
        };
        tokio::select! {
            // What is being looked at is looked at to the end, so that no failure is missed.
            biased;
            (health, latency) = look => {
                match health {
                    Ok(()) => seen.agent_answers += 1,
                    Err(failure) => seen.agent_failures.push(failure),
                }
                seen.neighbour.extend(latency);
            }
            over = &mut bomb => return (over, seen),
        }
    }
}

async fn latencies(target: &Target, count: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        let ran = target.run("user", "true", &[]).await.unwrap();
        assert_eq!(ran.code, 0, "{ran:?}");
        times.push(start.elapsed());
    }
    times
}

/// Asks the agent whether it is well, through the front door.
async fn health(product: &Product, target: &Target) -> Result<(), String> {
    let asked = async {
        let mut stream = TcpStream::connect(&product.address).await?;
        let request = format!(
            "GET /health HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: {}\r\nConnection: close\r\n\r\n",
            target.id, target.token
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 204") => Ok(()),
        Ok(Ok(answer)) => Err(answer.lines().next().unwrap_or_default().to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("silence".into()),
    }
}
