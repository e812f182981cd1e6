//! Work for a process of its own, because it ends in namespaces from which nobody comes back.

use std::os::fd::AsFd as _;

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions};
use rustix::thread::UnshareFlags;
use skep_linux::Cloned;

use crate::step_error::StepError;

/// Does `work` in a child of this process, and waits for its end.
pub(super) fn run(work: impl FnOnce() -> Result<(), StepError>) -> Result<(), StepError> {
    match skep_linux::clone_process(UnshareFlags::empty())? {
        Cloned::Child => skep_linux::exit_now(work().err().map_or(0, |error| error.errno)),
        Cloned::Parent(helper) => {
            let helper = WaitId::PidFd(helper.pidfd.as_fd());
            let ended = rustix::io::retry_on_intr(|| {
                rustix::process::waitid(helper.clone(), WaitIdOptions::EXITED)
            })?;
            match ended.and_then(|ended| ended.exit_status()) {
                Some(0) => Ok(()),
                Some(errno) => Err(StepError { errno, thing: None }),
                None => Err(Errno::CHILD.into()),
            }
        }
    }
}
