//! Memory held by queues of sockets, of which cgroups count only a part.
//!
//! Nobody's cgroup is charged for answers about routes that nobody reads, for pings, for errors
//! and timestamps that are kept for whoever asks, for datagrams that are still being put
//! together, and for what arrived on connections that nobody has accepted. One descriptor can
//! hold gigabytes in the last way. No setting of a network namespace bounds any of it, and the
//! filter cannot: it is what sockets are for. So it is read from the lists of sockets that the
//! kernel keeps for each network, and whoever holds too much is named.
//!
//! The lists take time to read. They are read when the host's memory shrinks, and only for
//! sandboxes that have enough sockets to hold too much.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use skep_types::{Capacity, SandboxId};

use crate::pace::PacedLook;

/// Divisor of a sandbox's memory that yields the limit for its sockets: an eighth for those that
/// are counted, and as much for the others.
const QUEUES_PART: u64 = 4;
/// Limit for the sockets of a sandbox of any size.
pub(crate) const LEAST_ALLOWED: u64 = 64 << 20;
/// Lower bound of the kernel memory that a socket itself takes.
const SOCKET: u64 = 4 << 10;
/// The one packet by which a queue may be longer than it may be, or that is put together.
const LAST_PACKET: u64 = 128 << 10;

/// Lists in which a socket's queues are the fifth field, as `sent:received`.
const LISTS: [&str; 6] = ["icmp", "icmp6", "raw", "raw6", "udp", "udp6"];
/// Lists of the same form, but read from a table of the host's, which takes milliseconds.
const CONNECTIONS: [&str; 2] = ["tcp", "tcp6"];

/// Finds the sandboxes whose sockets hold too much.
#[derive(Debug, Default)]
pub(crate) struct QueueWatch {
    look: PacedLook,
}

impl QueueWatch {
    /// The sandboxes whose sockets hold too much, of those that `sandboxes` names with their
    /// first processes, if it is time to look, with this memory of the host and processor time of all sandboxes. `memory` is what a
    /// sandbox may use.
    pub(crate) fn look(
        &self,
        (host, used): (Capacity, Option<Duration>),
        sandboxes: impl FnOnce() -> Vec<(SandboxId, i32)>,
        memory: impl Fn(&SandboxId) -> io::Result<u64>,
    ) -> io::Result<Vec<SandboxId>> {
        self.look.if_due(host, used, || {
            let host = Host::read(Path::new("/proc"))?;
            let mut sandboxes = sandboxes();
            sandboxes.retain(|(id, pid)| {
                let excess = host.excess(*pid, || memory(id).map(allowed));
                match excess {
                    Ok(Some(bytes)) => {
                        tracing::debug!(sandbox = %id, bytes, "its sockets hold too much memory");
                        true
                    }
                    Ok(None) => false,
                    Err(error) => {
                        // One that ends takes its limits away while we look.
                        if Path::new("/proc").join(pid.to_string()).exists() {
                            tracing::warn!(sandbox = %id, %error, "cannot look into its sockets");
                        }
                        false
                    }
                }
            });
            Ok(sandboxes.into_iter().map(|(id, _)| id).collect())
        })
    }
}

/// Limit for the sockets of a sandbox with `memory` bytes.
pub(crate) fn allowed(memory: u64) -> u64 {
    (memory / QUEUES_PART).max(LEAST_ALLOWED)
}

/// The host, as far as queues are concerned.
#[derive(Debug, Clone, Copy)]
struct Host<'a> {
    /// Mount point of procfs, `/proc` outside of tests.
    proc: &'a Path,
    /// Upper bound of the bytes that one socket can hold.
    most_of_one: u64,
}

impl<'a> Host<'a> {
    /// Reads what programs may ask for.
    fn read(proc: &'a Path) -> io::Result<Self> {
        let setting = |name: &str| {
            let text = fs::read_to_string(proc.join("sys/net/core").join(name))?;
            text.trim().parse::<u64>().map_err(io::Error::other)
        };
        // The kernel gives twice what it is asked for. What is sent is counted, or one packet.
        let received = 2 * setting("rmem_max")? + LAST_PACKET;
        Ok(Self {
            proc,
            most_of_one: received + LAST_PACKET + SOCKET,
        })
    }

    /// Sums up the bytes held by the sockets in the network namespace of a process, if that may
    /// exceed `allowed`; counting stops there. A process that is gone holds nothing.
    fn excess(
        &self,
        pid: i32,
        allowed: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<Option<u64>> {
        let net = self.proc.join(pid.to_string()).join("net");
        let counts = match fs::read_to_string(net.join("sockstat")) {
            Ok(text) => Counts::read(&text)?,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let most = counts.sockets.saturating_mul(self.most_of_one);
        if most <= LEAST_ALLOWED {
            return Ok(None);
        }
        let allowed = allowed()?;
        if most <= allowed {
            return Ok(None);
        }
        let mut held = counts.sockets * SOCKET;
        held = sum(&net.join("netlink"), held, allowed, route_queues)?;
        for list in LISTS {
            held = sum(&net.join(list), held, allowed, queues)?;
        }
        // What all connections of the host hold is known without a list.
        if held + counts.tcp > allowed {
            for list in CONNECTIONS {
                held = sum(&net.join(list), held, allowed, queues)?;
            }
        }
        Ok((held > allowed).then_some(held))
    }
}

/// The counts in a `sockstat` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    /// Sockets of all kinds in this network.
    sockets: u64,
    /// Bytes in connections of the whole host.
    tcp: u64,
}

impl Counts {
    fn read(text: &str) -> io::Result<Self> {
        let number = |line: &str, name: &str| {
            let line = text.lines().find_map(|text| text.strip_prefix(line))?;
            let mut words = line.split_whitespace().skip_while(|word| *word != name);
            words.nth(1)?.parse::<u64>().ok()
        };
        let unknown = || io::Error::other("unexpected contents of sockstat");
        let pages = number("TCP:", "mem").ok_or_else(unknown)?;
        Ok(Self {
            sockets: number("sockets:", "used").ok_or_else(unknown)?,
            tcp: pages * rustix::param::page_size() as u64,
        })
    }
}

/// Adds what the sockets of a list hold, until it is more than `allowed`.
fn sum(
    list: &Path,
    mut held: u64,
    allowed: u64,
    queues: fn(&str) -> Option<u64>,
) -> io::Result<u64> {
    let file = match File::open(list) {
        Ok(file) => file,
        // A kernel without the protocol has no such list.
        Err(error) if is_gone(&error) => return Ok(held),
        Err(error) => return Err(error),
    };
    // The first line is a heading.
    for line in BufReader::new(file).lines().skip(1) {
        if held > allowed {
            break;
        }
        held += queues(&line?).ok_or_else(|| io::Error::other("unexpected list of sockets"))?;
    }
    Ok(held)
}

fn queues(line: &str) -> Option<u64> {
    let (sent, received) = line.split_whitespace().nth(4)?.split_once(':')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(sent)? + number(received)?)
}

fn route_queues(line: &str) -> Option<u64> {
    let mut fields = line.split_whitespace().skip(4);
    let mut number = || fields.next()?.parse::<u64>().ok();
    Some(number()? + number()?)
}

fn is_gone(error: &io::Error) -> bool {
    let gone = [rustix::io::Errno::NOENT, rustix::io::Errno::SRCH];
    let code = error.raw_os_error();
    gone.iter().any(|gone| Some(gone.raw_os_error()) == code)
        // A process that has ended has no network.
        || error.kind() == io::ErrorKind::InvalidInput
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A host with one process, whose network has these sockets.
    struct Process(tempfile::TempDir);

    impl Process {
        const PID: i32 = 7;

        fn new(sockets: u64, tcp_pages: u64) -> Self {
            let process = Self(tempfile::tempdir().unwrap());
            process.write("sys/net/core/rmem_max", "212992\n");
            let counts = format!(
                "sockets: used {sockets}\nTCP: inuse 2 orphan 0 tw 0 alloc 9 mem {tcp_pages}\nUDP: inuse 1 mem 3\n"
            );
            process.write("7/net/sockstat", &counts);
            process
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn list(&self, name: &str, queues: &str) {
            let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
            let line = format!(
                "  12: 0100007F:0035 00000000:0000 07 {queues} 00:00000000 00000000 0 0 4711\n"
            );
            self.write(&format!("7/net/{name}"), &format!("{head}{line}"));
        }

        fn excess(&self, allowed: u64) -> Option<u64> {
            let host = Host::read(self.0.path()).unwrap();
            host.excess(Self::PID, || Ok(allowed)).unwrap()
        }
    }

    #[test]
    fn what_waits_in_all_kinds_of_sockets_is_added() {
        let process = Process::new(1000, 0);
        let sockets = 1000 * SOCKET;
        assert_eq!(process.excess(100 * MIB), None);
        process.list("udp", "00100000:05000000");
        let udp = 81 * MIB;
        assert_eq!(process.excess(80 * MIB), Some(udp + sockets));
        process.list("icmp", "00000000:00A00000");
        let icmp = 10 * MIB;
        assert_eq!(process.excess(90 * MIB), Some(udp + icmp + sockets));
        let netlink = "sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode\n\
             0 0 4242 00000000 20971520 1048576 0 2 0 99\n";
        process.write("7/net/netlink", netlink);
        let all = udp + icmp + 21 * MIB + sockets;
        assert_eq!(process.excess(all - 1), Some(all));
        assert_eq!(process.excess(all), None);
    }

    #[test]
    fn connections_are_listed_only_if_the_machine_has_so_much_in_them() {
        let few = Process::new(1000, 10);
        few.list("tcp", "00000000:7FFFFFFF");
        assert_eq!(few.excess(100 * MIB), None);
        let many = Process::new(1000, 1 << 20);
        many.list("tcp", "00000000:7FFFFFFF");
        assert!(many.excess(100 * MIB).is_some());
    }

    #[test]
    fn few_sockets_are_not_listed_and_processes_that_are_gone_have_none() {
        let process = Process::new(60, 1 << 20);
        process.list("udp", "00000000:7FFFFFFF");
        assert_eq!(process.excess(MIB), None);
        fs::remove_dir_all(process.0.path().join("7")).unwrap();
        assert_eq!(process.excess(0), None);
    }

    #[test]
    fn the_lists_of_this_kernel_are_understood() {
        let host = Host {
            proc: Path::new("/proc"),
            most_of_one: u64::MAX,
        };
        let pid = i32::try_from(std::process::id()).unwrap();
        let _socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(host.excess(pid, || Ok(u64::MAX - 1)).unwrap(), None);
        assert!(host.excess(pid, || Ok(0)).unwrap().is_some());
    }
}
