//! Memory of sandboxes that stand, brought to the host's swap.
//!
//! What is paged out comes back page by page when the sandbox goes on and looks at it. On a host
//! without swap there is nowhere to bring it, and nothing is done.

use std::fs;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use skep_linux::MOST_RANGES;

/// Bytes that are paged out between two looks whether that is still wanted. Compressed memory takes
/// some 130 MB a second.
const STEP: usize = 8 << 20;

/// Beginning of the names of swap that is compressed memory.
const COMPRESSED_MEMORY: &str = "/dev/zram";

/// Rule for the memory of sandboxes that stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageOut {
    /// It stays.
    Never,
    /// It goes to swap that is memory of the host itself, and stays if any other swap is there: nothing
    /// is to be read on a disk.
    ToMemory,
    /// It goes to swap, if there is any.
    #[default]
    ToSwap,
    /// It is paged out whether there is swap or not, so that tests need none.
    Always,
}

impl PageOut {
    /// Decides by what the kernel says in `/proc/swaps`.
    fn is_allowed(self, swaps: &str) -> bool {
        let mut swaps = swaps.lines().skip(1).filter(|line| !line.trim().is_empty());
        match self {
            Self::Never => false,
            Self::ToMemory => {
                let mut swaps = swaps.peekable();
                swaps.peek().is_some() && swaps.all(|line| line.starts_with(COMPRESSED_MEMORY))
            }
            Self::ToSwap => swaps.next().is_some(),
            Self::Always => true,
        }
    }

    /// Returns true if memory of sandboxes goes anywhere on this host, as it is now.
    pub(crate) fn is_possible(self) -> bool {
        // A kernel without swap has no such file.
        self.is_allowed(&fs::read_to_string("/proc/swaps").unwrap_or_default())
    }
}

/// Private memory of a process that may be paged out, by its list of mappings.
fn ranges(maps: &str) -> Vec<Range<usize>> {
    let range = |line: &str| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let is_private = fields.next()?.ends_with('p');
        let name = fields.nth(3).unwrap_or_default();
        // Of the kernel's own pages there is nothing to page out.
        let is_own = is_private && !name.starts_with("[v");
        let address = |text| usize::from_str_radix(text, 16).ok();
        let range = address(start)?..address(end)?;
        is_own.then_some(range)
    };
    maps.lines().filter_map(range).collect()
}

/// Cuts ranges into pieces that one step can take.
fn pieces(ranges: Vec<Range<usize>>) -> impl Iterator<Item = Range<usize>> {
    ranges.into_iter().flat_map(|range| {
        let end = range.end;
        range
            .step_by(STEP)
            .map(move |start| start..end.min(start + STEP))
    })
}

/// Pages out the memory of processes, as long as that is wanted, and returns the bytes that were looked
/// at. A process that has gone is no error. Blocks.
pub(crate) fn page_out(processes: &[i32], is_wanted: &dyn Fn() -> bool) -> u64 {
    let mut total = 0;
    for &number in processes {
        let Some(pid) = Pid::from_raw(number) else {
            continue;
        };
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        let Ok(maps) = fs::read_to_string(format!("/proc/{number}/maps")) else {
            continue;
        };
        let mut batch = Vec::new();
        let mut bytes = 0;
        for piece in pieces(ranges(&maps)) {
            bytes += piece.len();
            batch.push(piece);
            if bytes >= STEP || batch.len() == MOST_RANGES {
                if !is_wanted() {
                    return total;
                }
                total += step(&process, &batch);
                batch.clear();
                bytes = 0;
            }
        }
        if is_wanted() {
            total += step(&process, &batch);
        }
    }
    total
}

/// Pages out some ranges. Those that cannot be (locked ones, for instance) are left out.
fn step(process: &OwnedFd, mut ranges: &[Range<usize>]) -> u64 {
    let mut total = 0;
    while !ranges.is_empty() {
        let done = skep_linux::page_out_process(process.as_fd(), ranges).unwrap_or_default();
        total += done as u64;
        let mut left = done;
        let whole = ranges
            .iter()
            .take_while(|range| {
                let is_done = left >= range.len();
                left = left.saturating_sub(range.len());
                is_done
            })
            .count();
        // The one at which the kernel stopped is passed over.
        ranges = ranges.get(whole + 1..).unwrap_or_default();
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
    const DISK: &str = "/dev/vda2 partition 1048572 0 -2\n";
    const ZRAM: &str = "/dev/zram0 partition 1048572 0 100\n";

    #[track_caller]
    fn check(rule: PageOut, swaps: &[&str], allowed: bool) {
        let text = format!("{HEADING}{}", swaps.concat());
        assert_eq!(rule.is_allowed(&text), allowed, "{rule:?} with {swaps:?}");
    }

    #[test]
    fn memory_goes_only_where_the_operator_wants_it() {
        check(PageOut::ToSwap, &[], false);
        check(PageOut::ToSwap, &[DISK], true);
        check(PageOut::ToSwap, &[ZRAM], true);
        check(PageOut::ToMemory, &[], false);
        check(PageOut::ToMemory, &[ZRAM], true);
        check(PageOut::ToMemory, &[ZRAM, DISK], false);
        check(PageOut::Never, &[ZRAM], false);
        assert!(!PageOut::ToSwap.is_allowed(""), "a kernel without swap");
    }

    #[test]
    fn only_private_memory_is_paged_out() {
        let maps = "\
            555500000000-555500002000 r-xp 00000000 08:01 1 /usr/bin/python3\n\
            555500010000-555500020000 rw-p 00000000 00:00 0 [heap]\n\
            7f0000000000-7f0000100000 rw-s 00000000 00:01 2 /dev/shm/shared\n\
            7f0000200000-7f0000300000 rw-p 00000000 00:00 0\n\
            7ffc00000000-7ffc00004000 r--p 00000000 00:00 0 [vvar]\n\
            7ffc00004000-7ffc00006000 r-xp 00000000 00:00 0 [vdso]\n";
        assert_eq!(
            ranges(maps),
            [
                0x5555_0000_0000..0x5555_0000_2000,
                0x5555_0001_0000..0x5555_0002_0000,
                0x7f00_0020_0000..0x7f00_0030_0000,
            ]
        );
    }

    #[test]
    fn large_ranges_are_paged_out_in_steps() {
        let all = vec![0..STEP, STEP..2 * STEP + 5];
        let pieces: Vec<_> = pieces(all).collect();
        assert_eq!(pieces, [0..STEP, STEP..2 * STEP, 2 * STEP..2 * STEP + 5]);
    }

    #[test]
    fn nothing_is_done_that_nobody_wants_any_more() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let process = [i32::try_from(child.id()).unwrap()];
        assert_eq!(page_out(&process, &|| false), 0);
        assert!(page_out(&process, &|| true) > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(page_out(&process, &|| true), 0);
    }
}
