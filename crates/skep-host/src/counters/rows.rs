//! The table of counters: one row for each that a sandbox can reach.

use super::{Bound, Counter, Needs};

/// The bound of most rows: the kernel's own memory for a sandbox is memory of the sandbox.
const COUNTED_MEMORY: &str = "its memory, in which the kernel counts what it keeps for it";
/// Numbers that the kernel keeps for each user id.
const OWN_USERS: &str = "users of its own, who are nobody else's; never those of root";
const FILTER: &str = "the filter of system calls";
const NO_FAMILY: &str = "the filter, which has no such family or type of sockets";
const BY_SERVER: &str = "the server makes them, and the filter lets nobody else";

const fn none(what: &'static str, kept_in: &'static str, by: &'static str) -> Counter {
    Counter {
        what,
        kept_in,
        bound: Bound::Nothing { by },
        needs: Needs::Nothing,
    }
}

const fn most(
    what: &'static str,
    kept_in: &'static str,
    most: &'static str,
    by: &'static str,
    needs: Needs,
) -> Counter {
    Counter {
        what,
        kept_in,
        bound: Bound::AtMost { most, by },
        needs,
    }
}

const fn unbounded(what: &'static str, kept_in: &'static str, because: &'static str) -> Counter {
    Counter {
        what,
        kept_in,
        bound: Bound::Unbounded { because },
        needs: Needs::Nothing,
    }
}

/// Every number of the host that code in a sandbox can reach.
pub(crate) const COUNTERS: &[Counter] = &[
    // Memory.
    most(
        "memory",
        "the host's",
        "its limit, and 64 MiB for the agent",
        "the memory controller",
        Needs::NotStartedWith("nokmem"),
    ),
    most(
        "memory of sockets",
        "`net.ipv4.tcp_mem`, `net.ipv4.udp_mem`",
        "an eighth of its memory on v1; on v2 it is part of it",
        "`memory.kmem.tcp.limit_in_bytes`, in every group in which a socket can be made; it counts connections that were \
         accepted, and datagrams that arrived",
        Needs::MemoryFile("memory.kmem.tcp.limit_in_bytes"),
    ),
    most(
        "what else waits in sockets: connections that nobody has accepted, answers about routes, pings, errors",
        "memory, `net.ipv4.tcp_mem`",
        "a quarter of its memory and at least 64 MiB, with what is counted, and what it takes until it is seen: a 64th of the host's memory, or \
         256 MiB, and what it takes in a tenth of a second and while somebody looks (160 MiB for each processor were seen)",
        "the server, which reads the lists of its sockets when the host's memory shrinks and ends it (`out_of_memory`). \
         The higher `net.core.rmem_max` is, the more sandboxes it has to look at",
        Needs::AtMost("net.core.rmem_max", 1_048_576),
    ),
    most(
        "counted sockets",
        "the same",
        "the same",
        "the memory controller, unless the kernel was told not to",
        Needs::NotStartedWith("nosocket"),
    ),
    most(
        "swap",
        "the host's",
        "none beyond its memory",
        "the memory controller",
        Needs::CountedSwap,
    ),
    none(
        "huge pages",
        "`vm.nr_hugepages`",
        "the filter (`MAP_HUGETLB`, `MFD_HUGETLB`, `SHM_HUGETLB`); on v2 the controller, too",
    ),
    most(
        "locked memory",
        "the host's memory",
        "8 MiB",
        "`RLIMIT_MEMLOCK`, for all its users together",
        Needs::Nothing,
    ),
    most(
        "groups of the memory controller",
        "65,535 numbers",
        "three, and at most 320 for kernels",
        "the agent, whose directory nobody else reaches and which makes one only if there is a kernel in all others, and the \
         server, which makes at most 1,900 sandboxes; a removed group has no number. Some 200 sandboxes that have each had 320 \
         kernels at once would take all numbers",
        Needs::Nothing,
    ),
    most(
        "directory entries, inodes",
        "memory",
        "as its memory allows",
        COUNTED_MEMORY,
        Needs::Nothing,
    ),
    most(
        "names of open directories",
        "memory: 20 KiB for each that is being read, and all names of one that layers of a template are merged in",
        "a quarter of its memory and at least 64 MiB, and what it takes until it is seen: a 64th of the host's memory, or 256 MiB, \
         and what it takes in a tenth of a second and while somebody looks",
        "the server, which looks at a sample of its descriptors when the host's memory shrinks, estimates what they hold from the \
         sizes of directories, and ends it (`out_of_memory`)",
        Needs::Nothing,
    ),
    most(
        "locks on files",
        "memory, and the time of whoever closes the same file",
        "4,096, and 255 on the inode that all event descriptors share, and what it makes in the second until \
         somebody looks",
        "the server, which reads the beginning of the kernel's list, counts them at a sample of descriptors and ends whoever \
         has too many (`out_of_memory`). Locks of a description that is at no descriptor, because it is mapped or on its way \
         through a socket, are not found",
        Needs::Nothing,
    ),
    most(
        "shared memory, semaphores, messages (System V)",
        "`kernel.shmall`, `kernel.sem`, `kernel.msgmni`",
        "as its memory allows",
        "an ipc namespace of its own, and its memory",
        Needs::Nothing,
    ),
    most(
        "message queues (POSIX)",
        "`fs.mqueue.queues_max`",
        "`RLIMIT_MSGQUEUE`, or its 128th below a zygote",
        "an ipc namespace and users of its own",
        Needs::Nothing,
    ),
    most(
        "pipes",
        "`fs.pipe-user-pages-soft`",
        "as many pages as any user",
        OWN_USERS,
        Needs::Nothing,
    ),
    most(
        "descriptors on their way through Unix sockets",
        "`RLIMIT_NOFILE` for each user; the memory of what they are of",
        "one for each 256 KiB of its memory, and at least 1,024",
        "the server, which asks the sockets that they wait at (`scm_fds`), and ends it (`out_of_memory`). Those at a socket that \
         is on its way itself are not found",
        Needs::Nothing,
    ),
    most(
        "translated programs (seccomp)",
        "`net.core.bpf_jit_limit`",
        "one, and one more for each forked kernel",
        "the filter, which lets nobody inside install another, nor a program at a socket",
        Needs::AtLeast("net.core.bpf_jit_limit", 264_241_152),
    ),
    most(
        "the kernel's log",
        "its buffer, and the host's disk",
        "lines about the killed process and its group for ten in five seconds of all that are killed for want of memory, and \
         about two for each further, with its name: 320 lines a second were seen, and 530 with lists of 300 processes",
        "the server, which switches `vm.oom_dump_tasks` off: with it, every process of the sandbox is listed, under a name of \
         its own choice. What is left is limited by the sandbox's processor time and by what keeps the log",
        Needs::Nothing,
    ),
    // Processes.
    most(
        "processes and threads",
        "`kernel.pid_max`, `kernel.threads-max`",
        "its limit, and 32 for the agent",
        "the pids controller",
        Needs::AtLeast("kernel.pid_max", 4_194_304),
    ),
    most(
        "processor time",
        "the host's",
        "its limit, and a quarter of a processor for the agent",
        "the cpu controller, for the sandbox as a whole",
        Needs::Nothing,
    ),
    most(
        "pending signals and timers",
        "`RLIMIT_SIGPENDING` for each user",
        "as many as any user, or the 128th below a zygote and after a restore",
        OWN_USERS,
        Needs::Nothing,
    ),
    none(
        "namespaces",
        "`user.max_*_namespaces`",
        "limits of zero in its user namespace, and the filter",
    ),
    none(
        "keys",
        "`kernel.keys.maxkeys`",
        "the filter, which has no calls for keys",
    ),
    none(
        "performance counters",
        "`kernel.perf_event_mlock_kb`",
        FILTER,
    ),
    none("BPF programs and maps", "`net.core.bpf_jit_limit`", FILTER),
    most(
        "processes that pass on what it says to hosts by name",
        "`kernel.pid_max` and memory, outside of its groups",
        "none without rules that name hosts; with them one, and a second if its requests get headers. Each has at most 512 \
         connections, 1,056 descriptors and 1 GiB of address space; further connections wait",
        "the server, which starts them, and limits of resources that each sets for itself before it reads a byte",
        Needs::Nothing,
    ),
    // Files.
    most(
        "open files",
        "`fs.file-max`",
        "as its memory allows, about a million for 256 MiB",
        "its memory; the limit of one process times that of processes is higher",
        Needs::AtLeast("fs.file-max", 100_000_000),
    ),
    none(
        "asynchronous requests",
        "`fs.aio-max-nr`",
        "the filter: `io_setup` and `io_uring_setup` do not exist",
    ),
    most(
        "inotify instances and watches",
        "`fs.inotify.max_user_*`",
        "as many as any user, or 128 and 131,072 below a zygote",
        OWN_USERS,
        Needs::Nothing,
    ),
    most(
        "epoll watches",
        "`fs.epoll.max_user_watches`",
        "as many as any user",
        OWN_USERS,
        Needs::Nothing,
    ),
    most(
        "terminals",
        "`kernel.pty.max` for all, of which `kernel.pty.reserve` are the host's",
        "64",
        "an own `devpts` with `max=64`",
        Needs::AtLeast("kernel.pty.max", 122_880),
    ),
    most(
        "mounts",
        "`fs.mount-max` for each namespace",
        "those it was born with",
        "the filter, and no capability to mount",
        Needs::Nothing,
    ),
    most(
        "loop devices",
        "1,048,576",
        "one for its disk, at most eight for snapshots that it lies on, and at most 32 for volumes, each of which all sandboxes \
         share that have it",
        BY_SERVER,
        Needs::Nothing,
    ),
    most(
        "space and inodes on the disk",
        "the host's disk",
        "the size of its disk",
        "a file system of its own",
        Needs::Nothing,
    ),
    // Network.
    most(
        "connections that the packet filter remembers",
        "`net.netfilter.nf_conntrack_max`",
        "8,192 to the world, none for names",
        "rules of the packet filter: a meter for each sender, `notrack` for names. The server has them forgotten within \
         seconds of the sandbox's end, where the kernel has `CONFIG_NF_CT_NETLINK`",
        Needs::AtLeast("net.netfilter.nf_conntrack_max", 262_144),
    ),
    most(
        "ports of the host's address",
        "65,535 for each service in the world",
        "8,192",
        "the same meter",
        Needs::Nothing,
    ),
    most(
        "neighbours",
        "`net.ipv4.neigh.default.gc_thresh3`",
        "two",
        "a link with one address on it, which nobody inside may change; the server raises the number",
        Needs::Nothing,
    ),
    most(
        "network namespaces and links",
        "memory",
        "one",
        BY_SERVER,
        Needs::Nothing,
    ),
    none("sockets of rare families", "memory, modules", NO_FAMILY),
    none(
        "copies of what was sent (`SO_TIMESTAMPING`, `SO_ZEROCOPY`)",
        "memory",
        "the filter, and `net.core.tstamp_allow_data` of its network. Kernels that have one such setting for all networks \
         keep what a single message asks for, within `net.core.rmem_max` for each socket",
    ),
    none(
        "groups and labels of flows (IPv6)",
        "memory; 4,096 labels",
        FILTER,
    ),
    none(
        "modules for bridges, VLANs and frame relay",
        "memory",
        "the filter (`SIOCGIFBR`, `SIOCGIFVLAN` and their like)",
    ),
    most(
        "options and groups of sockets",
        "memory: `net.core.optmem_max` for each socket",
        "4 KiB and four groups for each socket",
        "its network's own `net.core.optmem_max` and `net.ipv4.igmp_max_memberships`; before Linux 6.8 the first is the \
         host's, and was 20 KiB",
        Needs::Nothing,
    ),
    none(
        "keys of connections (`TCP_MD5SIG`, `TCP_AO_ADD_KEY`)",
        "the same",
        FILTER,
    ),
    unbounded(
        "fragments of packets",
        "`net.ipv4.ipfrag_high_thresh` of the host's network",
        "A sandbox that sends pieces without an end fills the 4 MiB in which the host puts packets together, and other \
         sandboxes' UDP datagrams of more than 1,472 bytes are lost meanwhile. TCP never sends pieces. Dropping them all \
         would take large datagrams from everybody for good.",
    ),
    unbounded(
        "closed connections with unsent data",
        "`net.ipv4.tcp_max_orphans`",
        "Their buffers are counted to the sandbox, so there are some ten thousand at most. Were the host's number \
         reached, closed connections of others that still have data to send would be reset.",
    ),
    unbounded(
        "time of the network's interrupts",
        "the processors",
        "The kernel handles packets in nobody's time. What one sandbox can send is limited by its own processor time for \
         sending; packets for it are sent by somebody whom it asked.",
    ),
    unbounded(
        "processor time of the processes that pass on what it says to hosts by name",
        "the processors",
        "They work in the server's group and not in the sandbox's. There are two for a sandbox at most, with one thread each, \
         behind the server in rank. What they read a sandbox has sent in its own processor time, or somebody whom it asked.",
    ),
    unbounded(
        "buckets of futexes and other tables of fixed size",
        "set at the host's start",
        "Nothing runs out: whoever fills a bucket makes others that fall into the same one search longer. The sandbox's \
         own processes and memory limit how full it gets.",
    ),
    unbounded(
        "time of the collector of Unix sockets",
        "the processors, and one lock",
        "Sockets that are sent through each other make the kernel look for those that nobody can reach any more, in nobody's \
         time, and everybody who sends a descriptor waits for it. With 45,000 of them on their way others waited up to 42 ms \
         (22 ms in one of a hundred cases) and it took 16 % of a processor; with 1,000, the most that a sandbox of 256 MiB \
         keeps for more than ten seconds, 0.3 ms and 5 %.",
    ),
    unbounded(
        "writing of everybody's dirty pages (`sync`)",
        "the host's disks",
        "`sync` waits until what all have written is on disk, not only the sandbox's own. That comes within half a minute \
         anyway, and who calls waits for it. Four threads that called it 48,000 times in 40 s made launches no slower. \
         Answering without doing it would lie to whoever asks for their data to be safe.",
    ),
    unbounded(
        "dirty pages on cgroup v1",
        "`vm.dirty_ratio`",
        "v1 does not count them to the one who wrote, so a sandbox can keep the host's disk busy within the size of its \
         own disk, and others wait. cgroup v2 counts them and slows down who wrote.",
    ),
];
