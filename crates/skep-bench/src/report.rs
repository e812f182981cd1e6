//! Report of a run, and its renderings.

mod number;
mod plot;
mod svg;
mod table;

use jiff::Timestamp;
use serde::Serialize;

use crate::args::{BenchArgs, Rounds};
use crate::host_info::HostInfo;
use crate::measurement::Measurement;
use crate::targets::Verdict;

/// Results of a run. As JSON it has every sample.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The version of this executable.
    pub version: &'static str,
    /// Build profile: `debug` or `release`.
    pub profile: &'static str,
    /// Name of the part that was measured.
    pub what: &'static str,
    /// Time at which the run began.
    pub started_at: Timestamp,
    /// Number of rounds.
    pub rounds: Rounds,
    /// The server and template that were measured.
    pub subject: Subject,
    /// The host of the bench; readers of older reports know it by this name.
    #[serde(rename = "machine")]
    pub host: HostInfo,
    /// Circumstances that make the numbers doubtful.
    pub warnings: Vec<String>,
    /// Remarks on the numbers.
    pub notes: Vec<String>,
    /// Targets for which enough was measured.
    pub targets: Vec<Verdict>,
    /// Everything that was measured.
    pub measurements: Vec<Measurement>,
}

/// The server and template that were measured.
#[derive(Debug, Clone, Serialize)]
pub struct Subject {
    /// True if the bench started the server itself.
    pub own: bool,
    /// The server's URL, if not.
    pub url: Option<String>,
    /// The template of the sandboxes.
    pub template: String,
    /// Number of spares of each template, if that was given.
    pub pool: Option<u32>,
}

impl Subject {
    pub(crate) fn of(args: &BenchArgs) -> Self {
        Self {
            own: args.against.is_none(),
            url: args.against.clone(),
            template: args.template.clone(),
            pool: args.pool,
        }
    }
}

impl Report {
    /// Everything, for people: the host, a table, a plot and what was reached.
    pub fn text(&self) -> String {
        let mut text = self.headline();
        text.push_str("\n\n");
        text.push_str(&table::measurements(&self.measurements));
        text.push('\n');
        text.push_str(&plot::bars(&self.measurements));
        if !self.targets.is_empty() {
            text.push('\n');
            text.push_str(&table::targets(&self.targets));
        }
        text
    }

    /// The samples on a logarithmic scale, as a picture.
    pub fn svg(&self) -> String {
        svg::strips(&self.headline(), &self.measurements)
    }

    fn headline(&self) -> String {
        let host = &self.host;
        let server = match &self.subject.url {
            Some(url) => format!("against {url}"),
            None => "own server".to_owned(),
        };
        format!(
            "skep bench {} · {server} · template {} · skep {} ({})\n{} × {}, {} GiB, Linux {}, cgroup v{}, load {:.2}",
            self.what,
            self.subject.template,
            self.version,
            self.profile,
            host.cores,
            host.processor,
            host.memory_bytes >> 30,
            host.kernel,
            host.cgroup_version,
            host.load_before,
        )
    }
}
