//! Names of the descriptors that an agent is born with.
//!
//! They come as a table `name=number,…` in its argument `--fds`. A number is an accident of one
//! launch; the names are what both ends agree on, also when a sandbox is restored and given its
//! descriptors once more.

/// The configuration, as JSON in a sealed file.
pub const CONFIG: &str = "config";
/// A pipe that gets one byte when the agent listens.
pub const READY: &str = "ready";
/// The memory of the sandbox's log.
pub const LOG: &str = "log";
/// A `cgroup.procs` file of the cgroups that user processes join; one for each hierarchy.
pub const WORK_CGROUP: &str = "work-cgroup";
/// The file that counts the processes that were killed for want of memory.
pub const KILL_COUNT: &str = "kill-count";
/// The file over `/proc/meminfo`, which the agent writes anew.
pub const MEMORY_INFO: &str = "memory-info";
/// The file that tells what counts against the memory limit of the sandbox.
pub const MEMORY_USED: &str = "memory-used";
/// The file `memory.stat` of the sandbox's cgroup.
pub const MEMORY_STATISTICS: &str = "memory-statistics";
/// Prefix of the files with which a cgroup for each kernel is made, before their own names.
pub const KERNEL_CGROUP: &str = "kernel-cgroup/";
/// The socket on which the server is asked for kernels.
pub const FORKS: &str = "forks";
