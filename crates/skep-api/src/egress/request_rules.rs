//! Rules for requests, between the contract and the domain.

use skep_types::{RequestPatternWords, RequestRuleError, RequestRuleWords, RequestRules};
use skep_wire::rest::{
    NetworkLimits, NetworkRequests, NetworkRule, NetworkRules, NetworkTransform,
};

use crate::error::ApiError;

/// The rules that are meant. `null` for a domain's list is an empty one.
pub(crate) fn read_rules(rules: NetworkRules) -> Result<RequestRules, ApiError> {
    let words = rules.into_iter().map(|(domain, rules)| {
        let words = rules.unwrap_or_default().into_iter().map(words);
        (domain, words.collect())
    });
    Ok(RequestRules::new(words)?)
}

/// The rules as they are shown; nothing if there are none. What is empty in them is left out: clients
/// take `null` for an object and break.
pub(crate) fn shown_rules(rules: &RequestRules) -> Option<NetworkRules> {
    let shown: NetworkRules = rules
        .words()
        .into_iter()
        .map(|(domain, words)| {
            let rules = words.into_iter().map(shown_rule);
            (domain, Some(rules.collect()))
        })
        .collect();
    (!shown.is_empty()).then_some(shown)
}

fn words(rule: NetworkRule) -> RequestRuleWords {
    let headers = rule.transform.unwrap_or_default().headers;
    let limits = rule.limits.unwrap_or_default();
    let pattern = |pattern: NetworkRequests| RequestPatternWords {
        methods: pattern.methods.unwrap_or_default(),
        paths: pattern.paths.unwrap_or_default(),
    };
    RequestRuleWords {
        headers: headers.unwrap_or_default().into_iter().collect(),
        requests: (rule.requests).map(|all| all.into_iter().map(pattern).collect()),
        requests_per_minute: limits.requests_per_minute,
        bytes: limits.bytes,
        bytes_per_second: limits.bytes_per_second,
    }
}

fn shown_rule(words: RequestRuleWords) -> NetworkRule {
    let limits = NetworkLimits {
        requests_per_minute: words.requests_per_minute,
        bytes: words.bytes,
        bytes_per_second: words.bytes_per_second,
    };
    let listed = |list: Vec<String>| (!list.is_empty()).then_some(list);
    let pattern = |pattern: RequestPatternWords| NetworkRequests {
        methods: listed(pattern.methods),
        paths: listed(pattern.paths),
    };
    NetworkRule {
        transform: (!words.headers.is_empty()).then(|| NetworkTransform {
            headers: Some(words.headers.into_iter().collect()),
        }),
        requests: (words.requests).map(|all| all.into_iter().map(pattern).collect()),
        limits: (limits != NetworkLimits::default()).then_some(limits),
    }
}

impl From<RequestRuleError> for ApiError {
    fn from(error: RequestRuleError) -> Self {
        Self::bad_request("validation_error", error.to_string())
    }
}
