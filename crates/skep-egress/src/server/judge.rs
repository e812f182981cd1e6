//! Judging single requests by the rules for their hosts, and keeping account of what rules limit.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use skep_types::{RequestLimits, RequestRule};
use tokio::time::Instant;

use super::Gate;
use super::live::Live;
use crate::FillError;
use crate::message::{Connection, Pace, Refusal, Way};

/// Time in which a limit of requests is counted.
const MINUTE: Duration = Duration::from_secs(60);
/// Time limit for the value of a header.
const FILL_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of all values of a request. Hosts take no more headers than that.
const MOST_VALUES: usize = 24 * 1024;
/// Rules that account is kept of. A policy has ten; a change may bring others.
const MOST_ACCOUNTS: usize = 64;

/// Headers that are put into a request, and limits on its bytes.
pub(super) type Allowed = (Vec<(String, String)>, Option<Pace>);

/// Treatment of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It is passed on as it is.
    Direct,
    /// It is passed on as it is, and counted.
    Metered,
    /// Its requests have to be read first.
    Inspect,
    /// It carries requests that are judged one by one.
    Requests { secure: bool },
}

impl Treatment {
    /// Treatment of a connection to a host with this rule.
    pub(super) fn of(rule: Option<&RequestRule>, way: Way) -> Self {
        match (way, rule) {
            (Way::Inside { secure, .. }, _) => Self::Requests { secure },
            (Way::Opaque | Way::Plain, None) => Self::Direct,
            (Way::Opaque, Some(rule)) if rule.looks_inside() => Self::Inspect,
            (Way::Opaque, Some(_)) => Self::Metered,
            // Headers are for TLS alone.
            (Way::Plain, Some(rule)) if rule.concerns_plain_requests() => Self::Inspect,
            (Way::Plain, Some(_)) => Self::Direct,
        }
    }
}

/// Account of what the rules of a sandbox limit, for as long as its proxy is there.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<HashMap<String, Account>>);

#[derive(Debug, Default)]
struct Account {
    spent: u64,
    /// The time at which all requests so far would have come, had they come evenly.
    even: Option<Instant>,
}

impl Ledger {
    /// Counts a request, if the limits of its rule allow one more now.
    fn admit(&self, rule: &str, limits: RequestLimits, now: Instant) -> Result<(), Refusal> {
        let mut accounts = self.0.lock();
        let account = account(&mut accounts, rule);
        if limits.bytes.is_some_and(|most| account.spent >= most.get()) {
            return Err(Refusal::Spent);
        }
        let Some(most) = limits.requests_per_minute else {
            return Ok(());
        };
        let nanos = u64::try_from(MINUTE.as_nanos()).unwrap_or(u64::MAX);
        let apart = Duration::from_nanos((nanos / most.get()).max(1));
        let even = account.even.map_or(now, |even| even.max(now)) + apart;
        if even - now > MINUTE {
            return Err(Refusal::TooFast);
        }
        account.even = Some(even);
        Ok(())
    }

    /// The limits on the bytes of a rule, if it has any.
    pub(super) fn pace(&self, rule: &str, limits: RequestLimits) -> Option<Pace> {
        if limits.bytes.is_none() && limits.bytes_per_second.is_none() {
            return None;
        }
        Some(Pace {
            rule: rule.to_owned(),
            spent: account(&mut self.0.lock(), rule).spent,
            bytes: limits.bytes.map(std::num::NonZeroU64::get),
            bytes_per_second: limits.bytes_per_second.map(std::num::NonZeroU64::get),
        })
    }

    /// Counts bytes that have gone to the hosts of a rule or come from there.
    pub(super) fn spend(&self, rule: &str, bytes: u64) {
        let mut accounts = self.0.lock();
        let account = account(&mut accounts, rule);
        account.spent = account.spent.saturating_add(bytes);
    }
}

fn account<'a>(accounts: &'a mut HashMap<String, Account>, rule: &str) -> &'a mut Account {
    if accounts.len() >= MOST_ACCOUNTS && !accounts.contains_key(rule) {
        // Only its owner can change rules that often.
        accounts.clear();
    }
    accounts.entry(rule.to_owned()).or_default()
}

/// Judges a request on a connection that is there, and fills in what is put into it.
pub(super) async fn judge(
    live: &Live,
    ledger: &Ledger,
    route: Connection,
    (method, path): (&str, &str),
) -> Result<Allowed, Refusal> {
    let (host, secure) = live.route(route).ok_or(Refusal::BrokenOff)?;
    let gate = live.gate();
    let found = host.and_then(|host| gate.request_rule(&host));
    let Some((name, rule)) = found else {
        return Ok((Vec::new(), None));
    };
    if !rule.allows(method, path) {
        return Err(Refusal::RequestNotAllowed);
    }
    ledger.admit(&name, rule.limits(), Instant::now())?;
    let headers = if secure {
        tokio::time::timeout(FILL_TIMEOUT, fill(gate, &rule))
            .await
            .map_err(|_| Refusal::NoValue)??
    } else {
        Vec::new()
    };
    Ok((headers, ledger.pace(&name, rule.limits())))
}

async fn fill(gate: &dyn Gate, rule: &RequestRule) -> Result<Vec<(String, String)>, Refusal> {
    let mut headers = Vec::new();
    let mut length = 0;
    for (name, template) in rule.headers() {
        let value = gate
            .fill(template.into())
            .await
            .map_err(|error| match error {
                FillError::UnknownSecret => Refusal::UnknownSecret,
                FillError::UnknownToken => Refusal::UnknownToken,
                FillError::Unavailable => Refusal::NoValue,
            })?;
        length += value.reveal().len();
        if length > MOST_VALUES {
            return Err(Refusal::NoValue);
        }
        headers.push((name.as_str().to_owned(), value.reveal().clone()));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn a_minute_has_its_requests_and_time_brings_new_ones() {
        let (ledger, begin) = (Ledger::default(), Instant::now());
        let limits = RequestLimits {
            requests_per_minute: NonZeroU64::new(3),
            ..RequestLimits::default()
        };
        let at = |seconds| ledger.admit("a", limits, begin + Duration::from_secs(seconds));
        assert_eq!([at(0), at(0), at(0)], [Ok(()); 3]);
        assert_eq!(at(1), Err(Refusal::TooFast));
        assert_eq!(at(20), Ok(()));
        assert_eq!(at(21), Err(Refusal::TooFast));
        assert_eq!(ledger.admit("b", limits, begin), Ok(()));
        assert_eq!([at(600), at(600), at(600)], [Ok(()); 3]);
        assert_eq!(at(600), Err(Refusal::TooFast));
    }

    #[test]
    fn a_rule_whose_bytes_are_used_up_lets_nothing_through() {
        let ledger = Ledger::default();
        let limits = RequestLimits {
            bytes: NonZeroU64::new(10),
            ..RequestLimits::default()
        };
        let admit = || ledger.admit("a", limits, Instant::now());
        ledger.spend("a", 9);
        assert_eq!(admit(), Ok(()));
        ledger.spend("a", u64::MAX);
        assert_eq!(admit(), Err(Refusal::Spent));
        assert_eq!(ledger.pace("a", limits).unwrap().spent, u64::MAX);
        assert_eq!(ledger.pace("a", RequestLimits::default()), None);
        for number in 0..1000 {
            ledger.spend(&number.to_string(), 1);
        }
        assert!(ledger.0.lock().len() <= MOST_ACCOUNTS);
    }
}
