//! One cell of a notebook.

use jiff::Timestamp;
use serde::Serialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use skep_jupyter::Transcript;

use crate::notebook::made_id;
use crate::object::Object;
use crate::output::{self, Lines};

/// A cell, kept as it was read.
#[derive(Debug, Clone)]
pub struct Cell {
    fields: Object,
    kind: CellKind,
    source: String,
}

/// Type of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// Code that can be run.
    Code,
    /// Text, or something of a later version of the format.
    Other,
}

/// Times at which a cell was run, in microseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// The kernel got it.
    pub started: Option<i64>,
    /// The kernel accepted it.
    pub accepted: Option<i64>,
    /// The kernel had finished it.
    pub ended: Option<i64>,
}

/// Jupyter's metadata about a run, sorted by key.
#[derive(Serialize)]
struct Execution {
    #[serde(
        rename = "iopub.execute_input",
        skip_serializing_if = "Option::is_none"
    )]
    input: Option<String>,
    #[serde(rename = "iopub.status.busy", skip_serializing_if = "Option::is_none")]
    busy: Option<String>,
    #[serde(rename = "iopub.status.idle", skip_serializing_if = "Option::is_none")]
    idle: Option<String>,
    #[serde(
        rename = "shell.execute_reply",
        skip_serializing_if = "Option::is_none"
    )]
    reply: Option<String>,
}

impl Cell {
    /// New code, without an id and not yet run.
    pub fn code(source: &str) -> Self {
        let mut fields = Object::default();
        fields.set("cell_type", &"code");
        fields.set("execution_count", &());
        fields.set("metadata", &Object::default());
        fields.set("outputs", &[(); 0]);
        fields.set("source", &Lines(source));
        Self {
            fields,
            kind: CellKind::Code,
            source: source.to_owned(),
        }
    }

    /// New text, without an id.
    pub fn markdown(source: &str) -> Self {
        let mut fields = Object::default();
        fields.set("cell_type", &"markdown");
        fields.set("metadata", &Object::default());
        fields.set("source", &Lines(source));
        Self {
            fields,
            kind: CellKind::Other,
            source: source.to_owned(),
        }
    }

    /// The same cell with an id, which is the same for the same number and source.
    #[must_use]
    pub fn numbered(mut self, number: u64) -> Self {
        let id = made_id(number, &self.source);
        self.set_id(&id);
        self
    }

    pub(crate) fn read(text: &RawValue) -> Result<Self, serde_json::Error> {
        let mut fields: Object = serde_json::from_str(text.get())?;
        let kind = match fields.read::<String>("cell_type").as_deref() {
            Some("code") => CellKind::Code,
            Some(_) => CellKind::Other,
            None => return Err(serde_json::Error::missing_field("cell_type")),
        };
        let source = source(&fields)?;
        if kind == CellKind::Code {
            // Writers that are careless with these are forgiven; validators are less kind.
            if fields.read::<Object>("metadata").is_none() {
                fields.set("metadata", &Object::default());
            }
            if fields.get("outputs").is_none() {
                fields.set("outputs", &[(); 0]);
            }
            if fields.get("execution_count").is_none() {
                fields.set("execution_count", &());
            }
        }
        Ok(Self {
            fields,
            kind,
            source,
        })
    }

    /// Returns the type of the cell.
    pub fn kind(&self) -> CellKind {
        self.kind
    }

    /// Returns the source text of the cell.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the id of the cell, which notebooks before version 4.5 do not have.
    pub fn id(&self) -> Option<String> {
        self.fields.read("id")
    }

    pub(crate) fn has_id(&self) -> bool {
        self.fields.get("id").is_some()
    }

    pub(crate) fn has_attachments(&self) -> bool {
        self.fields.get("attachments").is_some()
    }

    pub(crate) fn set_id(&mut self, id: &str) {
        self.fields.set("id", &id);
    }

    /// The words by which tools know it.
    pub fn tags(&self) -> Vec<String> {
        let metadata: Object = self.fields.read("metadata").unwrap_or_default();
        metadata.read("tags").unwrap_or_default()
    }

    pub(crate) fn add_tag(&mut self, tag: &str) {
        let mut tags = self.tags();
        tags.push(tag.to_owned());
        self.change_metadata(|metadata| metadata.set("tags", &tags));
    }

    /// Removes what an earlier run has left.
    pub fn clear(&mut self) {
        self.fields.set("execution_count", &());
        self.fields.set("outputs", &[(); 0]);
        self.change_metadata(|metadata| {
            metadata.remove("execution");
        });
    }

    /// Writes down what it produced, under the number that the kernel gave it.
    pub fn record(&mut self, transcript: &Transcript, count: Option<u64>, timing: Timing) {
        self.fields.set("execution_count", &count);
        let outputs = output::of(transcript, count);
        self.fields.set("outputs", &outputs);
        let execution = Execution {
            input: timing.accepted.and_then(written),
            busy: timing.started.and_then(written),
            idle: timing.ended.and_then(written),
            reply: timing.ended.and_then(written),
        };
        self.change_metadata(|metadata| metadata.set("execution", &execution));
    }

    fn change_metadata(&mut self, change: impl FnOnce(&mut Object)) {
        let mut metadata: Object = self.fields.read("metadata").unwrap_or_default();
        change(&mut metadata);
        self.fields.set("metadata", &metadata);
    }

    pub(crate) fn write(&self, depth: usize, into: &mut String) {
        self.fields.write(depth, into);
    }
}

/// The source, which is a string or the pieces of one.
fn source(fields: &Object) -> Result<String, serde_json::Error> {
    let Some(value) = fields.get("source") else {
        return Ok(String::new());
    };
    if value.get().starts_with('[') {
        let pieces: Vec<String> = serde_json::from_str(value.get())?;
        return Ok(pieces.concat());
    }
    serde_json::from_str(value.get())
}

/// A moment as Jupyter writes it.
fn written(microseconds: i64) -> Option<String> {
    let moment = Timestamp::from_microsecond(microseconds).ok()?;
    Some(moment.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}
