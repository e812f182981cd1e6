//! The task that sends what is due.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use skep_control::{Control, DeliveryVerdict, EventRecord, OutgoingDelivery, StoreError};
use skep_http::Destinations;
use skep_telemetry::{Chain, Tasks};
use skep_types::{TeamId, random_bytes};

use crate::sender::Sender;
use crate::{Backoff, Clock};

/// Limit on attempts at a time. What is due beyond waits in the database.
const MOST_ATTEMPTS: usize = 64;
/// Those of one team, so that slow receivers of one are nobody else's.
const MOST_OF_A_TEAM: usize = 8;
/// Those of one webhook.
const MOST_OF_A_WEBHOOK: u32 = 4;
/// Deliveries that are looked at together.
const PAGE: u32 = 512;
/// Pause after the database has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Makes the body of a delivery of an event.
pub type Render = fn(&EventRecord) -> Vec<u8>;

/// Dependencies and settings of a [`Dispatcher`].
#[derive(Debug)]
pub struct DispatcherOptions {
    /// Source of deliveries, and who is told what became of them.
    pub control: Control,
    /// Destinations that webhooks may have.
    pub destinations: Destinations,
    /// Times after which a delivery is tried again.
    pub backoff: Backoff,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Makes the bodies.
    pub render: Render,
}

/// Sends events to webhooks until it is finished.
#[derive(Debug)]
pub struct Dispatcher {
    tasks: Tasks,
}

impl Dispatcher {
    /// Starts to send.
    ///
    /// # Errors
    ///
    /// If no HTTP client can be made.
    pub fn start(options: DispatcherOptions) -> Result<Self, reqwest::Error> {
        let tasks = Tasks::default();
        let worker = Worker {
            sender: Sender::new(options.destinations.clone())?,
            options: Arc::new(options),
        };
        let stop = tasks.stopping();
        tasks.spawn("send to webhooks", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = worker.run() => {}
            }
        });
        Ok(Self { tasks })
    }

    /// Ends at once. What is on its way then is sent again by the next server.
    pub async fn finish(&self) {
        self.tasks.finish().await;
    }
}

/// A delivery that is being sent.
struct EndedAttempt {
    seq: u64,
    team: TeamId,
}

type Attempt = Pin<Box<dyn Future<Output = EndedAttempt> + Send>>;

/// Attempts that are under way.
#[derive(Default)]
struct RunningAttempts {
    running: FuturesUnordered<Attempt>,
    deliveries: HashSet<u64>,
    teams: HashMap<TeamId, usize>,
}

impl RunningAttempts {
    fn has_room(&self, delivery: &OutgoingDelivery) -> bool {
        self.running.len() < MOST_ATTEMPTS
            && self.of_team(&delivery.team) < MOST_OF_A_TEAM
            && !self.deliveries.contains(&delivery.seq)
    }

    fn of_team(&self, team: &TeamId) -> usize {
        self.teams.get(team).copied().unwrap_or_default()
    }

    /// Place of the delivery that is next: the first of the team that has the fewest under way. Else teams
    /// whose receivers hang would have every place for as long as they have something to send.
    fn fairest(&self, due: &[OutgoingDelivery]) -> Option<usize> {
        let can_begin = |place: &usize| self.has_room(&due[*place]);
        let places = (0..due.len()).filter(can_begin);
        places.min_by_key(|place| self.of_team(&due[*place].team))
    }

    fn begin(&mut self, seq: u64, team: TeamId, attempt: Attempt) {
        self.deliveries.insert(seq);
        *self.teams.entry(team).or_default() += 1;
        self.running.push(attempt);
    }

    fn end(&mut self, ended: &EndedAttempt) {
        self.deliveries.remove(&ended.seq);
        if let Some(count) = self.teams.get_mut(&ended.team) {
            *count -= 1;
            if *count == 0 {
                self.teams.remove(&ended.team);
            }
        }
    }

    /// Waits until one has ended; for ever if there is none.
    async fn ended(&mut self) -> EndedAttempt {
        match self.running.next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }
}

#[derive(Clone)]
struct Worker {
    sender: Sender,
    options: Arc<DispatcherOptions>,
}

impl Worker {
    async fn run(&self) {
        let options = &self.options;
        let mut news = options.control.delivery_news();
        let mut attempts = RunningAttempts::default();
        loop {
            news.mark_unchanged();
            let next = match self.begin_due(&mut attempts).await {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!(error = %Chain(&error), "deliveries to webhooks cannot be read");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            tokio::select! {
                ended = attempts.ended() => attempts.end(&ended),
                // The sending half is the store's, which control holds.
                _ = news.changed() => {}
                () = self.until(next) => {}
            }
        }
    }

    /// Begins to send what is due; returns when there will be more.
    async fn begin_due(
        &self,
        attempts: &mut RunningAttempts,
    ) -> Result<Option<Timestamp>, StoreError> {
        let control = &self.options.control;
        let now = self.options.clock.now();
        // The end of each attempt leads here again.
        if attempts.running.len() < MOST_ATTEMPTS {
            let mut due = control.due_deliveries(now, MOST_OF_A_WEBHOOK, PAGE).await?;
            while let Some(place) = attempts.fairest(&due) {
                let delivery = due.remove(place);
                let (seq, team) = (delivery.seq, delivery.team.clone());
                attempts.begin(seq, team, Box::pin(self.clone().deliver(delivery)));
            }
        }
        control.next_delivery(now).await
    }

    /// Sends a delivery once and notes what became of it.
    async fn deliver(self, delivery: OutgoingDelivery) -> EndedAttempt {
        let options = &self.options;
        let body = (options.render)(&delivery.event);
        let at = options.clock.now();
        let attempt = self.sender.attempt(&delivery, body, at).await;
        let verdict = match attempt.failure {
            None => DeliveryVerdict::Delivered,
            Some(_) => self.after_failure(delivery.tries.saturating_add(1)),
        };
        let noting = options.control.note_attempt(delivery.seq, attempt, verdict);
        if let Err(error) = noting.await {
            tracing::error!(error = %Chain(&error), "an attempt to deliver is not noted and is repeated");
            tokio::time::sleep(PAUSE).await;
        }
        EndedAttempt {
            seq: delivery.seq,
            team: delivery.team,
        }
    }

    fn after_failure(&self, failed: u32) -> DeliveryVerdict {
        let random = u16::from_ne_bytes(random_bytes());
        let wait = self
            .options
            .backoff
            .wait(failed, random)
            .and_then(|wait| SignedDuration::try_from(wait).ok());
        let at = wait.and_then(|wait| self.options.clock.now().checked_add(wait).ok());
        at.map_or(DeliveryVerdict::GivenUp, DeliveryVerdict::Again)
    }

    async fn until(&self, next: Option<Timestamp>) {
        match next {
            Some(next) => self.options.clock.reached(next).await,
            None => std::future::pending().await,
        }
    }
}
