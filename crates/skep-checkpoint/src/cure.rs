//! Processes whose CRIU was killed.
//!
//! CRIU puts code of its own into each process that it writes, which hands out what can be seen from inside alone. That code waits at
//! a socket; when its CRIU is gone it puts the registers back as they were and is left, and threads that only stood go on when nobody traces
//! them any more. So nearly always everything recovers by itself, and this tells whether it has. What it cannot see is an instruction
//! that CRIU was about to put back: such a process dies of it when it goes on.

use std::fs;
use std::io;
use std::ops::Range;

/// Returns true if a thread of these processes is still in code of CRIU's, or held by it. One that has
/// ended meanwhile is neither.
///
/// # Errors
///
/// If a process cannot be looked at.
pub fn is_in_the_hands_of_criu(processes: &[i32]) -> io::Result<bool> {
    for pid in processes {
        match is_held(*pid, processes) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

fn has_ended(error: &io::Error) -> bool {
    let ended = rustix::io::Errno::SRCH.raw_os_error();
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ended)
}

fn is_held(pid: i32, processes: &[i32]) -> io::Result<bool> {
    let code = foreign_code(&fs::read_to_string(format!("/proc/{pid}/maps"))?);
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path();
        let look = || -> io::Result<bool> {
            let status = fs::read_to_string(path.join("status"))?;
            let at = instruction(&fs::read_to_string(path.join("syscall"))?);
            let is_foreign = at.is_some_and(|at| code.iter().any(|area| area.contains(&at)));
            Ok(is_foreign || is_traced(&status, processes))
        };
        match look() {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Returns true if somebody traces it who is none of these processes themselves.
fn is_traced(status: &str, processes: &[i32]) -> bool {
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))
        .and_then(|tracer| tracer.trim().parse().ok());
    tracer.is_some_and(|tracer| tracer != 0 && !processes.contains(&tracer))
}

/// Areas of shared memory without a file whose content may be executed and written: CRIU's code lies in such a one, and
/// hardly anything else does.
fn foreign_code(maps: &str) -> Vec<Range<u64>> {
    let areas = maps.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (area, rights) = (fields.next()?, fields.next()?);
        let (start, end) = area.split_once('-')?;
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        (rights == "rwxs").then_some(hex(start)?..hex(end)?)
    });
    areas.collect()
}

/// Address at which a thread that waits for the kernel goes on; `None` for one that runs.
fn instruction(syscall: &str) -> Option<u64> {
    let last = syscall.split_whitespace().last()?;
    u64::from_str_radix(last.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_in_foreign_code_is_told_by_where_it_goes_on() {
        let maps = "55d0-55d9 r-xp 00000000 08:01 9 /bin/sh\n\
                    7f00-7f80 rwxs 00000000 00:01 7 /dev/zero (deleted)\n";
        let code = foreign_code(maps);
        assert_eq!((code.len(), &code[0]), (1, &(0x7f00..0x7f80)));
        let waits = "45 0x7 0x7f10 0x0 0x0 0x0 0x0 0x7ffd 0x7f42\n";
        assert_eq!(instruction(waits), Some(0x7f42));
        assert_eq!(instruction("running\n"), None);
    }

    #[test]
    fn a_process_that_nobody_holds_is_free() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!is_in_the_hands_of_criu(&[own]).unwrap());
        assert!(!is_in_the_hands_of_criu(&[i32::MAX]).unwrap(), "it is gone");
    }
}
