//! `GET /metrics`: what the sandbox uses.
//!
//! The server reads the true figures from the sandbox's cgroup outside. Inside there may be
//! less to see: the cgroup if it is mounted with a limit, else the processes themselves, which
//! in a pid namespace are exactly those of the sandbox. Nothing is sampled in the background;
//! processor use is the mean since the last call.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

use crate::rootfs::{self, Directory};

/// Body of the answer, with the field names of the contract.
#[derive(Debug, Serialize)]
pub(crate) struct Metrics {
    ts: i64,
    cpu_count: usize,
    cpu_used_pct: f64,
    mem_total: u64,
    mem_used: u64,
    mem_cache: u64,
    mem_total_mib: u64,
    mem_used_mib: u64,
    disk_used: u64,
    disk_total: u64,
}

/// Remembers the last look.
#[derive(Debug)]
pub(crate) struct Meter {
    last: Mutex<(Instant, Duration)>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            last: Mutex::new((Instant::now(), usage().processor)),
        }
    }

    /// Measures. Reads many small files.
    pub(crate) fn measure(&self) -> Metrics {
        let usage = usage();
        let cpu_count = std::thread::available_parallelism().map_or(1, usize::from);
        let now = Instant::now();
        let mut last = self.last.lock();
        let (elapsed, used) = (now - last.0, usage.processor.saturating_sub(last.1));
        *last = (now, usage.processor);
        let disk = rootfs::disk_usage().ok();
        let disk_total = disk
            .as_ref()
            .map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
        let disk_free = disk
            .as_ref()
            .map_or(0, |disk| disk.f_bfree.saturating_mul(disk.f_frsize));
        Metrics {
            ts: jiff::Timestamp::now().as_second(),
            cpu_count,
            cpu_used_pct: percent(used, elapsed, cpu_count),
            mem_total: usage.memory_total,
            mem_used: usage.memory_used,
            mem_cache: usage.memory_cache,
            mem_total_mib: usage.memory_total >> 20,
            mem_used_mib: usage.memory_used >> 20,
            disk_used: disk_total.saturating_sub(disk_free),
            disk_total,
        }
    }
}

/// Percentage of all processors together, with two digits.
#[expect(
    clippy::cast_precision_loss,
    reason = "there are fewer processors than a float can count"
)]
fn percent(used: Duration, elapsed: Duration, processors: usize) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    let share = used.as_secs_f64() / elapsed.as_secs_f64() / processors as f64;
    (share * 10_000.0).round().clamp(0.0, 10_000.0) / 100.0
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Usage {
    /// Processor time since some moment in the past.
    processor: Duration,
    memory_total: u64,
    memory_used: u64,
    memory_cache: u64,
}

fn usage() -> Usage {
    let read = |file: &str| rootfs::kernel_file(&format!("/sys/fs/cgroup/{file}")).ok();
    unified(&read)
        .or_else(|| separate(&read))
        .unwrap_or_else(processes)
}

/// The value after `key` in a file of `key value` lines.
fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == key).then(|| words.next()?.parse().ok())?
    })
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// cgroup v2. Only one with a limit is the sandbox's own.
fn unified(read: &impl Fn(&str) -> Option<String>) -> Option<Usage> {
    let processor = value(&read("cpu.stat")?, "usage_usec")?;
    let cache = value(&read("memory.stat")?, "file")?;
    Some(Usage {
        processor: Duration::from_micros(processor),
        memory_total: number(&read("memory.max")?)?,
        memory_used: number(&read("memory.current")?)?.saturating_sub(cache),
        memory_cache: cache,
    })
}

/// cgroup v1, where no limit is written as a very large one.
fn separate(read: &impl Fn(&str) -> Option<String>) -> Option<Usage> {
    let total = number(&read("memory/memory.limit_in_bytes")?).filter(|limit| *limit < 1 << 60)?;
    let cache = value(&read("memory/memory.stat")?, "total_cache")?;
    Some(Usage {
        processor: Duration::from_nanos(number(&read("cpuacct/cpuacct.usage")?)?),
        memory_total: total,
        memory_used: number(&read("memory/memory.usage_in_bytes")?)?.saturating_sub(cache),
        memory_cache: cache,
    })
}

/// The memory that all processes of the sandbox have now. Reads many small files.
pub(crate) fn resident_memory() -> u64 {
    processes().memory_used
}

/// The sum of all processes that can be seen. Time of children counts once their parent has
/// reaped them, so the agent's own holds that of all orphans.
fn processes() -> Usage {
    let page = rustix::param::page_size() as u64;
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let mut usage = Usage {
        memory_total: host_memory(),
        ..Usage::default()
    };
    let mut total_ticks = 0_u64;
    for process in all_processes().unwrap_or_default() {
        let read = |file: &str| rootfs::kernel_file(&format!("/proc/{process}/{file}")).ok();
        let resident = read("statm")
            .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
        usage.memory_used += resident.unwrap_or(0) * page;
        total_ticks += read("stat").map_or(0, |text| processor_ticks(&text));
    }
    usage.processor = Duration::from_millis(total_ticks.saturating_mul(1000) / ticks);
    usage
}

fn all_processes() -> io::Result<Vec<String>> {
    let listed = Directory::find("/proc")?.entries()?;
    let names = listed.filter_map(|entry| Some(entry.ok()?.name.shown()));
    let is_number = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    Ok(names.filter(is_number).collect())
}

/// User and system time of a process and of its reaped children.
fn processor_ticks(stat: &str) -> u64 {
    // The name before it may contain anything, so the fields are counted from its end.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name
        .split_ascii_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum()
}

fn host_memory() -> u64 {
    rootfs::kernel_file("/proc/meminfo")
        .ok()
        .and_then(|text| value(&text, "MemTotal:"))
        .unwrap_or(0)
        << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_forge_its_times() {
        let stat =
            "7 (a) b 9 9 9 9 9 9 9 9 9 9 9 9) S 1 7 7 0 -1 4194560 100 0 0 0 3 4 5 6 20 0 1 0";
        assert_eq!(processor_ticks(stat), 18);
        assert_eq!(processor_ticks("garbage"), 0);
    }

    #[test]
    fn a_cgroup_counts_only_with_a_limit() {
        let files = |limit: &'static str| {
            move |file: &str| {
                let text = match file {
                    "cpu.stat" => "usage_usec 1500\nuser_usec 1000\n",
                    "memory.stat" => "anon 10\nfile 30\n",
                    "memory.current" => "100\n",
                    "memory.max" => limit,
                    _ => return None,
                };
                Some(text.to_owned())
            }
        };
        assert_eq!(unified(&files("max\n")), None);
        let expected = Usage {
            processor: Duration::from_micros(1500),
            memory_total: 4096,
            memory_used: 70,
            memory_cache: 30,
        };
        assert_eq!(unified(&files("4096\n")), Some(expected));
    }

    #[test]
    fn use_is_a_share_of_all_processors() {
        assert!((percent(Duration::from_secs(1), Duration::from_secs(2), 2) - 25.0).abs() < 0.01);
        assert!(percent(Duration::from_secs(1), Duration::ZERO, 2).abs() < 0.01);
    }
}
