//! Check of the host's TCP memory against what strangers can make the server hold.

use std::num::NonZeroU32;

use skep_types::{Check, CheckStatus};

/// Name of the kernel's setting: three numbers of pages, the last of which is never exceeded.
const SETTING: &str = "/proc/sys/net/ipv4/tcp_mem";
const NAME: &str = "TCP memory";

/// TCP memory, in KiB, of a connection without a key or token whose client does not read, or whose
/// service does not take: the buffers of both sockets, as measured (`SECURITY.md`).
const STRANGER_KIB: u64 = 1536;

/// Compares what so many strangers can hold with what the kernel gives all sockets of the host.
pub(crate) fn check(strangers: NonZeroU32) -> Check {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    match std::fs::read_to_string(SETTING) {
        Ok(text) => match limit(&text, page) {
            Some(limit) => compare(strangers, limit),
            None => unknown(format!("`{SETTING}` is not three numbers")),
        },
        Err(error) => unknown(format!("cannot read `{SETTING}`: {error}")),
    }
}

fn unknown(detail: String) -> Check {
    Check {
        name: NAME,
        status: CheckStatus::Limited,
        detail,
        cure: None,
    }
}

/// The largest amount, in KiB.
fn limit(text: &str, page: u64) -> Option<u64> {
    let numbers: Option<Vec<u64>> = text
        .split_whitespace()
        .map(|number| number.parse().ok())
        .collect();
    match numbers?.as_slice() {
        [_, _, most] => Some(most.saturating_mul(page) / 1024),
        _ => None,
    }
}

fn compare(strangers: NonZeroU32, limit: u64) -> Check {
    let strangers = u64::from(strangers.get());
    let held = strangers * STRANGER_KIB;
    let (held_mib, limit_mib) = (held / 1024, limit / 1024);
    if held <= limit {
        return Check {
            name: NAME,
            status: CheckStatus::Good,
            detail: format!(
                "{strangers} connections without a key hold {held_mib} MiB at most, of {limit_mib}"
            ),
            cure: None,
        };
    }
    let fit = (limit / STRANGER_KIB).max(1);
    Check {
        name: NAME,
        status: CheckStatus::Limited,
        detail: format!(
            "{strangers} connections without a key can hold {held_mib} MiB, and all sockets of \
             this host have {limit_mib} MiB"
        ),
        cure: Some(format!(
            "if strangers reach this server, set `server.anonymous_connections` to {fit} or less, \
             or raise `net.ipv4.tcp_mem`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(strangers: u32, tcp_mem: &str) -> Check {
        let limit = limit(tcp_mem, 4096).unwrap();
        compare(NonZeroU32::new(strangers).unwrap(), limit)
    }

    #[test]
    fn more_than_the_kernel_gives_is_told_with_a_number_that_fits() {
        let tcp_mem = "281322\t375099\t562644\n";
        let check_many = check(4096, tcp_mem);
        assert_eq!(check_many.status, CheckStatus::Limited);
        assert!(check_many.detail.contains("hold 6144 MiB"));
        assert!(check_many.detail.ends_with("2197 MiB"));
        assert!(check_many.cure.unwrap().contains("to 1465 or less"));
        assert_eq!(check(1465, tcp_mem).status, CheckStatus::Good);
    }

    #[test]
    fn what_is_no_setting_is_not_guessed() {
        for text in ["", "1 2", "a b c", "1 2 3 4"] {
            assert_eq!(limit(text, 4096), None, "{text}");
        }
    }
}
