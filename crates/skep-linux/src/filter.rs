//! System call filters.

use std::io;

/// One instruction of a filter program, as the kernel takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Operation code, as the kernel's classic BPF numbers it.
    pub code: u16,
    /// Number of instructions to skip if the condition holds.
    pub jump_true: u8,
    /// Number of instructions to skip if it does not.
    pub jump_false: u8,
    /// Operand of the operation.
    pub operand: u32,
}

/// Puts this thread and all that it starts from now on under a filter, for good.
///
/// Does not set `no_new_privs`: programs with the set-user-id bit still work below it. That
/// needs `CAP_SYS_ADMIN` in the thread's user namespace.
///
/// # Errors
///
/// `EACCES` without that capability, `EINVAL` if the program is not valid.
pub fn install_filter(program: &[Instruction]) -> io::Result<()> {
    let mut instructions: Vec<libc::sock_filter> = program
        .iter()
        .map(|instruction| libc::sock_filter {
            code: instruction.code,
            jt: instruction.jump_true,
            jf: instruction.jump_false,
            k: instruction.operand,
        })
        .collect();
    let program = libc::sock_fprog {
        len: u16::try_from(instructions.len()).map_err(io::Error::other)?,
        filter: instructions.as_mut_ptr(),
    };
    // SAFETY: `program` describes `instructions`, and the kernel copies both before it
    // returns.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    if answer == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
