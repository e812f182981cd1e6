//! Kernels that are forked into sandboxes: what they are, and what becomes of cheats.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use skep_isolation::{Isolation, LaunchError, Launched};
use skep_launch::Step;
use skep_native::{Native, ZygoteConfig, ZygoteCounts};

use crate::bench::{Bench, DEADLINE, ask};

crate::tests![
    a_forked_kernel_is_what_a_started_one_is,
    nobody_waits_for_a_zygote_but_who_launches_ahead_of_need,
    a_zygote_can_be_made_before_anybody_launches,
    a_server_that_stops_leaves_nothing_of_a_zygote_that_is_being_made,
    a_sandbox_that_cannot_be_below_its_zygote_costs_the_zygote_its_place,
    a_zygote_that_cheats_gains_nothing_and_is_ended,
    no_process_in_a_sandbox_ever_has_a_right_that_the_sandbox_has_not,
    what_the_sandbox_can_change_costs_the_fork_and_not_the_zygote,
    a_fork_that_stalls_in_its_sandbox_costs_the_fork_and_not_the_zygote,
    forks_that_stall_hold_no_thread_of_the_server,
    a_zygote_of_an_earlier_version_is_not_used,
    a_zygote_that_dies_is_replaced,
    a_zygote_that_does_not_answer_is_given_up,
    an_old_zygote_is_replaced_and_serves_its_sandboxes_to_their_end,
    zygotes_are_replaced_while_many_ask_for_forks,
    when_a_zygote_is_full_the_next_is_made,
    a_sandbox_below_a_zygote_is_adopted,
    questions_that_make_no_sense_are_refused,
];

/// A question for a started process, and its answer.
const OSTYPE: (&str, &str) = ("work read=/proc/sys/kernel/ostype", "Linux");

/// A backend whose template has a zygote that does `cheat`.
async fn bench(cheat: &str) -> Bench {
    bench_with(cheat, ZygoteConfig::default()).await
}

pub(crate) async fn bench_with(cheat: &str, config: ZygoteConfig) -> Bench {
    let bench = Bench::with(|native| native.zygotes = Some(config)).await;
    let directory = bench.layer().join("usr/local/share/skep/kernels/python");
    fs::create_dir_all(&directory).unwrap();
    let zygote = format!(r#"{{"zygote": {{"argv": ["/probe", "be-zygote", "{cheat}"]}}}}"#);
    fs::write(directory.join("kernel.json"), zygote).unwrap();
    bench
}

pub(crate) fn counts(bench: &Bench) -> Arc<ZygoteCounts> {
    bench.native().zygotes()
}

/// Waits until so many zygotes were made, those that are gone included.
pub(crate) async fn wait_until_made(counts: &ZygoteCounts, number: u64) {
    skep_testkit::wait_until(DEADLINE, async || match counts.made.get() {
        made if made >= number => Ok(()),
        made => Err(format!(
            "{made} zygotes were made, {} not",
            counts.not_made.get()
        )),
    })
    .await;
}

/// A sandbox below a zygote, and the cold one that it took to have that made.
async fn below_a_zygote(bench: &Bench) -> (Launched, Launched) {
    let cold = bench.launch().await;
    wait_until_made(&counts(bench), 1).await;
    let sandbox = bench.launch().await;
    assert_eq!(counts(bench).cold.get(), 1, "only the first was cold");
    (sandbox, cold)
}

pub(crate) async fn finish(bench: Bench, sandboxes: impl IntoIterator<Item = Launched>) {
    for sandbox in sandboxes {
        sandbox.destroy().await.unwrap();
    }
    bench.native().stop().await;
    bench.finish().await;
}

async fn a_forked_kernel_is_what_a_started_one_is() {
    let bench = bench("none").await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    let started = ask(&sandbox, "work verify_fork").await;
    let forked = ask(&sandbox, "fork verify_fork").await;
    // All that may differ is in how many filters the same is said.
    let filters = |text: &str, count: u8| text.replace(&format!("Seccomp_filters: {count}\n"), "");
    assert_eq!(filters(&forked, 2), filters(&started, 1));
    assert!(started.contains("CapBnd: 00000000a00405fb\n"), "{started}");
    assert!(started.contains("entering Err(Os { code: 1,"), "{started}");
    assert_eq!(counts(&bench).forked.get(), 1);
    // A sandbox that is not below the zygote has nobody to ask.
    assert_eq!(ask(&cold, "fork verify_fork").await, "nobody to ask");
    let of_cold = ask(&cold, "work verify_fork").await;
    // Below a zygote the namespaces are others, and what the kernel counts for the creators of
    // all namespaces above is shared where the host's root may not raise its own limits.
    let own = ["ns ", "map ", "Max locked", "Max pending", "Max msgqueue"];
    let without_places = |text: &str| -> Vec<String> {
        let is_common = |line: &&str| !own.iter().any(|own| line.starts_with(own));
        text.lines().filter(is_common).map(str::to_owned).collect()
    };
    assert_eq!(without_places(&started), without_places(&of_cold));
    finish(bench, [sandbox, cold]).await;
}

async fn nobody_waits_for_a_zygote_but_who_launches_ahead_of_need() {
    let bench = bench("none").await;
    let first = bench.launch().await;
    assert_eq!(counts(&bench).cold.get(), 1);
    assert_eq!(ask(&first, OSTYPE.0).await, OSTYPE.1);
    bench.warm().await;
    assert_eq!(counts(&bench).made.get(), 1);
    let next = bench.launch().await;
    assert_eq!(counts(&bench).cold.get(), 1, "only the first was cold");
    finish(bench, [first, next]).await;
}

async fn a_zygote_can_be_made_before_anybody_launches() {
    let bench = bench("none").await;
    bench.warm().await;
    bench.warm().await;
    assert_eq!(counts(&bench).made.get(), 1, "the second call found one");
    let first = bench.launch().await;
    assert_eq!(counts(&bench).cold.get(), 0);
    assert_eq!(
        ask(&first, "fork read=/proc/sys/kernel/ostype").await,
        "Linux"
    );
    finish(bench, [first]).await;
}

async fn a_server_that_stops_leaves_nothing_of_a_zygote_that_is_being_made() {
    let bench = bench("never-ready").await;
    let (native, request) = (Arc::clone(bench.native()), bench.request());
    let warming = skep_telemetry::spawn("warm", async move {
        native.warm(&request.layers, &request.tenant).await;
    });
    skep_testkit::wait_until(DEADLINE, async || {
        if bench.left().is_empty() {
            Err("there is nothing of a zygote yet")
        } else {
            Ok(())
        }
    })
    .await;
    bench.native().stop().await;
    warming.await.unwrap();
    assert_eq!(counts(&bench).made.get(), 0);
    bench.finish().await;
}

async fn a_sandbox_that_cannot_be_below_its_zygote_costs_the_zygote_its_place() {
    let bench = bench("none").await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    bench
        .native()
        .fail_next_launches_at(Some(Step::CloneProcess));
    let error = bench.native().launch(bench.request()).await.unwrap_err();
    assert!(matches!(error, LaunchError::Step { .. }), "{error:?}");
    bench.native().fail_next_launches_at(None);
    wait_until_none_lives(&counts(&bench)).await;
    // The next one is launched without, as the first was.
    let next = bench.launch().await;
    assert_eq!(ask(&next, OSTYPE.0).await, OSTYPE.1);
    assert_eq!(ask(&next, "fork pid").await, "nobody to ask");
    finish(bench, [sandbox, cold, next]).await;
}

async fn a_zygote_that_cheats_gains_nothing_and_is_ended() {
    for (number, cheat) in [
        "no-filter",
        "no-bounds",
        "keeps-capabilities",
        "keeps-descriptor",
        "stays-in-cgroup",
        "stays-in-network",
        "stays-root",
        "other-group",
    ]
    .iter()
    .enumerate()
    {
        let bench = bench(cheat).await;
        let (sandbox, cold) = below_a_zygote(&bench).await;
        assert_eq!(
            ask(&sandbox, "fork pid").await,
            "refused",
            "{number} {cheat}"
        );
        let counts = counts(&bench);
        assert_eq!(
            (counts.different.get(), counts.forked.get()),
            (1, 0),
            "{cheat}"
        );
        wait_until_none_lives(&counts).await;
        // Nothing of it is left in the sandbox.
        skep_testkit::wait_until(DEADLINE, async || {
            let processes = ask(&sandbox, "agent processes").await;
            if processes == "1" {
                Ok(())
            } else {
                Err(processes)
            }
        })
        .await;
        drop(counts);
        finish(bench, [sandbox, cold]).await;
    }
}

/// Privileges that a process of the sandbox sees on those that are forked into it.
async fn rights_seen(cheat: &str) -> String {
    // A fork is two processes, and is seen by chance; one that has rights is seen for longer.
    const SEEN: &str = "work rights=60";
    const MOST_FORKS: usize = 300;
    let bench = bench(cheat).await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    let watched = ask(&sandbox, SEEN);
    let forks = async {
        for _ in 0..MOST_FORKS {
            let answer = ask(&sandbox, "fork pid").await;
            assert!(answer.parse::<u32>().is_ok(), "{answer}");
        }
        std::future::pending::<()>().await;
    };
    let seen = tokio::select! {
        seen = watched => seen,
        () = forks => String::new(),
    };
    finish(bench, [sandbox, cold]).await;
    seen
}

async fn no_process_in_a_sandbox_ever_has_a_right_that_the_sandbox_has_not() {
    assert_eq!(rights_seen("none").await, "60 processes without rights");
    // The control: who looks, sees those of a zygote that enters while it has rights.
    let seen = rights_seen("enters-first").await;
    assert!(seen.starts_with("process "), "{seen}");
}

async fn what_the_sandbox_can_change_costs_the_fork_and_not_the_zygote() {
    let bench = bench("changed-score").await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    for number in 1..=3 {
        assert_eq!(ask(&sandbox, "fork pid").await, "refused");
        assert_eq!(counts(&bench).different.get(), number);
    }
    assert_eq!(counts(&bench).alive.get(), 1);
    finish(bench, [sandbox, cold]).await;
}

async fn a_fork_that_stalls_in_its_sandbox_costs_the_fork_and_not_the_zygote() {
    let config = ZygoteConfig {
        give_up_after: Duration::ZERO,
        ..ZygoteConfig::default()
    };
    let bench = bench_with("stalls", config).await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    assert_eq!(ask(&sandbox, "fork pid").await, "refused");
    let counts = counts(&bench);
    assert_eq!((counts.stalled.get(), counts.slow.get()), (1, 0));
    assert_eq!(counts.alive.get(), 1);
    drop(counts);
    finish(bench, [sandbox, cold]).await;
}

async fn forks_that_stall_hold_no_thread_of_the_server() {
    let stalling = async || {
        let bench = bench("stalls").await;
        let (first, cold) = below_a_zygote(&bench).await;
        let sandboxes = [first, bench.launch().await, bench.launch().await];
        let forks = sandboxes.iter().map(|sandbox| ask(sandbox, "fork pid"));
        let slowest = tokio::select! {
            answers = futures_util::future::join_all(forks) => panic!("{answers:?}"),
            slowest = slowest_start_of_work() => slowest,
        };
        finish(bench, sandboxes.into_iter().chain([cold])).await;
        slowest
    };
    let slowest = with_threads(2, stalling).await;
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    // The control: so long does work wait when it is threads that wait.
    let blocking = async || {
        let (_end, wait) = std::sync::mpsc::channel::<()>();
        let held = tokio::task::spawn_blocking(move || wait.recv_timeout(OBSERVED));
        let slowest = slowest_start_of_work().await;
        held.await.unwrap().unwrap_err();
        slowest
    };
    let slowest = with_threads(1, blocking).await;
    assert!(slowest > Duration::from_secs(2), "{slowest:?}");
}

/// Less than a fork may take, and long enough to tell.
const OBSERVED: Duration = Duration::from_secs(3);

/// The longest that blocking work has waited for a thread, of all that was begun in this time.
async fn slowest_start_of_work() -> Duration {
    let start = std::time::Instant::now();
    let mut slowest = Duration::ZERO;
    while start.elapsed() < OBSERVED {
        let asked = std::time::Instant::now();
        let waited = tokio::task::spawn_blocking(move || asked.elapsed()).await;
        slowest = slowest.max(waited.unwrap());
        tokio::task::yield_now().await;
    }
    slowest
}

/// Runs a server that has so many threads for blocking work.
async fn with_threads<T: Send + 'static>(
    count: usize,
    test: impl AsyncFnOnce() -> T + Send + 'static,
) -> T {
    let runtime = move || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(count)
            .enable_all()
            .build()
            .unwrap()
            .block_on(test())
    };
    tokio::task::spawn_blocking(runtime).await.unwrap()
}

async fn a_zygote_of_an_earlier_version_is_not_used() {
    let bench = bench("earlier-version").await;
    bench.warm().await;
    let counts = counts(&bench);
    assert_eq!((counts.made.get(), counts.not_made.get()), (0, 1));
    drop(counts);
    finish(bench, []).await;
}

async fn wait_until_none_lives(counts: &ZygoteCounts) {
    skep_testkit::wait_until(DEADLINE, async || match counts.alive.get() {
        0 => Ok(()),
        alive => Err(format!("{alive} zygotes live")),
    })
    .await;
}

async fn a_zygote_that_dies_is_replaced() {
    let bench = bench("dies").await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    assert_eq!(ask(&sandbox, "fork pid").await, "refused");
    let counts = counts(&bench);
    wait_until_none_lives(&counts).await;
    // The sandbox is as good as any other.
    assert_eq!(ask(&sandbox, OSTYPE.0).await, OSTYPE.1);
    assert_eq!(ask(&sandbox, "fork pid").await, "refused");
    assert!(counts.dead.get() + counts.declined.get() >= 2);
    let next = bench.launch().await;
    assert_eq!(counts.cold.get(), 2);
    wait_until_made(&counts, 2).await;
    drop(counts);
    finish(bench, [sandbox, cold, next]).await;
}

async fn a_zygote_that_does_not_answer_is_given_up() {
    let config = ZygoteConfig {
        give_up_after: Duration::from_secs(1),
        ..ZygoteConfig::default()
    };
    let bench = bench_with("never-answers", config).await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    assert_eq!(ask(&sandbox, "fork pid").await, "refused");
    let counts = counts(&bench);
    assert_eq!(counts.slow.get(), 1);
    wait_until_none_lives(&counts).await;
    drop(counts);
    finish(bench, [sandbox, cold]).await;
}

async fn an_old_zygote_is_replaced_and_serves_its_sandboxes_to_their_end() {
    let config = ZygoteConfig {
        sandboxes: 4,
        rotate_after: Duration::ZERO,
        ..ZygoteConfig::default()
    };
    let bench = bench_with("none", config).await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    let counts = counts(&bench);
    wait_until_made(&counts, 2).await;
    assert_eq!(counts.alive.get(), 2, "the old one has a sandbox");
    assert_eq!(
        ask(&sandbox, "fork read=/proc/sys/kernel/ostype").await,
        "Linux"
    );
    let next = bench.launch().await;
    assert_eq!(
        ask(&next, "fork read=/proc/sys/kernel/ostype").await,
        "Linux"
    );
    sandbox.destroy().await.unwrap();
    next.destroy().await.unwrap();
    skep_testkit::wait_until(DEADLINE, async || match counts.alive.get() {
        0 | 1 => Ok(()),
        alive => Err(format!("{alive} zygotes live")),
    })
    .await;
    drop(counts);
    finish(bench, [cold]).await;
}

async fn zygotes_are_replaced_while_many_ask_for_forks() {
    let config = ZygoteConfig {
        sandboxes: 2,
        rotate_after: Duration::ZERO,
        ..ZygoteConfig::default()
    };
    let bench = bench_with("none", config).await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    let counts = counts(&bench);
    let lives = (0..24).map(|_| async {
        let sandbox = bench.launch().await;
        let answer = ask(&sandbox, "fork read=/proc/sys/kernel/ostype").await;
        // No zygote had room for it: then its kernels are started, which always works.
        assert!(
            ["Linux", "nobody to ask"].contains(&answer.as_str()),
            "{answer}"
        );
        assert_eq!(ask(&sandbox, OSTYPE.0).await, OSTYPE.1);
        sandbox.destroy().await.unwrap();
        answer == "Linux"
    });
    let forked: Vec<bool> = stream::iter(lives).buffer_unordered(4).collect().await;
    assert!(forked.contains(&true), "none was below a zygote");
    assert!(counts.made.get() > 2, "{} were made", counts.made.get());
    assert_eq!((counts.different.get(), counts.dead.get()), (0, 0));
    // The first one's zygote has been replaced many times, and is still there for it.
    assert_eq!(
        ask(&sandbox, "fork read=/proc/sys/kernel/ostype").await,
        "Linux"
    );
    drop(counts);
    finish(bench, [sandbox, cold]).await;
}

async fn when_a_zygote_is_full_the_next_is_made() {
    let config = ZygoteConfig {
        sandboxes: 1,
        ..ZygoteConfig::default()
    };
    let bench = bench_with("none", config).await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    let late = bench.launch().await;
    assert_eq!(counts(&bench).cold.get(), 2, "there was no room");
    wait_until_made(&counts(&bench), 2).await;
    let last = bench.launch().await;
    for sandbox in [&sandbox, &last] {
        assert_eq!(
            ask(sandbox, "fork read=/proc/sys/kernel/ostype").await,
            "Linux"
        );
    }
    finish(bench, [sandbox, cold, late, last]).await;
}

async fn a_sandbox_below_a_zygote_is_adopted() {
    let mut bench = bench("none").await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    cold.destroy().await.unwrap();
    let record = sandbox.record();
    drop((sandbox, cold));
    bench.restart().await;
    let adopted = bench.native().adopt(record).await.unwrap();
    let native: &Arc<Native> = bench.native();
    native.sweep().await.unwrap();
    assert_eq!(
        ask(&adopted, "work read=/proc/sys/kernel/ostype").await,
        "Linux"
    );
    assert_eq!(
        ask(&adopted, "fork pid").await,
        "refused",
        "its zygote is gone"
    );
    finish(bench, [adopted]).await;
}

async fn questions_that_make_no_sense_are_refused() {
    let bench = bench("none").await;
    let (sandbox, cold) = below_a_zygote(&bench).await;
    for question in [
        "fork-as-root",
        "fork-as-stranger",
        "fork-unsealed",
        "fork-nothing",
    ] {
        assert_eq!(ask(&sandbox, question).await, "refused", "{question}");
    }
    assert_eq!(counts(&bench).nonsense.get(), 4);
    assert_eq!(
        ask(&sandbox, "fork read=/proc/sys/kernel/ostype").await,
        "Linux"
    );
    finish(bench, [sandbox, cold]).await;
}
