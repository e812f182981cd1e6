//! Secrets in what an execution produces.

use std::sync::Arc;

use skep_jupyter::{Bundle, InputRequest, JsonText, Output, Raised, Stream};

use crate::secrets::{Masker, Patterns};

/// Masks the output of one execution.
pub(super) struct Masks {
    patterns: Arc<Patterns>,
    stdout: Masker,
    stderr: Masker,
}

impl Masks {
    pub(super) fn new(patterns: Arc<Patterns>) -> Self {
        Self {
            stdout: Masker::new(Arc::clone(&patterns)),
            stderr: Masker::new(Arc::clone(&patterns)),
            patterns,
        }
    }

    /// The same output without secrets; `None` if all of it may be the beginning of one.
    pub(super) fn output(&mut self, output: Output) -> Option<Output> {
        Some(match output {
            Output::Text { stream, text } => Output::Text {
                stream,
                text: self.masker(stream).push_json(&text)?,
            },
            Output::Rich { bundle, is_main } => Output::Rich {
                bundle: self.bundle(&bundle),
                is_main,
            },
            Output::Updated(bundle) => Output::Updated(self.bundle(&bundle)),
            Output::Raised(raised) => Output::Raised(Raised {
                name: self.patterns.mask(&raised.name),
                value: self.patterns.mask(&raised.value),
                traceback: self.traceback(raised.traceback),
                nature: raised.nature,
            }),
            Output::InputRequested(request) => Output::InputRequested(InputRequest {
                prompt: self.patterns.mask(&request.prompt),
                ..request
            }),
            Output::Accepted { .. }
            | Output::Cleared { .. }
            | Output::TooLarge { .. }
            | Output::Ended { .. } => output,
        })
    }

    /// Returns the text that was held back, now that nothing follows.
    pub(super) fn rest(&mut self) -> Vec<Output> {
        let mut rest = Vec::new();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let text = self.masker(stream).finish_json();
            rest.extend(text.map(|text| Output::Text { stream, text }));
        }
        rest
    }

    fn masker(&mut self, stream: Stream) -> &mut Masker {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Every representation is JSON: text is in strings, and so are pictures.
    fn bundle(&self, bundle: &Bundle) -> Bundle {
        let masked = |(mime, value): &(String, JsonText)| {
            (self.patterns.mask(mime), self.patterns.mask_json(value))
        };
        Bundle {
            entries: bundle.entries.iter().map(masked).collect(),
            metadata: bundle
                .metadata
                .as_ref()
                .map(|metadata| self.patterns.mask_json(metadata)),
            // It is a name that is looked for and never shown.
            display_id: bundle.display_id.clone(),
        }
    }

    /// The contract shows the lines without anything between them, where a secret may go over the
    /// end of one.
    fn traceback(&self, lines: Vec<String>) -> Vec<String> {
        let whole = self.patterns.mask(&lines.concat());
        let lines: Vec<String> = lines.iter().map(|line| self.patterns.mask(line)).collect();
        if lines.concat() == whole {
            lines
        } else {
            vec![whole]
        }
    }
}
