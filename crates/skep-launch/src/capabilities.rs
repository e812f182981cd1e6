//! Capabilities inside a sandbox.

use std::io;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};
use skep_linux::MARKER;

use crate::Privileges;

/// Capabilities that root needs to install packages, change users and run services. Everything that
/// could change the host, its mounts, its network or other processes' memory is missing.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::AUDIT_WRITE)
    .union(CapabilitySet::SETFCAP);

/// Capability needed to enter another namespace, which then gives all the rest.
const ENTERING: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// Returns the bounding set: the capabilities that anything inside may ever have.
pub(crate) fn bounding_set(privileges: Privileges) -> CapabilitySet {
    match privileges {
        // A step of a build is the host's own root. Without the right to make a device it
        // cannot reach one; packages bring none, since Debian's `/dev` is the kernel's.
        Privileges::Sandbox | Privileges::Build => KEPT,
        Privileges::Enter => ENTERING,
    }
}

/// Returns the bounding set of a sandbox as the kernel's bit mask.
pub fn sandbox_capabilities() -> u64 {
    bounding_set(Privileges::Sandbox).bits()
}

/// Cuts the bounding set. Capabilities this process has stay until [`keep_only`].
pub(crate) fn cut_bounding_set(privileges: Privileges) -> io::Result<()> {
    if privileges == Privileges::Sandbox {
        // What is inherited must be in the bounding set when it is added, not later.
        let mut sets = rustix::thread::capabilities(None)?;
        sets.inheritable = MARKER;
        rustix::thread::set_capabilities(None, sets)?;
    }
    cut_bounding_set_to(bounding_set(privileges))?;
    if privileges == Privileges::Sandbox {
        rustix::thread::configure_capability_in_ambient_set(MARKER, true)?;
    }
    Ok(())
}

/// Takes everything that is not `allowed` out of the bounding set.
pub(crate) fn cut_bounding_set_to(allowed: CapabilitySet) -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if allowed.contains(capability) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The kernel knows no more capabilities than that.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Gives up every capability that is not in the bounding set, except the first process's
/// [`MARKER`].
pub(crate) fn keep_only(privileges: Privileges) -> io::Result<()> {
    let (extra, inheritable) = match privileges {
        Privileges::Sandbox => (MARKER, MARKER),
        Privileges::Build => (CapabilitySet::empty(), CapabilitySet::empty()),
        // It still has to become somebody else.
        Privileges::Enter => (
            CapabilitySet::SETUID | CapabilitySet::SETGID,
            CapabilitySet::empty(),
        ),
    };
    let kept = bounding_set(privileges) | extra;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable,
        },
    )?;
    Ok(())
}

/// Runs `become_user` and keeps, as an ordinary user, what entering takes: for this process
/// and the program it executes.
pub(crate) fn keep_entering<T, E: From<io::Error>>(
    become_user: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let errno = |error: Errno| io::Error::from(error);
    rustix::thread::set_keep_capabilities(true).map_err(errno)?;
    let done = become_user()?;
    rustix::thread::set_keep_capabilities(false).map_err(errno)?;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: ENTERING,
            permitted: ENTERING,
            inheritable: ENTERING,
        },
    )
    .map_err(errno)?;
    rustix::thread::configure_capability_in_ambient_set(ENTERING, true).map_err(errno)?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_enter_namespaces_may_nothing_else() {
        assert_eq!(bounding_set(Privileges::Enter), CapabilitySet::SYS_ADMIN);
    }

    #[test]
    fn nothing_that_reaches_out_of_a_sandbox_is_kept() {
        let dangerous = CapabilitySet::SYS_ADMIN
            | CapabilitySet::SYS_PTRACE
            | CapabilitySet::SYS_MODULE
            | CapabilitySet::SYS_RAWIO
            | CapabilitySet::SYS_RESOURCE
            | CapabilitySet::SYS_BOOT
            | CapabilitySet::SYS_TIME
            | CapabilitySet::SYS_NICE
            | CapabilitySet::NET_ADMIN
            | CapabilitySet::NET_RAW
            | CapabilitySet::MKNOD
            | CapabilitySet::BPF
            | CapabilitySet::PERFMON
            | CapabilitySet::SYSLOG
            | CapabilitySet::MAC_ADMIN
            | CapabilitySet::MAC_OVERRIDE
            | CapabilitySet::DAC_READ_SEARCH
            | CapabilitySet::CHECKPOINT_RESTORE
            | MARKER;
        for privileges in [Privileges::Sandbox, Privileges::Build] {
            assert!(bounding_set(privileges).intersection(dangerous).is_empty());
        }
    }
}
