//! The file of hosts: an address, and the names that it has.

use std::net::IpAddr;

/// The addresses that `file` gives a name, those of IPv4 first.
pub(super) fn find(file: &str, name: &str) -> Vec<IpAddr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut addresses: Vec<IpAddr> = file
        .lines()
        .filter_map(|line| {
            let text = line.split('#').next().unwrap_or(line);
            let mut fields = text.split_whitespace();
            let address = fields.next()?.parse().ok()?;
            fields
                .any(|field| field.eq_ignore_ascii_case(name))
                .then_some(address)
        })
        .collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_with_the_name_counts_whatever_its_case() {
        let file = "\
# made by hand
::1 ip6-localhost box
127.0.1.1\tbox.example.test  Box # the host itself
nonsense box
192.0.2.9 boxes
";
        let found = |name: &str| -> Vec<_> {
            let found = find(file, name);
            found.iter().map(IpAddr::to_string).collect()
        };
        assert_eq!(found("BOX"), ["127.0.1.1", "::1"]);
        assert_eq!(found("box.example.test."), ["127.0.1.1"]);
        assert!(found("the").is_empty());
    }
}
