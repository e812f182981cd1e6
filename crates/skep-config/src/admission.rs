//! `[admission]`: when the host has room for another sandbox.

use serde::Deserialize;
use skep_types::{AdmissionPolicy, Reserve};

/// Conditions under which the host has room for another sandbox; see [`AdmissionPolicy`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admission {
    /// False to refuse nothing.
    pub enabled: bool,
    /// Memory that sandboxes do not get.
    #[serde(deserialize_with = "reserve")]
    pub memory_reserve: Reserve,
    /// Memory that a new sandbox is expected to need.
    pub memory_per_sandbox_mib: u32,
    /// Largest ratio of all memory limits to the host's memory.
    #[serde(deserialize_with = "factor")]
    pub memory_overcommit: f64,
    /// Disk that sandboxes do not get.
    #[serde(deserialize_with = "reserve")]
    pub disk_reserve: Reserve,
    /// Disk space that a new sandbox is expected to write.
    pub disk_per_sandbox_mib: u32,
    /// Largest ratio of all disk limits to the size of the file system.
    #[serde(deserialize_with = "factor")]
    pub disk_overcommit: f64,
    /// Processes that sandboxes do not get.
    #[serde(deserialize_with = "percent")]
    pub process_reserve: Reserve,
}

impl Default for Admission {
    fn default() -> Self {
        let policy = AdmissionPolicy::default();
        Self {
            enabled: policy.enabled,
            memory_reserve: policy.memory_reserve,
            memory_per_sandbox_mib: policy.memory_per_sandbox_mib,
            memory_overcommit: policy.memory_overcommit,
            disk_reserve: policy.disk_reserve,
            disk_per_sandbox_mib: policy.disk_per_sandbox_mib,
            disk_overcommit: policy.disk_overcommit,
            process_reserve: policy.process_reserve,
        }
    }
}

impl Admission {
    /// The rules of admission that this says.
    pub fn policy(&self) -> AdmissionPolicy {
        AdmissionPolicy {
            enabled: self.enabled,
            memory_reserve: self.memory_reserve,
            memory_per_sandbox_mib: self.memory_per_sandbox_mib,
            memory_overcommit: self.memory_overcommit,
            disk_reserve: self.disk_reserve,
            disk_per_sandbox_mib: self.disk_per_sandbox_mib,
            disk_overcommit: self.disk_overcommit,
            process_reserve: self.process_reserve,
        }
    }
}

/// A part such as `5%`, a size such as `512 MiB`, or `5% or 2 GiB` for what is less.
fn reserve<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Reserve, D::Error> {
    let text = String::deserialize(source)?;
    parse_reserve(&text).ok_or_else(|| {
        let expected =
            "a part from `0%` to `100%`, a size in `MiB` or `GiB`, or one `or` the other";
        serde::de::Error::custom(format!("`{text}` is not {expected}"))
    })
}

/// A part such as `5%`.
fn percent<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Reserve, D::Error> {
    match reserve(source)? {
        percent @ Reserve::Percent(_) => Ok(percent),
        Reserve::Bytes(_) | Reserve::Least { .. } => {
            Err(serde::de::Error::custom("it is a part, such as `5%`"))
        }
    }
}

fn parse_reserve(text: &str) -> Option<Reserve> {
    if let Some((part, size)) = text.split_once(" or ") {
        return match (parse_reserve(part.trim())?, parse_reserve(size.trim())?) {
            (Reserve::Percent(percent), Reserve::Bytes(bytes)) => {
                Some(Reserve::Least { percent, bytes })
            }
            _ => None,
        };
    }
    if let Some(number) = text.strip_suffix('%') {
        let percent: f64 = number.trim().parse().ok()?;
        return (0.0..=100.0)
            .contains(&percent)
            .then_some(Reserve::Percent(percent));
    }
    let units = [("MiB", 20), ("GiB", 30)];
    units.iter().find_map(|(unit, shift)| {
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_shl(*shift).map(Reserve::Bytes)
    })
}

/// Deserializes a finite factor that is more than 0.
fn factor<'de, D: serde::Deserializer<'de>>(source: D) -> Result<f64, D::Error> {
    let factor = f64::deserialize(source)?;
    if factor.is_finite() && factor > 0.0 {
        Ok(factor)
    } else {
        Err(serde::de::Error::custom("it must be more than 0"))
    }
}
