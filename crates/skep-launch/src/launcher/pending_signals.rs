//! Timers and waiting signals of a restored tree.
//!
//! The kernel counts them for each user, and once more for the owner of the user namespace, as far as that might go when it made
//! it. CRIU makes the namespace as root, so all restored trees and root's own programs have one count
//! together. Root's programs keep half of it, and a user of a tree gets as much as one below a zygote.

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit};

use super::part_of;
use crate::step_error::{About, StepError};

/// Name of the limit in `/proc/PID/limits`.
const NAME: &str = "Max pending signals";

/// Limit of one user of a restored tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part(Rlimit);

/// Limits this process, and with it the user namespace that CRIU makes below it, to half of what root may have.
pub(super) fn leave_half_to_root() -> Result<Part, StepError> {
    let whole = rustix::process::getrlimit(Resource::Sigpending);
    let half = |limit: Option<u64>| limit.map(|limit| limit / 2);
    let limit = Rlimit {
        current: half(whole.current),
        maximum: half(whole.maximum),
    };
    rustix::process::setrlimit(Resource::Sigpending, limit).about(|| NAME.into())?;
    Ok(Part(part_of(whole)))
}

impl Part {
    /// Limits the processes of a tree, all of which stand, if they may have more.
    pub(super) fn limit_tree(self, first: i32) -> Result<(), StepError> {
        for pid in skep_checkpoint::tree_of(first)? {
            let path = format!("/proc/{pid}/limits");
            let limits = std::fs::read_to_string(&path).about(|| path.clone())?;
            let found = maximum_in(&limits)
                .ok_or(Errno::PROTO)
                .about(|| path.clone())?;
            if is_more(found, self.0.maximum) {
                // Which the owner of their namespace may do.
                rustix::process::prlimit(Pid::from_raw(pid), Resource::Sigpending, self.0)
                    .about(|| path)?;
            }
        }
        Ok(())
    }
}

/// The maximum in the limits of a process; the inner `None` stands for no limit.
fn maximum_in(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix(NAME))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(None),
        number => Some(Some(number.parse().ok()?)),
    }
}

fn is_more(found: Option<u64>, part: Option<u64>) -> bool {
    match (found, part) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(found), Some(part)) => found > part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_as_the_kernel_writes_it() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max locked memory         8388608              8388608              bytes     \n\
                      Max pending signals       95000                95100                signals   \n";
        assert_eq!(maximum_in(limits), Some(Some(95100)));
        let unlimited = limits.replace("95100", "unlimited");
        assert_eq!(maximum_in(&unlimited), Some(None));
        assert_eq!(maximum_in("Max locked memory 1 1 bytes\n"), None);
    }

    #[test]
    fn only_more_than_a_part_is_limited() {
        assert!(is_more(Some(2), Some(1)) && is_more(None, Some(1)));
        assert!(!is_more(Some(1), Some(1)) && !is_more(None, None) && !is_more(Some(9), None));
    }
}
