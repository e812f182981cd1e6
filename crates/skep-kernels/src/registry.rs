//! Executions that wait or run, for whoever wants to look at them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::meter::{Meter, Spent, Usage};

/// An execution that waits or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionInfo {
    /// Unique id of the execution, as its caller was told.
    pub id: String,
    /// The name of its context.
    pub context: String,
    /// Time spent in the queue, so far or in all.
    pub queued: Duration,
    /// `None` as long as it waits.
    pub running: Option<Progress>,
}

/// An execution that runs, as of now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Wall-clock time since the kernel got it.
    pub wall: Duration,
    /// Resources used so far. `None` if its kernel cannot be measured.
    pub spent: Option<Spent>,
}

/// All executions that wait or run.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExecutionRegistry(Arc<Mutex<BTreeMap<String, Registered>>>);

#[derive(Debug)]
struct Registered {
    context: String,
    queued: Instant,
    started: Option<Started>,
    interrupt: CancellationToken,
}

#[derive(Debug)]
struct Started {
    at: Instant,
    meter: Arc<dyn Meter>,
    before: Option<Usage>,
}

/// An execution in the registry, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: ExecutionRegistry,
    id: String,
    /// Cancelled when somebody asks for an interrupt.
    pub(crate) interrupt: CancellationToken,
}

impl ExecutionRegistry {
    pub(crate) fn register(&self, id: &str, context: &str) -> Registration {
        let interrupt = CancellationToken::new();
        let registered = Registered {
            context: context.to_owned(),
            queued: Instant::now(),
            started: None,
            interrupt: interrupt.clone(),
        };
        self.0.lock().insert(id.to_owned(), registered);
        Registration {
            registry: self.clone(),
            id: id.to_owned(),
            interrupt,
        }
    }

    /// Asks for the interrupt of an execution. Says whether it waits or runs.
    pub(crate) fn interrupt(&self, id: &str) -> bool {
        match self.0.lock().get(id) {
            Some(registered) => {
                registered.interrupt.cancel();
                true
            }
            None => false,
        }
    }

    /// Returns the executions that wait or run now.
    pub(crate) fn list(&self) -> Vec<ExecutionInfo> {
        let all = self.0.lock();
        all.iter()
            .map(|(id, registered)| registered.info(id))
            .collect()
    }

    pub(crate) fn find(&self, id: &str) -> Option<ExecutionInfo> {
        self.0.lock().get(id).map(|registered| registered.info(id))
    }
}

impl Registered {
    fn info(&self, id: &str) -> ExecutionInfo {
        let now = Instant::now();
        let started = self.started.as_ref();
        ExecutionInfo {
            id: id.to_owned(),
            context: self.context.clone(),
            queued: started.map_or(now, |started| started.at) - self.queued,
            running: started.map(|started| Progress {
                wall: now - started.at,
                spent: started
                    .before
                    .and_then(|before| Some(started.meter.usage()?.since(&before))),
            }),
        }
    }
}

impl Registration {
    /// It runs from now on.
    pub(crate) fn start(&self, meter: &Arc<dyn Meter>, before: Option<Usage>) {
        if let Some(registered) = self.registry.0.lock().get_mut(&self.id) {
            registered.started = Some(Started {
                at: Instant::now(),
                meter: Arc::clone(meter),
                before,
            });
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.0.lock().remove(&self.id);
    }
}
