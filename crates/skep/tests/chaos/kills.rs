//! The server is killed at random moments under load, and nothing is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jiff::Timestamp;
use parking_lot::Mutex;
use skep_client::{Client, SandboxRecord, SandboxRecordState as State};
use skep_telemetry::Chain;
use skep_testkit::{wait_for, wait_until};

use crate::installation::Installation;
use crate::ledger::{Ledger, ends_after};
use crate::load::{self, Dice, Shared};
use crate::machine::Traces;
use crate::witness::Witness;

const ROUNDS: u64 = 10;
/// The longest time between the start of a server and its death, in milliseconds.
const LONGEST_LIFE: u64 = 600;
/// Time after which all sandboxes answer again.
const ADOPTION: Duration = Duration::from_secs(1);
/// Time limit for something that is ending to be gone.
const ENDING: Duration = Duration::from_secs(20);
/// Owner of the witness in the ledger.
const NOBODY: u64 = u64::MAX;

#[expect(
    clippy::disallowed_methods,
    reason = "a test program is its own `main`"
)]
pub(crate) fn rounds() -> u64 {
    let rounds = std::env::var_os("SKEP_CHAOS_ROUNDS");
    rounds.map_or(ROUNDS, |text| text.to_str().unwrap().parse().unwrap())
}

/// The seed is printed, so that a failure can be had again as far as the host allows.
#[expect(
    clippy::disallowed_methods,
    reason = "a test program is its own `main`"
)]
fn seed() -> u64 {
    let chosen = std::env::var_os("SKEP_CHAOS_SEED");
    let seed = chosen.map(|text| text.to_str().unwrap().parse().unwrap());
    seed.unwrap_or_else(|| Timestamp::now().as_microsecond().unsigned_abs())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_at_any_moment_loses_nothing() {
    let seed = seed();
    eprintln!("SKEP_CHAOS_SEED={seed}");
    let mut dice = Dice::new(seed);
    let mut installation = Installation::start();
    let client = installation.client();
    let ledger: Shared = Arc::new(Mutex::new(Ledger::default()));
    let asked = Timestamp::now();
    let mut witness = Witness::start(&client).await;
    let ends = ends_after(asked, Duration::from_secs(7200));
    let token = witness.sandbox.access_token().await.unwrap();
    ledger
        .lock()
        .created(NOBODY, witness.sandbox.id(), token.map(str::to_owned), ends);

    let (mut slowest, mut most) = (Duration::ZERO, 0);
    for _ in 0..rounds() {
        let seeds: Vec<_> = (0..3).map(|_| dice.below(u64::MAX)).collect();
        let callers = load::start(&client, &ledger, &seeds);
        let life = Duration::from_millis(dice.below(LONGEST_LIFE));
        tokio::time::sleep(life).await;
        installation.kill();
        callers.join_all().await;
        witness.check_cut().await;

        installation.restart();
        let ready = Instant::now();
        let answered = everybody_answers(&client, &ledger).await;
        slowest = slowest.max(ready.elapsed());
        most = most.max(answered);
        assert!(
            ready.elapsed() < ADOPTION,
            "{:?} for {answered}",
            ready.elapsed()
        );
        witness.check(&client).await;
        settled(&installation, &client, &ledger).await;
    }
    let total = records(&client).await.len();
    eprintln!("up to {most} sandboxes of {total} answered within {slowest:?} of every start");
}

/// Asks every sandbox that should live for an answer, all at once; says how many there are.
async fn everybody_answers(client: &Client, ledger: &Shared) -> usize {
    let living: Vec<_> = {
        let ledger = ledger.lock();
        let all = (0..3).chain([NOBODY]);
        all.flat_map(|owner| ledger.living(owner)).collect()
    };
    let answers = join_all(living.iter().map(|id| async move {
        let answer = client.sandbox(id).with_access_token(None).health().await;
        if let Err(error) = answer {
            panic!("{id}: {}", Chain(&error));
        }
    }));
    answers.await.len()
}

/// Waits until nothing is starting or ending, and compares the database with what was promised
/// and with the host.
async fn settled(installation: &Installation, client: &Client, ledger: &Shared) {
    let records = wait_until(ENDING, || async {
        let records = records(client).await;
        let moving = |record: &&SandboxRecord| match record.state {
            State::Starting | State::Stopping | State::Stuck => true,
            // The next look could find its second over.
            State::Running => record
                .end_at
                .is_some_and(|end| end < Timestamp::now() + jiff::SignedDuration::from_secs(60)),
            State::Paused | State::Ended => false,
        };
        match records.iter().find(moving) {
            Some(record) => Err(format!("{record:?}")),
            None => Ok(records),
        }
    })
    .await;
    let foundlings = ledger.lock().check(&records);
    for id in &foundlings {
        client.sandbox(id).kill().await.unwrap();
    }
    let living: BTreeSet<_> = records
        .iter()
        .filter(|record| record.state == State::Running)
        .map(|record| record.sandbox_id.clone())
        .filter(|id| !foundlings.contains(id))
        .collect();
    let expected = Traces::of(&living);
    tokio::task::block_in_place(|| {
        wait_for(ENDING, || {
            let found = Traces::find(installation);
            if found == expected {
                Ok(())
            } else {
                Err(format!("{found:#?} is not {expected:#?}"))
            }
        });
    });
}

async fn records(client: &Client) -> Vec<SandboxRecord> {
    client.sandboxes().records(true).await.unwrap()
}
