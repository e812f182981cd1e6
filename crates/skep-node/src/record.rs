//! The part of a driver that a restarted server needs to drive a living sandbox again.

mod egress;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use skep_isolation::LaunchRecord;
use skep_types::{
    AccessToken, Checkpoint, Egress, EndReason, ExecutionId, HttpsPorts, Ingress, KeptIn,
    OnTimeout, Redacted, SandboxRun, SandboxStatus, Usage,
};

use crate::clock::Deadline;
use egress::WrittenEgress;

/// The part of a driver's state that must outlive the server.
#[derive(Debug, Clone)]
pub(crate) struct DriverRecord {
    pub(crate) execution: ExecutionId,
    /// Record of the sandbox on the host; `None` while it is paused and has no process.
    pub(crate) launch: Option<LaunchRecord>,
    /// True if its processes stand.
    pub(crate) is_frozen: bool,
    /// Image that it is paused in, whether its processes are gone already or not. None while it
    /// runs: an image of an earlier pause would bring back what it was then.
    pub(crate) image: Option<Checkpoint>,
    /// Rule for its outgoing connections, as it is now.
    pub(crate) egress: Egress,
    pub(crate) access_token: Option<AccessToken>,
    /// True if callers from outside need not show the token.
    pub(crate) is_open: bool,
    /// Rule for requests to its ports.
    pub(crate) ingress: Arc<Ingress>,
    pub(crate) control_token: Redacted<String>,
    pub(crate) deadline: Deadline,
    /// Its fate at the deadline.
    pub(crate) on_timeout: OnTimeout,
    /// True if requests to it resume it.
    pub(crate) auto_resume: bool,
    /// True if its agent did not answer when it was paused.
    pub(crate) agent_was_silent: bool,
    /// The form in which it was kept before this run of it; `None` for the first.
    pub(crate) kept_in: Option<KeptIn>,
    /// Reason for which it is being ended, from before anything of it is removed.
    pub(crate) ending: Option<EndReason>,
    /// Usage of runs whose counters are gone, or go: those before the image that it has or had.
    pub(crate) earlier: Usage,
}

impl DriverRecord {
    /// Usage of all its runs, with that of the processes that it has, if any. What those have used
    /// before an image of them was made is known from then on.
    pub(crate) fn whole_usage(&self, of_processes: Usage) -> Usage {
        let last = match self.image {
            Some(_) => Usage {
                disk_bytes: of_processes.disk_bytes,
                ..Usage::default()
            },
            None => of_processes,
        };
        last.after(&self.earlier)
    }
}

/// The text form. Its own type, so that a renamed field elsewhere does not orphan sandboxes.
#[derive(Serialize, Deserialize)]
struct Written {
    execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    launch: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_frozen: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<WrittenImage>,
    /// Missing in records of older servers, which could not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    egress: Option<WrittenEgress>,
    access_token: Option<String>,
    /// Missing in records of older servers, whose sandboxes all ask for their token.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_open: bool,
    /// Missing if everybody may use its ports, and in records of older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ingress: Option<WrittenIngress>,
    control_token: String,
    deadline_since_boot_ns: u64,
    /// Missing in records of older servers, whose sandboxes ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_timeout: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    auto_resume: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    agent_was_silent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept_in: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ending: Option<String>,
    /// Missing if there was no run before, and in records of older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    earlier: Option<WrittenUsage>,
}

/// The rule for requests to a sandbox's ports.
#[derive(Serialize, Deserialize)]
struct WrittenIngress {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_private: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host_mask: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    https_ports: Vec<u16>,
}

impl WrittenIngress {
    fn of(ingress: &Ingress) -> Option<Self> {
        (*ingress != Ingress::default()).then(|| Self {
            is_private: ingress.is_private,
            host_mask: (ingress.host_mask.as_ref()).map(|mask| mask.as_str().to_owned()),
            https_ports: ingress.https_ports.iter().collect(),
        })
    }

    /// Reads the rule. One that cannot be read is no rule that lets everybody in.
    fn read(&self) -> Result<Ingress, ReadError> {
        let word = |mask: &String| mask.parse().map_err(|_error| ReadError::Word(mask.clone()));
        Ok(Ingress {
            is_private: self.is_private,
            host_mask: self.host_mask.as_ref().map(word).transpose()?,
            https_ports: HttpsPorts::from_record(self.https_ports.iter().copied()),
        })
    }
}

/// The part of a usage that is counted on.
#[derive(Serialize, Deserialize)]
struct WrittenUsage {
    cpu_ns: u64,
    memory_peak_bytes: u64,
    disk_read_bytes: u64,
    disk_written_bytes: u64,
    received_bytes: u64,
    sent_bytes: u64,
    out_of_memory_kills: u64,
}

impl WrittenUsage {
    fn of(usage: &Usage) -> Option<Self> {
        (*usage != Usage::default()).then(|| Self {
            cpu_ns: u64::try_from(usage.cpu_time.as_nanos()).unwrap_or(u64::MAX),
            memory_peak_bytes: usage.memory_peak_bytes,
            disk_read_bytes: usage.disk_read_bytes,
            disk_written_bytes: usage.disk_written_bytes,
            received_bytes: usage.received_bytes,
            sent_bytes: usage.sent_bytes,
            out_of_memory_kills: usage.out_of_memory_kills,
        })
    }

    fn read(&self) -> Usage {
        Usage {
            cpu_time: Duration::from_nanos(self.cpu_ns),
            memory_peak_bytes: self.memory_peak_bytes,
            disk_read_bytes: self.disk_read_bytes,
            disk_written_bytes: self.disk_written_bytes,
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
            out_of_memory_kills: self.out_of_memory_kills,
            ..Usage::default()
        }
    }
}

#[derive(Serialize, Deserialize)]
struct WrittenImage {
    record: String,
    kind: String,
    bytes: u64,
}

/// A record this version cannot read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("cannot parse the driver record")]
    Parse(#[source] serde_json::Error),
    #[error("driver record has a bad execution id")]
    Execution(#[source] skep_types::IdError),
    #[error("driver record has an unknown word: {0}")]
    Word(String),
    #[error("driver record has a policy that is none")]
    Egress(#[source] skep_types::EgressError),
    /// The address of its proxy is none.
    #[error("no address of an egress proxy")]
    EgressProxy(#[source] skep_types::EgressProxyError),
    #[error("driver record has rules for requests that are none")]
    RequestRules(#[source] skep_types::RequestRuleError),
}

impl DriverRecord {
    /// The run that the journal is to keep of a sandbox with this status.
    pub(crate) fn run(&self, status: &SandboxStatus) -> SandboxRun {
        SandboxRun {
            execution: self.execution,
            driver_record: self.to_text(),
            started_at: status.started_at,
            ends_at: status.ends_at,
            paused: status.paused,
        }
    }

    pub(crate) fn to_text(&self) -> String {
        let written = Written {
            execution: self.execution.to_string(),
            launch: self.launch.as_ref().map(|launch| launch.0.clone()),
            is_frozen: self.is_frozen,
            image: self.image.as_ref().map(|image| WrittenImage {
                record: image.record.clone(),
                kind: image.kind.to_string(),
                bytes: image.bytes,
            }),
            egress: Some(WrittenEgress::of(&self.egress)),
            access_token: self
                .access_token
                .as_ref()
                .map(|token| token.reveal().to_owned()),
            is_open: self.is_open,
            ingress: WrittenIngress::of(&self.ingress),
            control_token: self.control_token.reveal().clone(),
            deadline_since_boot_ns: u64::try_from(self.deadline.since_boot().as_nanos())
                .unwrap_or(u64::MAX),
            on_timeout: Some(self.on_timeout.as_str().to_owned()),
            auto_resume: self.auto_resume,
            agent_was_silent: self.agent_was_silent,
            kept_in: self.kept_in.map(|form| form.as_str().to_owned()),
            ending: self.ending.map(|reason| reason.to_string()),
            earlier: WrittenUsage::of(&self.earlier),
        };
        serde_json::to_string(&written).expect("strings and numbers serialise")
    }

    /// Reads a record. `ordered` is the rule for outgoing connections of a sandbox whose record
    /// has none.
    pub(crate) fn from_text(
        text: &str,
        ends_at: Timestamp,
        ordered: Egress,
    ) -> Result<Self, ReadError> {
        let written: Written = serde_json::from_str(text).map_err(ReadError::Parse)?;
        let since_boot = Duration::from_nanos(written.deadline_since_boot_ns);
        Ok(Self {
            execution: written.execution.parse().map_err(ReadError::Execution)?,
            launch: written.launch.map(LaunchRecord),
            is_frozen: written.is_frozen,
            image: written
                .image
                .map(|image| {
                    Ok(Checkpoint {
                        kind: image.kind.parse().map_err(ReadError::Word)?,
                        record: image.record,
                        bytes: image.bytes,
                    })
                })
                .transpose()?,
            egress: (written.egress).map_or(Ok(ordered), WrittenEgress::read)?,
            access_token: written
                .access_token
                .as_deref()
                .map(AccessToken::from_record),
            is_open: written.is_open,
            ingress: match &written.ingress {
                Some(ingress) => Arc::new(ingress.read()?),
                None => Arc::default(),
            },
            control_token: Redacted::new(written.control_token),
            deadline: Deadline::restored(since_boot, ends_at),
            on_timeout: written
                .on_timeout
                .map_or(Ok(OnTimeout::Kill), |fate| fate.parse())
                .map_err(ReadError::Word)?,
            auto_resume: written.auto_resume,
            agent_was_silent: written.agent_was_silent,
            kept_in: written
                .kept_in
                .map(|form| form.parse())
                .transpose()
                .map_err(ReadError::Word)?,
            ending: written
                .ending
                .map(|reason| reason.parse())
                .transpose()
                .map_err(ReadError::Word)?,
            earlier: (written.earlier.as_ref())
                .map(WrittenUsage::read)
                .unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use skep_types::{EgressRules, ImageKind, RequestRuleWords, RequestRules};

    use super::*;

    fn request_rules() -> RequestRules {
        let rule = RequestRuleWords {
            headers: vec![("x-key".to_owned(), "${e2b.secrets.k}".to_owned())],
            ..RequestRuleWords::default()
        };
        RequestRules::new([("*.example.com".to_owned(), vec![rule])]).unwrap()
    }

    fn record() -> DriverRecord {
        DriverRecord {
            execution: ExecutionId::random(),
            launch: None,
            is_frozen: true,
            image: Some(Checkpoint {
                record: "somewhere".to_owned(),
                kind: ImageKind::Filesystem,
                bytes: 7,
            }),
            egress: Egress::new(EgressRules {
                internet: Some(true),
                allowed: vec!["192.0.2.7".to_owned(), "*.example.com".to_owned()],
                denied: vec!["0.0.0.0/0".to_owned()],
                resolvers: Some(Vec::new()),
            })
            .unwrap()
            .with_request_rules(request_rules()),
            access_token: None,
            is_open: true,
            ingress: Arc::new(Ingress {
                is_private: true,
                host_mask: Some("localhost:${PORT}".parse().unwrap()),
                https_ports: HttpsPorts::from_record([443, 8443]),
            }),
            control_token: Redacted::new("secret".to_owned()),
            deadline: Deadline::after(Duration::from_secs(60)),
            on_timeout: OnTimeout::Pause(ImageKind::Filesystem),
            auto_resume: true,
            agent_was_silent: true,
            kept_in: Some(KeptIn::Checkpoint),
            ending: Some(EndReason::Killed),
            earlier: Usage {
                cpu_time: Duration::from_millis(7),
                memory_peak_bytes: 8,
                out_of_memory_kills: 1,
                ..Usage::default()
            },
        }
    }

    #[tokio::test]
    async fn a_record_of_a_paused_sandbox_reads_back() {
        let (record, now) = (record(), Timestamp::now());
        let read = DriverRecord::from_text(&record.to_text(), now, Egress::default()).unwrap();
        assert_eq!((read.launch, read.is_frozen), (None, true));
        assert_eq!(read.image, record.image);
        assert_eq!(read.egress, record.egress);
        assert_eq!(read.ending, record.ending);
        assert_eq!(read.kept_in, record.kept_in);
        assert_eq!(read.earlier, record.earlier);
        assert!(read.is_open);
        assert_eq!(read.ingress, record.ingress);
        assert_eq!(read.on_timeout, record.on_timeout);
        assert!(read.auto_resume && read.agent_was_silent);
    }

    #[tokio::test]
    async fn a_record_of_an_older_server_is_of_a_sandbox_that_runs_as_it_was_ordered() {
        let text = r#"{"execution":"00000000000000ff","launch":"there","access_token":null,
            "control_token":"secret","deadline_since_boot_ns":1}"#;
        let read = DriverRecord::from_text(text, Timestamp::now(), Egress::closed()).unwrap();
        assert_eq!(read.launch, Some(LaunchRecord("there".to_owned())));
        assert_eq!((read.is_frozen, read.image), (false, None));
        assert!(!read.is_open);
        assert_eq!(*read.ingress, Ingress::default());
        assert_eq!(read.earlier, Usage::default());
        assert_eq!(read.on_timeout, OnTimeout::Kill);
        assert!(!read.auto_resume && !read.agent_was_silent);
        assert_eq!(read.egress, Egress::closed());
    }
}
