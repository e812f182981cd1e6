//! The requests of a sandbox, for its owner.

use std::collections::VecDeque;

use jiff::Timestamp;
use parking_lot::Mutex;
use skep_types::LoggedRequest;

use crate::message::{Ended, LONGEST_HOST, LONGEST_METHOD, LONGEST_PATH, Refusal};

/// Requests that are kept; the oldest are forgotten.
const MOST: usize = 1000;

/// The last requests of a sandbox.
#[derive(Debug, Default)]
pub struct RequestLog(Mutex<LoggedRequests>);

#[derive(Debug, Default)]
struct LoggedRequests {
    last: u64,
    requests: VecDeque<LoggedRequest>,
}

impl RequestLog {
    /// The requests that are kept, the oldest first.
    pub fn read(&self) -> Vec<LoggedRequest> {
        self.0.lock().requests.iter().cloned().collect()
    }

    pub(crate) fn add(&self, ended: Ended) {
        let at = Timestamp::now();
        let mut kept = self.0.lock();
        kept.last += 1;
        let request = request(kept.last, at, ended);
        if kept.requests.len() >= MOST {
            kept.requests.pop_front();
        }
        kept.requests.push_back(request);
    }
}

fn request(number: u64, at: Timestamp, ended: Ended) -> LoggedRequest {
    LoggedRequest {
        number,
        at,
        host: ended.host.map(|host| plain(&host, LONGEST_HOST)),
        port: ended.port,
        method: ended.method.map(|method| plain(&method, LONGEST_METHOD)),
        path: ended.path.map(|path| plain(&path, LONGEST_PATH)),
        status: ended.status,
        sent: ended.sent,
        received: ended.received,
        rule: ended.rule.map(|rule| plain(&rule, LONGEST_HOST + 2)),
        refusal: ended.refusal.map(Refusal::text).map(str::to_owned),
    }
}

/// The text in a form that is one word in every line and does nothing to a terminal.
fn plain(text: &str, longest: usize) -> String {
    let plain = |character: char| {
        if character.is_ascii_graphic() {
            character
        } else {
            '?'
        }
    };
    let mut characters = text.chars();
    let mut shortened: String = characters.by_ref().take(longest).map(plain).collect();
    if characters.next().is_some() {
        shortened.push_str("...");
    }
    shortened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_writes_into_the_log_is_one_short_word() {
        let log = RequestLog::default();
        log.add(Ended {
            host: Some("a.test\r\n2026 GET evil".into()),
            path: Some(format!("/\u{1b}[2J{}", "x".repeat(5000))),
            method: Some("G\tT".into()),
            ..Ended::default()
        });
        let [request] = &log.read()[..] else {
            panic!("there is one request");
        };
        assert_eq!(request.host.as_deref(), Some("a.test??2026?GET?evil"));
        assert_eq!(request.method.as_deref(), Some("G?T"));
        let path = request.path.as_deref().unwrap();
        assert!(path.starts_with("/?[2Jx") && path.len() == LONGEST_PATH + 3);
    }

    #[test]
    fn the_oldest_requests_are_forgotten_and_numbers_go_on() {
        let log = RequestLog::default();
        for _ in 0..MOST + 5 {
            log.add(Ended::default());
        }
        let kept = log.read();
        assert_eq!(kept.len(), MOST);
        assert_eq!(kept.first().unwrap().number, 6);
    }
}
