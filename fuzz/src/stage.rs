//! The agent in its jail, on a clock that does not tick by itself.

use std::cell::RefCell;
use std::io;
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use skep_agent::fuzzing::{Bench, BenchAgent};
use skep_agent_protocol::AgentConfig;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tower::ServiceExt as _;

use crate::jail;
use crate::tree::{self, Tree};

/// The clock jumps to the next timer when nobody has work, so this costs no time. Whatever
/// takes longer hangs.
const LONG: Duration = Duration::from_secs(3600);

/// Streams that go on for ever are followed for so many frames.
const FRAMES: usize = 4;

/// Far more than any answer to the small files of the jail.
const LARGEST_ANSWER: usize = 8 << 20;

/// Token that a caller must show to the guarded agent.
pub(crate) const TOKEN: &str = "the-token-of-the-sandbox";

/// Token that the server alone knows.
pub(crate) const CONTROL_TOKEN: &str = "control";

/// An answer, as far as it was read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// True if the body came to its end.
    pub(crate) is_complete: bool,
}

/// A runtime and an agent on which requests are tried.
pub(crate) struct Stage {
    runtime: Runtime,
    bench: Bench,
    before: RefCell<Tree>,
}

type Job = Box<dyn FnOnce(&Stage) + Send>;

/// Result of a job.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Done,
    Panicked,
}

/// The two ends of the stage, as libFuzzer's thread holds them.
struct StageHandle {
    jobs: SyncSender<Job>,
    ends: Mutex<Receiver<End>>,
}

static HANDLE: LazyLock<StageHandle> = LazyLock::new(|| {
    let (jobs, received) = sync_channel::<Job>(1);
    let (ended, ends) = sync_channel(1);
    report_panics(ended.clone());
    std::thread::spawn(move || {
        let stage = Stage::set_up().expect("only root can set up the jail of this target");
        for job in received {
            job(&stage);
            ended.send(End::Done).expect("libFuzzer waits for the end");
        }
    });
    StageHandle {
        jobs,
        ends: Mutex::new(ends),
    }
});

/// Runs `job` in the jail and waits for it. If it panics, so does the caller.
pub(crate) fn perform(job: impl FnOnce(&Stage) + Send + 'static) {
    HANDLE.jobs.send(Box::new(job)).expect("the stage is there");
    let ends = HANDLE.ends.lock();
    let end = ends.recv().expect("the stage answers");
    assert_eq!(end, End::Done, "see above");
}

/// libFuzzer ends the process where it panics and writes the input down from there, which must
/// not be in the jail. So a panic in there is told to libFuzzer's own thread. This includes
/// panics that the agent would have survived.
fn report_panics(ended: SyncSender<End>) {
    let outside = std::thread::current().id();
    let end_process = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == outside {
            return end_process(panic);
        }
        eprintln!("\n{panic}\n{}", std::backtrace::Backtrace::capture());
        while ended.send(End::Panicked).is_ok() {
            std::thread::park();
        }
    }));
}

impl Stage {
    fn set_up() -> io::Result<Self> {
        jail::enter()?;
        let before = tree::plant()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()?;
        let bench = Bench::default();
        let reaping = bench.clone();
        runtime.spawn(async move { reaping.reap().await });
        Ok(Self {
            runtime,
            bench,
            before: RefCell::new(before),
        })
    }

    /// A new agent; a guarded one wants to be shown [`TOKEN`].
    pub(crate) fn agent(&self, is_guarded: bool) -> BenchAgent {
        let _runtime = self.runtime.enter();
        self.bench.agent(AgentConfig {
            control_token: CONTROL_TOKEN.to_owned(),
            access_token: is_guarded.then(|| TOKEN.to_owned()),
            sandbox_id: "i0123456789abcdefghij".to_owned(),
            template_id: "base".to_owned(),
            default_user: "user".to_owned(),
            ..AgentConfig::default()
        })
    }

    /// Waits for something that is quick.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Sends a request and reads the answer, to its end if it has one.
    pub(crate) fn ask(&self, agent: &BenchAgent, request: Request<Body>) -> Answer {
        self.runtime.block_on(async {
            let answered = timeout(LONG, agent.routes.clone().oneshot(request));
            let response = match answered.await.expect("the agent answers in time") {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let (parts, mut body) = response.into_parts();
            let mut read = BytesMut::new();
            let mut is_complete = false;
            let mut frames = 0;
            let is_endless = |frames| frames >= FRAMES && is_stream(&parts.headers);
            while !is_complete && !is_endless(frames) {
                let frame = timeout(LONG, body.frame());
                match frame.await.expect("a body goes on or ends") {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            read.extend_from_slice(&data);
                        }
                    }
                    Some(Err(error)) => panic!("the body broke off: {error}"),
                    None => is_complete = true,
                }
                frames += 1;
                assert!(read.len() <= LARGEST_ANSWER, "an answer without end");
            }
            Answer {
                status: parts.status,
                headers: parts.headers,
                body: read.freeze(),
                is_complete,
            }
        })
    }

    /// Calls `judge` with the tree before and the tree now, and restores the former for the next
    /// request.
    pub(crate) fn compare(&self, judge: impl FnOnce(&Tree, &Tree)) {
        let after = tree::read().expect("the jail can be read");
        let mut before = self.before.borrow_mut();
        let changed = !tree::differences(&before, &after).is_empty();
        judge(&before, &after);
        if changed {
            *before = tree::replant().expect("the jail can be made anew");
        }
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    headers.get(http::header::CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.as_bytes();
        kind.starts_with(b"application/connect+") || kind.starts_with(b"application/grpc")
    })
}
