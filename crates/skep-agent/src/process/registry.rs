//! The processes that callers can name.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use skep_wire::rpc::process::process_selector::Selector;

use super::Process;
use crate::process::exit_status::Ended;
use crate::process::reaper::Reaper;
use crate::sandbox::log::SandboxLog;

/// Time for which the end of a process is remembered for those who ask late.
const REMEMBERED: Duration = Duration::from_secs(30);

/// Number of ends that are remembered; the oldest are forgotten first.
const MAX_REMEMBERED: usize = 1024;

#[derive(Debug)]
pub(crate) struct Processes {
    reaper: Arc<Reaper>,
    log: SandboxLog,
    /// Protects the two lists; never held while waiting.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    live: BTreeMap<u32, Arc<Process>>,
    /// Ends of processes, the oldest first.
    retired: VecDeque<Retired>,
}

#[derive(Debug, Clone)]
pub(super) struct Retired {
    pub(super) pid: u32,
    tag: Option<String>,
    pub(super) ended: Ended,
    at: Instant,
}

/// Process that a selector leads to.
#[derive(Debug)]
pub(super) enum Found {
    Live(Arc<Process>),
    Retired(Retired),
}

/// Errors of a selector that leads to no process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SelectError {
    #[error("process with pid {0} not found")]
    Pid(u32),
    #[error("process with tag {0} not found")]
    Tag(String),
    #[error("process selector is required")]
    Missing,
}

impl Processes {
    pub(crate) fn new(reaper: Arc<Reaper>, log: SandboxLog) -> Self {
        Self {
            reaper,
            log,
            state: Mutex::default(),
        }
    }

    pub(crate) fn reaper(&self) -> &Arc<Reaper> {
        &self.reaper
    }

    pub(super) fn log(&self) -> &SandboxLog {
        &self.log
    }

    pub(super) fn add(&self, process: Arc<Process>) {
        let mut state = self.state.lock();
        // The kernel gives numbers again; the older bearer can no longer be meant.
        let pid = process.pid();
        state.retired.retain(|retired| retired.pid != pid);
        state.live.insert(pid, process);
    }

    /// Moves a process from the living to those whose end is remembered.
    pub(super) fn retire(&self, process: &Arc<Process>, ended: Ended) {
        let mut state = self.state.lock();
        let pid = process.pid();
        // The number may belong to a younger process by now: the kernel is free to give it
        // again as soon as the reaper has seen the end.
        if state
            .live
            .get(&pid)
            .is_some_and(|live| Arc::ptr_eq(live, process))
        {
            state.live.remove(&pid);
            let tag = process.tag.clone();
            state.retired.push_back(Retired {
                pid,
                tag,
                ended,
                at: Instant::now(),
            });
        }
        state.forget();
    }

    pub(super) fn list(&self) -> Vec<Arc<Process>> {
        self.state.lock().live.values().cloned().collect()
    }

    /// Finds a living process, or else one whose end is still remembered.
    pub(super) fn find(&self, selector: Option<&Selector>) -> Result<Found, SelectError> {
        let mut state = self.state.lock();
        state.forget();
        match selector {
            None => Err(SelectError::Missing),
            Some(Selector::Pid(pid)) => state
                .live
                .get(pid)
                .map(|process| Found::Live(Arc::clone(process)))
                .or_else(|| state.retired(|retired| retired.pid == *pid))
                .ok_or(SelectError::Pid(*pid)),
            Some(Selector::Tag(tag)) => state
                .live
                .values()
                .find(|process| process.tag.as_ref() == Some(tag))
                .map(|process| Found::Live(Arc::clone(process)))
                .or_else(|| state.retired(|retired| retired.tag.as_ref() == Some(tag)))
                .ok_or_else(|| SelectError::Tag(tag.clone())),
        }
    }

    /// Finds a living process.
    pub(super) fn find_live(
        &self,
        selector: Option<&Selector>,
    ) -> Result<Arc<Process>, SelectError> {
        match self.find(selector)? {
            Found::Live(process) => Ok(process),
            Found::Retired(_) => Err(match selector {
                Some(Selector::Tag(tag)) => SelectError::Tag(tag.clone()),
                Some(Selector::Pid(pid)) => SelectError::Pid(*pid),
                None => SelectError::Missing,
            }),
        }
    }
}

impl State {
    fn forget(&mut self) {
        while let Some(oldest) = self.retired.front()
            && (oldest.at.elapsed() > REMEMBERED || self.retired.len() > MAX_REMEMBERED)
        {
            self.retired.pop_front();
        }
    }

    /// The latest that fits.
    fn retired(&self, fits: impl Fn(&Retired) -> bool) -> Option<Found> {
        self.retired
            .iter()
            .rev()
            .find(|retired| fits(retired))
            .cloned()
            .map(Found::Retired)
    }
}
