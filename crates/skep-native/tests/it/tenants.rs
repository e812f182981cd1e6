//! Tenants share no zygote, and there are only so many.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use skep_isolation::{Isolation as _, Launched};
use skep_native::{ZygoteConfig, ZygoteCounts};

use crate::bench::{Bench, DEADLINE, ask, tenant};
use crate::zygote::{bench_with, counts, finish, wait_until_made};

crate::tests![
    sandboxes_of_two_tenants_are_never_below_one_zygote,
    a_zygote_that_nobody_uses_makes_room_for_another,
    where_all_zygotes_are_used_a_sandbox_starts_its_kernels_itself,
    a_zygote_without_sandboxes_is_not_kept_for_ever,
    a_tenant_that_holds_all_zygotes_gives_way_to_one_that_has_none,
];

/// Warms a zygote for a tenant.
async fn warm(bench: &Bench, number: u8) {
    let layers = bench.request().layers;
    bench.native().warm(&layers, &tenant(number)).await;
}

async fn launch(bench: &Bench, number: u8) -> Launched {
    let mut request = bench.request();
    request.tenant = tenant(number);
    bench.native().launch(request).await.unwrap()
}

/// The user namespace below which a sandbox has its own, as the host sees it.
fn parent(sandbox: &Launched) -> u64 {
    let record: serde_json::Value = serde_json::from_str(&sandbox.record().0).unwrap();
    let own = File::open(format!("/proc/{}/ns/user", record["pid"])).unwrap();
    let parent = skep_linux::owner_of_namespace(&own).unwrap();
    File::from(parent).metadata().unwrap().ino()
}

/// The user namespace of the host.
fn host() -> u64 {
    fs::metadata("/proc/self/ns/user").unwrap().ino()
}

async fn wait_until_alive(counts: &ZygoteCounts, number: u64) {
    skep_testkit::wait_until(DEADLINE, async || match counts.alive.get() {
        alive if alive == number => Ok(()),
        alive => Err(format!("{alive} zygotes live")),
    })
    .await;
}

async fn is_forked(sandbox: &Launched) -> bool {
    match ask(sandbox, "fork read=/proc/sys/kernel/ostype")
        .await
        .as_str()
    {
        "Linux" => true,
        "nobody to ask" => false,
        other => panic!("{other}"),
    }
}

async fn sandboxes_of_two_tenants_are_never_below_one_zygote() {
    let bench = bench_with("none", ZygoteConfig::default()).await;
    warm(&bench, 1).await;
    let mine = [launch(&bench, 1).await, launch(&bench, 1).await];
    // The template's zygote is warm, but it is another's.
    let early = launch(&bench, 2).await;
    assert_eq!(parent(&early), host());
    assert!(!is_forked(&early).await);
    warm(&bench, 2).await;
    let theirs = launch(&bench, 2).await;
    // The control: those of one tenant do share one.
    assert_eq!(parent(&mine[0]), parent(&mine[1]));
    assert_ne!(parent(&mine[0]), parent(&theirs));
    assert!(![parent(&mine[0]), parent(&theirs)].contains(&host()));
    for sandbox in mine.iter().chain([&theirs]) {
        assert!(is_forked(sandbox).await);
    }
    let counts = counts(&bench);
    assert_eq!((counts.made.get(), counts.alive.get()), (2, 2));
    drop(counts);
    finish(bench, mine.into_iter().chain([early, theirs])).await;
}

async fn a_zygote_that_nobody_uses_makes_room_for_another() {
    let config = ZygoteConfig {
        most: 2,
        ..ZygoteConfig::default()
    };
    let bench = bench_with("none", config).await;
    for number in [1, 2] {
        warm(&bench, number).await;
        launch(&bench, number).await.destroy().await.unwrap();
    }
    // The first is the one that was used last.
    launch(&bench, 1).await.destroy().await.unwrap();
    warm(&bench, 3).await;
    let counts = counts(&bench);
    wait_until_alive(&counts, 2).await;
    assert_eq!((counts.made.get(), counts.no_room.get()), (3, 0));
    let sandboxes = [launch(&bench, 1).await, launch(&bench, 3).await];
    for sandbox in &sandboxes {
        assert!(is_forked(sandbox).await);
    }
    assert_eq!(counts.cold.get(), 0);
    drop(counts);
    finish(bench, sandboxes).await;
}

async fn where_all_zygotes_are_used_a_sandbox_starts_its_kernels_itself() {
    let config = ZygoteConfig {
        most: 1,
        ..ZygoteConfig::default()
    };
    let bench = bench_with("none", config).await;
    warm(&bench, 1).await;
    let first = launch(&bench, 1).await;
    warm(&bench, 2).await;
    let other = launch(&bench, 2).await;
    assert!(!is_forked(&other).await);
    assert_eq!(
        ask(&other, "work read=/proc/sys/kernel/ostype").await,
        "Linux"
    );
    assert!(is_forked(&first).await);
    let counts = counts(&bench);
    assert_eq!((counts.made.get(), counts.no_room.get()), (1, 2));
    // When its sandbox is gone, it makes room.
    first.destroy().await.unwrap();
    warm(&bench, 2).await;
    let next = launch(&bench, 2).await;
    assert!(is_forked(&next).await);
    drop(counts);
    finish(bench, [other, next]).await;
}

async fn a_zygote_without_sandboxes_is_not_kept_for_ever() {
    let config = ZygoteConfig {
        idle_after: Duration::from_secs(1),
        ..ZygoteConfig::default()
    };
    let bench = bench_with("none", config).await;
    warm(&bench, 1).await;
    let sandbox = launch(&bench, 1).await;
    warm(&bench, 2).await;
    let counts = counts(&bench);
    // Nothing else happens on this server.
    wait_until_alive(&counts, 1).await;
    assert!(is_forked(&sandbox).await, "the one with a sandbox is kept");
    drop(counts);
    finish(bench, [sandbox]).await;
}

async fn a_tenant_that_holds_all_zygotes_gives_way_to_one_that_has_none() {
    let config = ZygoteConfig {
        most: 3,
        sandboxes: 4,
        rotate_after: Duration::ZERO,
        ..ZygoteConfig::default()
    };
    let bench = bench_with("none", config).await;
    let counts = counts(&bench);
    // One sandbox below each, which is replaced as soon as it is used.
    let mut hoard = Vec::new();
    warm(&bench, 1).await;
    for number in 1..=3 {
        wait_until_made(&counts, number).await;
        hoard.push(launch(&bench, 1).await);
    }
    assert_eq!((counts.alive.get(), counts.no_room.get()), (3, 1));
    warm(&bench, 2).await;
    let other = launch(&bench, 2).await;
    assert!(is_forked(&other).await);
    wait_until_alive(&counts, 3).await;
    // Two and one: neither takes another from the other.
    let again = [launch(&bench, 2).await, launch(&bench, 1).await];
    assert_eq!((counts.made.get(), counts.no_room.get()), (4, 4));
    // The oldest has gone, and costs its sandbox nothing but speed.
    assert_eq!(ask(&hoard[0], "fork pid").await, "refused");
    let started = ask(&hoard[0], "work read=/proc/sys/kernel/ostype").await;
    assert_eq!(started, "Linux");
    for sandbox in &hoard[1..] {
        assert!(is_forked(sandbox).await);
    }
    drop(counts);
    finish(bench, hoard.into_iter().chain([other]).chain(again)).await;
}
