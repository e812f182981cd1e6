//! Dividing what is scarce among those who want more of it than there is.

/// The most that each may have so that all together have at most `total`: whoever wants less
/// than that gets it all, and the rest is divided evenly among those who want more.
///
/// `u64::MAX` if everybody can have everything.
pub fn fair_share(mut wanted: Vec<u64>, total: u64) -> u64 {
    wanted.sort_unstable();
    let mut left = total;
    let mut others = wanted.len() as u64;
    for amount in wanted {
        let share = left / others;
        if amount > share {
            return share;
        }
        left -= amount;
        others -= 1;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_who_want_most_get_less() {
        assert_eq!(fair_share(vec![], 0), u64::MAX);
        assert_eq!(fair_share(vec![5, 5], 10), u64::MAX);
        assert_eq!(fair_share(vec![46, 1000], 100), 54);
        assert_eq!(fair_share(vec![60, 60, 10], 100), 45);
        assert_eq!(fair_share(vec![7, 9], 0), 0);
        assert_eq!(fair_share(vec![1, 1, 1], 2), 0, "rounded down");
    }
}
