//! Becoming another program.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::exit_now;

/// A file to execute.
#[derive(Debug, Clone, Copy)]
pub enum Executable<'a> {
    /// An open file.
    Descriptor(BorrowedFd<'a>),
    /// A path, looked up where the process is.
    Path(&'a CStr),
}

/// A program for [`execute`], with its arguments, environment and descriptors.
#[derive(Debug)]
pub struct Execution<'a> {
    /// File to execute.
    pub executable: Executable<'a>,
    /// Its arguments, the zeroth included.
    pub arguments: &'a [CString],
    /// Its environment, each `NAME=value`.
    pub environment: &'a [CString],
    /// Its descriptors 0, 1, 2 and so on. Nothing else stays open.
    pub descriptors: &'a [BorrowedFd<'a>],
}

/// Becomes another program, or writes what `failure` says about the error to `report` and ends
/// this process.
///
/// Never returns, because the descriptors have been put into other places by then.
pub fn execute(
    execution: &Execution<'_>,
    report: BorrowedFd<'_>,
    failure: impl FnOnce(io::Error) -> Vec<u8>,
) -> ! {
    let (error, report) = match try_execute(execution, report) {
        Ok((never, _)) => match never {},
        Err(failed) => failed,
    };
    // Where the report cannot be written, the reader still sees the process end.
    rustix::io::write(report, &failure(error)).ok();
    exit_now(127)
}

type Failed<'a> = (io::Error, BorrowedFd<'a>);

fn try_execute<'a>(
    execution: &Execution<'_>,
    report: BorrowedFd<'a>,
) -> Result<(std::convert::Infallible, BorrowedFd<'a>), Failed<'a>> {
    // Every descriptor that is still needed first moves above the places that will be taken.
    let above = |descriptor: BorrowedFd<'_>| -> io::Result<OwnedFd> {
        let first_free = RawFd::try_from(execution.descriptors.len()).map_err(io::Error::other)?;
        Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, first_free)?)
    };
    let report: BorrowedFd<'a> = match above(report) {
        Ok(moved) => leak(moved),
        Err(error) => return Err((error, report)),
    };
    let place_and_execute = || -> io::Result<std::convert::Infallible> {
        let executable = match execution.executable {
            Executable::Descriptor(file) => Some(above(file)?),
            Executable::Path(_) => None,
        };
        let sources = execution
            .descriptors
            .iter()
            .map(|descriptor| above(*descriptor))
            .collect::<io::Result<Vec<_>>>()?;
        let arguments = pointers(execution.arguments);
        let environment = pointers(execution.environment);
        for (place, source) in sources.iter().enumerate() {
            put(
                source.as_fd(),
                RawFd::try_from(place).map_err(io::Error::other)?,
            )?;
        }
        close_on_execute_from(sources.len())?;
        let (directory, path, flags) = match (&executable, execution.executable) {
            (Some(file), _) => (file.as_raw_fd(), c"", libc::AT_EMPTY_PATH),
            (None, Executable::Path(path)) => (libc::AT_FDCWD, path, 0),
            (None, Executable::Descriptor(_)) => return Err(rustix::io::Errno::BADF.into()),
        };
        // SAFETY: the path is a C string, both vectors end with a null pointer and point to C
        // strings that live in `execution`, and the descriptor is open. The call returns only
        // if it fails.
        unsafe {
            libc::execveat(
                directory,
                path.as_ptr(),
                arguments.as_ptr().cast(),
                environment.as_ptr().cast(),
                flags,
            )
        };
        Err(io::Error::last_os_error())
    };
    match place_and_execute() {
        Ok(never) => match never {},
        Err(error) => Err((error, report)),
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain(std::iter::once(std::ptr::null()))
        .collect()
}

/// Puts a copy of `source` at `place`, to be inherited.
fn put(source: BorrowedFd<'_>, place: RawFd) -> io::Result<()> {
    // SAFETY: no memory is touched. Whoever owned the descriptor at `place` no longer does,
    // but nothing of this process runs any more: it executes or exits next, without
    // destructors.
    let answer = unsafe { libc::dup2(source.as_raw_fd(), place) };
    if answer == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Marks every descriptor from `first` on to be closed when a program is executed.
///
/// # Errors
///
/// What `close_range` says.
pub fn close_on_execute_from(first: usize) -> io::Result<()> {
    let first = libc::c_uint::try_from(first).map_err(io::Error::other)?;
    // SAFETY: no memory is touched, and with this flag no descriptor is closed now.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if answer == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Keeps a descriptor open until the process ends.
fn leak<'a>(descriptor: OwnedFd) -> BorrowedFd<'a> {
    use std::os::fd::IntoRawFd;
    let raw = descriptor.into_raw_fd();
    // SAFETY: nobody owns the descriptor any more, so nobody closes it.
    unsafe { BorrowedFd::borrow_raw(raw) }
}
