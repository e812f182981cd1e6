//! Calls through which one sandbox would reach what all have together, and that nobody counts:
//! memory for translated programs and for keys, the host's crash handler, and the pages of
//! templates that are in memory.

use std::io;

use super::program::{Answer, Branches, Decision};
use super::{Decisions, numbers};

/// `RLIMIT_CORE`, whose type is not the same in every C library.
const CRASH_LIMIT: u32 = 4;

/// Options of TCP that keep keys for peers (`TCP_MD5SIG`, `TCP_MD5SIG_EXT`, `TCP_AO_ADD_KEY`,
/// `TCP_AO_INFO`).
const SOCKET_KEYS: [libc::c_int; 4] = [14, 32, 38, 40];

/// A decision about a call that is taken if an argument is one of some values.
#[derive(Debug)]
struct Exception {
    call: i64,
    argument: u8,
    values: Vec<u32>,
    then: Decision,
}

/// Puts the exceptions before what is decided about the same calls otherwise.
pub(super) fn add_exceptions(decisions: &mut Decisions) -> io::Result<()> {
    for exception in exceptions() {
        let call = u32::try_from(exception.call).map_err(io::Error::other)?;
        let otherwise = decisions
            .remove(&call)
            .unwrap_or_else(|| Answer::Unknown.into());
        let branches = Branches::new(exception.then, otherwise);
        let decision = Decision::OneOf(exception.argument, exception.values, branches);
        decisions.insert(call, decision);
    }
    Ok(())
}

fn exceptions() -> [Exception; 7] {
    let [seccomp, prctl] = filters();
    let [prlimit, setrlimit] = crash_limit();
    let [file_pages, mapped_pages] = pages();
    [
        seccomp,
        prctl,
        prlimit,
        setrlimit,
        file_pages,
        mapped_pages,
        keys_of_sockets(),
    ]
}

/// A filter is translated into memory that the host has one amount of for all
/// (`net.core.bpf_jit_limit`), and no sandbox starts when that is used up. One that logs writes
/// into the kernel's log. Programs hear what a kernel without filters says and do without, as
/// OpenSSH does; others, as man-db, see that they are under one already. Strict mode takes no
/// memory.
fn filters() -> [Exception; 2] {
    let seccomp = Exception {
        call: libc::SYS_seccomp,
        argument: 0,
        values: vec![libc::SECCOMP_SET_MODE_FILTER],
        then: Answer::Invalid.into(),
    };
    let modes = vec![libc::SECCOMP_MODE_FILTER];
    let prctl = Exception {
        call: libc::SYS_prctl,
        argument: 0,
        values: numbers(&[libc::PR_SET_SECCOMP]),
        then: Decision::OneOf(1, modes, Branches::new(Answer::Invalid, Answer::Allowed)),
    };
    [seccomp, prctl]
}

/// The limit of crash dumps stays one byte. `sudo` and others set it to zero, with which the
/// kernel starts the host's crash handler (`kernel.core_pattern`), outside, for what crashes
/// inside. They are not told, because what they want is so already: nothing is written.
fn crash_limit() -> [Exception; 2] {
    let prlimit = Exception {
        call: libc::SYS_prlimit64,
        argument: 1,
        values: vec![CRASH_LIMIT],
        then: Decision::Null(2, Branches::new(Answer::Allowed, Answer::Ignored)),
    };
    let setrlimit = Exception {
        call: libc::SYS_setrlimit,
        argument: 0,
        values: vec![CRASH_LIMIT],
        then: Answer::Ignored.into(),
    };
    [prlimit, setrlimit]
}

/// Calls that put pages out of memory: whoever can do that to a template's pages sees who brings
/// them back. That pages of a file are not needed is a hint, which nobody has to follow.
/// `MADV_PAGEOUT` does the same to files that one owns, as root inside owns a template's; kernels
/// before 5.4 do not know it. With `MADV_MERGEABLE` the host joins pages that are equal, where its
/// owner has switched that on for virtual machines, and a write that takes longer tells that somebody
/// has the same page; kernels without it answer the same.
fn pages() -> [Exception; 2] {
    let of_file = Exception {
        call: libc::SYS_fadvise64,
        argument: 3,
        values: numbers(&[libc::POSIX_FADV_DONTNEED]),
        then: Answer::Ignored.into(),
    };
    let mapped = Exception {
        call: libc::SYS_madvise,
        argument: 2,
        values: numbers(&[libc::MADV_PAGEOUT, libc::MADV_MERGEABLE]),
        then: Answer::Invalid.into(),
    };
    [of_file, mapped]
}

/// Keys for peers take as much as `net.core.optmem_max` for each socket, which no cgroup counts.
/// Routers ask for them, and hear what a kernel without them says.
fn keys_of_sockets() -> Exception {
    let branches = Branches::new(Answer::NoOption, Answer::Allowed);
    Exception {
        call: libc::SYS_setsockopt,
        argument: 1,
        values: numbers(&[libc::IPPROTO_TCP]),
        then: Decision::OneOf(2, numbers(&SOCKET_KEYS), branches),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::{check_call, number};
    use super::*;

    const HIDDEN: u64 = 1 << 40;
    /// Nothing is done, and the caller is not told.
    const IGNORED: Result<(), libc::c_int> = Err(0);

    #[test]
    fn an_exception_leaves_what_was_decided_otherwise() {
        let call = u32::try_from(libc::SYS_madvise).unwrap();
        let mut decisions = BTreeMap::from([(call, Answer::NoMemory.into())]);
        add_exceptions(&mut decisions).unwrap();
        let branches = Branches::new(Answer::Invalid, Answer::NoMemory);
        let advices = numbers(&[libc::MADV_PAGEOUT, libc::MADV_MERGEABLE]);
        let expected = Decision::OneOf(2, advices, branches);
        assert_eq!(decisions[&call], expected);
        let call = u32::try_from(libc::SYS_seccomp).unwrap();
        let branches = Branches::new(Answer::Invalid, Answer::Unknown);
        let install = vec![libc::SECCOMP_SET_MODE_FILTER];
        assert_eq!(decisions[&call], Decision::OneOf(0, install, branches));
    }

    #[test]
    fn filters_of_their_own_are_not_there_and_strict_mode_is() {
        const GET_ACTION_AVAIL: u64 = 2;
        let install = u64::from(libc::SECCOMP_SET_MODE_FILTER);
        let none = Err(libc::EINVAL);
        check_call(libc::SYS_seccomp, &[install | HIDDEN, 0], none);
        check_call(libc::SYS_seccomp, &[0, 0], Ok(()));
        check_call(libc::SYS_seccomp, &[GET_ACTION_AVAIL, 0], Ok(()));
        let prctl = |option: libc::c_int, argument, expected| {
            let option = number(option) | HIDDEN;
            check_call(libc::SYS_prctl, &[option, argument], expected);
        };
        let filter = u64::from(libc::SECCOMP_MODE_FILTER);
        prctl(libc::PR_SET_SECCOMP, filter, none);
        prctl(libc::PR_SET_SECCOMP, 1, Ok(()));
        prctl(libc::PR_GET_SECCOMP, filter, Ok(()));
        prctl(libc::PR_SET_NO_NEW_PRIVS, 1, Ok(()));
    }

    #[test]
    fn the_limit_of_crash_dumps_is_read_and_not_set() {
        let limit = u64::from(CRASH_LIMIT);
        let (address, high_address) = (0x1000, 0x7f00 << 32);
        check_call(libc::SYS_setrlimit, &[limit | HIDDEN, address], IGNORED);
        for new in [address, high_address] {
            check_call(libc::SYS_prlimit64, &[0, limit | HIDDEN, new, 0], IGNORED);
        }
        check_call(libc::SYS_prlimit64, &[0, limit, 0, address], Ok(()));
        check_call(libc::SYS_getrlimit, &[limit, address], Ok(()));
        check_call(libc::SYS_setrlimit, &[limit + 3, address], Ok(()));
        check_call(libc::SYS_prlimit64, &[0, limit + 3, address, 0], Ok(()));
    }

    #[test]
    fn pages_of_files_are_not_put_out_of_memory() {
        let advise = |advice: libc::c_int, expected| {
            let advice = number(advice) | HIDDEN;
            check_call(libc::SYS_fadvise64, &[3, 0, 0, advice], expected);
        };
        advise(libc::POSIX_FADV_DONTNEED, IGNORED);
        advise(libc::POSIX_FADV_SEQUENTIAL, Ok(()));
        let advise = |advice: libc::c_int, expected| {
            let advice = number(advice) | HIDDEN;
            check_call(libc::SYS_madvise, &[0x1000, 0x1000, advice], expected);
        };
        advise(libc::MADV_PAGEOUT, Err(libc::EINVAL));
        advise(libc::MADV_MERGEABLE, Err(libc::EINVAL));
        advise(libc::MADV_DONTNEED, Ok(()));
        advise(libc::MADV_FREE, Ok(()));
    }

    #[test]
    fn sockets_have_no_keys() {
        let option = |level, option, expected| {
            let arguments = [9, number(level) | HIDDEN, number(option) | HIDDEN];
            check_call(libc::SYS_setsockopt, &arguments, expected);
        };
        for key in SOCKET_KEYS {
            option(libc::IPPROTO_TCP, key, Err(libc::ENOPROTOOPT));
            option(libc::IPPROTO_UDP, key, Ok(()));
        }
        option(libc::IPPROTO_TCP, libc::TCP_NODELAY, Ok(()));
    }
}
