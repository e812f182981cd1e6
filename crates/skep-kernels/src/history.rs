//! The executions of a context so far, to be exported as a notebook.
//!
//! It is kept in the memory of the agent, in a bounded piece of it: the outputs of the oldest cells
//! go first, then the oldest cells, and both leave a trace. Nothing is allocated before the first
//! execution.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use skep_jupyter::{Bundle, Output, Transcript};

use crate::execution::{Failure, Loss};

/// Estimated size of an entry beside its code and its output, in bytes.
const OVERHEAD: usize = 256;

/// An event in the past of a context.
#[derive(Debug, Clone)]
pub enum Past {
    /// Code was run.
    Cell(PastCell),
    /// The kernel was replaced, and its variables were lost.
    Restarted {
        /// Reason of the restart; `None` if a caller asked for it.
        loss: Option<Loss>,
    },
    /// The variables of a checkpoint took the place of what there was.
    RolledBack {
        /// Id of the checkpoint.
        checkpoint: String,
    },
    /// The context was made as a copy of another.
    Forked {
        /// Id of the other.
        origin: String,
    },
}

/// Code that was run. Times are in microseconds since 1970.
#[derive(Debug, Clone, Default)]
pub struct PastCell {
    /// The code, without secrets.
    pub code: String,
    /// Number of bytes of the code that were not kept.
    pub code_left_out: usize,
    /// The number that the kernel gave it.
    pub count: Option<u64>,
    /// Time at which its turn came.
    pub started: Option<i64>,
    /// Time at which the kernel accepted it.
    pub accepted: Option<i64>,
    /// Time at which it ended; `None` while it runs.
    pub ended: Option<i64>,
    /// Outputs, folded as a notebook shows them.
    pub transcript: Transcript,
    /// Reason for which it did not come to its own end, if it did not.
    pub failure: Option<Failure>,
}

/// A snapshot of a context's history, as far as it was kept.
#[derive(Debug, Clone)]
pub struct HistoryView {
    /// The language of the context.
    pub language: String,
    /// Number of the oldest entries that were dropped.
    pub forgotten: u64,
    /// The others, in order.
    pub entries: Vec<Arc<Past>>,
}

/// Memory budget shared by the histories of all contexts of a sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    /// Limit for one context, in bytes.
    each: usize,
    /// Limit for all contexts together, in bytes.
    together: usize,
    /// Limit for the code of one cell, in bytes.
    code: usize,
    used: Arc<AtomicUsize>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            each: 16 << 20,
            together: 64 << 20,
            code: 1 << 20,
            used: Arc::default(),
        }
    }
}

/// History of one context.
#[derive(Debug)]
pub(crate) struct History {
    entries: VecDeque<Arc<Past>>,
    /// Number of entries at the front whose outputs were dropped already.
    emptied: usize,
    forgotten: u64,
    bytes: usize,
    budget: Budget,
}

/// A history that the owner of a context writes and others read.
#[derive(Debug, Clone)]
pub(crate) struct SharedHistory(Arc<Mutex<History>>);

impl SharedHistory {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self(Arc::new(Mutex::new(History::new(budget))))
    }

    pub(crate) fn view(&self, language: &str) -> HistoryView {
        let history = self.0.lock();
        HistoryView {
            language: language.to_owned(),
            forgotten: history.forgotten,
            entries: history.entries.iter().map(Arc::clone).collect(),
        }
    }

    /// It is the turn of this code.
    pub(crate) fn begin(&self, code: &str) {
        self.0.lock().begin(code, now());
    }

    /// The code that runs has produced something.
    pub(crate) fn output(&self, output: &Output, time: Option<i64>) {
        self.0.lock().output(output, time);
    }

    /// The code that ran has ended.
    pub(crate) fn end(&self, failure: Option<Failure>) {
        self.0.lock().end(failure, now());
    }

    /// A checkpoint was gone back to.
    pub(crate) fn rolled_back(&self, checkpoint: &str) {
        let checkpoint = checkpoint.to_owned();
        self.0.lock().push(Past::RolledBack { checkpoint });
    }

    /// The context begins as a copy of another.
    pub(crate) fn forked(&self, origin: &str) {
        let origin = origin.to_owned();
        self.0.lock().push(Past::Forked { origin });
    }

    /// The kernel was lost with its variables.
    pub(crate) fn restarted(&self, loss: Option<Loss>) {
        self.0.lock().push(Past::Restarted { loss });
    }
}

impl History {
    fn new(budget: &Budget) -> Self {
        Self {
            entries: VecDeque::new(),
            emptied: 0,
            forgotten: 0,
            bytes: 0,
            budget: budget.clone(),
        }
    }

    fn begin(&mut self, code: &str, now: Option<i64>) {
        let mut kept = code.len().min(self.budget.code);
        while !code.is_char_boundary(kept) {
            kept -= 1;
        }
        self.push(Past::Cell(PastCell {
            code: code[..kept].to_owned(),
            code_left_out: code.len() - kept,
            started: now,
            ..PastCell::default()
        }));
    }

    fn push(&mut self, past: Past) {
        let weight = weight(&past);
        self.make_room(weight, 0);
        self.entries.push_back(Arc::new(past));
        self.weighs(0, weight);
    }

    fn output(&mut self, output: &Output, time: Option<i64>) {
        if let Output::Updated(bundle) = output {
            self.update(bundle, output.weight());
            return;
        }
        let has_room = self.make_room(output.weight(), 1);
        let Some(last) = self.entries.len().checked_sub(1) else {
            return;
        };
        self.change(last, |cell| {
            if let Output::Accepted { count } = output {
                cell.count = Some(*count);
                cell.accepted = time.or_else(now);
            } else if has_room {
                cell.transcript.push(output);
            } else {
                cell.transcript.leave_out(output.weight() as u64);
            }
        });
    }

    /// Changes what is displayed under an id, in whatever cell it is.
    fn update(&mut self, bundle: &Bundle, weight: usize) {
        let id = bundle.display_id.as_deref().unwrap_or_default();
        let displays = |past: &Past| match past {
            Past::Cell(cell) => cell.transcript.displays_of(id),
            Past::Restarted { .. } | Past::RolledBack { .. } | Past::Forked { .. } => 0,
        };
        let all: usize = self.entries.iter().map(|past| displays(past)).sum();
        // Every place may grow by all of it.
        if all == 0 || !self.make_room(weight.saturating_mul(all), 1) {
            return;
        }
        for place in 0..self.entries.len() {
            if displays(&self.entries[place]) > 0 {
                self.change(place, |cell| cell.transcript.update(bundle));
            }
        }
    }

    fn end(&mut self, failure: Option<Failure>, now: Option<i64>) {
        if let Some(last) = self.entries.len().checked_sub(1) {
            self.change(last, |cell| {
                cell.ended = now;
                cell.failure = failure;
                cell.transcript.finish();
            });
        }
    }

    /// Changes a cell and keeps the account of it.
    fn change(&mut self, place: usize, change: impl FnOnce(&mut PastCell)) {
        // Copies the entry only if a reader still has a view of it.
        let past = Arc::make_mut(&mut self.entries[place]);
        let before = weight(past);
        if let Past::Cell(cell) = past {
            change(cell);
        }
        let after = weight(past);
        self.weighs(before, after);
    }

    /// Accounts for an entry whose size has changed.
    fn weighs(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes + after - before;
        let total = &self.budget.used;
        if after > before {
            total.fetch_add(after - before, Ordering::Relaxed);
        } else {
            total.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    fn fits(&self, more: usize) -> bool {
        // Two contexts may see the same room at once. The sum can then be too large by one entry of
        // each, which is better than a lock around all histories.
        let together = self.budget.used.load(Ordering::Relaxed);
        self.bytes.saturating_add(more) <= self.budget.each
            && together.saturating_add(more) <= self.budget.together
    }

    /// Makes room for so many bytes, at the cost of all but the last `spared` entries. Says
    /// whether it is there.
    fn make_room(&mut self, more: usize, spared: usize) -> bool {
        while !self.fits(more) {
            if more > self.budget.each || self.entries.len() <= spared {
                return false;
            }
            if self.emptied + spared < self.entries.len() {
                self.change(self.emptied, |cell| cell.transcript.forget());
                self.emptied += 1;
            } else if let Some(oldest) = self.entries.pop_front() {
                self.emptied = self.emptied.saturating_sub(1);
                self.forgotten += 1;
                self.weighs(weight(&oldest), 0);
            }
        }
        true
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.weighs(self.bytes, 0);
    }
}

fn weight(past: &Past) -> usize {
    match past {
        Past::Cell(cell) => OVERHEAD + cell.code.len() + cell.transcript.bytes(),
        Past::Restarted { .. } | Past::RolledBack { .. } | Past::Forked { .. } => OVERHEAD,
    }
}

fn now() -> Option<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_micros()).ok()
}

#[cfg(test)]
mod tests;
