//! The rules on DNS queries and answers, without any sockets.

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use ipnet::Ipv4Net;
use skep_types::HostName;

/// Decision on a packet received from a client.
#[derive(Debug)]
pub(super) enum Verdict {
    /// They are no question; answering would help an attacker reflect packets.
    Ignore,
    /// The answer is known.
    Answer(Vec<u8>),
    /// Somebody else knows.
    Ask(Question),
}

/// One question of a sandbox.
#[derive(Debug)]
pub(super) struct Question {
    message: Message,
}

/// Reads a question and decides what becomes of it.
#[expect(clippy::wildcard_enum_match_arm, reason = "a foreign list that grows")]
pub(super) fn judge(bytes: &[u8], may_resolve: impl Fn(&str) -> bool) -> Verdict {
    let Ok(message) = Message::from_vec(bytes) else {
        return Verdict::Ignore;
    };
    if message.metadata.message_type != MessageType::Query {
        return Verdict::Ignore;
    }
    let question = Question { message };
    let Some(query) = question.query() else {
        return question.refuse(ResponseCode::FormErr);
    };
    if question.message.metadata.op_code != OpCode::Query {
        return question.refuse(ResponseCode::NotImp);
    }
    if !may_resolve(&query.name().to_ascii()) {
        return question.refuse(ResponseCode::Refused);
    }
    match query.query_type() {
        // Sandboxes have no IPv6, and hints for it would only make clients wait.
        RecordType::AAAA | RecordType::HTTPS | RecordType::SVCB => {
            question.refuse(ResponseCode::NoError)
        }
        RecordType::AXFR | RecordType::IXFR => question.refuse(ResponseCode::Refused),
        _ => Verdict::Ask(question),
    }
}

impl Question {
    /// A question of our own, for the addresses of a host.
    pub(super) fn for_addresses(host: &HostName) -> Option<Self> {
        let mut name = Name::from_ascii(host.as_str()).ok()?;
        name.set_fqdn(true);
        let mut message = Message::new(0, MessageType::Query, OpCode::Query);
        message.add_query(Query::query(name, RecordType::A));
        Some(Self { message })
    }

    fn query(&self) -> Option<&Query> {
        match self.message.queries.as_slice() {
            [query] => Some(query),
            [] | [_, ..] => None,
        }
    }

    /// The bytes to ask a resolver with, under an id of ours that nobody in a sandbox knows.
    pub(super) fn for_upstream(&self, id: u16) -> Option<Vec<u8>> {
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(self.query()?.clone());
        message.to_vec().ok()
    }

    /// Parses `bytes`, if it is an answer to this question under `id`.
    pub(super) fn answered_by(&self, id: u16, bytes: &[u8]) -> Option<Message> {
        let answer = Message::from_vec(bytes).ok()?;
        let same = answer.metadata.id == id
            && answer.metadata.message_type == MessageType::Response
            // Records of an update may be empty, and could not be written into an answer.
            && answer.metadata.op_code == OpCode::Query
            && answer.queries.first() == self.query();
        same.then_some(answer)
    }

    /// The answer for the sandbox: what a resolver said, without addresses that are denied.
    #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign list that grows")]
    pub(super) fn filtered(
        &self,
        answer: Option<Message>,
        denied: &[Ipv4Net],
        allowed: &[Ipv4Net],
    ) -> Vec<u8> {
        let Some(answer) = answer else {
            return self.empty(ResponseCode::ServFail);
        };
        let reachable = |record: &&Record| match &record.data {
            RData::A(address) => {
                let within =
                    |ranges: &[Ipv4Net]| ranges.iter().any(|range| range.contains(&address.0));
                within(allowed) || !within(denied)
            }
            RData::AAAA(_) => false,
            _ => true,
        };
        let mut message = self.head(answer.metadata.response_code);
        message.metadata.truncation = answer.metadata.truncation;
        message.add_answers(answer.answers.iter().filter(reachable).cloned());
        message
            .to_vec()
            .unwrap_or_else(|_| self.empty(ResponseCode::ServFail))
    }

    fn refuse(&self, code: ResponseCode) -> Verdict {
        Verdict::Answer(self.empty(code))
    }

    fn empty(&self, code: ResponseCode) -> Vec<u8> {
        self.head(code)
            .to_vec()
            .expect("a question that was parsed can be written")
    }

    fn head(&self, code: ResponseCode) -> Message {
        let asked = &self.message.metadata;
        let mut message = Message::response(asked.id, asked.op_code);
        message.metadata.recursion_desired = asked.recursion_desired;
        message.metadata.recursion_available = true;
        message.metadata.response_code = code;
        message.add_queries(self.message.queries.iter().take(1).cloned());
        message
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_from_a_sandbox_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Verdict::Ask(question) = judge(&bytes, |_| true) {
                prop_assert!(question.for_upstream(7).is_some());
                question.filtered(question.answered_by(7, &bytes), &[], &[]);
            }
        }
    }

    #[test]
    fn the_answer_to_an_update_is_no_answer_to_a_question() {
        let mut asked = Message::new(3, MessageType::Query, OpCode::Query);
        let name = hickory_proto::rr::Name::from_ascii("example.com.").unwrap();
        asked.add_query(Query::query(name, RecordType::A));
        let Verdict::Ask(question) = judge(&asked.to_vec().unwrap(), |_| true) else {
            panic!("it would be asked");
        };
        for (op_code, is_taken) in [(OpCode::Query, true), (OpCode::Update, false)] {
            let mut answer = Message::response(7, op_code);
            answer.add_queries(asked.queries.iter().cloned());
            let bytes = answer.to_vec().unwrap();
            assert_eq!(question.answered_by(7, &bytes).is_some(), is_taken);
        }
    }

    #[test]
    fn an_answer_is_not_taken_for_a_question() {
        let answer = Message::response(7, OpCode::Query).to_vec().unwrap();
        assert!(matches!(judge(&answer, |_| true), Verdict::Ignore));
    }
}
