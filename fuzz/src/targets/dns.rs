//! Questions of sandboxes, answers of resolvers, and questions for the local domain.
//!
//! The input is a question and what a resolver answers to it: two bytes of length, the question,
//! the answer. The answer gets the right id, and as often as not the right question, since no
//! mutation would guess them.

#[path = "../../../crates/skep-host/src/dns/answer.rs"]
mod answer;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use answer::{Verdict, judge};
use hickory_proto::op::{Message, MessageType};
use hickory_proto::rr::RData;
use ipnet::Ipv4Net;
use skep_domain::LocalDns;

static LOCAL_DNS: LazyLock<LocalDns> = LazyLock::new(|| {
    LocalDns::new("skep.test", vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]).expect("a domain name")
});

/// Ranges that answers must not lead to, and the exception.
static DENIED: LazyLock<Vec<Ipv4Net>> = LazyLock::new(|| {
    [
        "10.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "192.168.0.0/16",
    ]
    .map(|range| range.parse().expect("a range"))
    .to_vec()
});
static ALLOWED: LazyLock<Vec<Ipv4Net>> =
    LazyLock::new(|| vec!["10.1.2.0/24".parse().expect("a range")]);

pub(super) fn check(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
    let (question, answer) = rest.split_at(length);
    local_domain(question);
    match judge(question, |_| true) {
        Verdict::Ignore => {}
        Verdict::Answer(bytes) => is_answer_to(question, &bytes),
        Verdict::Ask(asked) => {
            let id = 0x1234;
            let sent = asked.for_upstream(id).expect("a question can be passed on");
            let sent = Message::from_vec(&sent).expect("we write what can be read");
            let message = answer_for(&sent, answer);
            let accepted = message.and_then(|bytes| asked.answered_by(id, &bytes));
            let filtered = asked.filtered(accepted, &DENIED, &ALLOWED);
            is_answer_to(question, &filtered);
            leads_nowhere_denied(&filtered);
        }
    }
    if let Verdict::Answer(bytes) = judge(question, |_| false) {
        let refused = Message::from_vec(&bytes).expect("we write what can be read");
        assert!(
            refused.answers.is_empty(),
            "who may not resolve learns nothing"
        );
    }
}

fn local_domain(question: &[u8]) {
    if let Some(answer) = LOCAL_DNS.answer(question) {
        is_answer_to(question, &answer);
        let read = Message::from_vec(&answer).expect("we write what can be read");
        for record in &read.answers {
            assert!(matches!(&record.data, RData::A(address) if address.0.is_loopback()));
        }
    }
}

/// The answer as a resolver would send it: with the id and the question it was asked.
fn answer_for(sent: &Message, answer: &[u8]) -> Option<Vec<u8>> {
    let (choice, answer) = answer.split_first()?;
    let mut message = Message::from_vec(answer).ok()?;
    message.metadata.id = sent.metadata.id;
    message.metadata.message_type = MessageType::Response;
    if choice % 2 == 0 {
        message.queries.clone_from(&sent.queries);
    }
    message.to_vec().ok()
}

fn is_answer_to(question: &[u8], answer: &[u8]) {
    let read = Message::from_vec(answer).expect("we write what can be read");
    assert_eq!(read.metadata.message_type, MessageType::Response);
    assert_eq!(answer[..2], question[..2], "the id of the question");
}

fn leads_nowhere_denied(answer: &[u8]) {
    let read = Message::from_vec(answer).expect("we write what can be read");
    for record in &read.answers {
        match &record.data {
            RData::A(address) => {
                let within =
                    |ranges: &[Ipv4Net]| ranges.iter().any(|range| range.contains(&address.0));
                assert!(within(&ALLOWED) || !within(&DENIED), "{}", address.0);
            }
            RData::AAAA(address) => panic!("sandboxes have no IPv6: {}", address.0),
            _ => {}
        }
    }
}
