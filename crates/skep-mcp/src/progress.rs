//! Signs of life while a tool works.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};

use crate::clean::pictured;

/// Shortest time between two messages.
const PACE: Duration = Duration::from_millis(250);
/// Time after which a message is sent though nothing happened: clients give up on who is silent.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Time limit for handing over a message. A client that does not read gets none.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Progress of one call, for a client that asked for it.
#[derive(Debug)]
pub(crate) struct Progress {
    asked: Option<(ProgressToken, Peer<RoleServer>)>,
    started: Instant,
    told: Option<Instant>,
}

impl Progress {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self {
            asked: token.map(|token| (token, context.peer.clone())),
            started: Instant::now(),
            told: None,
        }
    }

    /// The beat in which [`Progress::tell`] is to be called at least.
    pub(crate) fn heartbeat() -> Interval {
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        beat
    }

    /// Tells the client what happens now, unless it was told a moment ago.
    pub(crate) async fn tell(&mut self, message: Option<String>) {
        let Some((token, peer)) = &self.asked else {
            return;
        };
        if self.told.is_some_and(|told| told.elapsed() < PACE) {
            return;
        }
        self.told = Some(Instant::now());
        // How much there is to do nobody knows; that it goes on shows in the time.
        let seconds = self.started.elapsed().as_secs_f64();
        let mut progress = ProgressNotificationParam::new(token.clone(), seconds);
        progress.message = message.map(|text| pictured(&text));
        match timeout(SEND_TIMEOUT, peer.notify_progress(progress)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => self.asked = None,
        }
    }
}
