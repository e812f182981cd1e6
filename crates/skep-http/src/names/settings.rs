//! The settings of resolvers, as `/etc/resolv.conf` has them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const DNS: u16 = 53;
/// As many as the C library asks.
const RESOLVERS: usize = 3;
/// Bounds of what `options` may say, as in the C library.
const MOST_DOTS: usize = 15;
const LONGEST_TIMEOUT: u64 = 30;
const MOST_ATTEMPTS: u32 = 5;

/// Servers to ask, and names to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) resolvers: Vec<SocketAddr>,
    /// Domains in which a short name is looked for.
    pub(super) search: Vec<String>,
    /// Number of dots from which on a name is tried as it is first.
    pub(super) dots: usize,
    /// Time limit for one resolver.
    pub(super) timeout: Duration,
    /// Number of rounds through all resolvers.
    pub(super) attempts: u32,
}

impl Settings {
    /// Parses the file. What it does not say, or what cannot be understood, is as usual.
    pub(super) fn parse(file: &str) -> Self {
        let mut settings = Self {
            resolvers: Vec::new(),
            search: Vec::new(),
            dots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in file.lines() {
            let text = line.split(['#', ';']).next().unwrap_or(line);
            let mut fields = text.split_whitespace();
            match fields.next() {
                Some("nameserver") => settings.resolvers.extend(fields.next().and_then(resolver)),
                Some("domain" | "search") => {
                    settings.search = fields.map(str::to_owned).collect();
                }
                Some("options") => fields.for_each(|option| settings.set(option)),
                Some(_) | None => {}
            }
        }
        settings.resolvers.truncate(RESOLVERS);
        if settings.resolvers.is_empty() {
            settings.resolvers.push((Ipv4Addr::LOCALHOST, DNS).into());
        }
        settings
    }

    fn set(&mut self, option: &str) {
        let Some((name, value)) = option.split_once(':') else {
            return;
        };
        match (name, value.parse::<u64>()) {
            ("ndots", Ok(dots)) => {
                self.dots = usize::try_from(dots).unwrap_or(MOST_DOTS).min(MOST_DOTS);
            }
            ("timeout", Ok(seconds)) => {
                self.timeout = Duration::from_secs(seconds.clamp(1, LONGEST_TIMEOUT));
            }
            ("attempts", Ok(count)) => {
                let count = u32::try_from(count).unwrap_or(MOST_ATTEMPTS);
                self.attempts = count.clamp(1, MOST_ATTEMPTS);
            }
            _ => {}
        }
    }

    /// The names to ask for when somebody looks for `name`, in order.
    pub(super) fn candidates(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let whole = format!("{name}.");
        let mut candidates: Vec<_> = self
            .search
            .iter()
            .map(|domain| format!("{name}.{}.", domain.trim_matches('.')))
            .collect();
        if name.matches('.').count() >= self.dots {
            candidates.insert(0, whole);
        } else {
            candidates.push(whole);
        }
        candidates
    }
}

/// A resolver's address. One of this link says on which interface, behind a percent sign; it is
/// left out, because nothing else here knows interfaces by name.
fn resolver(text: &str) -> Option<SocketAddr> {
    let address: IpAddr = text.parse().ok()?;
    Some(SocketAddr::new(address, DNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_the_c_library_reads_it() {
        let file = "\
; made by hand
domain old.test
search corp.test example.test # and no more
nameserver 192.0.2.53
nameserver ::1
nameserver fe80::1%eth0
options ndots:2 timeout:99 attempts:0 rotate edns0
";
        let expected = Settings {
            resolvers: vec![
                "192.0.2.53:53".parse().unwrap(),
                "[::1]:53".parse().unwrap(),
            ],
            search: vec!["corp.test".to_owned(), "example.test".to_owned()],
            dots: 2,
            timeout: Duration::from_secs(30),
            attempts: 1,
        };
        let settings = Settings::parse(file);
        assert_eq!(settings, expected);
        assert_eq!(
            settings.candidates("a.b"),
            ["a.b.corp.test.", "a.b.example.test.", "a.b."]
        );
        assert_eq!(settings.candidates("a.b.c")[0], "a.b.c.");
        assert_eq!(settings.candidates("a."), ["a."]);
    }

    #[test]
    fn without_a_file_it_is_this_host() {
        let resolvers = Settings::parse("").resolvers;
        assert_eq!(resolvers, ["127.0.0.1:53".parse().unwrap()]);
    }
}
