//! Signed links to files, for clients that hold no token. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Operation that a link permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
}

/// Parameters that a link was signed for, exactly as they stand in the query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signed<'a> {
    pub(crate) path: &'a str,
    pub(crate) operation: Operation,
    pub(crate) username: &'a str,
    /// Unix seconds; `None` never expires.
    pub(crate) expiration: Option<i64>,
}

/// Reasons to turn away a caller without a token. The texts are part of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureError {
    #[error("access token present in header but does not match")]
    WrongToken,
    #[error("missing signature query parameter")]
    Missing,
    #[error("invalid signature")]
    Invalid,
    #[error("signature is already expired")]
    Expired,
}

/// Checks what the caller shows, a token or a signature, against the sandbox's token.
pub(crate) fn check(
    signed: &Signed<'_>,
    token: &str,
    shown_token: Option<&[u8]>,
    signature: Option<&str>,
    now: i64,
) -> Result<(), SignatureError> {
    if let Some(shown) = shown_token {
        return if equal(shown, token.as_bytes()) {
            Ok(())
        } else {
            Err(SignatureError::WrongToken)
        };
    }
    let signature = signature
        .filter(|text| !text.is_empty())
        .ok_or(SignatureError::Missing)?;
    if !equal(signature.as_bytes(), sign(signed, token).as_bytes()) {
        return Err(SignatureError::Invalid);
    }
    match signed.expiration {
        Some(expiration) if expiration < now => Err(SignatureError::Expired),
        Some(_) | None => Ok(()),
    }
}

/// The signature of a link.
pub(crate) fn sign(signed: &Signed<'_>, token: &str) -> String {
    let operation = match signed.operation {
        Operation::Read => "read",
        Operation::Write => "write",
    };
    let mut hash = Sha256::new();
    for part in [
        signed.path,
        ":",
        operation,
        ":",
        signed.username,
        ":",
        token,
    ] {
        hash.update(part);
    }
    if let Some(expiration) = signed.expiration {
        hash.update(format!(":{expiration}"));
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(hash.finalize()))
}

/// Compares secrets without telling by the time taken where they differ.
pub(crate) fn equal(shown: &[u8], secret: &[u8]) -> bool {
    shown.ct_eq(secret).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";

    fn link(expiration: Option<i64>) -> Signed<'static> {
        Signed {
            path: "hello.txt",
            operation: Operation::Read,
            username: "user",
            expiration,
        }
    }

    #[test]
    fn the_signature_is_the_one_that_the_sdks_compute() {
        assert_eq!(
            sign(&link(None), TOKEN),
            "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E"
        );
    }

    #[test]
    fn a_link_works_only_for_what_it_was_signed_for() {
        let signature = sign(&link(None), TOKEN);
        let check = |signed| check(&signed, TOKEN, None, Some(&signature), 0);
        assert_eq!(check(link(None)), Ok(()));
        for other in [
            Signed {
                path: "other.txt",
                ..link(None)
            },
            Signed {
                operation: Operation::Write,
                ..link(None)
            },
            Signed {
                username: "root",
                ..link(None)
            },
            link(Some(10)),
        ] {
            assert_eq!(check(other), Err(SignatureError::Invalid));
        }
    }

    #[test]
    fn a_false_signature_is_invalid_even_when_it_would_be_expired() {
        let signature = sign(&link(Some(10)), TOKEN);
        assert_eq!(
            check(&link(Some(10)), TOKEN, None, Some(&signature), 10),
            Ok(())
        );
        assert_eq!(
            check(&link(Some(10)), TOKEN, None, Some(&signature), 11),
            Err(SignatureError::Expired)
        );
        assert_eq!(
            check(&link(Some(10)), TOKEN, None, Some("v1_x"), 11),
            Err(SignatureError::Invalid)
        );
    }

    #[test]
    fn a_shown_token_decides_alone() {
        let signature = sign(&link(None), TOKEN);
        assert_eq!(
            check(&link(None), TOKEN, Some(TOKEN.as_bytes()), None, 0),
            Ok(())
        );
        assert_eq!(
            check(&link(None), TOKEN, Some(b"wrong"), Some(&signature), 0),
            Err(SignatureError::WrongToken)
        );
        assert_eq!(
            check(&link(None), TOKEN, None, None, 0),
            Err(SignatureError::Missing)
        );
    }
}
