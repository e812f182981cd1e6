//! The task that sends what is due.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use skep_control::{Control, DeliveryVerdict, EventRecord, Parcel, StoreError};
use skep_http::Destinations;
use skep_telemetry::{Chain, Tasks};
use skep_types::{TeamId, random_bytes};

use crate::flight::Carrier;
use crate::{Backoff, Clock};

/// Limit on attempts at a time. What is due beyond waits in the database.
const MOST_FLIGHTS: usize = 64;
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

/// Dependencies and settings of a [`Courier`].
#[derive(Debug)]
pub struct CourierOptions {
    /// Source of deliveries, and who is told what became of them.
    pub control: Control,
    /// Destinations that webhooks may have.
    pub destinations: Destinations,
    /// When a delivery is tried again.
    pub backoff: Backoff,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Makes the bodies.
    pub render: Render,
}

/// Sends events to webhooks until it is finished.
#[derive(Debug)]
pub struct Courier {
    tasks: Tasks,
}

impl Courier {
    /// Starts to send.
    ///
    /// # Errors
    ///
    /// If no HTTP client can be made.
    pub fn start(options: CourierOptions) -> Result<Self, reqwest::Error> {
        let tasks = Tasks::default();
        let route = Route {
            carrier: Carrier::new(options.destinations.clone())?,
            options: Arc::new(options),
        };
        let stop = tasks.stopping();
        tasks.spawn("send to webhooks", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = route.run() => {}
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
struct Landed {
    seq: u64,
    team: TeamId,
}

type Flight = Pin<Box<dyn Future<Output = Landed> + Send>>;

/// Attempts that are under way.
#[derive(Default)]
struct Flights {
    running: FuturesUnordered<Flight>,
    deliveries: HashSet<u64>,
    teams: HashMap<TeamId, usize>,
}

impl Flights {
    fn has_room(&self, parcel: &Parcel) -> bool {
        self.running.len() < MOST_FLIGHTS
            && self.of_team(&parcel.team) < MOST_OF_A_TEAM
            && !self.deliveries.contains(&parcel.seq)
    }

    fn of_team(&self, team: &TeamId) -> usize {
        self.teams.get(team).copied().unwrap_or_default()
    }

    /// Place of the parcel that is next: the first of the team that has the fewest under way. Else teams
    /// whose receivers hang would have every place for as long as they have something to send.
    fn fairest(&self, due: &[Parcel]) -> Option<usize> {
        let can_fly = |place: &usize| self.has_room(&due[*place]);
        let places = (0..due.len()).filter(can_fly);
        places.min_by_key(|place| self.of_team(&due[*place].team))
    }

    fn begin(&mut self, seq: u64, team: TeamId, flight: Flight) {
        self.deliveries.insert(seq);
        *self.teams.entry(team).or_default() += 1;
        self.running.push(flight);
    }

    fn end(&mut self, landed: &Landed) {
        self.deliveries.remove(&landed.seq);
        if let Some(count) = self.teams.get_mut(&landed.team) {
            *count -= 1;
            if *count == 0 {
                self.teams.remove(&landed.team);
            }
        }
    }

    /// Waits until one has ended; for ever if there is none.
    async fn landed(&mut self) -> Landed {
        match self.running.next().await {
            Some(landed) => landed,
            None => std::future::pending().await,
        }
    }
}

#[derive(Clone)]
struct Route {
    carrier: Carrier,
    options: Arc<CourierOptions>,
}

impl Route {
    async fn run(&self) {
        let options = &self.options;
        let mut news = options.control.delivery_news();
        let mut flights = Flights::default();
        loop {
            news.mark_unchanged();
            let next = match self.depart(&mut flights).await {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!(error = %Chain(&error), "deliveries to webhooks cannot be read");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            tokio::select! {
                landed = flights.landed() => flights.end(&landed),
                // The sender is the store's, which control holds.
                _ = news.changed() => {}
                () = self.until(next) => {}
            }
        }
    }

    /// Begins to send what is due; returns when there will be more.
    async fn depart(&self, flights: &mut Flights) -> Result<Option<Timestamp>, StoreError> {
        let control = &self.options.control;
        let now = self.options.clock.now();
        // Whoever lands looks again.
        if flights.running.len() < MOST_FLIGHTS {
            let mut due = control.due_deliveries(now, MOST_OF_A_WEBHOOK, PAGE).await?;
            while let Some(place) = flights.fairest(&due) {
                let parcel = due.remove(place);
                let (seq, team) = (parcel.seq, parcel.team.clone());
                flights.begin(seq, team, Box::pin(self.clone().fly(parcel)));
            }
        }
        control.next_delivery(now).await
    }

    /// Sends a parcel once, and notes what became of it.
    async fn fly(self, parcel: Parcel) -> Landed {
        let options = &self.options;
        let body = (options.render)(&parcel.event);
        let at = options.clock.now();
        let attempt = self.carrier.attempt(&parcel, body, at).await;
        let verdict = match attempt.failure {
            None => DeliveryVerdict::Delivered,
            Some(_) => self.after_failure(parcel.tries.saturating_add(1)),
        };
        let noting = options.control.note_attempt(parcel.seq, attempt, verdict);
        if let Err(error) = noting.await {
            tracing::error!(error = %Chain(&error), "an attempt to deliver is not noted and is repeated");
            tokio::time::sleep(PAUSE).await;
        }
        Landed {
            seq: parcel.seq,
            team: parcel.team,
        }
    }

    fn after_failure(&self, failed: u32) -> DeliveryVerdict {
        let random = u16::from_ne_bytes(random_bytes());
        let wait = self.options.backoff.wait(failed, random);
        let wait = wait.and_then(|wait| SignedDuration::try_from(wait).ok());
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
