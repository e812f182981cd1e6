//! Bombs: programs that take all they can get.
//!
//! Each must reach its limit and be told so, while the agent of its own sandbox goes on
//! answering. What a neighbour feels of it is measured and printed; a time is no test.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use skep_client::{Command, CommandEvent, CommandStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::product::Product;
use crate::sentinels::Sentinels;
use crate::target::{Target, Verdict, command};

/// Time limit for an agent's health check.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Size of a flood of output, and of the part of it that is read.
const FLOOD: u64 = 1 << 30;
const READ_OF_FLOOD: u64 = 32 << 20;
/// Memory that an agent may use whatever the sandbox does.
const AGENT_MEMORY: u64 = 64 << 20;

/// One attempt to exhaust a resource, with the failure it must meet.
#[derive(Debug, Clone)]
pub(crate) struct Bomb {
    pub(crate) name: String,
    /// Prefix of the reason for which it must fail, such as `ENOSPC`.
    expect: String,
    /// Python statement that a neighbour must be able to run meanwhile.
    meanwhile: Option<String>,
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
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::to_owned)
        };
        Bomb {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            expect: field("# Expect: ").unwrap(),
            meanwhile: field("# Meanwhile: "),
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
        let mut scene = Scene::new(product, sentinels).await;
        scene.meanwhile.clone_from(&self.meanwhile);
        let offender = scene.offender.clone();
        let command = command(&self.source);
        let verdict = scene.watch(offender.judge("root", &command)).await;
        let is_held = matches!(&verdict, Verdict::Held(reason) if reason.starts_with(&self.expect));
        scene.finish(is_held, &verdict.to_string()).await
    }
}

/// Lets a command print a gibibyte to somebody who reads a little of it, then nothing, and then
/// goes away. It must wait, nothing may be kept in memory, and it must end when nobody listens.
pub(crate) async fn flood(product: &Product, sentinels: &Sentinels) -> Result<String, String> {
    let mut scene = Scene::new(product, sentinels).await;
    let (offender, neighbour) = (scene.offender.clone(), scene.neighbour.clone());
    let script = format!("head -c {FLOOD} /dev/zero; echo over > /tmp/over");
    let flood = Command::new("sh").args(["-c", &script]);
    let mut events = offender.sandbox().commands().start(flood).await.unwrap();
    let start = Instant::now();
    scene.watch(read_some(&mut events)).await;
    let seconds = start.elapsed().as_secs_f64();
    // Nobody reads for as long as this takes.
    scene.watch(latencies(&neighbour, 30)).await;
    let resident = product.agent_memory(&offender.id);
    let is_over = async || {
        let over = offender.run("user", "cat", &["/tmp/over".into()]).await;
        over.unwrap().code == 0
    };
    let waits = !is_over().await;
    drop(events);
    skep_testkit::wait_until(TIMEOUT * 6, async || {
        if is_over().await {
            Ok(())
        } else {
            Err("the command still prints")
        }
    })
    .await;
    let report = format!(
        "{} MiB in {seconds:.1} s; agent of {} MiB",
        READ_OF_FLOOD >> 20,
        resident >> 20
    );
    scene
        .finish(waits && resident < AGENT_MEMORY, &report)
        .await
}

async fn read_some(events: &mut CommandStream) -> u64 {
    let mut arrived = 0;
    while arrived < READ_OF_FLOOD {
        match events.next().await.unwrap() {
            Some(CommandEvent::Stdout(bytes)) => arrived += u64::try_from(bytes.len()).unwrap(),
            Some(_) => {}
            None => panic!("the stream ended after {arrived} bytes"),
        }
    }
    arrived
}

/// A sandbox in which a bomb goes off, a neighbour, and what is seen meanwhile.
struct Scene<'a> {
    product: &'a Product,
    offender: Target,
    neighbour: Target,
    /// Python statement that the neighbour must be able to run.
    meanwhile: Option<String>,
    before: Vec<Duration>,
    during: Vec<Duration>,
    failures: Vec<String>,
}

impl<'a> Scene<'a> {
    async fn new(product: &'a Product, sentinels: &Sentinels) -> Self {
        let offender = product.create(sentinels).await;
        let neighbour = product.create(sentinels).await;
        Self {
            before: latencies(&neighbour, 8).await,
            product,
            offender,
            neighbour,
            meanwhile: None,
            during: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Looks at everybody again and again until `bomb` is over.
    async fn watch<T>(&mut self, bomb: impl Future<Output = T>) -> T {
        let mut bomb = std::pin::pin!(bomb);
        loop {
            tokio::select! {
                seen = self.look() => {
                    let (latency, failures) = seen;
                    self.during.extend(latency);
                    self.failures.extend(failures);
                }
                over = &mut bomb => return over,
            }
        }
    }

    async fn look(&self) -> (Vec<Duration>, Vec<String>) {
        let agent = health(self.product, &self.offender).await;
        let latency = latencies(&self.neighbour, 1).await;
        let neighbour = match &self.meanwhile {
            Some(statement) => could(&self.neighbour, statement).await,
            None => Ok(()),
        };
        let results = [
            ("agent", agent),
            ("neighbour", neighbour),
            ("machine", machine()),
        ];
        let failures = results
            .into_iter()
            .filter_map(|(who, result)| Some(format!("{who}: {}", result.err()?)));
        (latency, failures.collect())
    }

    async fn finish(self, is_right: bool, what: &str) -> Result<String, String> {
        let answered = health(self.product, &self.offender).await;
        self.product.kill(&self.offender).await;
        self.product.kill(&self.neighbour).await;
        let mut report = format!("{what}; neighbour");
        for (when, times) in [("before", &self.before), ("during", &self.during)] {
            let mut sorted = times.clone();
            sorted.sort();
            let milliseconds =
                |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
            let middle = milliseconds(sorted.get(sorted.len() / 2));
            let most = milliseconds(sorted.last());
            write!(report, " {when} {middle:.0} ms (at most {most:.0})").unwrap();
        }
        match (is_right, answered, self.failures.as_slice()) {
            (true, Ok(()), []) => Ok(report),
            (_, answered, failures) => Err(format!("{report}; {answered:?} {failures:?}")),
        }
    }
}

/// Runs a statement in a sandbox, and returns its error if it fails.
async fn could(target: &Target, statement: &str) -> Result<(), String> {
    let program = format!("import ctypes, os\n{statement}");
    let arguments = ["-I".to_owned(), "-c".to_owned(), program];
    let ran = target.run("user", "python3", &arguments).await.unwrap();
    match ran.code {
        0 => Ok(()),
        _ => Err(ran.stderr),
    }
}

/// Checks that root of the host still gets what every user has a limited number of.
fn machine() -> Result<(), String> {
    use rustix::fs::inotify;
    use rustix::pty::{OpenptFlags, openpt};
    inotify::init(inotify::CreateFlags::CLOEXEC).map_err(|error| format!("inotify: {error}"))?;
    openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).map_err(|error| format!("pty: {error}"))?;
    Ok(())
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

/// Asks the agent whether it is well, through the proxy.
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
    match tokio::time::timeout(TIMEOUT, asked).await {
        Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 204") => Ok(()),
        Ok(Ok(answer)) => Err(answer.lines().next().unwrap_or_default().to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("silence".into()),
    }
}
