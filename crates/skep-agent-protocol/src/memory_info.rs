//! Text of `/proc/meminfo` in a sandbox, which tells the sandbox's memory instead of the host's.
//!
//! The launcher puts a file over the kernel's own, and the agent writes it anew. Every text for the
//! same total is equally long, so that it is written in place and is whole for whoever reads it
//! meanwhile.

/// Bytes of memory, as the kernel counts them for the sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Limit of the sandbox.
    pub total: u64,
    /// Everything that counts against the limit.
    pub used: u64,
    /// Part of it that holds what was read from and written to files, shared memory included.
    pub cached: u64,
    /// Part of that which is no file on a disk: shared memory, and files in memory.
    pub shared: u64,
    /// Memory of processes.
    pub anonymous: u64,
    /// Files that processes have mapped.
    pub mapped: u64,
    /// Changes of files that are not written yet.
    pub dirty: u64,
    /// Changes of files that are being written.
    pub writeback: u64,
    /// Active and inactive memory of processes.
    pub anonymous_lists: [u64; 2],
    /// Active and inactive files.
    pub file_lists: [u64; 2],
    /// Memory that cannot be taken away.
    pub unevictable: u64,
    /// Memory of the kernel: what it can give back, and what it cannot.
    pub slab: [u64; 2],
}

impl MemoryInfo {
    /// The memory of a sandbox in which nothing runs yet.
    pub fn unused(total: u64) -> Self {
        Self {
            total,
            ..Self::default()
        }
    }

    /// The same from the files of the sandbox's cgroup: `memory.stat`, of version 1 or 2, and what
    /// counts against the limit.
    pub fn read(total: u64, used: u64, statistics: &str) -> Self {
        let field = |wanted: &str| {
            let mut lines = statistics.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(name, _)| *name == wanted);
            found.and_then(|(_, number)| number.trim().parse().ok())
        };
        // In this order: version 1 has the other names too, for the cgroup without those below it.
        let bytes = |of_v1, of_v2| field(of_v1).or_else(|| field(of_v2)).unwrap_or(0);
        Self {
            total,
            used,
            cached: bytes("total_cache", "file"),
            shared: bytes("total_shmem", "shmem"),
            anonymous: bytes("total_rss", "anon"),
            mapped: bytes("total_mapped_file", "file_mapped"),
            dirty: bytes("total_dirty", "file_dirty"),
            writeback: bytes("total_writeback", "file_writeback"),
            anonymous_lists: [
                bytes("total_active_anon", "active_anon"),
                bytes("total_inactive_anon", "inactive_anon"),
            ],
            file_lists: [
                bytes("total_active_file", "active_file"),
                bytes("total_inactive_file", "inactive_file"),
            ],
            unevictable: bytes("total_unevictable", "unevictable"),
            // Version 1 does not tell.
            slab: [
                bytes("slab_reclaimable", "slab_reclaimable"),
                bytes("slab_unreclaimable", "slab_unreclaimable"),
            ],
        }
    }

    /// The text, in the kernel's own form. Nothing is swapped: a sandbox has no swap.
    pub fn to_text(&self) -> String {
        let free = self.total.saturating_sub(self.used);
        // What is kept of files is given back before anything is killed.
        let files = self.cached.saturating_sub(self.shared);
        let available = free.saturating_add(files).saturating_add(self.slab[0]);
        let [active_anonymous, inactive_anonymous] = self.anonymous_lists;
        let [active_file, inactive_file] = self.file_lists;
        let rows = [
            ("MemTotal", self.total),
            ("MemFree", free),
            ("MemAvailable", available),
            ("Buffers", 0),
            ("Cached", self.cached),
            ("SwapCached", 0),
            ("Active", active_anonymous.saturating_add(active_file)),
            ("Inactive", inactive_anonymous.saturating_add(inactive_file)),
            ("Active(anon)", active_anonymous),
            ("Inactive(anon)", inactive_anonymous),
            ("Active(file)", active_file),
            ("Inactive(file)", inactive_file),
            ("Unevictable", self.unevictable),
            ("Mlocked", 0),
            ("SwapTotal", 0),
            ("SwapFree", 0),
            ("Dirty", self.dirty),
            ("Writeback", self.writeback),
            ("AnonPages", self.anonymous),
            ("Mapped", self.mapped),
            ("Shmem", self.shared),
            ("KReclaimable", self.slab[0]),
            ("Slab", self.slab[0].saturating_add(self.slab[1])),
            ("SReclaimable", self.slab[0]),
            ("SUnreclaim", self.slab[1]),
            ("CommitLimit", self.total),
            ("Committed_AS", self.anonymous),
        ];
        let width = (self.total >> 10).to_string().len().max(8);
        rows.iter()
            .map(|(name, bytes)| {
                let name = format!("{name}:");
                let kibibytes = (*bytes).min(self.total) >> 10;
                format!("{name:<15} {kibibytes:>width$} kB\n")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str, name: &str) -> u64 {
        let row = text.lines().find_map(|line| line.strip_prefix(name));
        let number = row.unwrap().trim_start_matches(':').trim();
        number.strip_suffix(" kB").unwrap().parse().unwrap()
    }

    #[test]
    fn both_versions_of_cgroups_are_read() {
        for statistics in [
            "cache 1\nrss 1\nshmem 1\ntotal_cache 4194304\ntotal_rss 2097152\ntotal_shmem 1048576\n",
            "anon 2097152\nfile 4194304\nshmem 1048576\n",
        ] {
            let text = MemoryInfo::read(512 << 20, 8 << 20, statistics).to_text();
            assert_eq!(row(&text, "MemTotal"), 512 << 10);
            assert_eq!(row(&text, "MemFree"), 504 << 10);
            assert_eq!(row(&text, "MemAvailable"), 507 << 10);
            assert_eq!(row(&text, "Cached"), 4 << 10);
            assert_eq!(row(&text, "Shmem"), 1 << 10);
            assert_eq!(row(&text, "AnonPages"), 2 << 10);
            assert_eq!(row(&text, "SwapTotal"), 0);
        }
    }

    #[test]
    fn every_text_is_equally_long_whatever_is_counted() {
        for total in [64 << 20, 512 << 20, 1 << 40, u64::MAX] {
            let length = MemoryInfo::unused(total).to_text().len();
            for used in [0, 1 << 20, total, u64::MAX] {
                let statistics = format!("file {used}\nanon {used}\nslab_reclaimable {used}");
                let text = MemoryInfo::read(total, used, &statistics).to_text();
                assert_eq!(text.len(), length);
                assert!(row(&text, "MemAvailable") <= total >> 10);
            }
        }
    }
}
