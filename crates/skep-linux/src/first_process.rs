//! The first process of a sandbox, and what protects it from the others.

use std::io;

use rustix::process::DumpableBehavior;
use rustix::thread::CapabilitySet;

/// The capability that only the first process of a sandbox has.
///
/// It gives no right inside a user namespace. Tracing, and reading memory or descriptors,
/// needs at least the capabilities of the target, so this one keeps root inside out.
pub const MARKER: CapabilitySet = CapabilitySet::WAKE_ALARM;

/// Called by the first process of a sandbox at its start, before any thread: keeps
/// [`MARKER`] from what it will start, and makes its own memory, descriptors and executable
/// unreadable for everybody inside.
///
/// # Errors
///
/// The error of the kernel; the caller must not go on then.
pub fn protect_first_process() -> io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::clear_ambient_capability_set()?;
    let mut sets = rustix::thread::capabilities(None)?;
    sets.inheritable = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}

/// Lets whoever has the capabilities of this process, [`MARKER`] among them, look into it: the
/// host, from within its namespaces. A thread that changes its user takes that back.
///
/// # Errors
///
/// The error of the kernel.
pub fn open_first_process() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(
        DumpableBehavior::Dumpable,
    )?)
}

/// Takes back [`open_first_process`].
///
/// # Errors
///
/// The error of the kernel.
pub fn close_first_process() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(
        DumpableBehavior::NotDumpable,
    )?)
}
