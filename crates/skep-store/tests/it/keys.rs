//! Keys and teams.

use skep_store::{Key, Standing, StoreError};
use skep_types::TeamId;

use crate::{Record, at, team};

fn key(team: &TeamId, id: &str) -> Key {
    Key {
        id: id.to_owned(),
        team: team.clone(),
        name: "laptop".to_owned(),
        hash: format!("hash of {id}"),
        value_length: 40,
        mask_prefix: "ab".to_owned(),
        mask_suffix: "cdef".to_owned(),
        created_at: at(5),
        last_used: None,
        expires_at: None,
    }
}

#[tokio::test]
async fn keys_that_have_expired_are_forgotten_and_make_room() {
    let record = Record::new().await;
    let keys = record.store.keys();
    let browser = Key {
        expires_at: Some(at(10)),
        ..key(&record.team, "browser")
    };
    assert!(!browser.has_expired(at(9)) && browser.has_expired(at(10)));
    keys.insert(browser.clone()).recorded().await.unwrap();
    let next = |second| Key {
        created_at: at(second),
        ..key(&record.team, "next")
    };
    assert!(!keys.insert_within(next(9), 1).recorded().await.unwrap());
    assert!(keys.insert_within(next(10), 1).recorded().await.unwrap());
    assert_eq!(keys.list(record.team.clone()).await.unwrap(), [next(10)]);
    assert_eq!(keys.find(browser.hash.clone()).await.unwrap(), None);

    keys.insert(browser).recorded().await.unwrap();
    assert!(!keys.forget_expired(at(9)).recorded().await.unwrap());
    assert!(keys.forget_expired(at(10)).recorded().await.unwrap());
    assert_eq!(keys.list(record.team.clone()).await.unwrap(), [next(10)]);
}

#[tokio::test]
async fn a_key_is_found_by_its_hash_with_its_team() {
    let record = Record::new().await;
    let laptop = key(&record.team, "laptop");
    record
        .store
        .keys()
        .insert(laptop.clone())
        .recorded()
        .await
        .unwrap();
    let (found, team) = record
        .store
        .keys()
        .find(laptop.hash.clone())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found, laptop);
    assert_eq!(team.id, record.team);
    assert_eq!(team.max_sandboxes, Some(7));
    assert_eq!(
        record
            .store
            .keys()
            .find("no such hash".to_owned())
            .await
            .unwrap(),
        None
    );

    let again = record
        .store
        .keys()
        .insert(laptop)
        .recorded()
        .await
        .unwrap_err();
    assert!(
        matches!(again, StoreError::Taken { kind: "key", .. }),
        "{again:?}"
    );
}

#[tokio::test]
async fn the_last_use_is_written_once_a_minute() {
    let record = Record::new().await;
    let keys = record.store.keys();
    keys.insert(key(&record.team, "k"))
        .recorded()
        .await
        .unwrap();
    let mut noted = Vec::new();
    // At the end the clock is set back, which must not stop the notes until it has caught up.
    for second in [100, 130, 159, 160, 161, 300, 290, 200] {
        noted.push(
            keys.used("k".to_owned(), at(second))
                .recorded()
                .await
                .unwrap(),
        );
    }
    assert_eq!(noted, [true, false, false, true, false, true, false, true]);
    let (found, _) = keys.find("hash of k".to_owned()).await.unwrap().unwrap();
    assert_eq!(found.last_used, Some(at(200)));
}

#[tokio::test]
async fn a_key_is_changed_only_through_its_own_team() {
    let record = Record::new().await;
    let keys = record.store.keys();
    let stranger = team("stranger", false);
    record
        .store
        .teams()
        .insert(stranger.clone())
        .recorded()
        .await
        .unwrap();
    keys.insert(key(&record.team, "k"))
        .recorded()
        .await
        .unwrap();

    let id = || "k".to_owned();
    assert!(
        !keys
            .revoke(stranger.id.clone(), id(), at(9))
            .recorded()
            .await
            .unwrap()
    );
    assert!(
        !keys
            .rename(stranger.id.clone(), id(), "x".to_owned())
            .recorded()
            .await
            .unwrap()
    );
    assert_eq!(keys.list(stranger.id).await.unwrap(), []);

    assert!(
        keys.rename(record.team.clone(), id(), "desk".to_owned())
            .recorded()
            .await
            .unwrap()
    );
    assert_eq!(
        keys.list(record.team.clone()).await.unwrap()[0].name,
        "desk"
    );
    assert!(
        keys.revoke(record.team.clone(), id(), at(9))
            .recorded()
            .await
            .unwrap()
    );
    assert!(
        !keys
            .revoke(record.team.clone(), id(), at(9))
            .recorded()
            .await
            .unwrap()
    );
    assert_eq!(keys.find("hash of k".to_owned()).await.unwrap(), None);
}

#[tokio::test]
async fn there_is_one_default_team_and_slugs_are_unique() {
    let record = Record::new().await;
    let teams = record.store.teams();
    assert_eq!(teams.default_team().await.unwrap().unwrap().id, record.team);
    for wrong in [team("other", true), team("home", false)] {
        let error = teams.insert(wrong).recorded().await.unwrap_err();
        assert!(
            matches!(error, StoreError::Taken { kind: "team", .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_team_can_be_blocked_with_a_reason_and_freed_again() {
    let record = Record::new().await;
    let teams = record.store.teams();
    for standing in [
        Standing::Blocked("unpaid".to_owned()),
        Standing::Banned,
        Standing::Good,
    ] {
        let setting = teams.set_standing(record.team.clone(), standing.clone());
        setting.recorded().await.unwrap();
        assert_eq!(
            teams.default_team().await.unwrap().unwrap().standing,
            standing
        );
    }
    let nobody = teams.set_standing(TeamId::random(), Standing::Good);
    let error = nobody.recorded().await.unwrap_err();
    assert!(
        matches!(error, StoreError::Missing { kind: "team", .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_revoked_key_is_never_taken_again() {
    let record = Record::new().await;
    let keys = record.store.keys();
    let inserted = async || keys.insert(key(&record.team, "k")).recorded().await;
    inserted().await.unwrap();
    let revoking = keys.revoke(record.team.clone(), "k".to_owned(), at(9));
    assert!(revoking.recorded().await.unwrap());
    let again = inserted().await.unwrap_err();
    assert!(matches!(again, StoreError::Taken { .. }), "{again}");
    let found = keys.find("hash of k".to_owned()).await.unwrap();
    assert_eq!(found, None);
}

#[tokio::test]
async fn a_team_goes_with_its_keys_unless_it_is_the_default() {
    let record = Record::new().await;
    let guests = team("guests", false);
    let teams = record.store.teams();
    teams.insert(guests.clone()).recorded().await.unwrap();
    let keys = record.store.keys();
    keys.insert(key(&guests.id, "g")).recorded().await.unwrap();
    let removed = async |team: &TeamId| {
        let removing = record.store.teams().delete(team.clone(), at(9));
        removing.recorded().await.unwrap()
    };
    assert!(!removed(&record.team).await, "the default team stays");
    assert!(removed(&guests.id).await);
    assert_eq!(keys.find("hash of g".to_owned()).await.unwrap(), None);
    assert!(!removed(&guests.id).await, "it is gone already");
}
