//! The record by which a later server finds a sandbox again.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};
use skep_host::{LeaseRecord, LogHolder};
use skep_isolation::{AdoptError, LaunchRecord};

/// Everything a later server needs to adopt a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    version: u32,
    #[serde(flatten)]
    pub(crate) lease: LeaseRecord,
    /// Ids of processes are reused; an id with the time it was started at is not, until the
    /// host is restarted.
    pub(crate) pid: i32,
    pub(crate) started: u64,
    /// Number of the agent's descriptor of its log.
    #[serde(default = "first_log_fd")]
    log_fd: i32,
}

const VERSION: u32 = 1;

/// Number of the log's descriptor in records that do not tell: agents had it at this place.
fn first_log_fd() -> i32 {
    5
}

impl Record {
    pub(crate) fn new(lease: LeaseRecord, pid: i32, started: u64, log_fd: i32) -> Self {
        Self {
            version: VERSION,
            lease,
            pid,
            started,
            log_fd,
        }
    }

    pub(crate) fn write(&self) -> LaunchRecord {
        LaunchRecord(serde_json::to_string(self).expect("plain fields are always JSON"))
    }

    pub(crate) fn read(record: &LaunchRecord) -> Result<Self, AdoptError> {
        let record: Self =
            serde_json::from_str(&record.0).map_err(|error| AdoptError::Record(error.into()))?;
        if record.version != VERSION {
            let error = format!("version {} is unknown", record.version);
            return Err(AdoptError::Record(error.into()));
        }
        Ok(record)
    }

    /// The agent, as the holder of its log.
    pub(crate) fn log_holder(&self) -> LogHolder {
        LogHolder {
            pid: self.pid,
            fd: self.log_fd,
        }
    }
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

    /// A record of the first version, as servers have written it.
    const FORMER: &str = r#"{"version":1,"id":"iabc","slot":7,"internet":false,"pid":1234,
        "started":99,"boot":"this","log_device":1,"log_inode":2,"disk":[3,4,5]}"#;

    #[test]
    fn a_record_of_an_earlier_server_reads_and_is_written_as_it_was() {
        let record = Record::read(&LaunchRecord(FORMER.into())).unwrap();
        assert_eq!((record.pid, record.started), (1234, 99));
        assert_eq!(record.log_holder(), LogHolder { pid: 1234, fd: 5 });
        let written: serde_json::Value = serde_json::from_str(&record.write().0).unwrap();
        let mut former: serde_json::Value = serde_json::from_str(FORMER).unwrap();
        former["log_fd"] = 5.into();
        assert_eq!(written, former);
        assert_eq!(Record::read(&record.write()).unwrap(), record);
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for text in ["{}", &FORMER.replace("\"version\":1", "\"version\":2")] {
            let read = Record::read(&LaunchRecord(text.to_owned()));
            assert!(matches!(read, Err(AdoptError::Record(_))));
        }
    }

    #[test]
    fn a_programs_name_cannot_forge_its_start() {
        let stat = "7 (x) R 1 (y) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(start_time(stat), Some(4242));
        assert!(started(std::process::id().cast_signed()).unwrap() > 0);
    }
}
