//! Options beyond the contract: the field `skep` of a request.
//!
//! Whoever sends it means us, so what is not understood in it is refused and not ignored: a
//! limit with a mistyped name would be no limit. A refusal never shows what was sent: it may be
//! a secret.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skep_kernels::Limits;
use skep_types::Secrets;
use skep_wire::interpreter as wire;

use crate::request::Refusal;

/// The name of the field. It is ours alone.
pub(crate) const FIELD: &str = "skep";

pub(crate) fn parse<T: DeserializeOwned + Default>(field: Option<Value>) -> Result<T, Refusal> {
    match field {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => serde_json::from_value(value).map_err(|error| {
            // The parser quotes values that have the wrong type, but not names of fields.
            let text = error.to_string();
            let reason = if text.starts_with("unknown field") {
                text
            } else {
                "a field has the wrong type".to_owned()
            };
            refused(&[], &reason)
        }),
    }
}

pub(crate) fn limits(options: &wire::LimitOptions) -> Result<Limits, Refusal> {
    let duration = |name: &str, seconds: Option<f64>| {
        let Some(seconds) = seconds else {
            return Ok(None);
        };
        match Duration::try_from_secs_f64(seconds) {
            Ok(duration) if !duration.is_zero() => Ok(Some(duration)),
            Ok(_) | Err(_) => Err(refused(
                &["limits", name],
                "a time is a positive number of seconds",
            )),
        }
    };
    if options.memory_bytes == Some(0) {
        let reason = "memory is a positive number of bytes";
        return Err(refused(&["limits", "memory_bytes"], reason));
    }
    Ok(Limits {
        time: duration("time_seconds", options.time_seconds)?,
        processor: duration("cpu_seconds", options.cpu_seconds)?,
        memory: options.memory_bytes,
    })
}

/// The values themselves, and those of the variables that are named.
pub(crate) fn secrets(
    values: Vec<String>,
    names: &[String],
    variables: &BTreeMap<String, String>,
) -> Result<Secrets, Refusal> {
    let mut all = values;
    for name in names {
        match variables.get(name) {
            Some(value) => all.push(value.clone()),
            None => {
                let reason = format!("there is no variable '{name}' in env_vars");
                return Err(refused(&["secret_envs"], &reason));
            }
        }
    }
    Secrets::new(all).map_err(|error| refused(&["secrets"], &error.to_string()))
}

fn refused(path: &[&str], reason: &str) -> Refusal {
    let location: Vec<&str> = ["body", FIELD].iter().chain(path).copied().collect();
    Refusal::Invalid(json!([{
        "type": "value_error",
        "loc": location,
        "msg": reason,
        "input": null,
    }]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Execute;

    fn read(options: &Value) -> Result<Execute, Refusal> {
        let body = json!({"code": "", "env_vars": {"KEY": "hunter22"}, "skep": options});
        Execute::parse(body.to_string().as_bytes())
    }

    #[track_caller]
    fn check_refused(options: &Value, location: &Value, reason: &str) {
        match read(options) {
            Err(Refusal::Invalid(detail)) => {
                assert_eq!(&detail[0]["loc"], location);
                let told = detail[0]["msg"].as_str().unwrap();
                assert!(told.contains(reason), "{told}");
                assert!(!detail.to_string().contains("hunter22"), "{detail}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn limits_and_secrets_are_read() {
        let options = json!({
            "limits": {"time_seconds": 1.5, "cpu_seconds": 2, "memory_bytes": 1000},
            "secrets": ["another-one"],
            "secret_envs": ["KEY"],
        });
        let read = read(&options).unwrap();
        assert_eq!(
            read.request.limits,
            Limits {
                time: Some(Duration::from_millis(1500)),
                processor: Some(Duration::from_secs(2)),
                memory: Some(1000),
            }
        );
        let secrets = ["another-one", "hunter22"].map(str::to_owned);
        assert_eq!(read.request.secrets, Secrets::new(secrets).unwrap());
    }

    #[test]
    fn nothing_is_no_limit_and_no_secret() {
        for options in [json!(null), json!({}), json!({"limits": {}})] {
            let read = read(&options).unwrap();
            assert_eq!(read.request.limits, Limits::default());
            assert!(read.request.secrets.is_empty());
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_and_never_shown() {
        let skep = json!(["body", "skep"]);
        check_refused(&json!({"limts": {}}), &skep, "unknown field `limts`");
        check_refused(&json!({"limits": {"time": 1}}), &skep, "unknown field");
        check_refused(&json!("hunter22"), &skep, "wrong type");
        check_refused(&json!({"secrets": "hunter22"}), &skep, "wrong type");
        for seconds in [json!(0), json!(-1), json!(1e300)] {
            let options = json!({"limits": {"cpu_seconds": seconds}});
            let place = json!(["body", "skep", "limits", "cpu_seconds"]);
            check_refused(&options, &place, "positive");
        }
        let place = json!(["body", "skep", "secrets"]);
        check_refused(&json!({"secrets": ["short"]}), &place, "at least 6 bytes");
        let place = json!(["body", "skep", "secret_envs"]);
        check_refused(&json!({"secret_envs": ["KYE"]}), &place, "KYE");
    }
}
