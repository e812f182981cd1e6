//! What sandboxes use.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a sandbox used at one moment. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    /// When.
    pub timestamp: Timestamp,
    /// The same in seconds since 1970.
    pub timestamp_unix: i64,
    /// How many processors it may use.
    pub cpu_count: u32,
    /// How much of one processor it used since the point before: 100 is one, 200 is two.
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
    /// What came to it over the network since its start. Ours: other servers do not send it.
    #[serde(default)]
    pub net_received: u64,
    /// What it sent over the network since its start. Ours, too.
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
    /// What it read from its disk since its start. Ours, too.
    #[serde(default)]
    pub disk_read: u64,
    /// What it wrote to its disk since its start. Ours, too.
    #[serde(default)]
    pub disk_written: u64,
}

/// `GET /sandboxes/metrics`: the latest point of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// By sandbox id.
    pub sandboxes: BTreeMap<String, Metric>,
}

/// `GET /teams/{id}/metrics`: what a team ran during one step of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamMetric {
    /// When the step begins.
    pub timestamp: Timestamp,
    /// The same in seconds since 1970.
    pub timestamp_unix: i64,
    /// The most sandboxes that ran at a time.
    pub concurrent_sandboxes: u32,
    /// How many started per second.
    pub sandbox_start_rate: f64,
}

/// `GET /teams/{id}/metrics/max`: the highest value of one of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaxTeamMetric {
    /// When it was so high.
    pub timestamp: Timestamp,
    /// The same in seconds since 1970.
    pub timestamp_unix: i64,
    /// How high.
    pub value: f64,
}
