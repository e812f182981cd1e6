//! Results of tools.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

use crate::clean::{pictured, pictured_value};

/// Size of the content of one result that is not text, in characters of base64. The official client
/// for Python takes messages of 1 MiB over HTTP, and models take no larger images either.
pub(crate) const LARGEST_CONTENT: usize = 700_000;

/// Content for whoever reads it, and the same as data.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    texts: Vec<String>,
    images: Vec<ContentBlock>,
    /// Size of the images.
    size: usize,
    others: Vec<ContentBlock>,
    is_failure: bool,
}

impl Answer {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        let mut answer = Self::default();
        answer.say(text);
        answer
    }

    /// Adds a paragraph.
    pub(crate) fn say(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.texts.push(text);
        }
    }

    /// Adds an image in base64. One too many or too large is told of instead.
    pub(crate) fn show(&mut self, base64: &str, mime_type: &str) {
        if self.size + base64.len() > LARGEST_CONTENT {
            self.say("[an image is left out: make it smaller, or show fewer at once]");
            return;
        }
        self.size += base64.len();
        self.images.push(ContentBlock::image(base64, mime_type));
    }

    /// Adds content of another kind.
    pub(crate) fn add(&mut self, content: ContentBlock) {
        self.others.push(content);
    }

    /// Says that what was done did not succeed: the code raised, or the command failed.
    pub(crate) fn fail(&mut self) {
        self.is_failure = true;
    }

    /// The result, with `data` as its structured content.
    pub(crate) fn with(self, data: &impl Serialize) -> CallToolResult {
        let data = serde_json::to_value(data).expect("texts, numbers and lists serialise");
        let mut content = vec![ContentBlock::text(pictured(&self.texts.join("\n")))];
        content.extend(self.images);
        content.extend(self.others);
        let mut result = CallToolResult::success(content);
        result.structured_content = Some(pictured_value(data));
        result.is_error = Some(self.is_failure);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_text_images_and_data_and_no_control_of_a_terminal() {
        let mut answer = Answer::text("a\u{1b}[2J");
        answer.show("aGk=", "image/png");
        answer.show(&"a".repeat(LARGEST_CONTENT), "image/png");
        answer.fail();
        let result = answer.with(&serde_json::json!({"b\u{7}": "\u{202e}"}));
        let result = serde_json::to_value(result).unwrap();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(
            text.starts_with("a\u{241b}[2J\n[an image is left out"),
            "{text}"
        );
        assert_eq!(result["content"][1]["data"], "aGk=");
        assert_eq!(
            result["structuredContent"],
            serde_json::json!({"b\u{2407}": "\u{fffd}"})
        );
        assert_eq!(result["isError"], true);
    }
}
