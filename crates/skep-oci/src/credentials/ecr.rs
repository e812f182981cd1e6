//! Passwords for AWS's registries, which live half a day and are asked for with the keys of an
//! account.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use super::Basic;
use crate::error::PullReason;
use crate::sigv4::{Scope, SignedRequest, authorization};

const TARGET: &str = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken";
const CONTENT_TYPE: &str = "application/x-amz-json-1.1";
const BODY: &str = "{}";
/// Time limit for an answer of AWS.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);
const LARGEST_ANSWER: usize = 64 << 10;

/// The service that gives out passwords.
#[derive(Debug, Clone)]
pub(crate) struct Ecr {
    client: reqwest::Client,
    /// Address, if it is not AWS's own.
    endpoint: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    authorization_data: Vec<AuthorizationData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorizationData {
    authorization_token: String,
}

impl Ecr {
    pub(crate) fn new(client: reqwest::Client, endpoint: Option<String>) -> Self {
        Self { client, endpoint }
    }

    /// A name and a password for the registry of an account in a region.
    pub(crate) async fn token(
        &self,
        access_key_id: &str,
        secret_access_key: &str,
        region: &str,
    ) -> Result<Basic, PullReason> {
        let failed = |reason: &str| PullReason::Authentication(reason.to_owned());
        let host = host(region).ok_or_else(|| failed("the AWS region is not valid"))?;
        let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let headers = [
            ("content-type", CONTENT_TYPE),
            ("host", host.as_str()),
            ("x-amz-date", now.as_str()),
            ("x-amz-target", TARGET),
        ];
        let request = SignedRequest {
            method: "POST",
            path: "/",
            query: "",
            headers: &headers,
            body: BODY.as_bytes(),
        };
        let scope = Scope {
            time: &now,
            region,
            service: "ecr",
        };
        let authorization = authorization(&request, &scope, access_key_id, secret_access_key);
        let url = match &self.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => format!("https://{host}/"),
        };
        let mut sent = self.client.post(url).timeout(TOKEN_TIMEOUT).body(BODY);
        for (name, value) in headers {
            sent = sent.header(name, value);
        }
        let answer = sent
            .header("authorization", authorization)
            .send()
            .await
            .map_err(|_| failed("AWS cannot be reached for a token"))?;
        if !answer.status().is_success() {
            let status = answer.status().as_u16();
            return Err(failed(&format!("AWS refuses a token with status {status}")));
        }
        let bytes = crate::registry::read_bounded(answer, LARGEST_ANSWER)
            .await
            .ok_or_else(|| failed("AWS sent too much, or hung up"))?;
        serde_json::from_slice::<Answer>(&bytes)
            .ok()
            .and_then(|answer| answer.authorization_data.into_iter().next())
            .and_then(|data| Basic::decoded(&data.authorization_token))
            .ok_or_else(|| failed("AWS sent no token"))
    }
}

/// Host of the service in a region; `None` if the text can be no region.
fn host(region: &str) -> Option<String> {
    let is_valid = !region.is_empty()
        && region.len() <= 32
        && region
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
    is_valid.then(|| format!("api.ecr.{region}.amazonaws.com{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_never_a_host_of_its_own() {
        assert_eq!(
            host("us-east-1").as_deref(),
            Some("api.ecr.us-east-1.amazonaws.com")
        );
        assert_eq!(
            host("cn-north-1").as_deref(),
            Some("api.ecr.cn-north-1.amazonaws.com.cn")
        );
        for wrong in ["", "evil.test/", "a.b", "US-EAST-1", "a@b", "a#"] {
            assert_eq!(host(wrong), None, "{wrong}");
        }
    }
}
