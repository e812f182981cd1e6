//! The text form of policies for outgoing connections.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skep_types::{
    Egress, EgressProxy, EgressRules, RequestPatternWords, RequestRuleWords, RequestRules,
};

use super::ReadError;

/// A policy for outgoing connections.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum WrittenEgress {
    /// The word of older servers, which had two policies.
    Word(String),
    Rules {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        internet: Option<bool>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allowed: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        denied: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolvers: Option<Vec<String>>,
        /// Rules for requests by domain. Missing in records of older servers, which had none.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        requests: BTreeMap<String, Vec<WrittenRule>>,
        /// Missing if there is none, and in records of older servers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proxy: Option<WrittenProxy>,
    },
}

/// A proxy of the owner's own.
#[derive(Serialize, Deserialize)]
pub(super) struct WrittenProxy {
    address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    username: Option<String>,
    /// Opens by the key of the vault alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed_password: Option<String>,
}

/// A rule for requests.
#[derive(Serialize, Deserialize)]
pub(super) struct WrittenRule {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    patterns: Option<Vec<WrittenPattern>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requests_per_minute: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct WrittenPattern {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    methods: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    paths: Vec<String>,
}

impl WrittenEgress {
    pub(super) fn of(egress: &Egress) -> Self {
        let EgressRules {
            internet,
            allowed,
            denied,
            resolvers,
        } = egress.rules();
        let requests = egress
            .request_rules()
            .words()
            .into_iter()
            .map(|(domain, words)| {
                let rules = words.into_iter().map(WrittenRule::of);
                (domain, rules.collect())
            });
        Self::Rules {
            internet,
            allowed,
            denied,
            resolvers,
            requests: requests.collect(),
            proxy: egress.proxy().map(WrittenProxy::of),
        }
    }

    pub(super) fn read(self) -> Result<Egress, ReadError> {
        match self {
            Self::Word(word) if word == "internet" => Ok(Egress::default()),
            Self::Word(word) if word == "none" => Ok(Egress::closed()),
            Self::Word(word) => Err(ReadError::Word(word)),
            Self::Rules {
                internet,
                allowed,
                denied,
                resolvers,
                requests,
                proxy,
            } => {
                let egress = Egress::new(EgressRules {
                    internet,
                    allowed,
                    denied,
                    resolvers,
                });
                let requests = requests.into_iter().map(|(domain, rules)| {
                    let words = rules.into_iter().map(WrittenRule::read);
                    (domain, words.collect())
                });
                let requests = RequestRules::new(requests).map_err(ReadError::RequestRules)?;
                let egress = egress.map_err(ReadError::Egress)?;
                let proxy = proxy.map(WrittenProxy::read).transpose()?;
                Ok(egress.with_request_rules(requests).with_proxy(proxy))
            }
        }
    }
}

impl WrittenProxy {
    fn of(proxy: &EgressProxy) -> Self {
        Self {
            address: proxy.address().to_string(),
            username: proxy.username().map(str::to_owned),
            sealed_password: proxy.sealed_password().map(str::to_owned),
        }
    }

    fn read(self) -> Result<EgressProxy, ReadError> {
        let address = self.address.parse().map_err(ReadError::EgressProxy)?;
        let sealed = self.sealed_password;
        Ok(EgressProxy::written(address, self.username, sealed))
    }
}

impl WrittenRule {
    fn of(words: RequestRuleWords) -> Self {
        let pattern = |pattern: RequestPatternWords| WrittenPattern {
            methods: pattern.methods,
            paths: pattern.paths,
        };
        Self {
            headers: words.headers,
            patterns: (words.requests).map(|all| all.into_iter().map(pattern).collect()),
            requests_per_minute: words.requests_per_minute,
            bytes: words.bytes,
            bytes_per_second: words.bytes_per_second,
        }
    }

    fn read(self) -> RequestRuleWords {
        let pattern = |pattern: WrittenPattern| RequestPatternWords {
            methods: pattern.methods,
            paths: pattern.paths,
        };
        RequestRuleWords {
            headers: self.headers,
            requests: (self.patterns).map(|all| all.into_iter().map(pattern).collect()),
            requests_per_minute: self.requests_per_minute,
            bytes: self.bytes,
            bytes_per_second: self.bytes_per_second,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Egress, ReadError> {
        serde_json::from_str::<WrittenEgress>(text).unwrap().read()
    }

    #[test]
    fn the_words_of_older_servers_are_policies() {
        assert_eq!(read(r#""none""#).unwrap(), Egress::closed());
        assert_eq!(read(r#""internet""#).unwrap(), Egress::default());
        assert!(matches!(read(r#""much""#), Err(ReadError::Word(_))));
        let invalid = read(r#"{"allowed":["a b"]}"#);
        assert!(matches!(invalid, Err(ReadError::Egress(_))));
    }

    #[test]
    fn a_proxy_reads_back_as_it_was_written() {
        for (username, sealed) in [(None, None), (Some("u"), None), (Some("u"), Some("00ff"))] {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let address = "p.test:1080".parse().unwrap();
            let proxy = EgressProxy::written(address, text(username), text(sealed));
            let egress = Egress::default().with_proxy(Some(proxy));
            let text = serde_json::to_string(&WrittenEgress::of(&egress)).unwrap();
            assert_eq!(read(&text).unwrap(), egress);
        }
        let invalid = read(r#"{"proxy":{"address":"x"}}"#);
        assert!(matches!(invalid, Err(ReadError::EgressProxy(_))));
    }

    #[test]
    fn rules_for_requests_read_back_as_they_were_written() {
        let rule = RequestRuleWords {
            headers: vec![("X-Key".to_owned(), "Bearer ${e2b.secrets.k}".to_owned())],
            requests: Some(vec![RequestPatternWords {
                methods: vec!["GET".to_owned()],
                paths: vec!["/v1/*".to_owned()],
            }]),
            requests_per_minute: Some(1),
            bytes: Some(2),
            bytes_per_second: Some(3),
        };
        let rules = [
            ("a.test".to_owned(), vec![rule]),
            ("*.test".to_owned(), vec![]),
        ];
        let egress = Egress::default().with_request_rules(RequestRules::new(rules).unwrap());
        let text = serde_json::to_string(&WrittenEgress::of(&egress)).unwrap();
        // The order of domains means nothing.
        let mut words = read(&text).unwrap().request_rules().words();
        words.reverse();
        assert_eq!(words, egress.request_rules().words());
        let invalid = read(r#"{"requests":{"a b":[]}}"#);
        assert!(matches!(invalid, Err(ReadError::RequestRules(_))));
    }
}
