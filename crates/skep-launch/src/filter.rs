//! The seccomp filter: system calls that the kernel answers inside.
//!
//! What is allowed is listed; the rest does not exist, so that programs fall back to what they
//! did before a call existed. Calls that everybody knows and that are not for a sandbox are
//! refused, and so are a few by their arguments. Sockets that reach past the network namespace
//! have no family.

mod allowed;
mod program;
mod shared;

use std::collections::BTreeMap;
use std::io;

use skep_linux::Instruction;

use crate::Privileges;
use program::{Answer, Branches, Decision};

type Decisions = BTreeMap<u32, Decision>;

/// Every kind of namespace, as a flag of `clone` or `unshare`.
const NEW_NAMESPACE: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// A namespace of clocks. Only `unshare` and `clone3` can make one: for `clone` it is a signal.
const NEW_TIME: libc::c_int = 0x80;

/// Execution domains that programs ask for: native, no address randomisation (debuggers), and
/// the question what the present one is.
const PERSONALITIES: [u32; 5] = [0, 0x0004_0000, 0x0008, 0x0002_0000, 0xffff_ffff];

/// Requests that nobody makes of a terminal but to harm: `TIOCSTI` and `TIOCLINUX` put characters
/// into its input, as if its user had typed them, and `TIOCSETD` loads a line discipline (modems,
/// radio, CAN), which are hardly used and have had a hole every other year.
const TERMINAL_REQUESTS: [u32; 3] = [0x5412, 0x541c, 0x5423];

/// Options of sockets whose value is a program, for what arrives or for who gets it.
const SOCKET_PROGRAMS: [libc::c_int; 2] = [libc::SO_ATTACH_FILTER, libc::SO_ATTACH_REUSEPORT_CBPF];

/// Options after which the kernel keeps copies of what was sent, until somebody asks for them: for
/// the time at which it left, and to say that its memory is free again. No cgroup counts them, and
/// of connections no list tells them. Who asks for them measures networks.
const SOCKET_COPIES: [libc::c_int; 3] = [
    libc::SO_TIMESTAMPING,
    SO_TIMESTAMPING_NEW,
    libc::SO_ZEROCOPY,
];
const SO_TIMESTAMPING_NEW: libc::c_int = 65;

/// Options of IPv6 that take kernel memory which is in nobody's account: memberships in groups,
/// for which it has no limit of numbers, and labels of flows, which the host has 4,096 of. A
/// sandbox has no link with IPv6, and so nobody to speak to in either way.
const IPV6_GROUPS_AND_LABELS: [libc::c_int; 6] = [
    libc::IPV6_ADD_MEMBERSHIP,
    IPV6_JOIN_ANYCAST,
    IPV6_FLOWLABEL_MGR,
    MCAST_JOIN_GROUP,
    MCAST_JOIN_SOURCE_GROUP,
    MCAST_MSFILTER,
];
const IPV6_JOIN_ANYCAST: libc::c_int = 27;
const IPV6_FLOWLABEL_MGR: libc::c_int = 32;
const MCAST_JOIN_GROUP: libc::c_int = 42;
const MCAST_JOIN_SOURCE_GROUP: libc::c_int = 46;
const MCAST_MSFILTER: libc::c_int = 48;

/// Requests to sockets that load a module before anybody asks who makes them: for bridges
/// (`SIOCGIFBR`, `SIOCSIFBR`, `SIOCBRADDBR`, `SIOCBRDELBR`), for VLANs (`SIOCGIFVLAN`, `SIOCSIFVLAN`)
/// and for frame relay (`SIOCADDDLCI`, `SIOCDELDLCI`).
const MODULE_REQUESTS: [u32; 8] = [
    0x8940, 0x8941, 0x89a0, 0x89a1, 0x8982, 0x8983, 0x8980, 0x8981,
];

/// The bits of a socket's type that are not flags: the kernel looks at no others.
const SOCKET_TYPE: u32 = 0xf;

/// Streams, datagrams and raw packets. With other types the kernel chooses a family or protocol
/// of its own that nobody named: `SOCK_PACKET` is a packet socket, `SOCK_SEQPACKET` is SCTP.
const INTERNET_TYPES: [libc::c_int; 3] = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW];
/// Sockets between processes of one sandbox keep messages apart, too.
const LOCAL_TYPES: [libc::c_int; 4] = [
    libc::SOCK_STREAM,
    libc::SOCK_DGRAM,
    libc::SOCK_RAW,
    libc::SOCK_SEQPACKET,
];
const ROUTE_TYPES: [libc::c_int; 2] = [libc::SOCK_DGRAM, libc::SOCK_RAW];

/// Rare protocols are loaded as modules on request of anybody, bugs included.
const INTERNET_PROTOCOLS: [libc::c_int; 6] = [
    0,
    libc::IPPROTO_ICMP,
    libc::IPPROTO_TCP,
    libc::IPPROTO_UDP,
    libc::IPPROTO_ICMPV6,
    libc::IPPROTO_RAW,
];

/// Number of filters that everything the launcher starts is under.
pub const FILTERS: usize = 1;

/// The filter that makes those of a process that may enter namespaces the ones of a sandbox, as
/// the kernel takes it, for whoever has entered one: it refuses what only the former may call,
/// and any further filter.
///
/// # Errors
///
/// If there is none for this architecture.
pub fn filter_after_entering() -> Result<Vec<u8>, io::Error> {
    let entering = decisions(Privileges::Enter)?;
    let mut others = decisions(Privileges::Sandbox)?;
    others.retain(|call, decision| entering.get(call) != Some(decision));
    let filter = program::compile(&others, Answer::Allowed)?;
    let bytes = |instruction: &Instruction| {
        let [low, high] = instruction.code.to_ne_bytes();
        let [a, b, c, d] = instruction.operand.to_ne_bytes();
        let (jump_true, jump_false) = (instruction.jump_true, instruction.jump_false);
        [low, high, jump_true, jump_false, a, b, c, d]
    };
    Ok(filter.iter().flat_map(bytes).collect())
}

/// System calls that every confined process needs: on its memory, its signals and its end.
const CALLS_OF_ALL: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// A filter under which there are only these calls and those of all, and that makes files in a directory: no device
/// but the mark of a removed file.
pub(crate) fn filter_of_file_calls(calls: &[i64]) -> Result<Vec<Instruction>, io::Error> {
    let mark = Decision::OneOf(3, vec![0], Branches::new(Answer::Allowed, Answer::Refused));
    filter_of_calls(calls, [(libc::SYS_mknodat, mark)])
}

/// A filter under which there are only these calls and those of all, and messages are sent to sockets that are
/// connected already: with this flag, a call that sends is one that connects.
pub(crate) fn filter_of_socket_calls(calls: &[i64]) -> Result<Vec<Instruction>, io::Error> {
    let unconnected = |argument: u8| {
        let branches = Branches::new(Answer::Refused, Answer::Allowed);
        Decision::AnyBit(argument, libc::MSG_FASTOPEN.cast_unsigned(), branches)
    };
    let by_arguments = [
        (libc::SYS_sendto, unconnected(3)),
        (libc::SYS_sendmsg, unconnected(2)),
    ];
    filter_of_calls(calls, by_arguments)
}

fn filter_of_calls(
    calls: &[i64],
    by_arguments: impl IntoIterator<Item = (i64, Decision)>,
) -> Result<Vec<Instruction>, io::Error> {
    let allowed = calls
        .iter()
        .chain(CALLS_OF_ALL)
        .map(|call| (*call, Answer::Allowed.into()));
    let decisions = numbered(allowed.chain(by_arguments))?;
    program::compile(&decisions, Answer::Unknown)
}

/// The filter, compiled.
pub(crate) fn filter(privileges: Privileges) -> Result<Vec<Instruction>, io::Error> {
    program::compile(&decisions(privileges)?, Answer::Unknown)
}

/// Returns the system calls that are free only for processes that enter other namespaces: they put
/// their forks under [`filter_after_entering`].
fn entering(privileges: Privileges) -> &'static [i64] {
    match privileges {
        Privileges::Build | Privileges::Sandbox => &[],
        Privileges::Enter => &[libc::SYS_setns, libc::SYS_prctl, libc::SYS_seccomp],
    }
}

fn decisions(privileges: Privileges) -> io::Result<Decisions> {
    let refused = allowed::REFUSED
        .iter()
        .map(|call| (*call, Answer::Refused.into()));
    let allow = |call: &i64| (*call, Answer::Allowed.into());
    let allowed = allowed::CALLS
        .iter()
        .chain(allowed::CALLS_OF_THIS_ARCHITECTURE)
        .map(allow);
    let mut decisions = numbered(refused.chain(allowed).chain(by_arguments()))?;
    shared::add_exceptions(&mut decisions)?;
    decisions.extend(numbered(entering(privileges).iter().map(allow))?);
    Ok(decisions)
}

/// Numbers the calls. Of two decisions about a call the later one holds.
fn numbered(decisions: impl Iterator<Item = (i64, Decision)>) -> io::Result<Decisions> {
    decisions
        .map(|(call, decision)| Ok((u32::try_from(call).map_err(io::Error::other)?, decision)))
        .collect()
}

/// Calls of which only some are allowed.
fn by_arguments() -> [(i64, Decision); 11] {
    let refused_with = |flags: libc::c_int| {
        let branches = Branches::new(Answer::Refused, Answer::Allowed);
        Decision::AnyBit(0, flags.cast_unsigned(), branches)
    };
    // Huge pages are set aside by the operator, for somebody. No memory limit counts them, and
    // the controller that does is mounted on few hosts. Programs hear what they hear on a
    // host that has none set aside, and take ordinary ones.
    let no_huge_pages = |argument: u8, flag: u32| {
        let branches = Branches::new(Answer::NoMemory, Answer::Allowed);
        Decision::AnyBit(argument, flag, branches)
    };
    [
        (
            libc::SYS_mmap,
            no_huge_pages(3, libc::MAP_HUGETLB.cast_unsigned()),
        ),
        (libc::SYS_memfd_create, no_huge_pages(1, libc::MFD_HUGETLB)),
        (
            libc::SYS_shmget,
            no_huge_pages(2, libc::SHM_HUGETLB.cast_unsigned()),
        ),
        (libc::SYS_clone, refused_with(NEW_NAMESPACE)),
        (libc::SYS_unshare, refused_with(NEW_NAMESPACE | NEW_TIME)),
        (
            libc::SYS_personality,
            Decision::OneOf(
                0,
                PERSONALITIES.to_vec(),
                Branches::new(Answer::Allowed, Answer::Refused),
            ),
        ),
        (
            libc::SYS_ioctl,
            Decision::OneOf(
                1,
                [&TERMINAL_REQUESTS[..], &MODULE_REQUESTS].concat(),
                Branches::new(Answer::Refused, Answer::Allowed),
            ),
        ),
        (libc::SYS_prlimit64, limits()),
        (libc::SYS_setsockopt, socket_options()),
        (libc::SYS_socket, sockets()),
        (libc::SYS_socketpair, local_sockets(Answer::NoFamily.into())),
    ]
}

/// A process may look at anybody's limits and change its own. By changing others' root inside
/// would take files, memory and time from the first process, which could not take them back. That
/// is meant by its number and by those of its threads, so it cannot be told from others; and
/// whoever gives its own number instead of zero is refused with the rest.
fn limits() -> Decision {
    let looks = Decision::Null(2, Branches::new(Answer::Allowed, Answer::Refused));
    Decision::OneOf(0, vec![0], Branches::new(Answer::Allowed, looks))
}

fn sockets() -> Decision {
    let protocol = |protocols: &[libc::c_int]| {
        let branches = Branches::new(Answer::Allowed, Answer::NoFamily);
        Decision::OneOf(2, numbers(protocols), branches)
    };
    let route = of_type(&ROUTE_TYPES, protocol(&[libc::NETLINK_ROUTE]));
    let netlink = family(&[libc::AF_NETLINK], route, Answer::NoFamily.into());
    let internet = of_type(&INTERNET_TYPES, protocol(&INTERNET_PROTOCOLS));
    let others = local_sockets(netlink);
    family(&[libc::AF_INET, libc::AF_INET6], internet, others)
}

/// All but what takes memory of the kernel in nobody's account. Programs that it is to run for a
/// socket are translated into memory that is limited for the host as a whole
/// (`net.core.bpf_jit_limit`). A filter of system calls takes of the same, so no sandbox starts
/// when that is used up.
fn socket_options() -> Decision {
    let all_but = |options: &[libc::c_int]| {
        let branches = Branches::new(Answer::Refused, Answer::Allowed);
        Decision::OneOf(2, numbers(options), branches)
    };
    let level = |level, yes, no: Decision| {
        let branches = Branches::new(yes, no);
        Decision::OneOf(1, numbers(&[level]), branches)
    };
    let ipv6 = all_but(&IPV6_GROUPS_AND_LABELS);
    let others = level(libc::IPPROTO_IPV6, ipv6, Answer::Allowed.into());
    let any = all_but(&[&SOCKET_PROGRAMS[..], &SOCKET_COPIES].concat());
    level(libc::SOL_SOCKET, any, others)
}

/// Returns the decision about sockets between processes of one sandbox, with `others` for the rest.
fn local_sockets(others: Decision) -> Decision {
    let local = of_type(&LOCAL_TYPES, Answer::Allowed.into());
    family(&[libc::AF_UNIX], local, others)
}

fn family(families: &[libc::c_int], yes: Decision, no: Decision) -> Decision {
    Decision::OneOf(0, numbers(families), Branches::new(yes, no))
}

fn of_type(types: &[libc::c_int], yes: Decision) -> Decision {
    let branches = Branches::new(yes, Answer::NoFamily);
    Decision::OneOfBits(1, SOCKET_TYPE, numbers(types), branches)
}

fn numbers(values: &[libc::c_int]) -> Vec<u32> {
    values.iter().map(|value| value.cast_unsigned()).collect()
}

#[cfg(test)]
mod tests {
    use super::program::tests::{Call, check, run};
    use super::*;

    /// Checks the answer of a sandbox's filter to a call: the number of an error, or zero if
    /// nothing is done and the caller not told.
    #[track_caller]
    pub(super) fn check_call(call: i64, arguments: &[u64], expected: Result<(), libc::c_int>) {
        let filter = filter(Privileges::Sandbox).unwrap();
        let answer = run(&filter, Call::new(call, arguments));
        let expected = match expected {
            Ok(()) => libc::SECCOMP_RET_ALLOW,
            Err(code) => libc::SECCOMP_RET_ERRNO | code.cast_unsigned(),
        };
        assert_eq!(answer, expected, "{call} {arguments:x?}");
    }

    pub(super) fn number(value: libc::c_int) -> u64 {
        u64::from(value.cast_unsigned())
    }

    #[test]
    fn the_filter_does_what_was_decided_and_is_short() {
        for privileges in [Privileges::Sandbox, Privileges::Build, Privileges::Enter] {
            check(&decisions(privileges).unwrap(), Answer::Unknown);
            let length = filter(privileges).unwrap().len();
            assert!(length < 400, "{length} instructions");
        }
    }

    #[test]
    fn who_only_passes_on_sends_to_sockets_that_are_connected() {
        let filter = filter_of_socket_calls(&[libc::SYS_read]).unwrap();
        let answer = |call, arguments: &[u64]| run(&filter, Call::new(call, arguments));
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
        for (call, before) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2)] {
            let with = |flags: libc::c_int| [vec![0; before], vec![number(flags)]].concat();
            let plain = with(libc::MSG_NOSIGNAL);
            assert_eq!(answer(call, &plain), libc::SECCOMP_RET_ALLOW);
            assert_eq!(answer(call, &with(libc::MSG_FASTOPEN)), refused);
        }
        for call in [libc::SYS_connect, libc::SYS_setsockopt, libc::SYS_mknodat] {
            assert_ne!(answer(call, &[]), libc::SECCOMP_RET_ALLOW, "{call}");
        }
    }

    #[test]
    fn calls_are_allowed_refused_or_unknown() {
        check_call(libc::SYS_read, &[], Ok(()));
        check_call(libc::SYS_mount, &[], Err(libc::EPERM));
        check_call(libc::SYS_clone3, &[], Err(libc::ENOSYS));
        check_call(libc::SYS_io_uring_setup, &[], Err(libc::ENOSYS));
        check_call(1 << 30, &[], Err(libc::ENOSYS));
    }

    #[test]
    fn namespaces_are_refused_and_threads_are_not() {
        check_call(libc::SYS_clone, &[number(libc::CLONE_VM | 17)], Ok(()));
        check_call(libc::SYS_clone, &[number(NEW_TIME)], Ok(()));
        check_call(libc::SYS_unshare, &[number(NEW_TIME)], Err(libc::EPERM));
        for kind in [
            libc::CLONE_NEWNS,
            libc::CLONE_NEWCGROUP,
            libc::CLONE_NEWUTS,
            libc::CLONE_NEWIPC,
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWPID,
            libc::CLONE_NEWNET,
        ] {
            for call in [libc::SYS_clone, libc::SYS_unshare] {
                let flags = number(kind | libc::CLONE_FS);
                check_call(call, &[flags], Err(libc::EPERM));
                check_call(call, &[flags | 1 << 40], Err(libc::EPERM));
            }
        }
    }

    #[test]
    fn sockets_have_the_families_and_protocols_of_a_sandbox() {
        let socket = |family, protocol, expected| {
            let kind = match family {
                libc::AF_NETLINK => libc::SOCK_RAW,
                _ => libc::SOCK_STREAM,
            };
            let arguments = [number(family), number(kind), number(protocol)];
            check_call(libc::SYS_socket, &arguments, expected);
        };
        let none = Err(libc::EAFNOSUPPORT);
        socket(libc::AF_UNIX, 0, Ok(()));
        socket(libc::AF_INET, libc::IPPROTO_TCP, Ok(()));
        socket(libc::AF_INET6, libc::IPPROTO_ICMPV6, Ok(()));
        socket(libc::AF_INET, libc::IPPROTO_SCTP, none);
        socket(libc::AF_INET6, libc::IPPROTO_SCTP, none);
        socket(libc::AF_NETLINK, libc::NETLINK_ROUTE, Ok(()));
        socket(libc::AF_NETLINK, libc::NETLINK_AUDIT, none);
        socket(libc::AF_VSOCK, 0, none);
        socket(libc::AF_PACKET, 0, none);
    }

    #[test]
    fn sockets_have_the_types_of_a_sandbox_whatever_their_flags() {
        const SOCK_DCCP: libc::c_int = 6;
        const SOCK_PACKET: libc::c_int = 10;
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let none = Err(libc::EAFNOSUPPORT);
        let check = |call, family, kind, expected| {
            for kind in [number(kind), number(kind | flags)] {
                check_call(call, &[number(family), kind, 0], expected);
                check_call(call, &[number(family), kind | 1 << 40, 0], expected);
            }
        };
        for family in [libc::AF_INET, libc::AF_INET6] {
            for kind in INTERNET_TYPES {
                check(libc::SYS_socket, family, kind, Ok(()));
                check(libc::SYS_socketpair, family, kind, none);
            }
            for kind in [libc::SOCK_SEQPACKET, SOCK_DCCP, SOCK_PACKET, 0, 15] {
                check(libc::SYS_socket, family, kind, none);
            }
        }
        for kind in LOCAL_TYPES {
            check(libc::SYS_socket, libc::AF_UNIX, kind, Ok(()));
            check(libc::SYS_socketpair, libc::AF_UNIX, kind, Ok(()));
        }
        check(libc::SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW, Ok(()));
        for family in [libc::AF_NETLINK, libc::AF_TIPC, libc::AF_PACKET] {
            check(libc::SYS_socketpair, family, libc::SOCK_DGRAM, none);
        }
    }

    #[test]
    fn sockets_have_options_and_nothing_that_no_cgroup_counts() {
        let option = |level, option, expected| {
            let arguments = [9, number(level), number(option) | 1 << 40];
            check_call(libc::SYS_setsockopt, &arguments, expected);
        };
        option(libc::SOL_SOCKET, libc::SO_REUSEADDR, Ok(()));
        option(libc::IPPROTO_TCP, libc::SO_ATTACH_FILTER, Ok(()));
        for refused in SOCKET_PROGRAMS.into_iter().chain(SOCKET_COPIES) {
            option(libc::SOL_SOCKET, refused, Err(libc::EPERM));
        }
        option(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, Ok(()));
        for refused in IPV6_GROUPS_AND_LABELS {
            option(libc::IPPROTO_IPV6, refused, Err(libc::EPERM));
        }
        // The sandbox's network limits those of a socket.
        option(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, Ok(()));
    }

    #[test]
    fn limits_of_others_are_looked_at_and_not_changed() {
        let (own, other, nothing, somewhere) = (0, 1, 0, 0x7fff_1234_5678);
        let limit = |process: u64, new: u64, expected| {
            check_call(libc::SYS_prlimit64, &[process, 7, new, somewhere], expected);
        };
        limit(own, somewhere, Ok(()));
        limit(own | 1 << 32, somewhere, Ok(()));
        limit(own, nothing, Ok(()));
        limit(other, nothing, Ok(()));
        limit(other, somewhere, Err(libc::EPERM));
        // Memory whose address ends with 32 zeros can be had.
        limit(other, 1 << 32, Err(libc::EPERM));
        limit(other, 1, Err(libc::EPERM));
    }

    #[test]
    fn huge_pages_are_out_of_memory_and_others_are_not() {
        let hidden = 1 << 40;
        let huge = number(libc::MAP_HUGETLB | libc::MAP_ANONYMOUS) | hidden;
        check_call(libc::SYS_mmap, &[0, 0, 0, huge], Err(libc::ENOMEM));
        let ordinary = number(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        check_call(libc::SYS_mmap, &[0, 0, 0, ordinary], Ok(()));
        let huge = u64::from(libc::MFD_HUGETLB | libc::MFD_CLOEXEC);
        check_call(libc::SYS_memfd_create, &[0, huge], Err(libc::ENOMEM));
        let ordinary = u64::from(libc::MFD_CLOEXEC);
        check_call(libc::SYS_memfd_create, &[0, ordinary], Ok(()));
        let huge = number(libc::SHM_HUGETLB | libc::IPC_CREAT);
        check_call(libc::SYS_shmget, &[0, 0, huge], Err(libc::ENOMEM));
        check_call(libc::SYS_shmget, &[0, 0, number(libc::IPC_CREAT)], Ok(()));
    }

    #[test]
    fn other_arguments_that_harm_are_refused() {
        check_call(libc::SYS_personality, &[0xffff_ffff], Ok(()));
        check_call(libc::SYS_personality, &[0x0400_0000], Err(libc::EPERM));
        check_call(libc::SYS_ioctl, &[0, libc::TIOCSTI], Err(libc::EPERM));
        check_call(libc::SYS_ioctl, &[0, libc::TIOCLINUX], Err(libc::EPERM));
        let line_discipline = [0, libc::TIOCSETD | 1 << 40];
        check_call(libc::SYS_ioctl, &line_discipline, Err(libc::EPERM));
        check_call(libc::SYS_ioctl, &[0, libc::TIOCGWINSZ], Ok(()));
        check_call(libc::SYS_ioctl, &[3, libc::SIOCGIFCONF], Ok(()));
        for request in MODULE_REQUESTS.map(u64::from) {
            check_call(libc::SYS_ioctl, &[3, request | 1 << 40], Err(libc::EPERM));
        }
    }

    #[test]
    fn nothing_is_both_allowed_and_refused() {
        let both: Vec<_> = allowed::REFUSED
            .iter()
            .filter(|call| allowed::CALLS.contains(call))
            .collect();
        assert!(both.is_empty(), "{both:?}");
    }

    #[test]
    fn entering_takes_three_calls_more_than_a_sandbox_has() {
        let sandbox = decisions(Privileges::Sandbox).unwrap();
        let mut entering = decisions(Privileges::Enter).unwrap();
        entering.retain(|call, decision| sandbox.get(call) != Some(decision));
        let more = [libc::SYS_setns, libc::SYS_prctl, libc::SYS_seccomp];
        let more = numbered(more.map(|call| (call, Answer::Allowed.into())).into_iter());
        assert_eq!(entering, more.unwrap());
    }

    #[test]
    fn whoever_has_entered_is_under_what_a_sandbox_is_under() {
        let after: Vec<_> = filter_after_entering()
            .unwrap()
            .chunks_exact(8)
            .map(|bytes| Instruction {
                code: u16::from_ne_bytes(bytes[..2].try_into().unwrap()),
                jump_true: bytes[2],
                jump_false: bytes[3],
                operand: u32::from_ne_bytes(bytes[4..].try_into().unwrap()),
            })
            .collect();
        let sandbox = filter(Privileges::Sandbox).unwrap();
        let entering = filter(Privileges::Enter).unwrap();
        let (mode, install) = (
            u64::from(libc::SECCOMP_MODE_FILTER),
            u64::from(libc::SECCOMP_SET_MODE_FILTER),
        );
        for (call, arguments) in [
            (libc::SYS_setns, [7, 0]),
            (libc::SYS_prctl, [number(libc::PR_SET_SECCOMP), mode]),
            (libc::SYS_prctl, [number(libc::PR_SET_NAME), 7]),
            (libc::SYS_read, [0, 7]),
            (libc::SYS_seccomp, [install, 0]),
        ] {
            let call = Call::new(call, &arguments);
            // The kernel does what the strictest of several filters says.
            let strictest = match run(&entering, call) {
                libc::SECCOMP_RET_ALLOW => run(&after, call),
                refused => refused,
            };
            assert_eq!(strictest, run(&sandbox, call), "{call:x?}");
        }
    }

    #[test]
    fn what_the_kernel_is_attacked_through_is_not_allowed() {
        // Tells which pages of a file are in memory, and so what neighbours read of a template
        // they share. `libc` does not have its number on every architecture.
        const SYS_CACHESTAT: i64 = 451;
        let filter = filter(Privileges::Sandbox).unwrap();
        for call in [
            SYS_CACHESTAT,
            libc::SYS_mincore,
            libc::SYS_process_madvise,
            libc::SYS_get_mempolicy,
            libc::SYS_io_setup,
            libc::SYS_io_submit,
            libc::SYS_bpf,
            libc::SYS_io_uring_setup,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_mount,
            libc::SYS_fsopen,
            libc::SYS_open_tree,
            libc::SYS_setns,
            libc::SYS_clone3,
            libc::SYS_kexec_load,
            libc::SYS_init_module,
            libc::SYS_open_by_handle_at,
        ] {
            let answer = run(&filter, Call::new(call, &[]));
            assert_ne!(answer, libc::SECCOMP_RET_ALLOW, "{call}");
        }
    }
}
