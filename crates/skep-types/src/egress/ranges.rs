//! Sets of addresses.

use std::net::Ipv4Addr;

use super::AddressRange;

/// Addresses from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressSpan {
    /// The first address.
    pub first: Ipv4Addr,
    /// The last address, not before the first.
    pub last: Ipv4Addr,
}

/// Addresses that a policy lets a sandbox reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// All of them.
    Everything,
    /// No address, so that hosts can be reached at most by name.
    Nothing,
    /// Some: sorted, and with a gap after each.
    Some(Vec<AddressSpan>),
}

impl Reach {
    /// Ranges that are allowed, and everything that is not denied.
    pub(super) fn new<'a>(
        allowed: impl Iterator<Item = &'a AddressRange>,
        denied: impl Iterator<Item = &'a AddressRange>,
    ) -> Self {
        let mut open = inverted(&merged(spans(denied)));
        open.extend(spans(allowed));
        let open = merged(open);
        match open.as_slice() {
            [] => Self::Nothing,
            [(0, u32::MAX)] => Self::Everything,
            _ => {
                let span = |(first, last): (u32, u32)| AddressSpan {
                    first: first.into(),
                    last: last.into(),
                };
                Self::Some(open.into_iter().map(span).collect())
            }
        }
    }

    /// Returns true if the address is one of them.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        match self {
            Self::Everything => true,
            Self::Nothing => false,
            Self::Some(spans) => {
                let after = spans.partition_point(|span| span.first <= address);
                spans[..after]
                    .last()
                    .is_some_and(|span| address <= span.last)
            }
        }
    }
}

fn spans<'a>(ranges: impl Iterator<Item = &'a AddressRange>) -> Vec<(u32, u32)> {
    let ranges = ranges.filter_map(AddressRange::ipv4);
    let spans = ranges.map(|range| (range.network().into(), range.broadcast().into()));
    spans.collect()
}

/// The same addresses, sorted, with a gap after each span.
fn merged(mut spans: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    spans.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::with_capacity(spans.len());
    for (first, last) in spans {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            Some(_) | None => merged.push((first, last)),
        }
    }
    merged
}

/// All other addresses.
fn inverted(merged: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut gaps = Vec::with_capacity(merged.len() + 1);
    let mut next = Some(0);
    for (first, last) in merged {
        if let Some(next) = next
            && next < *first
        {
            gaps.push((next, first - 1));
        }
        next = last.checked_add(1);
    }
    gaps.extend(next.map(|next| (next, u32::MAX)));
    gaps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range() -> impl Strategy<Value = AddressRange> {
        // Few networks, so that they meet.
        let prefix = prop_oneof![Just(32u8), Just(31), Just(30), Just(8), Just(1)];
        let last = prop_oneof![0u32..8, (u32::MAX - 8)..=u32::MAX, Just(0x0808_0808)];
        (last, prefix).prop_filter_map("unspecified", |(address, prefix)| {
            format!("{}/{prefix}", Ipv4Addr::from(address)).parse().ok()
        })
    }

    proptest! {
        #[test]
        fn an_address_is_reached_if_it_is_allowed_or_not_denied(
            allowed in proptest::collection::vec(range(), 0..6),
            denied in proptest::collection::vec(range(), 0..6),
            near in prop_oneof![0u32..16, (u32::MAX - 16)..=u32::MAX, any::<u32>()],
        ) {
            let reach = Reach::new(allowed.iter(), denied.iter());
            let address = Ipv4Addr::from(near);
            let within = |ranges: &[AddressRange]| {
                ranges.iter().any(|range| range.ipv4().is_some_and(|range| range.contains(&address)))
            };
            prop_assert_eq!(reach.contains(address), within(&allowed) || !within(&denied));
            if let Reach::Some(spans) = &reach {
                for pair in spans.windows(2) {
                    prop_assert!(u32::from(pair[0].last) + 1 < u32::from(pair[1].first));
                }
                for span in spans {
                    prop_assert!(span.first <= span.last);
                }
            }
        }
    }
}
