//! Signal handling as a new program expects it.

use std::io;

const HIGHEST_SIGNAL: libc::c_int = 64;
const MASK_BYTES: usize = 8;

/// `struct sigaction` of the kernel: handler, flags, restorer, mask.
static DEFAULT_DISPOSITION: [u64; 4] = [0; 4];

/// Takes back every signal disposition and unblocks everything, as a new program expects.
///
/// Rust's runtime ignores `SIGPIPE`, and what is ignored or blocked stays so over `exec`.
///
/// # Errors
///
/// The error of `sigprocmask`, which does not happen with these arguments.
pub fn reset_signals() -> io::Result<()> {
    for signal in 1..=HIGHEST_SIGNAL {
        // SAFETY: all zeros is the default disposition with no flags and an empty mask, in
        // the layout the kernel has; no function of ours can be called by it. The C library
        // is gone around because it hides the signals it uses itself. Signals that cannot be
        // changed answer with an error and stay.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                &raw const DEFAULT_DISPOSITION,
                std::ptr::null_mut::<libc::c_void>(),
                MASK_BYTES,
            )
        };
    }
    let none = 0u64;
    // SAFETY: the kernel reads as many bytes as the last argument says from `none`, and is
    // not asked for the old mask.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            std::ptr::null_mut::<libc::c_void>(),
            MASK_BYTES,
        )
    };
    if answer == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
