//! State that a server finds when it starts, and leaves when it stops.

use skep_control::{ApiKey, CreateError, KeyError, ListQuery, QuotaReached, Standing};
use skep_store::Team;
use skep_testkit::wait_until;
use skep_types::{EndReason, TeamId};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

use crate::{anybody, control, fake, request, store};

#[tokio::test]
async fn the_default_team_is_made_once_however_many_servers_start() {
    let directory = TempDir::new().unwrap();
    let (one, two) = (store(directory.path()), store(directory.path()));
    let (one, two) = tokio::join!(control(&one, fake(&one)), control(&two, fake(&two)));
    let (one, two) = (
        one.default_team().await.unwrap(),
        two.default_team().await.unwrap(),
    );
    assert_eq!(one, two);
}

#[tokio::test]
async fn living_sandboxes_are_known_and_counted_after_a_restart() {
    let directory = TempDir::new().unwrap();
    let store = store(directory.path());
    let nodes = fake(&store);
    let before = control(&store, nodes.clone()).await;
    let caller = anybody(&before).await;
    let kept = before.create(&caller, request()).await.unwrap();
    let lost = before.create(&caller, request()).await.unwrap();
    drop(before);
    nodes.end(&lost.id, EndReason::Crashed).await;

    let after = control(&store, nodes.clone()).await;
    let listed = after.list(&caller, &ListQuery::everything()).await.items;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].order, kept);
    after.create(&caller, request()).await.unwrap();
    let error = after.create(&caller, request()).await.unwrap_err();
    assert!(
        matches!(error, CreateError::QuotaReached(QuotaReached { limit: 2 })),
        "{error:?}"
    );
}

#[tokio::test]
async fn templates_are_made_ready_as_far_as_they_are_built() {
    let directory = TempDir::new().unwrap();
    let store = store(directory.path());
    let nodes = fake(&store);
    let control = control(&store, nodes.clone()).await;
    let references = ["not-built", "base"].map(|name| name.parse().unwrap());
    control.warm(&references).await.unwrap();
    assert_eq!(nodes.warmed().len(), 1);
    let caller = anybody(&control).await;
    let order = control.create(&caller, request()).await.unwrap();
    let tenant = nodes.spec(&order.id).unwrap().tenant;
    assert_eq!(nodes.warmed(), [(order.template.clone(), tenant)]);
}

#[tokio::test]
async fn stopping_waits_for_creations_that_are_under_way() {
    let directory = TempDir::new().unwrap();
    let store = store(directory.path());
    let nodes = fake(&store);
    let control = control(&store, nodes.clone()).await;
    let caller = anybody(&control).await;
    nodes.hold();
    let asked = wait_until(Duration::from_secs(10), async || match nodes.waiting() {
        0 => Err("nobody asked the host"),
        _ => Ok(()),
    });
    let hung_up = tokio::select! {
        created = control.create(&caller, request()) => Some(created.is_ok()),
        () = asked => None,
    };
    assert_eq!(hung_up, None);
    let finishing = control.finish();
    let release = async { nodes.release() };
    tokio::join!(finishing, release);
    assert_eq!(
        control
            .list(&caller, &ListQuery::everything())
            .await
            .items
            .len(),
        1
    );
}

#[tokio::test]
async fn a_key_that_is_registered_again_still_works_and_stays_with_its_team() {
    let directory = TempDir::new().unwrap();
    let store = store(directory.path());
    let control = control(&store, fake(&store)).await;
    let team = control.default_team().await.unwrap();
    let other = Team {
        id: TeamId::random(),
        slug: "other".to_owned(),
        is_default: false,
        standing: Standing::Good,
        ..team.clone()
    };
    store
        .teams()
        .insert(other.clone())
        .recorded()
        .await
        .unwrap();
    let key = ApiKey::random();
    for _ in 0..2 {
        control.register_key(&team, "local", &key).await.unwrap();
    }
    let error = control
        .register_key(&other, "local", &key)
        .await
        .unwrap_err();
    assert!(matches!(error, KeyError::NotYours), "{error:?}");
    let caller = control.authenticate(&key).await.unwrap();
    assert_eq!(caller.team, team);
    assert_eq!(control.list_keys(&caller).await.unwrap().len(), 1);
}

#[tokio::test]
async fn clones_are_the_same_control() {
    let directory = TempDir::new().unwrap();
    let store = store(directory.path());
    let first = control(&store, fake(&store)).await;
    let second = first.clone();
    let caller = anybody(&first).await;
    let created = first.create(&caller, request()).await.unwrap();
    let found = second.find(&caller, &created.id).await.unwrap();
    assert!(Arc::ptr_eq(&found.order, &created));
}
