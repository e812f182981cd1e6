//! Identity tokens of sandboxes: what they are for, and what they are called.

use std::collections::BTreeMap;

use crate::RequestRules;

const MOST_TOKENS: usize = 5;
const LONGEST_NAME: usize = 128;
const LONGEST_AUDIENCE: usize = 1024;
/// The one kind of token that there is.
const TOKEN_TYPE: &str = "JWT-SVID";

/// The identity tokens that rules of a sandbox may name, each with its audience.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdentityTokens(BTreeMap<String, String>);

/// Settings of a token in the words of its owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdentityTokenWords {
    /// Audience of the token.
    pub audience: Option<String>,
    /// Kind of the token.
    pub token_type: Option<String>,
}

/// The reason for which words are no settings of tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityTokenError {
    /// There are too many.
    #[error("iam.tokens: too many tokens: {0} (max {MOST_TOKENS})")]
    TooMany(usize),
    /// One has no name.
    #[error("iam.tokens: token name must not be empty")]
    NoName,
    /// A name cannot stand in a placeholder.
    #[error(
        "iam.tokens: a token name has at most {LONGEST_NAME} letters, digits, `_`, `-` and `.`"
    )]
    Name,
    /// One is for nobody.
    #[error("iam.tokens.{0}.audience: audience is required")]
    NoAudience(String),
    /// An audience is too long, or has control characters.
    #[error(
        "iam.tokens.{0}.audience: an audience has at most {LONGEST_AUDIENCE} bytes and no control \
         characters"
    )]
    Audience(String),
    /// One is of another kind.
    #[error("iam.tokens.{0}.tokenType: only \"{TOKEN_TYPE}\" is supported")]
    Type(String),
}

/// A rule that names a token which the sandbox does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Network transform header references the identity token \"{0}\", which iam.tokens does not have."
)]
pub struct UnknownToken(pub String);

impl IdentityTokens {
    /// Reads settings by name.
    ///
    /// # Errors
    ///
    /// [`IdentityTokenError`]
    pub fn new(
        words: impl IntoIterator<Item = (String, IdentityTokenWords)>,
    ) -> Result<Self, IdentityTokenError> {
        let words: Vec<_> = words.into_iter().collect();
        if words.len() > MOST_TOKENS {
            return Err(IdentityTokenError::TooMany(words.len()));
        }
        let tokens = words.into_iter().map(read);
        tokens.collect::<Result<_, _>>().map(Self)
    }

    /// Audiences by name that were checked when they were kept.
    pub fn from_record(audiences: BTreeMap<String, String>) -> Self {
        Self(audiences)
    }

    /// The audiences by name.
    pub fn audiences(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// The audience of the token of this name, if there is one.
    pub fn audience(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that rules name no other tokens.
    ///
    /// # Errors
    ///
    /// [`UnknownToken`]
    pub fn check(&self, rules: &RequestRules) -> Result<(), UnknownToken> {
        let unknown = rules.tokens().find(|name| !self.0.contains_key(*name));
        unknown.map_or(Ok(()), |name| Err(UnknownToken(name.to_owned())))
    }
}

fn read(
    (name, words): (String, IdentityTokenWords),
) -> Result<(String, String), IdentityTokenError> {
    if name.is_empty() {
        return Err(IdentityTokenError::NoName);
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.len() > LONGEST_NAME || !name.bytes().all(is_letter) {
        return Err(IdentityTokenError::Name);
    }
    let audience = words.audience.unwrap_or_default();
    if audience.is_empty() {
        return Err(IdentityTokenError::NoAudience(name));
    }
    if audience.len() > LONGEST_AUDIENCE || audience.chars().any(char::is_control) {
        return Err(IdentityTokenError::Audience(name));
    }
    if words.token_type.as_deref() != Some(TOKEN_TYPE) {
        return Err(IdentityTokenError::Type(name));
    }
    Ok((name, audience))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestRuleWords;

    fn words(audience: &str, token_type: &str) -> IdentityTokenWords {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        IdentityTokenWords {
            audience: given(audience),
            token_type: given(token_type),
        }
    }

    #[track_caller]
    fn check_refused(name: &str, words: IdentityTokenWords, said: &str) {
        let refused = IdentityTokens::new([(name.to_owned(), words)]).unwrap_err();
        assert_eq!(refused.to_string(), said);
    }

    #[test]
    fn settings_are_refused_in_the_contracts_words() {
        let good = || words("sts.amazonaws.com", TOKEN_TYPE);
        let many = (0..6).map(|number| (format!("t{number}"), good()));
        let refused = IdentityTokens::new(many).unwrap_err().to_string();
        assert_eq!(refused, "iam.tokens: too many tokens: 6 (max 5)");
        check_refused("", good(), "iam.tokens: token name must not be empty");
        let said = "iam.tokens.a.audience: audience is required";
        check_refused("a", words("", TOKEN_TYPE), said);
        let said = "iam.tokens.a.tokenType: only \"JWT-SVID\" is supported";
        check_refused("a", words("x", "X509-SVID"), said);
        check_refused("a", words("x", ""), said);
        for name in ["a b", "a}", "${x}", "é", &"a".repeat(129)] {
            let refused = IdentityTokens::new([(name.to_owned(), good())]);
            assert_eq!(refused, Err(IdentityTokenError::Name), "{name}");
        }
        for audience in ["a\nb", &"a".repeat(1025)] {
            let refused = IdentityTokens::new([("a".to_owned(), words(audience, TOKEN_TYPE))]);
            assert_eq!(refused, Err(IdentityTokenError::Audience("a".to_owned())));
        }
    }

    #[test]
    fn rules_name_only_tokens_that_there_are() {
        let tokens = [("Aws".to_owned(), words("sts", TOKEN_TYPE))];
        let tokens = IdentityTokens::new(tokens).unwrap();
        assert_eq!(tokens.audience("Aws"), Some("sts"));
        assert_eq!(tokens.audience("aws"), None);
        let rules = |name: &str| {
            let value = format!("Bearer ${{e2b.identity.tokens.{name}}}");
            let rule = RequestRuleWords {
                headers: vec![("authorization".to_owned(), value)],
                ..RequestRuleWords::default()
            };
            RequestRules::new([("a.test".to_owned(), vec![rule])]).unwrap()
        };
        assert_eq!(tokens.check(&rules("Aws")), Ok(()));
        let unknown = Err(UnknownToken("gcp".to_owned()));
        assert_eq!(tokens.check(&rules("gcp")), unknown);
        assert_eq!(tokens.check(&RequestRules::default()), Ok(()));
    }
}
