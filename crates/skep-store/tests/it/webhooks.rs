//! Webhooks and what is to be delivered to them.

use skep_store::{WebhookRecord, WebhookRemoval};
use skep_types::{EventKind, ExecutionId, TeamId, WebhookId};

use crate::{Record, at, order_for, run, team};

impl Record {
    async fn add_team(&self, slug: &str) -> TeamId {
        let team = team(slug, false);
        let inserting = self.store.teams().insert(team.clone());
        inserting.recorded().await.unwrap();
        team.id
    }

    async fn add_webhook(&self, team: &TeamId) -> WebhookId {
        let webhook = WebhookRecord {
            id: WebhookId::random(),
            team: team.clone(),
            name: "receiver".to_owned(),
            url: "https://receiver.test/".to_owned(),
            kinds: vec![EventKind::Created],
            is_enabled: true,
            created_at: at(1),
            updated_at: at(1),
        };
        let id = webhook.id;
        let sealed = b"sealed".to_vec();
        let inserting = self.store.webhooks().insert_within(webhook, sealed, 10);
        assert!(inserting.recorded().await.unwrap());
        id
    }

    /// Starts a sandbox, which is an event.
    async fn start_sandbox(&self, team: &TeamId, second: i64) {
        let order = order_for(team);
        let sandboxes = self.store.sandboxes();
        let id = order.id.clone();
        sandboxes.insert(order, None).recorded().await.unwrap();
        let run = run(ExecutionId::random(), "{}", second, second + 60);
        sandboxes.started(id, run).recorded().await.unwrap();
    }
}

#[tokio::test]
async fn a_team_goes_with_its_webhooks() {
    let record = Record::new().await;
    let guests = record.add_team("guests").await;
    record.add_webhook(&guests).await;
    let removing = record.store.teams().delete(guests, at(9));
    assert!(removing.recorded().await.unwrap());
}

#[tokio::test]
async fn a_webhook_is_removed_piece_by_piece_and_sent_nothing_meanwhile() {
    let record = Record::new().await;
    let webhook = record.add_webhook(&record.team).await;
    for second in 0..5 {
        record.start_sandbox(&record.team, second).await;
    }
    let remove = async || {
        let webhooks = record.store.webhooks();
        let removing = webhooks.delete(record.team.clone(), webhook, 2);
        removing.recorded().await.unwrap()
    };
    assert_eq!(remove().await, WebhookRemoval::Unfinished);
    record.start_sandbox(&record.team, 6).await;
    let due = record.store.deliveries().due(at(9), 9, 9).await.unwrap();
    assert!(due.is_empty(), "{due:?}");
    assert_eq!(remove().await, WebhookRemoval::Unfinished);
    assert_eq!(remove().await, WebhookRemoval::Done);
    assert_eq!(remove().await, WebhookRemoval::Missing);
}

#[tokio::test]
async fn what_is_due_is_told_by_turns_of_the_teams() {
    let record = Record::new().await;
    let late = record.add_team("late").await;
    record.add_webhook(&record.team).await;
    record.add_webhook(&late).await;
    for second in 0..3 {
        record.start_sandbox(&record.team, second).await;
    }
    record.start_sandbox(&late, 5).await;
    let due = record.store.deliveries().due(at(9), 9, 2).await.unwrap();
    let teams: Vec<_> = due.into_iter().map(|due| due.team).collect();
    assert_eq!(teams, [record.team.clone(), late]);
}
