//! Signatures of requests to AWS, version 4.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A request that is to be signed. All that is in it is covered by the signature.
#[derive(Debug)]
pub(crate) struct SignedRequest<'a> {
    pub(crate) method: &'a str,
    /// Path, encoded as it is sent.
    pub(crate) path: &'a str,
    /// Query, sorted and encoded as it is sent.
    pub(crate) query: &'a str,
    /// Headers by their names in lower case, sorted; `host` and `x-amz-date` are among them.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a [u8],
}

/// Signer of a request, and the service that it signs for.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    /// Time as `20150830T123600Z`.
    pub(crate) time: &'a str,
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
}

/// The value of `Authorization` for a request.
pub(crate) fn authorization(
    request: &SignedRequest<'_>,
    scope: &Scope<'_>,
    access_key_id: &str,
    secret_access_key: &str,
) -> String {
    let names: Vec<&str> = request.headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let day = scope.time.get(..8).unwrap_or(scope.time);
    let credential = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let canonical = hex::encode(Sha256::digest(canonical(request, &names)));
    let text = format!("{ALGORITHM}\n{}\n{credential}\n{canonical}", scope.time);
    let mut key = mac(
        format!("AWS4{secret_access_key}").as_bytes(),
        day.as_bytes(),
    );
    for part in [scope.region, scope.service, "aws4_request"] {
        key = mac(&key, part.as_bytes());
    }
    let signature = hex::encode(mac(&key, text.as_bytes()));
    format!(
        "{ALGORITHM} Credential={access_key_id}/{credential}, SignedHeaders={names}, Signature={signature}"
    )
}

/// The one form of a request that both sides make of it.
fn canonical(request: &SignedRequest<'_>, names: &str) -> String {
    let headers: String = request
        .headers
        .iter()
        .map(|(name, value)| format!("{name}:{}\n", value.trim()))
        .collect();
    let body = hex::encode(Sha256::digest(request.body));
    format!(
        "{}\n{}\n{}\n{headers}\n{names}\n{body}",
        request.method, request.path, request.query
    )
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key and secret of AWS's published examples.
    const KEY: &str = "AKIDEXAMPLE";
    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    const TIME: &str = "20150830T123600Z";

    #[track_caller]
    fn check(request: &SignedRequest<'_>, service: &str, names: &str, signature: &str) {
        let scope = Scope {
            time: TIME,
            region: "us-east-1",
            service,
        };
        assert_eq!(
            authorization(request, &scope, KEY, SECRET),
            format!(
                "AWS4-HMAC-SHA256 Credential={KEY}/20150830/us-east-1/{service}/aws4_request, \
                 SignedHeaders={names}, Signature={signature}"
            )
        );
    }

    #[test]
    fn signatures_are_those_of_the_published_vectors() {
        let plain = [("host", "example.amazonaws.com"), ("x-amz-date", TIME)];
        // get-vanilla
        check(
            &SignedRequest {
                method: "GET",
                path: "/",
                query: "",
                headers: &plain,
                body: b"",
            },
            "service",
            "host;x-amz-date",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        );
        // get-vanilla-query-order-key-case
        check(
            &SignedRequest {
                method: "GET",
                path: "/",
                query: "Param1=value1&Param2=value2",
                headers: &plain,
                body: b"",
            },
            "service",
            "host;x-amz-date",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        );
        // post-vanilla
        check(
            &SignedRequest {
                method: "POST",
                path: "/",
                query: "",
                headers: &plain,
                body: b"",
            },
            "service",
            "host;x-amz-date",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        );
        // post-x-www-form-urlencoded
        check(
            &SignedRequest {
                method: "POST",
                path: "/",
                query: "",
                headers: &[
                    ("content-type", "application/x-www-form-urlencoded"),
                    ("host", "example.amazonaws.com"),
                    ("x-amz-date", TIME),
                ],
                body: b"Param1=value1",
            },
            "service",
            "content-type;host;x-amz-date",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        );
        // The worked example of the documentation.
        check(
            &SignedRequest {
                method: "GET",
                path: "/",
                query: "Action=ListUsers&Version=2010-05-08",
                headers: &[
                    (
                        "content-type",
                        "application/x-www-form-urlencoded; charset=utf-8",
                    ),
                    ("host", "iam.amazonaws.com"),
                    ("x-amz-date", TIME),
                ],
                body: b"",
            },
            "iam",
            "content-type;host;x-amz-date",
            "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        );
    }
}
