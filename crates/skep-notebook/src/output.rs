//! The outputs of a cell, between the interpreter's form and that of notebooks.

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use skep_jupyter::{Bundle, JsonText, Nature, Output, Raised, Shown, Stream, Transcript};

use crate::object::Object;

/// Representations that the contract of the interpreter adds for its clients. No notebook knows it,
/// and it says again, in its own words, what is in the other representations.
const OF_THE_CONTRACT: [&str; 2] = ["e2b/data", "e2b/chart"];

/// A text as notebooks have it: a list of lines with their ends, which differ well.
pub(crate) struct Lines<'a>(pub(crate) &'a str);

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lines = serializer.serialize_seq(None)?;
        for line in self.0.split_inclusive('\n') {
            lines.serialize_element(line)?;
        }
        lines.end()
    }
}

/// The outputs of a cell that was run under the number `count`.
pub(crate) fn of(transcript: &Transcript, count: Option<u64>) -> Vec<Object> {
    let shown = transcript.shown().iter().map(|shown| match shown {
        Shown::Text { stream, text } => stream_output(name(*stream), text),
        Shown::Rich { bundle, is_main } => rich_output(bundle, is_main.then_some(count)),
        Shown::Raised(raised) => error_output(raised),
    });
    let left_out = match transcript.left_out() {
        0 => None,
        bytes => {
            let note = format!("[{bytes} bytes of output were not kept]\n");
            Some(stream_output("stderr", &note))
        }
    };
    shown.chain(left_out).collect()
}

fn name(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    }
}

fn stream_output(name: &str, text: &str) -> Object {
    let mut output = Object::default();
    output.set("name", &name);
    output.set("output_type", &"stream");
    output.set("text", &Lines(text));
    output
}

fn error_output(raised: &Raised) -> Object {
    let mut output = Object::default();
    output.set("ename", &raised.name);
    output.set("evalue", &raised.value);
    output.set("output_type", &"error");
    output.set("traceback", &raised.traceback);
    output
}

/// A display, or a value under its number.
fn rich_output(bundle: &Bundle, value_of: Option<Option<u64>>) -> Object {
    let mut output = Object::default();
    output.set("data", &data(bundle));
    if let Some(count) = value_of {
        output.set("execution_count", &count);
    }
    let metadata = bundle.metadata.as_ref().and_then(raw);
    match metadata {
        Some(metadata) => output.set_raw("metadata", metadata),
        None => output.set("metadata", &Object::default()),
    }
    let kind = if value_of.is_some() {
        "execute_result"
    } else {
        "display_data"
    };
    output.set("output_type", &kind);
    output
}

fn data(bundle: &Bundle) -> Object {
    let mut data = Object::default();
    let drops_json = is_plain_value(bundle);
    for (mime, value) in &bundle.entries {
        let is_extra = OF_THE_CONTRACT.contains(&mime.as_str());
        if is_extra || value.as_str() == "null" || (drops_json && mime == "application/json") {
            continue;
        }
        data.extend(mime, representation(mime, value));
    }
    data
}

/// Returns true if this is a list or a dictionary, which the contract gives a JSON form beside its
/// text. Front ends would draw a tree of it where Jupyter shows text.
fn is_plain_value(bundle: &Bundle) -> bool {
    let is_known = |mime: &str| {
        mime == "text/plain" || mime == "application/json" || OF_THE_CONTRACT.contains(&mime)
    };
    let others = bundle.entries.iter().any(|(mime, _)| !is_known(mime));
    let is_list = |value: &JsonText| {
        let text = value.as_str();
        text.starts_with("\"[") || text.starts_with("\"{")
    };
    let mut texts = bundle
        .entries
        .iter()
        .filter(|(mime, _)| mime == "text/plain");
    !others && texts.any(|(_, value)| is_list(value))
}

/// One representation as the standard allows it: JSON where the type says so, else text.
fn representation(mime: &str, value: &JsonText) -> Option<Box<RawValue>> {
    if is_json(mime) {
        return raw(value);
    }
    match value.decode() {
        Some(text) if is_text(mime) => to_raw_value(&Lines(&text)).ok(),
        // A picture stays one long string.
        Some(_) => raw(value),
        None if serde_json::from_str::<Vec<String>>(value.as_str()).is_ok() => raw(value),
        None if value.as_str().starts_with('"') => raw(value),
        None => to_raw_value(&Lines(value.as_str())).ok(),
    }
}

fn is_json(mime: &str) -> bool {
    let kind = mime.strip_prefix("application/");
    kind.is_some_and(|kind| kind == "json" || kind.ends_with("+json"))
}

fn is_text(mime: &str) -> bool {
    mime.starts_with("text/") || matches!(mime, "application/javascript" | "image/svg+xml")
}

fn raw(value: &JsonText) -> Option<Box<RawValue>> {
    RawValue::from_string(value.as_str().to_owned()).ok()
}

/// Output of the interpreter, if it was asked for Jupyter's form.
#[derive(Deserialize)]
#[serde(tag = "output_type", rename_all = "snake_case")]
enum Said {
    Stream {
        name: String,
        text: String,
    },
    DisplayData(Representations),
    UpdateDisplayData(Representations),
    ExecuteResult(Representations),
    ClearOutput {
        #[serde(default)]
        wait: bool,
    },
    Error {
        ename: String,
        evalue: String,
        traceback: Vec<String>,
    },
}

/// The representations of something that is shown.
#[derive(Deserialize)]
struct Representations {
    data: serde_json::Map<String, Value>,
    #[serde(default)]
    metadata: serde_json::Map<String, Value>,
    #[serde(default)]
    transient: Transient,
}

#[derive(Default, Deserialize)]
struct Transient {
    display_id: Option<String>,
}

/// Reads an output as the interpreter says it in Jupyter's form.
///
/// # Errors
///
/// If it is none.
pub fn read_output(output: Value) -> Result<Output, serde_json::Error> {
    Ok(match serde_json::from_value(output)? {
        Said::Stream { name, text } => Output::Text {
            stream: if name == "stderr" {
                Stream::Stderr
            } else {
                Stream::Stdout
            },
            text: JsonText::string(&text),
        },
        Said::DisplayData(shown) => Output::Rich {
            bundle: shown.bundle()?,
            is_main: false,
        },
        Said::ExecuteResult(shown) => Output::Rich {
            bundle: shown.bundle()?,
            is_main: true,
        },
        Said::UpdateDisplayData(shown) => Output::Updated(shown.bundle()?),
        Said::ClearOutput { wait } => Output::Cleared { wait },
        Said::Error {
            ename,
            evalue,
            traceback,
        } => Output::Raised(Raised {
            name: ename,
            value: evalue,
            traceback,
            nature: Nature::Runtime,
        }),
    })
}

impl Representations {
    fn bundle(self) -> Result<Bundle, serde_json::Error> {
        let entries = self
            .data
            .iter()
            .map(|(mime, value)| Ok((mime.clone(), JsonText::of(value)?)));
        let metadata = (!self.metadata.is_empty()).then(|| JsonText::of(&self.metadata));
        Ok(Bundle {
            entries: entries.collect::<Result<_, serde_json::Error>>()?,
            metadata: metadata.transpose()?,
            display_id: self.transient.display_id,
        })
    }
}
