//! Rules for requests to hosts: headers that are put into them, and requests that are not let through.
//!
//! They grant nothing. Whether a sandbox reaches a host at all is decided before, by the addresses and
//! names of its policy. Headers and the secrets in them go into requests inside TLS alone.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use super::header_name::{HeaderName, HeaderNameError};
use super::request_pattern::{RequestPattern, RequestPatternError, RequestPatternWords};
use super::{HostName, HostPattern, shortened};
use crate::{HeaderTemplate, SecretName};

/// Limits of the contract.
const MOST_DOMAINS: usize = 10;
const MOST_RULES: usize = 1;
const MOST_HEADERS: usize = 20;
const MOST_SECRETS: usize = 32;
const LONGEST_DOMAIN: usize = 128;
const LONGEST_VALUE: usize = 2048;
/// Limit on the patterns of requests of a rule.
const MOST_PATTERNS: usize = 32;

/// Rules for requests, by the hosts that they are sent to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestRules(Vec<DomainRule>);

/// A host, or all hosts below one, and what holds for requests there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DomainRule {
    /// Never every host.
    domain: HostPattern,
    rule: Option<RequestRule>,
}

/// Rule for requests to a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestRule {
    headers: Vec<(HeaderName, HeaderTemplate)>,
    requests: Option<Vec<RequestPattern>>,
    limits: RequestLimits,
}

/// Limits on what goes to a host and comes from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestLimits {
    /// Requests in a minute.
    pub requests_per_minute: Option<NonZeroU64>,
    /// Bytes in both directions, for as long as the sandbox's proxy runs.
    pub bytes: Option<NonZeroU64>,
    /// Bytes in both directions in a second.
    pub bytes_per_second: Option<NonZeroU64>,
}

/// A rule in the words of its owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestRuleWords {
    /// Names of headers and their values, with placeholders.
    pub headers: Vec<(String, String)>,
    /// The requests that are let through; all of them if there is no list.
    pub requests: Option<Vec<RequestPatternWords>>,
    /// Requests in a minute.
    pub requests_per_minute: Option<i64>,
    /// Bytes in both directions.
    pub bytes: Option<i64>,
    /// Bytes in both directions in a second.
    pub bytes_per_second: Option<i64>,
}

/// The reason for which words are no rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestRuleError {
    /// There are too many domains.
    #[error("Network rules can have at most {MOST_DOMAINS} domains.")]
    TooManyDomains,
    /// A domain is empty.
    #[error("Rule domain must not be empty.")]
    NoDomain,
    /// A domain is too long.
    #[error("Rule domain \"{0}\" exceeds maximum length of {LONGEST_DOMAIN} characters.")]
    LongDomain(String),
    /// A domain is neither the name of a host nor one with `*.` before it.
    #[error("Rule domain \"{0}\" is not a valid domain name.")]
    Domain(String),
    /// Two domains are the same.
    #[error("Network rule domain keys must be unique ignoring case.")]
    SameDomain,
    /// A domain has too many rules.
    #[error("Domain \"{0}\" can have at most {MOST_RULES} transform rule.")]
    TooManyRules(String),
    /// A rule has too many headers.
    #[error("Domain \"{0}\" can have at most {MOST_HEADERS} headers per rule.")]
    TooManyHeaders(String),
    /// The name of a header is none.
    #[error("Rule domain \"{domain}\" has an invalid header name \"{name}\".")]
    HeaderName {
        /// The domain.
        domain: String,
        /// The name.
        name: String,
    },
    /// A header that decides about the message or the host.
    #[error(
        "Rule domain \"{domain}\" cannot set the header \"{name}\": it belongs to the connection or \
         names the host."
    )]
    ReservedHeader {
        /// The domain.
        domain: String,
        /// The name.
        name: String,
    },
    /// A header has two values.
    #[error("Rule domain \"{domain}\" sets the header \"{name}\" twice.")]
    SameHeader {
        /// The domain.
        domain: String,
        /// The name.
        name: String,
    },
    /// The value of a header is too long, or has control characters.
    #[error(
        "Rule domain \"{domain}\" has an invalid value for the header \"{name}\": it can have at most \
         {LONGEST_VALUE} bytes and no control characters."
    )]
    HeaderValue {
        /// The domain.
        domain: String,
        /// Name of the header.
        name: String,
    },
    /// A placeholder is nested, has no end, or names nothing.
    #[error("Network transform header contains a malformed E2B placeholder.")]
    Placeholder,
    /// A domain needs too many secrets.
    #[error("Rule domain \"{0}\" references more than {MOST_SECRETS} secrets.")]
    TooManySecrets(String),
    /// Requests that no client sends.
    #[error("Rule domain \"{domain}\": {reason}.")]
    Requests {
        /// The domain.
        domain: String,
        /// Reason, for a person.
        reason: String,
    },
    /// A limit that is no number of requests or bytes.
    #[error("Rule domain \"{domain}\": {limit} must be at least 1.")]
    Limit {
        /// The domain.
        domain: String,
        /// Name of the limit.
        limit: &'static str,
    },
}

impl RequestRules {
    /// Reads rules: domains, each with its rules, of which there is one at most.
    ///
    /// # Errors
    ///
    /// [`RequestRuleError`], in the order of the contract.
    pub fn new(
        words: impl IntoIterator<Item = (String, Vec<RequestRuleWords>)>,
    ) -> Result<Self, RequestRuleError> {
        let words: Vec<_> = words.into_iter().collect();
        if words.len() > MOST_DOMAINS {
            return Err(RequestRuleError::TooManyDomains);
        }
        let mut rules: Vec<DomainRule> = Vec::with_capacity(words.len());
        for (name, of_domain) in words {
            let rule = DomainRule::new(name, of_domain)?;
            if rules.iter().any(|known| known.domain == rule.domain) {
                return Err(RequestRuleError::SameDomain);
            }
            rules.push(rule);
        }
        Ok(Self(rules))
    }

    /// The rules in their owner's words, with domains in lower case and with placeholders.
    pub fn words(&self) -> Vec<(String, Vec<RequestRuleWords>)> {
        let words = self.0.iter().map(|known| {
            let rules = known.rule.iter().map(RequestRule::words);
            (known.domain.to_string(), rules.collect())
        });
        words.collect()
    }

    /// Returns true if there is no domain.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if there is a rule that does something.
    pub fn have_effect(&self) -> bool {
        let mut rules = self.0.iter().filter_map(|known| known.rule.as_ref());
        rules.any(RequestRule::has_effect)
    }

    /// Returns true if there is a rule that holds for requests of plain HTTP.
    pub fn concern_plain_requests(&self) -> bool {
        let mut rules = self.0.iter().filter_map(|known| known.rule.as_ref());
        rules.any(RequestRule::concerns_plain_requests)
    }

    /// Returns true if requests have to be seen for one of them.
    pub fn look_inside(&self) -> bool {
        let mut rules = self.0.iter().filter_map(|known| known.rule.as_ref());
        rules.any(RequestRule::looks_inside)
    }

    /// The rule for requests to a host, and the domain that it is of: the host's own, or that of the
    /// longest name above it. They are never put together. `None` if no rule for it does anything.
    pub fn find(&self, host: &HostName) -> Option<(&HostPattern, &RequestRule)> {
        let fitting = self
            .0
            .iter()
            .filter(|known| known.domain.matches(host.as_str()));
        let nearest = fitting.max_by_key(|known| match &known.domain {
            HostPattern::Any => (false, 0),
            HostPattern::Below(parent) => (false, parent.len()),
            HostPattern::Exact(_) => (true, 0),
        })?;
        let rule = nearest.rule.as_ref().filter(|rule| rule.has_effect())?;
        Some((&nearest.domain, rule))
    }

    /// Identity tokens that headers name.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        let rules = self.0.iter().filter_map(|known| known.rule.as_ref());
        let templates = rules.flat_map(|rule| rule.headers.iter().map(|(_, value)| value));
        templates.flat_map(HeaderTemplate::tokens)
    }
}

impl RequestRule {
    /// Headers that replace those of the same name in a request inside TLS.
    pub fn headers(&self) -> &[(HeaderName, HeaderTemplate)] {
        &self.headers
    }

    /// Returns true if a request is let through, whatever the limits say.
    pub fn allows(&self, method: &str, path: &str) -> bool {
        let Some(requests) = &self.requests else {
            return true;
        };
        requests.iter().any(|pattern| pattern.allows(method, path))
    }

    /// Returns true if there are requests that it does not let through.
    pub fn judges_requests(&self) -> bool {
        self.requests.is_some()
    }

    /// Limits on what goes there and comes back.
    pub fn limits(&self) -> RequestLimits {
        self.limits
    }

    /// Returns true if requests have to be seen for it, so that TLS has to end at the proxy. Bytes can
    /// be counted from outside.
    pub fn looks_inside(&self) -> bool {
        !self.headers.is_empty()
            || self.requests.is_some()
            || self.limits.requests_per_minute.is_some()
    }

    /// Returns true if it holds for requests of plain HTTP, too: headers are not put into those.
    pub fn concerns_plain_requests(&self) -> bool {
        self.requests.is_some() || self.limits != RequestLimits::default()
    }

    fn has_effect(&self) -> bool {
        self.looks_inside() || self.limits != RequestLimits::default()
    }

    fn words(&self) -> RequestRuleWords {
        let headers = self.headers.iter();
        let number = |limit: Option<NonZeroU64>| {
            limit.map(|limit| i64::try_from(limit.get()).unwrap_or(i64::MAX))
        };
        let requests = self.requests.as_ref();
        RequestRuleWords {
            headers: headers
                .map(|(name, value)| (name.as_str().to_owned(), value.as_str().to_owned()))
                .collect(),
            requests: requests.map(|all| all.iter().map(RequestPattern::words).collect()),
            requests_per_minute: number(self.limits.requests_per_minute),
            bytes: number(self.limits.bytes),
            bytes_per_second: number(self.limits.bytes_per_second),
        }
    }
}

impl DomainRule {
    fn new(name: String, words: Vec<RequestRuleWords>) -> Result<Self, RequestRuleError> {
        if name.is_empty() {
            return Err(RequestRuleError::NoDomain);
        }
        if name.len() > LONGEST_DOMAIN {
            return Err(RequestRuleError::LongDomain(shortened(name)));
        }
        let domain = match name.parse() {
            Ok(domain @ (HostPattern::Exact(_) | HostPattern::Below(_))) => domain,
            Ok(HostPattern::Any) | Err(_) => return Err(RequestRuleError::Domain(name)),
        };
        if words.len() > MOST_RULES {
            return Err(RequestRuleError::TooManyRules(name));
        }
        let rule = words
            .into_iter()
            .next()
            .map(|words| read_rule(&name, words))
            .transpose()?;
        Ok(Self { domain, rule })
    }
}

fn read_rule(domain: &str, words: RequestRuleWords) -> Result<RequestRule, RequestRuleError> {
    let number = |limit, value: Option<i64>| {
        let number = |value: i64| u64::try_from(value).ok().and_then(NonZeroU64::new);
        let missing = || RequestRuleError::Limit {
            domain: domain.to_owned(),
            limit,
        };
        value
            .map(|value| number(value).ok_or_else(missing))
            .transpose()
    };
    Ok(RequestRule {
        headers: read_headers(domain, words.headers)?,
        requests: words
            .requests
            .map(|requests| read_requests(domain, requests))
            .transpose()?,
        limits: RequestLimits {
            requests_per_minute: number("limits.requestsPerMinute", words.requests_per_minute)?,
            bytes: number("limits.bytes", words.bytes)?,
            bytes_per_second: number("limits.bytesPerSecond", words.bytes_per_second)?,
        },
    })
}

fn read_headers(
    domain: &str,
    words: Vec<(String, String)>,
) -> Result<Vec<(HeaderName, HeaderTemplate)>, RequestRuleError> {
    if words.len() > MOST_HEADERS {
        return Err(RequestRuleError::TooManyHeaders(domain.to_owned()));
    }
    let mut headers: Vec<(HeaderName, HeaderTemplate)> = Vec::with_capacity(words.len());
    for (name, value) in words {
        let domain = || domain.to_owned();
        let name: HeaderName = match name.parse() {
            Ok(name) => name,
            Err(HeaderNameError::Invalid) => {
                let (domain, name) = (domain(), shortened(name));
                return Err(RequestRuleError::HeaderName { domain, name });
            }
            Err(HeaderNameError::OfTheConnection) => {
                let domain = domain();
                return Err(RequestRuleError::ReservedHeader { domain, name });
            }
        };
        let shown = || name.to_string();
        if headers.iter().any(|(known, _)| *known == name) {
            let (domain, name) = (domain(), shown());
            return Err(RequestRuleError::SameHeader { domain, name });
        }
        if value.len() > LONGEST_VALUE || value.chars().any(char::is_control) {
            let (domain, name) = (domain(), shown());
            return Err(RequestRuleError::HeaderValue { domain, name });
        }
        let value =
            HeaderTemplate::parse(&value).map_err(|_malformed| RequestRuleError::Placeholder)?;
        headers.push((name, value));
    }
    let secrets: BTreeSet<&SecretName> = headers
        .iter()
        .flat_map(|(_, value)| value.secrets())
        .collect();
    if secrets.len() > MOST_SECRETS {
        return Err(RequestRuleError::TooManySecrets(domain.to_owned()));
    }
    Ok(headers)
}

fn read_requests(
    domain: &str,
    words: Vec<RequestPatternWords>,
) -> Result<Vec<RequestPattern>, RequestRuleError> {
    let refused = |reason: String| RequestRuleError::Requests {
        domain: domain.to_owned(),
        reason,
    };
    if words.is_empty() {
        let reason = "requests has no entry; leave it out to let all requests through";
        return Err(refused(reason.to_owned()));
    }
    if words.len() > MOST_PATTERNS {
        return Err(refused(format!(
            "requests can have at most {MOST_PATTERNS} entries"
        )));
    }
    let patterns: Result<_, RequestPatternError> =
        words.into_iter().map(RequestPattern::new).collect();
    patterns.map_err(|error| refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Words = Vec<(String, Vec<RequestRuleWords>)>;

    fn headers(headers: &[(&str, &str)]) -> RequestRuleWords {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        RequestRuleWords {
            headers: headers.iter().map(owned).collect(),
            ..RequestRuleWords::default()
        }
    }

    fn one(domain: &str, rule: RequestRuleWords) -> Words {
        vec![(domain.to_owned(), vec![rule])]
    }

    fn header(name: &str, value: &str) -> Words {
        one("a.test", headers(&[(name, value)]))
    }

    #[track_caller]
    fn check_refused(words: Words, said: &str) {
        let refused = RequestRules::new(words).unwrap_err();
        assert_eq!(refused.to_string(), said);
    }

    #[test]
    fn rules_are_shown_as_they_were_given_with_domains_in_lower_case() {
        let full = RequestRuleWords {
            requests: Some(vec![RequestPatternWords {
                methods: vec!["GET".into()],
                paths: vec!["/v1/*".into()],
            }]),
            requests_per_minute: Some(60),
            bytes: Some(1),
            bytes_per_second: Some(i64::MAX),
            ..headers(&[("X-Key", "Bearer ${e2b.secrets.K} ${x}")])
        };
        let given = vec![
            ("A.Test".to_owned(), vec![full.clone()]),
            ("*.b.TEST".to_owned(), vec![]),
            ("c.test".to_owned(), vec![RequestRuleWords::default()]),
        ];
        let shown = vec![
            ("a.test".to_owned(), vec![full]),
            ("*.b.test".to_owned(), vec![]),
            ("c.test".to_owned(), vec![RequestRuleWords::default()]),
        ];
        let rules = RequestRules::new(given).unwrap();
        assert_eq!(rules.words(), shown);
        assert_eq!(RequestRules::new(shown), Ok(rules));
    }

    #[test]
    fn the_hosts_own_rule_goes_before_the_longest_above_it_and_they_are_not_put_together() {
        let rules = ["*.test", "*.b.test", "a.b.test"]
            .map(|domain| (domain.to_owned(), vec![headers(&[("x-at", domain)])]));
        let nothing = ("none.b.test".to_owned(), vec![RequestRuleWords::default()]);
        let rules = RequestRules::new(rules.into_iter().chain([nothing])).unwrap();
        for (host, found) in [
            ("a.b.test", Some("a.b.test")),
            ("A.B.test.", Some("a.b.test")),
            ("x.a.b.test", Some("*.b.test")),
            ("x.b.test", Some("*.b.test")),
            ("b.test", Some("*.test")),
            ("test", None),
            ("none.b.test", None),
            ("other.example", None),
        ] {
            let found_domain = rules.find(&host.parse().unwrap()).map(|(domain, rule)| {
                assert_eq!(rule.headers()[0].1.as_str(), domain.to_string());
                domain.to_string()
            });
            assert_eq!(found_domain.as_deref(), found, "{host}");
        }
    }

    #[test]
    fn domains_are_refused_in_the_contracts_words() {
        let empty = |domains: &[&str]| {
            let rules = domains.iter().map(|name| ((*name).to_owned(), Vec::new()));
            rules.collect::<Words>()
        };
        let names: Vec<_> = (0..11).map(|number| format!("a{number}.test")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        RequestRules::new(empty(&names[..10])).unwrap();
        check_refused(empty(&names), "Network rules can have at most 10 domains.");
        check_refused(empty(&[""]), "Rule domain must not be empty.");
        let long = format!("{}.test", ["a"; 70].join("."));
        let said = format!("Rule domain \"{long}\" exceeds maximum length of 128 characters.");
        check_refused(empty(&[&long]), &said);
        for name in [
            "*", "a b", "http://a", "a:443", "1.2.3.4", "*.*.a", "[::1]", "é.test",
        ] {
            let said = format!("Rule domain \"{name}\" is not a valid domain name.");
            check_refused(empty(&[name]), &said);
        }
        let said = "Network rule domain keys must be unique ignoring case.";
        check_refused(empty(&["a.test", "A.TEST"]), said);
        let two = vec![("a.test".to_owned(), vec![RequestRuleWords::default(); 2])];
        check_refused(two, "Domain \"a.test\" can have at most 1 transform rule.");
    }

    #[test]
    fn headers_are_refused_in_the_contracts_words() {
        let names: Vec<_> = (0..21).map(|number| format!("x-{number}")).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), "v")).collect();
        RequestRules::new(one("a.test", headers(&all[..20]))).unwrap();
        let said = "Domain \"a.test\" can have at most 20 headers per rule.";
        check_refused(one("a.test", headers(&all)), said);
        let said = "Rule domain \"a.test\" has an invalid header name \"a b\".";
        check_refused(header("a b", "v"), said);
        let reserved = RequestRules::new(header("Host", "b.test")).unwrap_err();
        assert!(
            reserved
                .to_string()
                .contains("cannot set the header \"Host\"")
        );
        let twice = one("a.test", headers(&[("X-A", "1"), ("x-a", "2")]));
        check_refused(
            twice,
            "Rule domain \"a.test\" sets the header \"x-a\" twice.",
        );
        let long = "v".repeat(2049);
        for value in ["a\r\nb", "\0", "a\tb", &long] {
            let refused = RequestRules::new(header("x", value)).unwrap_err();
            assert!(
                matches!(refused, RequestRuleError::HeaderValue { .. }),
                "{value}"
            );
        }
        RequestRules::new(header("x", &long[1..])).unwrap();
        let said = "Network transform header contains a malformed E2B placeholder.";
        for value in [
            "${e2b.secrets.}",
            "${e2b.secrets.sec_a}",
            "${e2b.identity.tokens.a",
        ] {
            check_refused(header("x", value), said);
        }
    }

    #[test]
    fn secrets_are_counted_once_each() {
        let value = |from: usize| {
            let names = (from..from + 17).map(|number| format!("${{e2b.secrets.k{number}}}"));
            names.collect::<String>()
        };
        let rule = |second: usize| {
            let (first, second) = (value(0), value(second));
            one(
                "a.test",
                headers(&[("a", &first), ("b", &second), ("c", &first)]),
            )
        };
        RequestRules::new(rule(15)).unwrap();
        let said = "Rule domain \"a.test\" references more than 32 secrets.";
        check_refused(rule(17), said);
    }

    #[test]
    fn requests_that_fit_no_pattern_are_not_let_through() {
        let pattern = |method: &str, path: &str| RequestPatternWords {
            methods: vec![method.to_owned()],
            paths: vec![path.to_owned()],
        };
        let with = |requests| {
            RequestRules::new(one(
                "a.test",
                RequestRuleWords {
                    requests: Some(requests),
                    ..RequestRuleWords::default()
                },
            ))
        };
        let rules = with(vec![pattern("GET", "/v1/*"), pattern("POST", "/v1/chat")]).unwrap();
        let (_, rule) = rules.find(&"a.test".parse().unwrap()).unwrap();
        assert!(rule.looks_inside() && rule.judges_requests());
        assert!(rule.allows("GET", "/v1/chat") && rule.allows("POST", "/v1/chat"));
        assert!(!rule.allows("POST", "/v1/other") && !rule.allows("GET", "/"));
        assert!(
            with(Vec::new()).is_err(),
            "an empty list is no list of requests"
        );
        with(vec![pattern("get", "/")]).unwrap_err();
        let all = RequestRules::new(header("x", "v")).unwrap();
        let (_, all) = all.find(&"a.test".parse().unwrap()).unwrap();
        assert!(all.allows("DELETE", "/anything") && !all.judges_requests());
    }

    #[test]
    fn a_limit_is_a_number_and_bytes_are_counted_from_outside() {
        let with = |bytes| {
            let rule = RequestRuleWords {
                bytes: Some(bytes),
                ..RequestRuleWords::default()
            };
            RequestRules::new(one("a.test", rule))
        };
        let rules = with(7).unwrap();
        let (_, rule) = rules.find(&"a.test".parse().unwrap()).unwrap();
        assert_eq!(rule.limits().bytes.map(NonZeroU64::get), Some(7));
        assert!(!rule.looks_inside() && !rules.look_inside());
        for wrong in [0, -1] {
            let said = "Rule domain \"a.test\": limits.bytes must be at least 1.";
            assert_eq!(with(wrong).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn tokens_are_told() {
        let rules = header("x", "${e2b.identity.tokens.Aws} ${e2b.secrets.k}");
        let rules = RequestRules::new(rules).unwrap();
        assert_eq!(rules.tokens().collect::<Vec<_>>(), ["Aws"]);
        assert!(rules.have_effect() && rules.look_inside() && !rules.is_empty());
        let nothing = RequestRules::new(vec![("a.test".to_owned(), Vec::new())]).unwrap();
        assert!(!nothing.have_effect() && !nothing.is_empty());
    }
}
