//! Carrying out steps one after another, and saying which one failed.

use std::time::Instant;

use rustix::io::Errno;

use crate::Step;
use crate::step_error::StepError;

/// The step that failed, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) error: StepError,
}

/// Carries out steps and keeps the time.
#[derive(Debug)]
pub(crate) struct StepRunner {
    fail_at: Option<Step>,
    pub(crate) timings: Vec<(Step, u32)>,
}

impl StepRunner {
    pub(crate) fn new(fail_at: Option<Step>) -> Self {
        Self {
            fail_at,
            timings: Vec::new(),
        }
    }

    /// Carries out one step. The step that a test wants to fail is carried out first, so that
    /// there is something to clean up.
    pub(crate) fn run<T>(
        &mut self,
        step: Step,
        work: impl FnOnce() -> Result<T, StepError>,
    ) -> Result<T, Failure> {
        let start = Instant::now();
        let result = work().and_then(|done| {
            if self.fail_at == Some(step) {
                Err(StepError::from(Errno::CANCELED))
            } else {
                Ok(done)
            }
        });
        let taken = u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX);
        self.timings.push((step, taken));
        result.map_err(|error| Failure { step, error })
    }
}
