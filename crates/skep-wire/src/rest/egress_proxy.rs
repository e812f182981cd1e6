//! The proxy of an owner's own.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// A SOCKS5 proxy for everything that leaves a sandbox.
///
/// What is wrong with its form is told without what stands there: people write passwords into wrong
/// places.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressProxy {
    /// Host and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// User that it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password of that user. Never in an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// TLS to the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<EgressProxyTls>,
}

/// TLS to a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressProxyTls {
    /// True if the proxy is spoken to in TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Name that its certificate is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Authority that vouches for it, in PEM. Never in an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_cert: Option<String>,
}

impl fmt::Debug for EgressProxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EgressProxy")
            .field("has_password", &self.password.is_some())
            .finish_non_exhaustive()
    }
}

impl<'de> Deserialize<'de> for EgressProxy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        read(value).map_err(D::Error::custom)
    }
}

fn read(value: Value) -> Result<EgressProxy, &'static str> {
    let Value::Object(mut fields) = value else {
        return Err("Invalid egress proxy config: egressProxy must be an object");
    };
    let tls = match fields.remove("tls") {
        None | Some(Value::Null) => None,
        Some(Value::Object(mut tls)) => Some(EgressProxyTls {
            enabled: match tls.remove("enabled") {
                None | Some(Value::Null) => None,
                Some(Value::Bool(enabled)) => Some(enabled),
                Some(_) => {
                    return Err("Invalid egress proxy config: tls.enabled must be a boolean");
                }
            },
            server_name: text(&mut tls, "serverName")?,
            ca_cert: text(&mut tls, "caCert")?,
        }),
        Some(_) => return Err("Invalid egress proxy config: tls must be an object"),
    };
    Ok(EgressProxy {
        address: text(&mut fields, "address")?,
        username: text(&mut fields, "username")?,
        password: text(&mut fields, "password")?,
        tls,
    })
}

/// The text of a field, if it is there.
fn text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, &'static str> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(
            "Invalid egress proxy config: address, username, password, tls.serverName \
                        and tls.caCert must be strings",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_without_what_stands_there() {
        for text in [
            r#""socks5://u:hunter2@p:1""#,
            r#"["hunter2"]"#,
            r#"{"password":{"hunter2":1}}"#,
            r#"{"address":["hunter2"]}"#,
            r#"{"address":"p:1","password":"hunter2","tls":true}"#,
            r#"{"address":"p:1","tls":{"enabled":"hunter2"}}"#,
        ] {
            let refused = serde_json::from_str::<EgressProxy>(text).unwrap_err();
            let said = refused.to_string();
            assert!(said.starts_with("Invalid egress proxy config: "), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
        let text = r#"{"address":"p:1","username":null,"password":"hunter2","tls":null,"x":1}"#;
        let proxy: EgressProxy = serde_json::from_str(text).unwrap();
        assert_eq!(proxy.password.as_deref(), Some("hunter2"));
        assert!(!format!("{proxy:?}").contains("hunter2"));
    }
}
