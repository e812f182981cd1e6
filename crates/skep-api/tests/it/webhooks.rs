//! Webhooks, sent to real receivers on this host.

mod receiver;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skep_http::Destinations;
use skep_testkit::wait_until;
use skep_webhooks::{Backoff, Dispatcher, DispatcherOptions};

use crate::server::{Server, receivers};
use receiver::{Received, Receiver, SkewedClock};

const SECRET: &str = "hunter2-hunter2-hunter2";
const DEAD_LETTERS: &str = "GET /skep/webhooks/dead-letters";
const DEADLINE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_hours(1);

async fn register(server: &Server, url: &str, events: &[&str]) -> String {
    let body = json!({"name": "hook", "url": url, "events": events, "signatureSecret": SECRET});
    let answer = server.send(&format!("POST /events/webhooks {body}")).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    assert!(!answer.body.contains(SECRET), "{}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

fn dispatcher(server: &Server, destinations: Destinations, clock: &SkewedClock) -> Dispatcher {
    let options = DispatcherOptions {
        control: server.control.clone(),
        destinations,
        // Longer than any test takes: time passes when the clock is moved, and not before.
        backoff: Backoff {
            first: Duration::from_mins(10),
            attempts: 3,
        },
        clock: Arc::new(clock.clone()),
        render: skep_api::event_body,
    };
    Dispatcher::start(options).unwrap()
}

/// Waits until the newest delivery to a webhook is so, and gives it.
async fn delivery(server: &Server, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let line = format!("GET /events/webhooks/{id}/deliveries");
    wait_until(DEADLINE, || async {
        let page = server.send(&line).await.json();
        let newest = page["data"][0].clone();
        if wanted(&newest) {
            Ok(newest)
        } else {
            Err(page.to_string())
        }
    })
    .await
}

fn attempts(delivery: &Value) -> usize {
    delivery["attempts"].as_array().map_or(0, Vec::len)
}

fn is_signed(received: &Received) -> bool {
    let hash = Sha256::digest([SECRET.as_bytes(), received.body.as_bytes()].concat());
    let timed = received.header("skep-signature");
    let (time, code) = timed.split_once(',').unwrap();
    let time = time.strip_prefix("t=").unwrap();
    let code = hex::decode(code.strip_prefix("v1=").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{time}.{}", received.body).as_bytes());
    received.header("e2b-signature-version") == "v1"
        && received.header("e2b-signature") == URL_SAFE_NO_PAD.encode(hash)
        && mac.verify_slice(&code).is_ok()
}

#[tokio::test]
async fn a_webhook_is_made_found_changed_and_deleted_and_its_secret_never_shown() {
    let server = Server::new().await;
    let id = register(&server, "https://example.com/a", &["killed", "created"]).await;
    let one = format!("/events/webhooks/{id}");
    let found = server.send(&format!("GET {one}")).await.json();
    let types = ["sandbox.lifecycle.created", "sandbox.lifecycle.killed"];
    assert_eq!(found["events"], json!(types));
    assert_eq!(found["enabled"], true);
    let (_, stranger) = server.second_team().await;
    let rest = r#""name":"n","events":["created"],"signatureSecret":"s""#;
    let new = |url: &str| format!(r#"POST /events/webhooks {{{rest},"url":"{url}"}}"#);
    for (line, status) in [
        ("GET /events/webhooks".to_owned(), 200),
        (format!(r#"PATCH {one} {{"enabled":false}}"#), 200),
        (format!(r#"PATCH {one} {{"events":[]}}"#), 400),
        (format!(r#"PATCH {one} {{"events":["nonsense"]}}"#), 400),
        (
            format!(r#"PATCH {one} {{"signatureSecret":["{SECRET}"]}}"#),
            400,
        ),
        (
            format!(r#"PATCH {one} {{"signatureSecret":"{SECRET}\n"}}"#),
            400,
        ),
        (format!("GET {one}/deliveries?deliveryStatus=nonsense"), 400),
        (format!("GET {one}/deliveries?limit=101"), 400),
        (format!("GET {one}/stats"), 200),
        (new("ftp://example.com"), 400),
        (new("http://user:word@example.com"), 400),
        (new("http://169.254.169.254/latest"), 400),
        (new("http://[::1]:3000/"), 400),
        (new("http://localhost:3000/"), 400),
        ("GET /events/webhooks/none".to_owned(), 404),
    ] {
        let answer = server.send(&line).await;
        assert_eq!(answer.status, status, "{line}: {}", answer.body);
        assert!(!answer.body.contains(SECRET), "{line}: {}", answer.body);
    }
    let changed = server.send(&format!("GET {one}")).await.json();
    assert_eq!(changed["enabled"], false);
    assert_eq!(changed["events"], json!(types));
    for line in [
        format!("GET {one}"),
        format!("GET {one}/deliveries"),
        format!("GET {one}/stats"),
        format!("PATCH {one} {{}}"),
        format!("POST /skep/webhooks/{id}/redeliver"),
        format!("DELETE {one}"),
    ] {
        let refused =
            r#"404 {"code":404,"error_code":"webhook_not_found","message":"Webhook not found"}"#;
        server.check_as(&stranger, &line, refused).await;
    }
    for _ in 1..10 {
        register(&server, "https://example.com/b", &["created"]).await;
    }
    let full = server.send(&new("https://example.com")).await;
    assert_eq!(full.status, 429, "{}", full.body);
    server.store.flush().await.unwrap();
    let database = std::fs::read(server.store.path()).unwrap();
    let has_it = |part: &[u8]| part == SECRET.as_bytes();
    assert!(!database.windows(SECRET.len()).any(has_it));
    server.check(&format!("DELETE {one}"), "200").await;
    assert_eq!(server.send(&format!("GET {one}")).await.status, 404);
}

#[tokio::test]
async fn an_event_of_its_types_is_sent_signed_and_again_until_it_is_taken() {
    let server = Server::new().await;
    let clock = SkewedClock::default();
    let receiver = Receiver::start(503).await;
    let id = register(&server, &receiver.url(), &["killed"]).await;
    let (_closed, closed) = Receiver::closed();
    let unreachable = register(&server, &closed, &["killed"]).await;
    let dispatcher = dispatcher(&server, receivers(), &clock);
    let sandbox = server.create(r#"{"templateID":"base"}"#).await;
    server.send(&format!("DELETE /sandboxes/{sandbox}")).await;

    let refused = delivery(&server, &id, |delivery| attempts(delivery) == 1).await;
    assert_eq!(refused["status"], "pending");
    assert_eq!(refused["attempts"][0]["statusCode"], 503);
    assert_eq!(refused["attempts"][0]["errorClass"], "http_error");
    assert!(refused["nextAttemptAt"].is_string(), "{refused}");
    let failed = delivery(&server, &unreachable, |delivery| attempts(delivery) == 1).await;
    assert_eq!(failed["attempts"][0]["errorClass"], "transport_error");

    receiver.answer(204);
    let line = format!(
        r#"PATCH /events/webhooks/{unreachable} {{"url":"{}"}}"#,
        receiver.url()
    );
    assert_eq!(server.send(&line).await.status, 200);
    clock.advance(HOUR);
    for webhook in [&id, &unreachable] {
        let taken = delivery(&server, webhook, |delivery| {
            delivery["status"] == "delivered"
        })
        .await;
        assert_eq!(attempts(&taken), 2);
    }
    // Only what was asked for: of the other event nothing was ever recorded.
    let page = server
        .send(&format!("GET /events/webhooks/{id}/deliveries"))
        .await
        .json();
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    let seen = receiver.seen();
    assert_eq!(seen.len(), 3);
    let of_first = seen
        .iter()
        .filter(|seen| seen.header("e2b-webhook-id") == id)
        .map(|seen| seen.header("e2b-delivery-id"));
    let ids: Vec<_> = of_first.collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().all(|other| *other == refused["deliveryId"]));
    assert!(seen.iter().all(is_signed));
    let event: Value = serde_json::from_str(&seen[0].body).unwrap();
    let told = server.send("GET /events/sandboxes?types=killed").await;
    assert_eq!(event, told.json()[0]);
    dispatcher.finish().await;
}

#[tokio::test]
async fn what_is_given_up_is_a_dead_letter_that_can_be_sent_again() {
    let server = Server::new().await;
    let clock = SkewedClock::default();
    // Redirects are not followed: they would lead anywhere.
    let receiver = Receiver::start(302).await;
    let id = register(&server, &receiver.url(), &["created"]).await;
    let dispatcher = dispatcher(&server, receivers(), &clock);
    server.create(r#"{"templateID":"base"}"#).await;
    for number in 1..=3 {
        delivery(&server, &id, |delivery| attempts(delivery) == number).await;
        clock.advance(HOUR);
    }
    let letters = server.send(DEAD_LETTERS).await.json();
    assert_eq!(letters["data"][0]["webhookId"], id.as_str());
    assert_eq!(letters["data"][0]["status"], "failed");
    let (_, stranger) = server.second_team().await;
    let none = r#"200 {"data":[]}"#;
    server.check_as(&stranger, DEAD_LETTERS, none).await;

    receiver.answer(200);
    let line = format!("POST /skep/webhooks/{id}/redeliver");
    server.check(&line, r#"200 {"redelivered":1}"#).await;
    let taken = delivery(&server, &id, |delivery| delivery["status"] == "delivered").await;
    assert_eq!(attempts(&taken), 4);
    server.check(DEAD_LETTERS, none).await;
    let stats = format!("GET /events/webhooks/{id}/stats");
    let counted = r#"200 {"attempts":4,"delivered":1,"failed":0,"pending":0,"total":1}"#;
    server.check(&stats, counted).await;
    dispatcher.finish().await;
}

#[tokio::test]
async fn a_private_address_is_not_connected_to_unless_the_operator_allows_its_host() {
    let server = Server::new().await;
    let clock = SkewedClock::default();
    let receiver = Receiver::start(200).await;
    // Registered while its host was allowed, which it is no longer.
    let id = register(&server, &receiver.url(), &["created"]).await;
    let guarded = dispatcher(&server, Destinations::default(), &clock);
    server.create(r#"{"templateID":"base"}"#).await;
    let denied = delivery(&server, &id, |delivery| attempts(delivery) == 1).await;
    assert_eq!(denied["attempts"][0]["errorClass"], "request_error");
    guarded.finish().await;
    assert_eq!(receiver.seen().len(), 0);
    // The control.
    let open = dispatcher(&server, receivers(), &clock);
    clock.advance(HOUR);
    delivery(&server, &id, |delivery| delivery["status"] == "delivered").await;
    assert_eq!(receiver.seen().len(), 1);
    open.finish().await;
}

#[tokio::test]
async fn what_a_dying_server_had_sent_and_not_noted_is_sent_again_by_the_next() {
    let server = Server::new().await;
    let clock = SkewedClock::default();
    let receiver = Receiver::start(Receiver::SILENCE).await;
    let id = register(&server, &receiver.url(), &["created"]).await;
    let dying = dispatcher(&server, receivers(), &clock);
    server.create(r#"{"templateID":"base"}"#).await;
    receiver.wait_for(1).await;
    dying.finish().await;
    drop(dying);
    let server = server.restarted().await;
    receiver.answer(200);
    let next = dispatcher(&server, receivers(), &clock);
    delivery(&server, &id, |delivery| delivery["status"] == "delivered").await;
    let seen = receiver.seen();
    assert_eq!(seen.len(), 2);
    let delivery_id = |seen: &Received| seen.header("e2b-delivery-id").to_owned();
    assert_eq!(delivery_id(&seen[0]), delivery_id(&seen[1]));
    next.finish().await;
}
