//! Measurement of the number of sandboxes and records that a server carries, and of their cost. For
//! people:
//!
//! ```text
//! SKEP_SCALE_SANDBOXES=200 cargo test -p skep --test chaos -- --ignored --nocapture scale
//! ```

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use skep_client::{Client, Command, NewSandbox, Sandbox};
use skep_store::{Order, Store};
use skep_testkit::wait_until;
use skep_types::{
    AccessToken, EndReason, Ending, OnTimeout, Resources, SandboxId, TemplateId, Usage,
};

use crate::installation::Installation;

const SANDBOXES: usize = 100;
const RECORDS: usize = 10_000;
/// Number of concurrent callers.
const CALLERS: usize = 4;

#[expect(
    clippy::disallowed_methods,
    reason = "a test program is its own `main`"
)]
fn count() -> usize {
    let count = std::env::var_os("SKEP_SCALE_SANDBOXES");
    count.map_or(SANDBOXES, |text| text.to_str().unwrap().parse().unwrap())
}

/// The middle, the slowest of a hundred and the slowest.
fn told(mut durations: Vec<Duration>) -> String {
    durations.sort();
    let at = |part: usize| durations[(durations.len() - 1) * part / 100];
    format!("p50 {:?}, p99 {:?}, slowest {:?}", at(50), at(99), at(100))
}

async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    (work.await, start.elapsed())
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn create(client: &Client) -> Sandbox {
    let body = NewSandbox {
        template_id: "base".to_owned(),
        timeout: Some(3600),
        ..NewSandbox::default()
    };
    client.sandboxes().create(&body).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, and takes the memory of the machine"]
async fn many_sandboxes_are_made_listed_reached_adopted_and_expired() {
    let mut installation = Installation::start();
    let client = installation.client();
    let pid = installation.server_pid().unwrap();
    eprintln!("server alone: {} KiB", resident(pid));
    let creating = (0..count()).map(|_| timed(create(&client)));
    let (created, took) = timed(stream::iter(creating).buffered(CALLERS).collect::<Vec<_>>()).await;
    let (sandboxes, durations): (Vec<_>, Vec<_>) = created.into_iter().unzip();
    eprintln!(
        "{} creates in {took:?}: {}",
        sandboxes.len(),
        told(durations)
    );
    eprintln!("server with all: {} KiB", resident(pid));

    let all = client.sandboxes();
    let listing = || all.list();
    let (listed, took) = timed(listing()).await;
    assert_eq!(listed.unwrap().len(), sandboxes.len());
    eprintln!("list of all: {took:?}");
    let running = sandboxes.iter().map(|sandbox| {
        timed(async move {
            let ran = sandbox.commands().run(Command::new("true")).await;
            assert_eq!(ran.unwrap().code, 0);
        })
    });
    let ran: Vec<_> = stream::iter(running).buffered(CALLERS).collect().await;
    let durations = ran.into_iter().map(|((), duration)| duration).collect();
    eprintln!("a command in each: {}", told(durations));

    installation.kill();
    let start = Instant::now();
    installation.restart();
    eprintln!("ready again after {:?}", start.elapsed());
    let health = sandboxes
        .iter()
        .map(|sandbox| timed(async move { sandbox.health().await.unwrap() }));
    let (answers, took) = timed(stream::iter(health).buffered(32).collect::<Vec<_>>()).await;
    assert_eq!(answers.len(), sandboxes.len());
    eprintln!("all answer within {took:?} of that");

    let expiring = sandboxes.iter().map(|sandbox| async {
        let second = Duration::from_secs(1);
        sandbox.set_timeout(second).await.unwrap();
    });
    stream::iter(expiring)
        .buffered(CALLERS)
        .collect::<Vec<()>>()
        .await;
    let start = Instant::now();
    wait_until(Duration::from_secs(300), || async {
        let left = listing().await.unwrap().len();
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    eprintln!("all expired after {:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn ten_thousand_ended_sandboxes_are_listed() {
    let mut installation = Installation::start();
    installation.stop();
    let (_, took) = timed(remember(&installation.data_dir().join("skep.db"))).await;
    eprintln!("{RECORDS} records written in {took:?}");
    let start = Instant::now();
    installation.restart();
    eprintln!("ready after {:?}", start.elapsed());
    let client = installation.client();
    let sandboxes = client.sandboxes();
    let (all, took) = timed(sandboxes.records(true)).await;
    assert_eq!(all.unwrap().len(), RECORDS);
    eprintln!("all pages in {took:?}");
    let (sandbox, took) = timed(create(&client)).await;
    eprintln!("a create beside them in {took:?}");
    let (listed, took) = timed(sandboxes.list()).await;
    assert_eq!(listed.unwrap()[0].sandbox_id, sandbox.id());
    eprintln!("the running ones in {took:?}");
    eprintln!(
        "server: {} KiB",
        resident(installation.server_pid().unwrap())
    );
}

/// Fills a database as if so many sandboxes had been there.
async fn remember(path: &Path) {
    let store = Store::open(path).unwrap();
    let team = store.teams().default_team().await.unwrap().unwrap();
    let now = Timestamp::now();
    let mut last = None;
    for number in 0..RECORDS {
        let age = SignedDuration::from_secs(i64::try_from(RECORDS - number).unwrap());
        let order = Order {
            id: SandboxId::random(),
            team: team.id.clone(),
            node: skep_types::NodeId::local(),
            template: TemplateId::random(),
            template_name: "base".to_owned(),
            base: "base".to_owned(),
            metadata: [("number".to_owned(), number.to_string())].into(),
            access_token: Some(AccessToken::random()),
            internet: None,
            ingress: Arc::default(),
            resources: Resources::default(),
            lifetime: Duration::from_secs(300),
            on_timeout: OnTimeout::Kill,
            auto_resume: false,
            mounts: Vec::new(),
            identity: skep_types::IdentityTokens::default(),
            created_at: now - age,
        };
        let ending = Ending {
            reason: EndReason::Killed,
            usage: Usage::default(),
            at: now - age,
        };
        let inserted = store.sandboxes().insert(order.clone(), None);
        last = Some(store.sandboxes().ended(order.id, ending));
        if number % 1000 == 0 {
            inserted.recorded().await.unwrap();
        } else {
            drop(inserted);
        }
    }
    assert!(last.unwrap().recorded().await.unwrap());
    store.flush().await.unwrap();
}
