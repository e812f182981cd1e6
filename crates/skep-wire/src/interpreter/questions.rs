//! Questions about code that is not run: the bodies of `POST /contexts/{id}/complete`, `/inspect`
//! and `/is_complete`, and of `GET /contexts/{id}/info`.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Code with a cursor in it. Positions are numbers of characters (Unicode scalar values).
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeAtCursor {
    /// Source text in the language of the context.
    pub code: String,
    /// Number of characters before the cursor; the end of the code if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// For `/inspect`: true if the source is asked for too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub source: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

impl fmt::Debug for CodeAtCursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Code does not belong into a log.
        formatter
            .debug_struct("CodeAtCursor")
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

/// Texts that could stand at the cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completions {
    /// The texts, the likeliest first.
    pub matches: Vec<String>,
    /// Number of characters before the text that they replace.
    pub cursor_start: u64,
    /// Number of characters up to its end.
    pub cursor_end: u64,
}

/// Documentation of the name at the cursor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// True if there is such a name.
    pub found: bool,
    /// The documentation by media type; `text/plain` is among them if it was found.
    pub data: Map<String, Value>,
}

/// State of a piece of code at a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletenessAnswer {
    /// State of the code.
    pub status: Completeness,
    /// Indentation of the next line, if one is to follow.
    #[serde(default)]
    pub indent: String,
}

/// State of a piece of code at a prompt, in Jupyter's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completeness {
    /// It can be run.
    Complete,
    /// Another line must follow.
    Incomplete,
    /// No line that follows makes it valid.
    Invalid,
    /// The kernel does not know.
    #[serde(other)]
    Unknown,
}

/// The language of a context and the kernel that runs it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInfo {
    /// Name of the language, in lower case.
    pub language: String,
    /// Its version.
    pub version: String,
    /// Media type of source text.
    pub mimetype: String,
    /// Extension of a source file, with the dot.
    pub file_extension: String,
    /// The kernel and its version.
    pub kernel: String,
}
