//! The record by which a later server finds a lease again.

use serde::{Deserialize, Serialize};
use skep_types::{IdError, Reach, SandboxId};

use crate::disk_meter::{DiskMeter, Traffic};
use crate::log::Identity;

/// The record by which a later server finds a lease again, as long as the host runs.
///
/// Backends write it into a record of their own; its field names are theirs as well, so that
/// records of earlier versions are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    id: String,
    slot: u16,
    /// True if it could reach everything when this was written, for servers of earlier versions. What
    /// its policy is, and whether it has changed since, the owner of the lease knows, and says when it
    /// has acquired it again; until then it reaches nothing new.
    internet: bool,
    /// Names the run of the host: with it everything ends that a lease is made of.
    boot: String,
    /// Identity of the log's memory; missing if the lease has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_device: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_inode: Option<u64>,
    /// The number of the disk's device, then bytes read from it and written to it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk: Option<(u32, u64, u64)>,
}

/// The parts of a lease that are recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorded<'a> {
    pub(crate) id: &'a SandboxId,
    pub(crate) slot: u16,
    pub(crate) reach: &'a Reach,
    pub(crate) boot: &'a str,
    pub(crate) log: Option<Identity>,
    pub(crate) meter: Option<DiskMeter>,
}

impl LeaseRecord {
    pub(crate) fn new(recorded: Recorded<'_>) -> Self {
        let meter = recorded.meter;
        Self {
            id: recorded.id.to_string(),
            slot: recorded.slot,
            internet: *recorded.reach == Reach::Everything,
            boot: recorded.boot.to_owned(),
            log_device: recorded.log.map(|log| log.device),
            log_inode: recorded.log.map(|log| log.inode),
            disk: meter.map(|meter| (meter.device, meter.before.read, meter.before.written)),
        }
    }

    /// The sandbox that has the lease.
    ///
    /// # Errors
    ///
    /// If the record was not written by a server.
    pub fn id(&self) -> Result<SandboxId, IdError> {
        self.id.parse()
    }

    pub(crate) fn slot(&self) -> u16 {
        self.slot
    }

    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    pub(crate) fn log(&self) -> Option<Identity> {
        let parts = self.log_device.zip(self.log_inode);
        parts.map(|(device, inode)| Identity { device, inode })
    }

    pub(crate) fn meter(&self) -> Option<DiskMeter> {
        self.disk.map(|(device, read, written)| DiskMeter {
            device,
            before: Traffic { read, written },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back() {
        let id = SandboxId::random();
        let (log, meter) = (
            Identity {
                device: 1,
                inode: 2,
            },
            DiskMeter {
                device: 3,
                before: Traffic {
                    read: 4,
                    written: 5,
                },
            },
        );
        let record = LeaseRecord::new(Recorded {
            id: &id,
            slot: 7,
            reach: &Reach::Nothing,
            boot: "this",
            log: Some(log),
            meter: Some(meter),
        });
        let text = serde_json::to_string(&record).unwrap();
        let read: LeaseRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(read, record);
        assert_eq!((read.id().unwrap(), read.slot()), (id, 7));
        assert_eq!(read.boot(), "this");
        assert_eq!((read.log(), read.meter()), (Some(log), Some(meter)));
    }

    #[test]
    fn a_record_from_before_logs_and_meters_is_read() {
        let text = r#"{"id":"i","slot":1,"internet":true,"boot":"b"}"#;
        let read: LeaseRecord = serde_json::from_str(text).unwrap();
        assert_eq!((read.log(), read.meter()), (None, None));
    }
}
