//! Tokens that say who a sandbox is, signed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use skep_seal::Zeroizing;
use skep_types::{ExecutionId, SandboxId, TeamId, TemplateId, random_bytes};

use crate::{Issuer, SigningKey, SigningKeyError};

/// Time for which a token holds. It is minted for a request and sent at once.
pub const TOKEN_LIFETIME: Duration = Duration::from_mins(5);
/// Time before it is minted from which it holds, for verifiers whose clock is behind.
const LEEWAY: Duration = Duration::from_secs(30);

/// The sandbox that a token is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its team.
    pub team: TeamId,
    /// The template that it is made of.
    pub template: TemplateId,
    /// Its id.
    pub sandbox: SandboxId,
    /// This run of it: another after each resume.
    pub execution: ExecutionId,
}

impl Subject {
    /// The subject as a SPIFFE id in the issuer's trust domain.
    fn spiffe_id(&self, issuer: &Issuer) -> String {
        let domain = issuer.trust_domain();
        let Self {
            team,
            template,
            sandbox,
            execution,
        } = self;
        format!(
            "spiffe://{domain}/team/{team}/template/{template}/sandbox/{sandbox}/execution/{execution}"
        )
    }
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'a str,
    kid: &'a str,
    typ: &'a str,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: String,
    aud: &'a str,
    iat: u64,
    nbf: u64,
    exp: u64,
    jti: String,
    team: &'a str,
    template: &'a str,
    sandbox: &'a str,
    execution: String,
}

/// A token that says to `audience` that a request comes from `subject`, minted `now` (since 1970).
///
/// # Errors
///
/// [`SigningKeyError::Sign`]
pub fn sign(
    key: &SigningKey,
    issuer: &Issuer,
    subject: &Subject,
    audience: &str,
    now: Duration,
) -> Result<Zeroizing<String>, SigningKeyError> {
    let header = Header {
        alg: "ES256",
        kid: &key.public().id,
        typ: "JWT",
    };
    let claims = Claims {
        iss: issuer.url(),
        sub: subject.spiffe_id(issuer),
        aud: audience,
        iat: now.as_secs(),
        nbf: now.saturating_sub(LEEWAY).as_secs(),
        exp: (now + TOKEN_LIFETIME).as_secs(),
        jti: URL_SAFE_NO_PAD.encode(random_bytes::<16>()),
        team: subject.team.as_str(),
        template: subject.template.as_str(),
        sandbox: subject.sandbox.as_str(),
        execution: subject.execution.to_string(),
    };
    let mut token = part(&header);
    token.push('.');
    token.push_str(&part(&claims));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(token.as_bytes())?);
    token.push('.');
    token.push_str(&signature);
    Ok(Zeroizing::new(token))
}

fn part(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).expect("texts and numbers serialise");
    URL_SAFE_NO_PAD.encode(text)
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use serde_json::Value;

    use super::*;

    fn decoded(part: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(part).unwrap()
    }

    #[test]
    fn a_token_says_who_asks_and_is_signed_by_the_key_that_it_names() {
        let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        let issuer: Issuer = "https://api.skep.test:8443".parse().unwrap();
        let subject = Subject {
            team: TeamId::random(),
            template: TemplateId::random(),
            sandbox: SandboxId::random(),
            execution: ExecutionId::random(),
        };
        let now = Duration::from_secs(1_000_000);
        let token = sign(&key, &issuer, &subject, "sts.test", now).unwrap();
        let parts: Vec<_> = token.split('.').collect();
        let [header, claims, signature] = parts.as_slice() else {
            panic!("{} parts", parts.len());
        };
        let header: Value = serde_json::from_slice(&decoded(header)).unwrap();
        assert_eq!(header["alg"], "ES256");
        assert_eq!(header["kid"], key.public().id);
        let claims: Value = serde_json::from_slice(&decoded(claims)).unwrap();
        assert_eq!(claims["iss"], "https://api.skep.test:8443");
        assert_eq!(claims["aud"], "sts.test");
        assert_eq!(claims["iat"], 1_000_000);
        assert_eq!(claims["exp"], 1_000_300);
        assert_eq!(claims["nbf"], 999_970);
        assert_eq!(claims["sandbox"], subject.sandbox.as_str());
        let sub = claims["sub"].as_str().unwrap();
        assert!(sub.starts_with("spiffe://api.skep.test/team/"), "{sub}");
        let last = format!(
            "/sandbox/{}/execution/{}",
            subject.sandbox, subject.execution
        );
        assert!(sub.ends_with(&last), "{sub}");
        let public = key.public();
        let point = [vec![4], decoded(&public.x), decoded(&public.y)].concat();
        let signed = token.rsplit_once('.').unwrap().0;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .verify(signed.as_bytes(), &decoded(signature))
            .unwrap();
    }
}
