//! Which system calls the kernel answers inside.
//!
//! Three filters are stacked, because one has one answer. The first knows what is allowed and
//! says "no such call" to the rest, so that programs fall back to what they did before the
//! call existed. The second refuses calls that everybody knows and that are not for a sandbox.
//! The third says "no such family" to sockets that reach past the network namespace.
//! The strictest answer wins, and of two errors the one installed last.

mod allowed;

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use skep_linux::Instruction;

use crate::Privileges;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Every kind of namespace, as a flag of `clone` or `unshare`.
const NEW_NAMESPACE: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// A namespace of clocks. Only `unshare` and `clone3` can make one: for `clone` it is a signal.
const NEW_TIME: libc::c_int = 0x80;

/// Execution domains that programs ask for: native, no address randomisation (debuggers), and
/// the question what the present one is.
const PERSONALITIES: [u32; 5] = [0, 0x0004_0000, 0x0008, 0x0002_0000, 0xffff_ffff];

/// How many filters everything that the launcher starts is under.
pub const FILTERS: usize = 3;

/// The filter that makes those of a process that may enter namespaces the ones of a sandbox, as
/// the kernel takes it, for whoever has entered one: it refuses what only the former may call.
///
/// # Errors
///
/// If there is none for this architecture.
pub fn filter_after_entering() -> Result<Vec<u8>, io::Error> {
    let calls = entering(Privileges::Enter).iter();
    let rules = calls.map(|call| (*call, Vec::new())).collect();
    let filter = compile(rules, SeccompAction::Allow, refused())?;
    let bytes = |instruction: &Instruction| {
        let [low, high] = instruction.code.to_ne_bytes();
        let [a, b, c, d] = instruction.operand.to_ne_bytes();
        let (jump_true, jump_false) = (instruction.jump_true, instruction.jump_false);
        [low, high, jump_true, jump_false, a, b, c, d]
    };
    Ok(filter.iter().flat_map(bytes).collect())
}

/// The filters, compiled, in the order in which they are installed.
pub(crate) fn filters(privileges: Privileges) -> Result<[Vec<Instruction>; FILTERS], io::Error> {
    let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let no_family = SeccompAction::Errno(libc::EAFNOSUPPORT.cast_unsigned());
    Ok([
        compile(allowed_calls(privileges), unknown, SeccompAction::Allow)?,
        compile(refused_calls(privileges)?, SeccompAction::Allow, refused())?,
        compile(refused_sockets()?, SeccompAction::Allow, no_family)?,
    ])
}

fn refused() -> SeccompAction {
    SeccompAction::Errno(libc::EPERM.cast_unsigned())
}

fn compile(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> io::Result<Vec<Instruction>> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter =
        SeccompFilter::new(rules, otherwise, matched, architecture).map_err(io::Error::other)?;
    let program = BpfProgram::try_from(filter).map_err(io::Error::other)?;
    Ok(program
        .iter()
        .map(|instruction| Instruction {
            code: instruction.code,
            jump_true: instruction.jt,
            jump_false: instruction.jf,
            operand: instruction.k,
        })
        .collect())
}

/// What only those may call who enter other namespaces.
fn entering(privileges: Privileges) -> &'static [i64] {
    match privileges {
        Privileges::Build | Privileges::Sandbox => &[],
        Privileges::Enter => &[libc::SYS_setns],
    }
}

fn allowed_calls(privileges: Privileges) -> Rules {
    allowed::CALLS
        .iter()
        .chain(allowed::CALLS_OF_THIS_ARCHITECTURE)
        .chain(entering(privileges))
        .map(|call| (*call, Vec::new()))
        .collect()
}

fn refused_calls(privileges: Privileges) -> io::Result<Rules> {
    let mut rules: Rules = allowed::REFUSED
        .iter()
        .filter(|call| !entering(privileges).contains(call))
        .map(|call| (*call, Vec::new()))
        .collect();

    let new_namespace = NEW_NAMESPACE
        .iter()
        .map(|flag| all(&[has_flag(0, *flag)?]))
        .collect::<io::Result<Vec<_>>>()?;
    let mut unshared = new_namespace.clone();
    unshared.push(all(&[has_flag(0, NEW_TIME)?])?);
    rules.insert(libc::SYS_clone, new_namespace);
    rules.insert(libc::SYS_unshare, unshared);

    let unknown_personality = PERSONALITIES
        .iter()
        .map(|personality| is_not(0, *personality))
        .collect::<io::Result<Vec<_>>>()?;
    rules.insert(libc::SYS_personality, vec![all(&unknown_personality)?]);

    // Both put characters into the input of a terminal, as if its user had typed them.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX]
        .iter()
        .map(|request| all(&[is(1, u32::try_from(*request).map_err(io::Error::other)?)?]))
        .collect::<io::Result<Vec<_>>>()?;
    rules.insert(libc::SYS_ioctl, typing);
    Ok(rules)
}

fn refused_sockets() -> io::Result<Rules> {
    let family = |family: libc::c_int| is(0, family.cast_unsigned());
    let no_known_family = [
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
    ]
    .iter()
    .map(|family| is_not(0, family.cast_unsigned()))
    .collect::<io::Result<Vec<_>>>()?;
    // Rare protocols are loaded as modules on request of anybody, bugs included.
    let rare = |protocols: &[libc::c_int]| {
        protocols
            .iter()
            .map(|protocol| is_not(2, protocol.cast_unsigned()))
            .collect::<io::Result<Vec<_>>>()
    };
    let internet = [
        0,
        libc::IPPROTO_ICMP,
        libc::IPPROTO_TCP,
        libc::IPPROTO_UDP,
        libc::IPPROTO_ICMPV6,
        libc::IPPROTO_RAW,
    ];
    let with = |first: SeccompCondition, mut rest: Vec<SeccompCondition>| {
        rest.push(first);
        all(&rest)
    };
    Ok(BTreeMap::from([(
        libc::SYS_socket,
        vec![
            all(&no_known_family)?,
            with(family(libc::AF_INET)?, rare(&internet)?)?,
            with(family(libc::AF_INET6)?, rare(&internet)?)?,
            with(family(libc::AF_NETLINK)?, rare(&[libc::NETLINK_ROUTE])?)?,
        ],
    )]))
}

/// A rule that holds when all its conditions do.
fn all(conditions: &[SeccompCondition]) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions.to_vec()).map_err(io::Error::other)
}

fn has_flag(argument: u8, flag: libc::c_int) -> io::Result<SeccompCondition> {
    let flag = u64::from(flag.cast_unsigned());
    condition(argument, SeccompCmpOp::MaskedEq(flag), flag)
}

fn is(argument: u8, value: u32) -> io::Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::Eq, u64::from(value))
}

fn is_not(argument: u8, value: u32) -> io::Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::Ne, u64::from(value))
}

/// The kernel reads all of these arguments as 32 bits, so the filter does, too: otherwise a
/// caller could hide a value behind bits that the kernel ignores.
fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile_and_fit_into_the_kernels_limit() {
        let filters = filters(Privileges::Sandbox).unwrap();
        assert_eq!(filters.len(), 3);
        assert!(filters.iter().all(|filter| filter.len() < 4096));
    }

    #[test]
    fn nothing_is_both_allowed_and_refused() {
        let allowed = allowed_calls(Privileges::Sandbox);
        let both: Vec<_> = allowed::REFUSED
            .iter()
            .filter(|call| allowed.contains_key(call))
            .collect();
        assert!(both.is_empty(), "{both:?}");
    }

    #[test]
    fn entering_takes_one_call_more_than_a_sandbox_has() {
        let calls = |rules: Rules| rules.into_keys().collect::<Vec<_>>();
        let mut more = calls(allowed_calls(Privileges::Enter));
        more.retain(|call| !allowed_calls(Privileges::Sandbox).contains_key(call));
        assert_eq!(more, [libc::SYS_setns]);
        let mut less = calls(refused_calls(Privileges::Sandbox).unwrap());
        let entering = refused_calls(Privileges::Enter).unwrap();
        less.retain(|call| !entering.contains_key(call));
        assert_eq!(less, [libc::SYS_setns]);
        // And exactly that is refused to whoever has entered.
        assert_eq!(super::entering(Privileges::Enter), more);
    }

    #[test]
    fn what_the_kernel_is_attacked_through_is_not_allowed() {
        // Tells which pages of a file are in memory, and so what neighbours read of a template
        // they share. `libc` does not have its number on every architecture.
        const SYS_CACHESTAT: i64 = 451;
        let allowed = allowed_calls(Privileges::Sandbox);
        for call in [
            SYS_CACHESTAT,
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
            assert!(!allowed.contains_key(&call), "{call}");
        }
    }
}
