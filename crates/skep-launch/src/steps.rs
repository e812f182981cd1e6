//! Carrying out steps one after another, and saying which one failed.

use std::time::Instant;

use rustix::io::Errno;

use crate::Step;
use crate::trouble::Trouble;

/// The step that failed, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) trouble: Trouble,
}

/// Carries out steps and keeps the time.
#[derive(Debug)]
pub(crate) struct Steps {
    fail_at: Option<Step>,
    pub(crate) timings: Vec<(Step, u32)>,
}

impl Steps {
    pub(crate) fn new(fail_at: Option<Step>) -> Self {
        Self {
            fail_at,
            timings: Vec::new(),
        }
    }

    /// Carries out one step. The step that a test wants to fail is carried out first, so that
    /// there is something to clean up.
    pub(crate) fn carry_out<T>(
        &mut self,
        step: Step,
        work: impl FnOnce() -> Result<T, Trouble>,
    ) -> Result<T, Failure> {
        let start = Instant::now();
        let result = work().and_then(|done| {
            if self.fail_at == Some(step) {
                Err(Trouble::from(Errno::CANCELED))
            } else {
                Ok(done)
            }
        });
        let taken = u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX);
        self.timings.push((step, taken));
        result.map_err(|trouble| Failure { step, trouble })
    }
}
