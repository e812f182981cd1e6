//! Resource usage of sandboxes over time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Resource usage of a sandbox at one moment. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    /// Time of the measurement.
    pub timestamp: Timestamp,
    /// The same in seconds since 1970.
    pub timestamp_unix: i64,
    /// Number of processors that it may use.
    pub cpu_count: u32,
    /// Processor usage since the point before, as a percentage of one processor: 100 is one, 200 is
    /// two.
    pub cpu_used_pct: f64,
    /// Memory in use.
    pub mem_used: u64,
    /// Memory it may use.
    pub mem_total: u64,
    /// Page cache in `mem_used`.
    pub mem_cache: u64,
    /// Disk in use.
    pub disk_used: u64,
    /// Disk it may use.
    pub disk_total: u64,
    /// Bytes received over the network since its start. Ours: other servers do not send it.
    #[serde(default)]
    pub net_received: u64,
    /// Bytes sent over the network since its start. Ours, too.
    #[serde(default)]
    pub net_sent: u64,
    /// Processor time since its start, in seconds. Ours, too.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// The most memory it ever used. Ours, too.
    #[serde(default)]
    pub mem_peak: u64,
    /// Memory on average since its start. Ours, too.
    #[serde(default)]
    pub mem_average: u64,
    /// Bytes read from its disk since its start. Ours, too.
    #[serde(default)]
    pub disk_read: u64,
    /// Bytes written to its disk since its start. Ours, too.
    #[serde(default)]
    pub disk_written: u64,
}

/// `GET /sandboxes/metrics`: the latest point of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Metrics by sandbox id.
    pub sandboxes: BTreeMap<String, Metric>,
}

/// `GET /teams/{id}/metrics`: what a team ran during one step of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamMetric {
    /// Time at which the step begins.
    pub timestamp: Timestamp,
    /// The same in seconds since 1970.
    pub timestamp_unix: i64,
    /// The most sandboxes that ran at a time.
    pub concurrent_sandboxes: u32,
    /// Sandboxes started per second.
    pub sandbox_start_rate: f64,
}

/// `GET /teams/{id}/metrics/max`: the highest value of one of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaxTeamMetric {
    /// Time of the highest value.
    pub timestamp: Timestamp,
    /// The same in seconds since 1970.
    pub timestamp_unix: i64,
    /// The highest value itself.
    pub value: f64,
}
