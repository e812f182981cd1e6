//! Compilation of decisions about system calls into one BPF program.
//!
//! The kernel runs the program at every call, and translates it whenever it is installed, so it
//! is short: a search by halves finds the range of numbers that a call is in, and only the few
//! calls whose arguments matter have more than an answer there.

use std::collections::BTreeMap;
use std::io;

use skep_linux::Instruction;

/// Architecture whose calls a program decides about, as the kernel names it.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Offsets in the input of a program: `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;

/// Answers of the kernel to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The call is carried out.
    Allowed,
    /// "No such call", so that programs fall back to what they did before it existed.
    Unknown,
    /// "Not permitted": `EPERM`.
    Refused,
    /// "No such family of addresses".
    NoFamily,
    /// "Out of memory".
    NoMemory,
    /// "No such option of a socket".
    NoOption,
    /// "Invalid argument", which is what kernels say that do not know what is asked for.
    Invalid,
    /// Nothing is done, and the caller is told that it was.
    Ignored,
}

/// A decision about a call.
///
/// The kernel reads the arguments that are compared with values as 32 bits, so a program does,
/// too: otherwise a caller could hide a value behind bits that the kernel ignores. A pointer it
/// reads as a whole: one whose lower half is zero is not null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    Answer(Answer),
    /// True if an argument has one of these bits.
    AnyBit(u8, u32, Branches),
    /// True if an argument is one of these values.
    OneOf(u8, Vec<u32>, Branches),
    /// True if these bits of an argument are one of these values.
    OneOfBits(u8, u32, Vec<u32>, Branches),
    /// True if an argument is a null pointer.
    Null(u8, Branches),
}

/// Decisions that follow if a condition holds, and if it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branches {
    pub(super) yes: Box<Decision>,
    pub(super) no: Box<Decision>,
}

impl Branches {
    pub(super) fn new(yes: impl Into<Decision>, no: impl Into<Decision>) -> Self {
        Self {
            yes: Box::new(yes.into()),
            no: Box::new(no.into()),
        }
    }
}

impl From<Answer> for Decision {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// The program that decides about every call, with one answer to calls that are not in
/// `decisions`.
///
/// A call by the rules of another architecture, which has other numbers, ends the process.
pub(super) fn compile(
    decisions: &BTreeMap<u32, Decision>,
    otherwise: Answer,
) -> io::Result<Vec<Instruction>> {
    let ranges = ranges(decisions, &otherwise.into())
        .into_iter()
        .map(|(first, decision)| Ok((first, decide(&decision)?)))
        .collect::<io::Result<Vec<_>>>()?;
    let mut program = vec![
        load(ARCHITECTURE_AT),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        answer_with(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
    ];
    program.extend(search(&ranges)?);
    Ok(program)
}

/// Neighbouring numbers with the same decision are one range, named by its first number.
fn ranges(decisions: &BTreeMap<u32, Decision>, otherwise: &Decision) -> Vec<(u32, Decision)> {
    let mut ranges = vec![(0, otherwise.clone())];
    let mut add = |first: u32, decision: &Decision| match ranges.last_mut() {
        Some((_, last)) if last == decision => {}
        Some((start, last)) if *start == first => *last = decision.clone(),
        _ => ranges.push((first, decision.clone())),
    };
    for (number, decision) in decisions {
        add(*number, decision);
        if let Some(next) = number.checked_add(1)
            && !decisions.contains_key(&next)
        {
            add(next, otherwise);
        }
    }
    ranges
}

/// Finds the range that the number is in.
fn search(ranges: &[(u32, Vec<Instruction>)]) -> io::Result<Vec<Instruction>> {
    if let [(_, only)] = ranges {
        return Ok(only.clone());
    }
    let (lower, upper) = ranges.split_at(ranges.len() / 2);
    let (first_upper, _) = upper.first().ok_or(rustix::io::Errno::INVAL)?;
    let (lower, upper) = (search(lower)?, search(upper)?);
    let mut program = match u8::try_from(lower.len()) {
        Ok(over) => vec![jump(libc::BPF_JGE, *first_upper, over, 0)],
        Err(_) => {
            let over = u32::try_from(lower.len()).map_err(io::Error::other)?;
            vec![
                jump(libc::BPF_JGE, *first_upper, 0, 1),
                jump(libc::BPF_JA, over, 0, 0),
            ]
        }
    };
    program.extend(lower);
    program.extend(upper);
    Ok(program)
}

fn decide(decision: &Decision) -> io::Result<Vec<Instruction>> {
    let (argument, mask, operation, values, branches) = match decision {
        Decision::Answer(answer) => return Ok(vec![answer_with(returned(*answer))]),
        Decision::AnyBit(argument, bits, branches) => (
            *argument,
            None,
            libc::BPF_JSET,
            std::slice::from_ref(bits),
            branches,
        ),
        Decision::OneOf(argument, values, branches) => {
            (*argument, None, libc::BPF_JEQ, values.as_slice(), branches)
        }
        Decision::OneOfBits(argument, mask, values, branches) => {
            let mask = Some(*mask);
            (*argument, mask, libc::BPF_JEQ, values.as_slice(), branches)
        }
        Decision::Null(argument, branches) => return decide_null(*argument, branches),
    };
    let (yes, no) = (decide(&branches.yes)?, decide(&branches.no)?);
    let mut program = vec![load(FIRST_ARGUMENT + ARGUMENT_BYTES * u32::from(argument))];
    program.extend(mask.map(keep_bits));
    for (index, value) in values.iter().enumerate() {
        // Over the comparisons that are left, and over what follows if none of them holds.
        let over = values.len() - index - 1 + no.len();
        let over = u8::try_from(over).map_err(io::Error::other)?;
        program.push(jump(operation, *value, over, 0));
    }
    program.extend(no);
    program.extend(yes);
    Ok(program)
}

/// Both halves must be zero; the lower one comes first on every host that we run on.
fn decide_null(argument: u8, branches: &Branches) -> io::Result<Vec<Instruction>> {
    let (yes, no) = (decide(&branches.yes)?, decide(&branches.no)?);
    let lower = FIRST_ARGUMENT + ARGUMENT_BYTES * u32::from(argument);
    let over = u8::try_from(no.len()).map_err(io::Error::other)?;
    let mut program = vec![
        load(lower),
        // If it is not zero, over the look at the upper half.
        jump(libc::BPF_JEQ, 0, 0, 2),
        load(lower + ARGUMENT_BYTES / 2),
        jump(libc::BPF_JEQ, 0, over, 0),
    ];
    program.extend(no);
    program.extend(yes);
    Ok(program)
}

fn returned(answer: Answer) -> u32 {
    let error = |code: libc::c_int| libc::SECCOMP_RET_ERRNO | code.cast_unsigned();
    match answer {
        Answer::Allowed => libc::SECCOMP_RET_ALLOW,
        Answer::Unknown => error(libc::ENOSYS),
        Answer::Refused => error(libc::EPERM),
        Answer::NoFamily => error(libc::EAFNOSUPPORT),
        Answer::NoMemory => error(libc::ENOMEM),
        Answer::NoOption => error(libc::ENOPROTOOPT),
        Answer::Invalid => error(libc::EINVAL),
        Answer::Ignored => error(0),
    }
}

fn load(offset: u32) -> Instruction {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

fn keep_bits(mask: u32) -> Instruction {
    instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, 0, 0)
}

fn jump(operation: u32, operand: u32, jump_true: u8, jump_false: u8) -> Instruction {
    let code = libc::BPF_JMP | libc::BPF_K | operation;
    instruction(code, operand, jump_true, jump_false)
}

fn answer_with(value: u32) -> Instruction {
    instruction(libc::BPF_RET | libc::BPF_K, value, 0, 0)
}

fn instruction(code: u32, operand: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction {
        code: u16::try_from(code).expect("operations of filters have 16 bits"),
        jump_true,
        jump_false,
        operand,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A call, as a program sees it.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Call {
        pub(crate) architecture: u32,
        pub(crate) number: u32,
        pub(crate) arguments: [u64; 6],
    }

    impl Call {
        pub(crate) fn new(number: i64, arguments: &[u64]) -> Self {
            let mut all = [0; 6];
            all[..arguments.len()].copy_from_slice(arguments);
            Self {
                architecture: ARCHITECTURE,
                number: u32::try_from(number).unwrap(),
                arguments: all,
            }
        }

        /// The 32 bits at an offset, as on every host that we run on: the lower half first.
        fn word(self, offset: u32) -> u32 {
            match offset {
                NUMBER => self.number,
                ARCHITECTURE_AT => self.architecture,
                _ => {
                    let index = (offset - FIRST_ARGUMENT) / ARGUMENT_BYTES;
                    let argument = self.arguments[usize::try_from(index).unwrap()];
                    let half = match (offset - FIRST_ARGUMENT) % ARGUMENT_BYTES {
                        0 => argument & u64::from(u32::MAX),
                        4 => argument >> 32,
                        other => panic!("no half of an argument begins at {other}"),
                    };
                    u32::try_from(half).unwrap()
                }
            }
        }
    }

    /// Runs a program as the kernel does.
    pub(crate) fn run(program: &[Instruction], call: Call) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let Instruction {
                code,
                jump_true,
                jump_false,
                operand,
            } = program[at];
            at += 1;
            let holds = match u32::from(code) {
                0x20 => {
                    loaded = call.word(operand);
                    continue;
                }
                0x06 => return operand,
                0x05 => {
                    at += usize::try_from(operand).unwrap();
                    continue;
                }
                0x54 => {
                    loaded &= operand;
                    continue;
                }
                0x15 => loaded == operand,
                0x35 => loaded >= operand,
                0x45 => loaded & operand != 0,
                other => panic!("no such instruction: {other:#x}"),
            };
            at += usize::from(if holds { jump_true } else { jump_false });
        }
    }

    /// Returns the answer of a decision, found without any program.
    fn decided(decisions: &BTreeMap<u32, Decision>, otherwise: Answer, call: Call) -> Answer {
        let mut decision = decisions.get(&call.number);
        let argument = |index: u8| call.word(FIRST_ARGUMENT + ARGUMENT_BYTES * u32::from(index));
        loop {
            let (holds, branches) = match decision {
                None => return otherwise,
                Some(Decision::Answer(answer)) => return *answer,
                Some(Decision::AnyBit(index, bits, branches)) => {
                    (argument(*index) & bits != 0, branches)
                }
                Some(Decision::OneOf(index, values, branches)) => {
                    (values.contains(&argument(*index)), branches)
                }
                Some(Decision::OneOfBits(index, mask, values, branches)) => {
                    (values.contains(&(argument(*index) & mask)), branches)
                }
                Some(Decision::Null(index, branches)) => {
                    (call.arguments[usize::from(*index)] == 0, branches)
                }
            };
            decision = Some(if holds { &branches.yes } else { &branches.no });
        }
    }

    /// Checks a program against its decisions, for every number around those that are decided
    /// and all arguments that are near one of the values.
    #[track_caller]
    pub(crate) fn check(decisions: &BTreeMap<u32, Decision>, otherwise: Answer) {
        let program = compile(decisions, otherwise).unwrap();
        let around = |value: u32| [value.wrapping_sub(1), value, value.wrapping_add(1)];
        let numbers = decisions.keys().copied().flat_map(around);
        for number in numbers.chain([0, 1 << 30, u32::MAX]) {
            let values = match decisions.get(&number) {
                None | Some(Decision::Answer(_)) => vec![0],
                Some(decision) => values_in(decision),
            };
            let near: BTreeSet<_> = values.into_iter().flat_map(around).collect();
            for (first, second, third) in triples(&near) {
                // What the kernel does not read changes nothing.
                let hidden = u64::from(first) << 32;
                let call = Call {
                    architecture: ARCHITECTURE,
                    number,
                    arguments: [
                        u64::from(first) | hidden,
                        u64::from(second) | hidden,
                        u64::from(third),
                        u64::from(third) | hidden,
                        hidden,
                        hidden,
                    ],
                };
                let expected = returned(decided(decisions, otherwise, call));
                assert_eq!(run(&program, call), expected, "{call:x?}");
            }
        }
    }

    fn triples(values: &BTreeSet<u32>) -> impl Iterator<Item = (u32, u32, u32)> {
        let pairs = values.iter().flat_map(|a| values.iter().map(|b| (*a, *b)));
        pairs.flat_map(|(a, b)| values.iter().map(move |c| (a, b, *c)))
    }

    fn values_in(decision: &Decision) -> Vec<u32> {
        match decision {
            Decision::Answer(_) => vec![0],
            Decision::AnyBit(_, bits, branches) => {
                let bits = (0..32).map(|bit| bits & 1 << bit);
                bits.chain(in_branches(branches)).collect()
            }
            Decision::OneOf(_, values, branches) => {
                let values = values.iter().copied();
                values.chain(in_branches(branches)).collect()
            }
            Decision::OneOfBits(_, mask, values, branches) => {
                let with_others = values.iter().flat_map(|value| [*value, *value | !mask]);
                with_others.chain(in_branches(branches)).collect()
            }
            Decision::Null(_, branches) => [0].into_iter().chain(in_branches(branches)).collect(),
        }
    }

    fn in_branches(branches: &Branches) -> impl Iterator<Item = u32> {
        let all = [&branches.yes, &branches.no];
        all.into_iter().flat_map(|decision| values_in(decision))
    }

    #[test]
    fn a_program_does_what_was_decided() {
        let by_argument = Decision::OneOf(
            0,
            vec![3, 7],
            Branches::new(
                Decision::AnyBit(1, 0x11, Branches::new(Answer::NoFamily, Answer::Allowed)),
                Answer::Refused,
            ),
        );
        check(&BTreeMap::new(), Answer::Unknown);
        check(&BTreeMap::from([(0, by_argument.clone())]), Answer::Allowed);
        let by_bits = Decision::OneOfBits(
            1,
            0xf,
            vec![1, 5],
            Branches::new(by_argument.clone(), Answer::NoMemory),
        );
        check(&BTreeMap::from([(3, by_bits)]), Answer::Allowed);
        let by_pointer = Decision::Null(3, Branches::new(by_argument.clone(), Answer::NoMemory));
        check(&BTreeMap::from([(3, by_pointer)]), Answer::Allowed);
        let decisions = [
            (0, Answer::Allowed.into()),
            (1, Answer::Allowed.into()),
            (2, by_argument),
            (5, Answer::Refused.into()),
            (6, Answer::Unknown.into()),
            (9, Answer::Allowed.into()),
            (u32::MAX, Answer::Refused.into()),
        ];
        check(&BTreeMap::from(decisions), Answer::Unknown);
    }

    #[test]
    fn a_program_that_is_longer_than_a_jump_does_what_was_decided() {
        let every_other = (0..1000).map(|number| (2 * number, Answer::Allowed.into()));
        check(&every_other.collect(), Answer::Unknown);
    }

    #[test]
    fn a_call_of_another_architecture_ends_the_process() {
        let decisions = BTreeMap::from([(1, Answer::Allowed.into())]);
        let call = Call {
            architecture: ARCHITECTURE ^ 1,
            ..Call::new(1, &[])
        };
        let program = compile(&decisions, Answer::Allowed).unwrap();
        assert_eq!(run(&program, call), libc::SECCOMP_RET_KILL_PROCESS);
    }
}
