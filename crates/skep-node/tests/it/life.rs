//! The life of a sandbox, from create to its end.

use std::time::Duration;

use skep_isolation::LaunchError;
use skep_node::CreateError;
use skep_testkit::wait_until;
use skep_types::{DeadlineMode, EndReason, KillError, NotHere, Phase, WhenStopped};

use crate::{TestHost, spec};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_created_sandbox_is_listed_routed_and_opened_by_its_token() {
    let host = TestHost::default();
    let node = host.node();
    let spec = spec(HOUR);
    let token = spec.access_token.clone().unwrap();

    let status = node.create(spec).await.unwrap();

    assert_eq!(status.phase, Phase::Running);
    assert_eq!(
        status.ends_at.duration_since(status.started_at).as_secs(),
        3600
    );
    assert_eq!(node.list(), std::slice::from_ref(&status));
    assert_eq!(node.route(&status.id).unwrap().execution, status.execution);
    assert_eq!(node.find_route(|own| *own == token).unwrap().id, status.id);
    assert!(node.find_route(|own| own.matches("another")).is_none());
}

#[tokio::test]
async fn a_kill_is_complete_when_it_returns_and_the_second_finds_nothing() {
    let host = TestHost::default();
    let node = host.node();
    let status = node.create(spec(HOUR)).await.unwrap();
    let ended = node.route(&status.id).unwrap().ended;

    let (first, second) = tokio::join!(
        node.kill(&status.id, EndReason::Killed),
        node.kill(&status.id, EndReason::Killed)
    );

    assert_eq!(
        [first, second]
            .iter()
            .filter(|answer| answer.is_ok())
            .count(),
        1
    );
    assert!(ended.is_cancelled());
    assert!(node.route(&status.id).is_none());
    assert!(node.status(&status.id).is_none());
    assert!(host.isolation.living().is_empty());
    assert_eq!(
        host.journal.ending(&status.id).unwrap().reason,
        EndReason::Killed
    );
    let gone = Err(KillError::NotHere(NotHere));
    assert_eq!(node.kill(&status.id, EndReason::Killed).await, gone);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_does_not_die_is_told_so_and_tried_until_it_does() {
    let host = TestHost::default();
    let node = host.node();
    let status = node.create(spec(HOUR)).await.unwrap();
    host.isolation.stick(&status.id);

    let (first, second) = tokio::join!(
        node.kill(&status.id, EndReason::Killed),
        node.kill(&status.id, EndReason::Killed)
    );

    assert_eq!([first, second], [Err(KillError::Stuck); 2]);
    assert!(node.route(&status.id).is_none(), "nobody reaches it");
    assert_eq!(node.status(&status.id).unwrap().phase, Phase::Stuck);
    assert_eq!(host.journal.ending(&status.id), None);
    node.usage(&status.id).await.unwrap_err();

    let tried = host.isolation.failed_destroys();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let tries = host.isolation.failed_destroys() - tried;
    assert!((8..20).contains(&tries), "{tries} attempts in ten minutes");

    host.isolation.unstick(&status.id);
    wait_until(Duration::from_secs(120), async || {
        host.journal.ending(&status.id).ok_or("no ending yet")
    })
    .await;
    let ending = host.journal.ending(&status.id).unwrap();
    assert_eq!(ending.reason, EndReason::Killed);
    assert!(host.isolation.living().is_empty());
}

#[tokio::test]
async fn whoever_kills_a_stuck_sandbox_again_has_it_tried_at_once() {
    let host = TestHost::default();
    let node = host.node();
    let status = node.create(spec(HOUR)).await.unwrap();
    host.isolation.stick(&status.id);
    let stuck = Err(KillError::Stuck);
    assert_eq!(node.kill(&status.id, EndReason::Killed).await, stuck);
    assert_eq!(node.kill(&status.id, EndReason::Killed).await, stuck);
    host.isolation.unstick(&status.id);
    assert_eq!(node.kill(&status.id, EndReason::Killed).await, Ok(()));
    assert!(host.isolation.living().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_finds_an_undying_sandbox_is_kept_in_the_end() {
    let host = TestHost::default();
    let node = host.node();
    let status = node.create(spec(Duration::from_secs(10))).await.unwrap();
    host.isolation.stick(&status.id);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(node.status(&status.id).unwrap().phase, Phase::Stuck);
    host.isolation.unstick(&status.id);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let ending = host.journal.ending(&status.id).unwrap();
    assert_eq!(ending.reason, EndReason::Timeout);
}

#[tokio::test]
async fn a_launch_that_fails_leaves_nothing_but_its_reason() {
    let host = TestHost::default();
    let node = host.node();
    host.isolation.fail_next_launch(LaunchError::NoRoom("slot"));
    let spec = spec(HOUR);
    let id = spec.id.clone();

    let error = node.create(spec).await.unwrap_err();

    assert!(
        matches!(error, CreateError::Launch(LaunchError::NoRoom("slot"))),
        "{error:?}"
    );
    assert_eq!(
        host.journal.ending(&id).unwrap().reason,
        EndReason::StartFailed
    );
    wait_until(Duration::from_secs(5), async || match node.list().len() {
        0 => Ok(()),
        count => Err(count),
    })
    .await;
}

#[tokio::test]
async fn the_same_id_is_never_run_twice() {
    let node = TestHost::default().node();
    let spec = spec(HOUR);
    node.create(spec.clone()).await.unwrap();
    assert!(matches!(
        node.create(spec).await,
        Err(CreateError::Exists(_))
    ));
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_stop_the_creation() {
    let host = TestHost::default();
    let node = host.node();
    let spec = spec(HOUR);
    let id = spec.id.clone();
    {
        let create = node.create(spec);
        tokio::pin!(create);
        // One poll hands the order to the driver; then the caller is gone.
        assert!(futures_poll_once(create.as_mut()).await.is_none());
    }
    wait_until(Duration::from_secs(5), async || {
        node.status(&id)
            .filter(|status| status.phase == Phase::Running)
            .map(drop)
            .ok_or("not running")
    })
    .await;
}

async fn futures_poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    let mut future = Some(future);
    std::future::poll_fn(move |context| {
        let polled = future.take().expect("polled once").poll(context);
        std::task::Poll::Ready(match polled {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_deadline_fires_when_it_is_due_and_not_a_millisecond_early() {
    let host = TestHost::default();
    let node = host.node();
    let status = node.create(spec(Duration::from_secs(10))).await.unwrap();
    let start = tokio::time::Instant::now();

    let ended = node.route(&status.id).unwrap().ended;
    ended.cancelled().await;

    let lived = start.elapsed();
    assert!(
        lived >= Duration::from_secs(10) && lived <= Duration::from_millis(10_001),
        "{lived:?}"
    );
    wait_until(Duration::from_secs(5), async || {
        host.journal.ending(&status.id).ok_or("no ending yet")
    })
    .await;
    assert_eq!(
        host.journal.ending(&status.id).unwrap().reason,
        EndReason::Timeout
    );
}

#[tokio::test(start_paused = true)]
async fn extending_never_shortens_and_setting_does() {
    let node = TestHost::default().node();
    let status = node.create(spec(HOUR)).await.unwrap();
    let minute = Duration::from_secs(60);

    let kept = node
        .set_lifetime(&status.id, minute, DeadlineMode::Extend)
        .await
        .unwrap();
    assert_eq!(kept.ends_at, status.ends_at);

    let longer = node
        .set_lifetime(&status.id, 2 * HOUR, DeadlineMode::Extend)
        .await
        .unwrap();
    assert!(longer.ends_at > status.ends_at);

    let shorter = node
        .set_lifetime(&status.id, minute, DeadlineMode::Set)
        .await
        .unwrap();
    assert!(shorter.ends_at < status.ends_at);
    let ended = node.route(&status.id).unwrap().ended;
    let start = tokio::time::Instant::now();
    ended.cancelled().await;
    assert!(start.elapsed() <= minute + Duration::from_millis(1));
}

#[tokio::test]
async fn a_crash_is_noticed_cleaned_up_and_named() {
    let host = TestHost::default();
    let node = host.node();
    let status = node.create(spec(HOUR)).await.unwrap();

    host.isolation.crash(&status.id);

    let ending = wait_until(Duration::from_secs(5), async || {
        host.journal.ending(&status.id).ok_or("no ending yet")
    })
    .await;
    assert_eq!(ending.reason, EndReason::Crashed);
    wait_until(Duration::from_secs(5), async || {
        if host.isolation.living().is_empty() {
            Ok(())
        } else {
            Err("still there")
        }
    })
    .await;
}

#[tokio::test]
async fn stopping_ends_the_sandboxes_if_so_configured_and_takes_no_more() {
    let host = TestHost::default();
    let node = host.node();
    let status = node.create(spec(HOUR)).await.unwrap();

    node.shut_down(WhenStopped::End).await;

    assert_eq!(
        host.journal.ending(&status.id).unwrap().reason,
        EndReason::ServerStopped
    );
    assert!(matches!(
        node.create(spec(HOUR)).await,
        Err(CreateError::Stopping)
    ));
}
