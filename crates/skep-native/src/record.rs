//! The record by which a later server finds a sandbox again.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};
use skep_isolation::{AdoptError, LaunchRecord};
use skep_types::{Egress, SandboxId};

use crate::disk_meter::{DiskMeter, Traffic};
use crate::log::Identity;

/// Everything a later server needs to adopt a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: SandboxId,
    pub(crate) slot: u16,
    pub(crate) egress: Egress,
    /// Ids of processes are reused; an id with the time it was started at is not, until the
    /// host is restarted.
    pub(crate) pid: i32,
    pub(crate) started: u64,
    pub(crate) boot: String,
    /// Identity of its log's memory; missing if it was launched before logs were kept.
    pub(crate) log: Option<Identity>,
    /// The counters of its disk before it; missing if they were not known.
    pub(crate) meter: Option<DiskMeter>,
}

/// Serialized form of a [`Record`].
#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    id: String,
    slot: u16,
    internet: bool,
    pid: i32,
    started: u64,
    boot: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_device: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_inode: Option<u64>,
    /// The number of the device, then bytes read from it and written to it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk: Option<(u32, u64, u64)>,
}

const VERSION: u32 = 1;

impl Record {
    pub(crate) fn write(&self) -> LaunchRecord {
        let written = Written {
            version: VERSION,
            id: self.id.to_string(),
            slot: self.slot,
            internet: self.egress == Egress::Internet,
            pid: self.pid,
            started: self.started,
            boot: self.boot.clone(),
            log_device: self.log.map(|log| log.device),
            log_inode: self.log.map(|log| log.inode),
            disk: self
                .meter
                .map(|meter| (meter.device, meter.before.read, meter.before.written)),
        };
        LaunchRecord(serde_json::to_string(&written).expect("plain fields are always JSON"))
    }

    pub(crate) fn read(record: &LaunchRecord) -> Result<Self, AdoptError> {
        let unreadable =
            |error: Box<dyn std::error::Error + Send + Sync>| AdoptError::Record(error);
        let written: Written =
            serde_json::from_str(&record.0).map_err(|error| unreadable(error.into()))?;
        if written.version != VERSION {
            return Err(unreadable(
                format!("version {} is unknown", written.version).into(),
            ));
        }
        Ok(Self {
            id: written
                .id
                .parse()
                .map_err(|error: skep_types::IdError| unreadable(error.into()))?,
            slot: written.slot,
            egress: if written.internet {
                Egress::Internet
            } else {
                Egress::None
            },
            pid: written.pid,
            started: written.started,
            boot: written.boot,
            log: written
                .log_device
                .zip(written.log_inode)
                .map(|(device, inode)| Identity { device, inode }),
            meter: written.disk.map(|(device, read, written)| DiskMeter {
                device,
                before: Traffic { read, written },
            }),
        })
    }
}

/// Names this run of the host.
pub(crate) fn boot() -> io::Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().to_owned())
}

/// Start time of a process, in clock ticks since boot.
pub(crate) fn started(pid: i32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    start_time(&stat).ok_or_else(|| io::Error::other("unexpected contents of a stat file"))
}

fn start_time(stat: &str) -> Option<u64> {
    // The program's name stands in brackets and may itself hold brackets and spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back() {
        let record = Record {
            id: SandboxId::random(),
            slot: 7,
            egress: Egress::None,
            pid: 1234,
            started: 99,
            boot: "this".into(),
            log: Some(Identity {
                device: 1,
                inode: 2,
            }),
            meter: Some(DiskMeter {
                device: 3,
                before: Traffic {
                    read: 4,
                    written: 5,
                },
            }),
        };
        assert_eq!(Record::read(&record.write()).unwrap(), record);
        assert!(matches!(
            Record::read(&LaunchRecord("{}".into())),
            Err(AdoptError::Record(_))
        ));
    }

    #[test]
    fn a_programs_name_cannot_forge_its_start() {
        let stat = "7 (x) R 1 (y) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(start_time(stat), Some(4242));
        assert!(started(std::process::id().cast_signed()).unwrap() > 0);
    }
}
