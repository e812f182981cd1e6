//! Questions about code, and about the kernel itself.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use skep_client::{Completeness, KernelInfo, Sandbox};
use skep_telemetry::Chain;

use super::Kernel;
use crate::failure::name_of;
use crate::message::{PROTOCOL, Request, failed, ok};

/// Content of a question about code.
#[derive(Default, Deserialize)]
struct Question {
    #[serde(default)]
    code: String,
    #[serde(default)]
    cursor_pos: Option<i64>,
    #[serde(default)]
    detail_level: u64,
}

impl Kernel {
    /// Content of a `kernel_info_reply`.
    pub(super) async fn info(&self, sandbox: &Sandbox) -> Value {
        let asked = self.info.get_or_try_init(async || {
            let info = sandbox.contexts().info(&self.context.id).await?;
            Ok::<_, skep_client::ClientError>(content(&info))
        });
        match asked.await {
            Ok(content) => content.clone(),
            Err(error) => {
                // A front end without an answer would wait, or give the kernel up. It asks again.
                tracing::debug!(error = %Chain(&error), "a kernel does not tell of itself");
                content(&KernelInfo {
                    language: self.context.language.clone(),
                    ..KernelInfo::default()
                })
            }
        }
    }

    pub(super) async fn complete(&self, sandbox: &Sandbox, request: &Request) -> Value {
        let question: Question = request.read().unwrap_or_default();
        let (code, cursor) = (question.code.as_str(), question.cursor());
        let contexts = sandbox.contexts();
        match contexts.complete(&self.context.id, code, cursor).await {
            Ok(completions) => ok(json!({
                "matches": completions.matches,
                "cursor_start": completions.cursor_start,
                "cursor_end": completions.cursor_end,
                "metadata": {},
            })),
            Err(error) => failed(name_of(&error), &Chain(&error).to_string()),
        }
    }

    pub(super) async fn inspect(&self, sandbox: &Sandbox, request: &Request) -> Value {
        let question: Question = request.read().unwrap_or_default();
        let (code, cursor) = (question.code.as_str(), question.cursor());
        let with_source = question.detail_level > 0;
        let contexts = sandbox.contexts();
        let asked = contexts.inspect(&self.context.id, code, cursor, with_source);
        match asked.await {
            Ok(inspection) => ok(json!({
                "found": inspection.found,
                "data": inspection.data,
                "metadata": {},
            })),
            Err(error) => failed(name_of(&error), &Chain(&error).to_string()),
        }
    }

    pub(super) async fn is_complete(&self, sandbox: &Sandbox, request: &Request) -> Value {
        let Question { code, .. } = request.read().unwrap_or_default();
        let contexts = sandbox.contexts();
        let asked = contexts.is_complete(&self.context.id, &code).await;
        let status = |status| json!({"status": status});
        match asked {
            Ok(answer) => match answer.status {
                Completeness::Complete => status("complete"),
                Completeness::Incomplete => json!({
                    "status": "incomplete",
                    "indent": answer.indent,
                }),
                Completeness::Invalid => status("invalid"),
                Completeness::Unknown => status("unknown"),
            },
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "a kernel does not tell whether code is whole");
                status("unknown")
            }
        }
    }
}

impl Question {
    /// The number of characters before the cursor.
    fn cursor(&self) -> u64 {
        let length = u64::try_from(self.code.chars().count()).unwrap_or(u64::MAX);
        let cursor = self
            .cursor_pos
            .and_then(|cursor| u64::try_from(cursor).ok());
        cursor.map_or(length, |cursor| cursor.min(length))
    }
}

fn content(info: &KernelInfo) -> Value {
    let language = info.language.to_lowercase();
    let mut language_info = Map::new();
    let mut set = |key: &str, value: Value| language_info.insert(key.to_owned(), value);
    set("name", Value::from(language.as_str()));
    set("version", Value::from(info.version.as_str()));
    set("mimetype", Value::from(info.mimetype.as_str()));
    set("file_extension", Value::from(info.file_extension.as_str()));
    // What editors and converters have for the language, under the names that kernels elsewhere use.
    match language.as_str() {
        "python" => {
            set("pygments_lexer", Value::from("ipython3"));
            set("codemirror_mode", json!({"name": "ipython", "version": 3}));
            set("nbconvert_exporter", Value::from("python"));
        }
        "bash" => {
            set("pygments_lexer", Value::from("bash"));
            set("codemirror_mode", Value::from("shell"));
        }
        "r" => {
            set("pygments_lexer", Value::from("r"));
            set("codemirror_mode", Value::from("r"));
        }
        _ => {}
    }
    ok(json!({
        "protocol_version": PROTOCOL,
        "implementation": "skep",
        "implementation_version": env!("CARGO_PKG_VERSION"),
        "language_info": language_info,
        "banner": format!("{} {} in a sandbox of Skep", language, info.version),
        "help_links": [],
        "debugger": false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_counts_characters_and_stays_in_the_code() {
        for (content, expected) in [
            (json!({"code": "aü", "cursor_pos": 1}), ("aü", 1)),
            (json!({"code": "aü"}), ("aü", 2)),
            (json!({"code": "aü", "cursor_pos": 9}), ("aü", 2)),
            (json!({"code": "aü", "cursor_pos": -1}), ("aü", 2)),
            (json!({}), ("", 0)),
        ] {
            let question: Question = serde_json::from_value(content).unwrap();
            assert_eq!((question.code.as_str(), question.cursor()), expected);
        }
    }
}
