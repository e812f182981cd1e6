//! The outputs of one execution, as a notebook shows them.

use crate::{Bundle, JsonText, Output, Raised, Stream};

/// The output that a notebook shows below a cell.
///
/// Text goes to the text before it if that came the same way; an update changes what was displayed
/// under its id; clearing removes what was there. Nothing in it shares memory with the messages it
/// came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transcript {
    shown: Vec<Shown>,
    /// True if the next thing that is shown takes the place of all others.
    clears_next: bool,
    bytes: usize,
    left_out: u64,
}

/// One thing that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// Text that was printed in one go.
    Text {
        /// Standard output or standard error.
        stream: Stream,
        /// The text, decoded.
        text: String,
    },
    /// A value that was displayed, or is the value of the cell.
    Rich {
        /// Representations by media type.
        bundle: Bundle,
        /// True if it is the value of the cell.
        is_main: bool,
    },
    /// The exception that ended the cell.
    Raised(Raised),
}

impl Transcript {
    /// Returns the outputs, in order.
    pub fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// Returns its approximate size in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of bytes of output that are not in it, though they should be.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the exception that ended the cell, if one did.
    pub fn raised(&self) -> Option<&Raised> {
        self.shown.iter().rev().find_map(|shown| match shown {
            Shown::Raised(raised) => Some(raised),
            Shown::Text { .. } | Shown::Rich { .. } => None,
        })
    }

    /// Goes on with one more output.
    pub fn push(&mut self, output: &Output) {
        match output {
            Output::Text { stream, text } => {
                // What is no string was never printed.
                self.push_text(*stream, &text.decode().unwrap_or_default());
            }
            Output::TooLarge { bytes } => {
                let text = format!("an output of {bytes} bytes is too large and was left out\n");
                self.push_text(Stream::Stderr, &text);
            }
            Output::Rich { bundle, is_main } => self.add(Shown::Rich {
                bundle: detached(bundle),
                is_main: *is_main,
            }),
            Output::Raised(raised) => self.add(Shown::Raised(raised.clone())),
            Output::Updated(bundle) => self.update(bundle),
            Output::Cleared { wait: true } => self.clears_next = true,
            Output::Cleared { wait: false } => self.clear(),
            // A notebook shows no question: its reader could not answer it.
            Output::Accepted { .. } | Output::InputRequested(_) | Output::Ended { .. } => {}
        }
    }

    /// Returns the number of displays under this id.
    pub fn displays_of(&self, id: &str) -> usize {
        let is_it = |shown: &&Shown| matches!(shown, Shown::Rich { bundle, .. } if bundle.display_id.as_deref() == Some(id));
        self.shown.iter().filter(is_it).count()
    }

    /// Changes what was displayed under the id of `bundle`, in this cell or an earlier one.
    pub fn update(&mut self, bundle: &Bundle) {
        let Some(id) = &bundle.display_id else {
            return;
        };
        for shown in &mut self.shown {
            if let Shown::Rich {
                bundle: displayed, ..
            } = shown
                && displayed.display_id.as_ref() == Some(id)
            {
                self.bytes -= weight(displayed);
                *displayed = detached(bundle);
                self.bytes += weight(displayed);
            }
        }
    }

    /// Says that so many bytes of output are missing.
    pub fn leave_out(&mut self, bytes: u64) {
        self.left_out = self.left_out.saturating_add(bytes);
    }

    /// Gives up all that is shown except the exception, and says how much that was.
    pub fn forget(&mut self) {
        self.left_out = self.left_out.saturating_add(self.bytes as u64);
        self.shown.retain(|shown| matches!(shown, Shown::Raised(_)));
        self.shown.shrink_to_fit();
        self.bytes = self.shown.iter().map(weight_of).sum();
        self.left_out = self.left_out.saturating_sub(self.bytes as u64);
    }

    /// Gives back the memory that was taken for more output: none follows.
    pub fn finish(&mut self) {
        self.shown.shrink_to_fit();
        if let Some(Shown::Text { text, .. }) = self.shown.last_mut() {
            text.shrink_to_fit();
        }
    }

    fn push_text(&mut self, stream: Stream, more: &str) {
        if more.is_empty() {
            return;
        }
        if self.clears_next {
            self.clear();
        }
        if let Some(Shown::Text { stream: last, text }) = self.shown.last_mut()
            && *last == stream
        {
            text.push_str(more);
            self.bytes += more.len();
            return;
        }
        self.add(Shown::Text {
            stream,
            text: more.to_owned(),
        });
    }

    fn add(&mut self, shown: Shown) {
        if self.clears_next {
            self.clear();
        }
        if let Some(Shown::Text { text, .. }) = self.shown.last_mut() {
            text.shrink_to_fit();
        }
        self.bytes += weight_of(&shown);
        self.shown.push(shown);
    }

    fn clear(&mut self) {
        self.shown.clear();
        self.clears_next = false;
        self.bytes = 0;
        self.left_out = 0;
    }
}

impl Output {
    /// Returns the approximate memory needed to keep it.
    pub fn weight(&self) -> usize {
        match self {
            Self::Text { text, .. } => OVERHEAD + text.as_str().len(),
            Self::Rich { bundle, .. } | Self::Updated(bundle) => weight(bundle),
            Self::Raised(raised) => weight_of_exception(raised),
            Self::InputRequested(request) => OVERHEAD + request.id.len() + request.prompt.len(),
            // It becomes a sentence.
            Self::TooLarge { .. } => 3 * OVERHEAD,
            Self::Accepted { .. } | Self::Cleared { .. } | Self::Ended { .. } => 0,
        }
    }
}

/// Estimated size of a list entry beside its content, in bytes.
const OVERHEAD: usize = 64;

fn weight_of(shown: &Shown) -> usize {
    match shown {
        Shown::Text { text, .. } => OVERHEAD + text.len(),
        Shown::Rich { bundle, .. } => weight(bundle),
        Shown::Raised(raised) => weight_of_exception(raised),
    }
}

fn weight(bundle: &Bundle) -> usize {
    let entry = |(mime, value): &(String, JsonText)| OVERHEAD + mime.len() + value.as_str().len();
    let metadata = bundle
        .metadata
        .as_ref()
        .map_or(0, |text| text.as_str().len());
    let id = bundle.display_id.as_ref().map_or(0, String::len);
    OVERHEAD + bundle.entries.iter().map(entry).sum::<usize>() + metadata + id
}

fn weight_of_exception(raised: &Raised) -> usize {
    let lines = raised.traceback.iter().map(|line| OVERHEAD + line.len());
    OVERHEAD + raised.name.len() + raised.value.len() + lines.sum::<usize>()
}

fn detached(bundle: &Bundle) -> Bundle {
    let entry = |(mime, value): &(String, JsonText)| (mime.clone(), value.detached());
    Bundle {
        entries: bundle.entries.iter().map(entry).collect(),
        metadata: bundle.metadata.as_ref().map(JsonText::detached),
        display_id: bundle.display_id.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Nature;

    fn text(stream: Stream, text: &str) -> Output {
        let text = JsonText::string(text);
        Output::Text { stream, text }
    }

    fn display(id: Option<&str>, text: &str) -> Bundle {
        Bundle {
            display_id: id.map(str::to_owned),
            ..Bundle::from(vec![("text/plain".to_owned(), JsonText::string(text))])
        }
    }

    fn rich(id: Option<&str>, text: &str) -> Output {
        Output::Rich {
            bundle: display(id, text),
            is_main: false,
        }
    }

    fn raised() -> Output {
        Output::Raised(Raised {
            name: "E".to_owned(),
            value: "v".to_owned(),
            traceback: vec!["line".to_owned()],
            nature: Nature::Runtime,
        })
    }

    fn transcript(outputs: &[Output]) -> Transcript {
        let mut transcript = Transcript::default();
        outputs.iter().for_each(|output| transcript.push(output));
        transcript
    }

    #[track_caller]
    fn check(outputs: &[Output], expected: &[&str]) {
        let shown: Vec<String> = transcript(outputs)
            .shown()
            .iter()
            .map(|shown| match shown {
                Shown::Text { stream, text } => format!("{stream:?} {text}"),
                Shown::Rich { bundle, .. } => format!("rich {}", bundle.entries[0].1.as_str()),
                Shown::Raised(raised) => format!("raised {}", raised.name),
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn text_of_one_stream_is_one_text_until_something_comes_between() {
        let (out, err) = (Stream::Stdout, Stream::Stderr);
        check(
            &[
                text(out, "a"),
                text(out, "b\n"),
                text(err, "c"),
                text(out, "d"),
                rich(None, "x"),
                text(out, "e"),
                Output::TooLarge { bytes: 5 },
            ],
            &[
                "Stdout ab\n",
                "Stderr c",
                "Stdout d",
                "rich \"x\"",
                "Stdout e",
                "Stderr an output of 5 bytes is too large and was left out\n",
            ],
        );
    }

    #[test]
    fn an_update_changes_every_display_of_its_id() {
        check(
            &[
                rich(Some("a"), "1"),
                rich(Some("b"), "2"),
                rich(Some("a"), "3"),
                Output::Updated(display(Some("a"), "new")),
                Output::Updated(display(Some("unheard of"), "nothing")),
                Output::Updated(display(None, "nothing")),
            ],
            &["rich \"new\"", "rich \"2\"", "rich \"new\""],
        );
    }

    #[test]
    fn clearing_removes_at_once_or_with_the_next_output() {
        let out = Stream::Stdout;
        let clear = |wait| Output::Cleared { wait };
        check(&[text(out, "a"), clear(false)], &[]);
        check(&[text(out, "a"), clear(true)], &["Stdout a"]);
        check(
            &[text(out, "a"), clear(true), text(out, "b"), text(out, "c")],
            &["Stdout bc"],
        );
        check(
            &[rich(None, "x"), clear(true), raised(), text(out, "b")],
            &["raised E", "Stdout b"],
        );
    }

    #[test]
    fn what_is_forgotten_is_counted_and_the_exception_stays() {
        let mut transcript = transcript(&[text(Stream::Stdout, "0123456789"), raised()]);
        let before = transcript.bytes();
        transcript.forget();
        assert_eq!(transcript.shown().len(), 1);
        assert!(transcript.raised().is_some());
        let lost = before - transcript.bytes();
        assert!(lost >= 10 && transcript.left_out() == lost as u64);
    }

    fn any_output() -> impl Strategy<Value = Output> {
        let id = prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))];
        prop_oneof![
            "[a-z]{0,5}".prop_map(|word| text(Stream::Stdout, &word)),
            "[a-z]{0,5}".prop_map(|word| text(Stream::Stderr, &word)),
            (id.clone(), "[a-z]{0,5}").prop_map(|(id, word)| rich(id, &word)),
            (id, "[a-z]{0,5}").prop_map(|(id, word)| Output::Updated(display(id, &word))),
            any::<bool>().prop_map(|wait| Output::Cleared { wait }),
            Just(raised()),
        ]
    }

    proptest! {
        #[test]
        fn the_weight_is_that_of_what_is_shown(outputs in proptest::collection::vec(any_output(), 0..20)) {
            let transcript = transcript(&outputs);
            let weight: usize = transcript.shown().iter().map(weight_of).sum();
            prop_assert_eq!(transcript.bytes(), weight);
            for pair in transcript.shown().windows(2) {
                if let [Shown::Text { stream: one, .. }, Shown::Text { stream: other, .. }] = pair {
                    prop_assert_ne!(one, other);
                }
            }
        }
    }
}
