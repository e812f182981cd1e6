//! Signatures by which a receiver knows that it was us.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

/// The contract's signature: a plain hash of the secret and the body, one after the other.
pub(crate) fn plain(secret: &[u8], body: &[u8]) -> String {
    let hash = Sha256::new().chain_update(secret).chain_update(body);
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

/// Ours beside it: an HMAC of the time and the body, so that neither can be extended and what is old
/// can be refused.
pub(crate) fn timed(secret: &[u8], at: Timestamp, body: &[u8]) -> String {
    let seconds = at.as_second();
    let mac = Hmac::<Sha256>::new_from_slice(secret)
        .expect("a key of any length will do")
        .chain_update(seconds.to_string())
        .chain_update(".")
        .chain_update(body)
        .finalize();
    format!("t={seconds},v1={}", hex::encode(mac.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's `hashlib` and `hmac`.
    #[test]
    fn signatures_are_what_others_compute() {
        let body = br#"{"id":"1"}"#;
        assert_eq!(
            plain(b"s3cret", body),
            "Cvj-tsavdXP3xgGbcCbsJuV2Po0Rxb70FKs7F7RH_rM"
        );
        let at = Timestamp::from_second(1_790_000_000).unwrap();
        assert_eq!(
            timed(b"s3cret", at, body),
            "t=1790000000,v1=f192598aa9e2545b3fc47aae778a5d16611bc08687a22d1575226dfece7f4501"
        );
    }
}
