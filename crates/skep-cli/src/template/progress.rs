//! A build as a person, a log or a program follows it.

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use serde::Serialize;
use skep_client::{BuildLogEntry, LogLevel};

use super::size;
use crate::output::printable;
use crate::{CliError, print_json_line, print_note};

/// Interval at which the elapsed time is redrawn.
const TICK: Duration = Duration::from_millis(120);
/// Lines of a step that failed which are shown on a terminal.
const LAST_LINES: usize = 20;
/// Longest line of a display that is drawn again and again.
const LONGEST: usize = 100;

/// A line for programs.
#[derive(Debug, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub(super) enum Told<'a> {
    /// A stage begins.
    Stage {
        stage: &'a str,
        #[serde(rename = "templateID")]
        template_id: &'a str,
        #[serde(rename = "buildID")]
        build_id: &'a str,
        steps: usize,
    },
    /// Files of a step were uploaded, or are there already.
    Upload {
        stage: &'a str,
        line: usize,
        bytes: u64,
        cached: bool,
    },
    /// A step begins.
    Step {
        stage: &'a str,
        step: usize,
        of: usize,
        line: usize,
        instruction: &'a str,
        cached: bool,
    },
    /// A step has ended.
    Done {
        stage: &'a str,
        step: usize,
        seconds: f64,
        bytes: Option<u64>,
    },
    /// A line of the log.
    Log {
        stage: &'a str,
        step: Option<&'a str>,
        level: LogLevel,
        timestamp: Timestamp,
        message: &'a str,
    },
    /// It is all over.
    Built {
        #[serde(rename = "templateID")]
        template_id: &'a str,
        #[serde(rename = "buildID")]
        build_id: &'a str,
        #[serde(rename = "contentID")]
        content_id: Option<&'a str>,
        name: &'a str,
        tags: &'a [String],
        bytes: Option<u64>,
        seconds: f64,
    },
}

/// A step that is shown: its line in the file, and the instruction.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) line: usize,
    pub(super) text: String,
}

/// The display of a build.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    is_json: bool,
    stage: String,
    steps: Vec<Shown>,
    /// The step that runs, the time of its beginning, and bytes of its layer.
    running: Option<(usize, Timestamp, Option<u64>)>,
    /// The last lines of that step.
    last: VecDeque<String>,
}

impl Progress {
    pub(super) fn new(is_json: bool) -> Self {
        let is_seen = !is_json && std::io::stderr().is_terminal();
        let bar = is_seen.then(|| {
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(None, target);
            let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
            bar.set_style(style.expect("the template is a constant"));
            bar.enable_steady_tick(TICK);
            bar
        });
        Self {
            bar,
            is_json,
            stage: String::new(),
            steps: Vec::new(),
            running: None,
            last: VecDeque::new(),
        }
    }

    /// A stage begins with these steps.
    pub(super) fn stage(
        &mut self,
        name: &str,
        (template_id, build_id): (&str, &str),
        steps: Vec<Shown>,
    ) -> Result<(), CliError> {
        name.clone_into(&mut self.stage);
        self.running = None;
        self.last.clear();
        self.steps = steps;
        self.tell(&Told::Stage {
            stage: name,
            template_id,
            build_id,
            steps: self.steps.len(),
        })
    }

    /// A bar for an upload of so many bytes, on a terminal.
    pub(super) fn upload_bar(&self, bytes: u64) -> ProgressBar {
        if self.bar.is_none() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(
            "  uploading [{bar:28}] {bytes} of {total_bytes}, {bytes_per_sec}",
        );
        bar.set_style(
            style
                .expect("the template is a constant")
                .progress_chars("=> "),
        );
        bar
    }

    /// Files were uploaded, or are there already.
    pub(super) fn uploaded(&self, line: usize, bytes: u64, cached: bool) -> Result<(), CliError> {
        if !cached {
            self.note(&format!(
                "[{}] line {line}: uploaded {}",
                self.stage,
                size(bytes)
            ));
        }
        self.tell(&Told::Upload {
            stage: &self.stage,
            line,
            bytes,
            cached,
        })
    }

    /// An entry of the log.
    pub(super) fn entry(&mut self, entry: &BuildLogEntry) -> Result<(), CliError> {
        let number: Option<usize> = entry.step.as_deref().and_then(|step| step.parse().ok());
        let said = Said::read(&entry.message);
        match (number, said) {
            (Some(number), Said::Began { cached }) => {
                self.end_step(entry.timestamp)?;
                self.begin_step(number, entry.timestamp, cached)?;
            }
            (Some(_), Said::Layer(bytes)) => {
                if let Some((_, _, layer)) = &mut self.running {
                    *layer = Some(bytes);
                }
            }
            (Some(_), Said::Output(text)) => self.output(text),
            (_, Said::Began { .. } | Said::Layer(_) | Said::Output(_)) => {
                if entry.step.as_deref() == Some("finalize") {
                    self.end_step(entry.timestamp)?;
                }
                if entry.level != LogLevel::Debug {
                    self.other(&entry.message);
                }
            }
        }
        self.tell(&Told::Log {
            stage: &self.stage,
            step: entry.step.as_deref(),
            level: entry.level,
            timestamp: entry.timestamp,
            message: &entry.message,
        })
    }

    fn begin_step(&mut self, step: usize, at: Timestamp, cached: bool) -> Result<(), CliError> {
        let Some(shown) = self.steps.get(step - 1).cloned() else {
            return Ok(());
        };
        let label = self.label(step);
        self.last.clear();
        if cached {
            self.note(&format!("{label} CACHED {}", shown.text));
        } else {
            self.running = Some((step, at, None));
            match &self.bar {
                Some(bar) => bar.set_message(cut(&format!("{label} {}", shown.text))),
                None => self.note(&format!("{label} {}", shown.text)),
            }
        }
        self.tell(&Told::Step {
            stage: &self.stage,
            step,
            of: self.steps.len(),
            line: shown.line,
            instruction: &shown.text,
            cached,
        })
    }

    fn end_step(&mut self, at: Timestamp) -> Result<(), CliError> {
        let Some((step, begun, bytes)) = self.running.take() else {
            return Ok(());
        };
        let seconds = at.duration_since(begun).as_secs_f64();
        let layer = bytes.map_or_else(String::new, |bytes| format!(", {}", size(bytes)));
        let text = if self.bar.is_some() {
            self.steps
                .get(step - 1)
                .map_or("", |shown| shown.text.as_str())
        } else {
            "done"
        };
        self.note(&format!(
            "{} {text}  {seconds:.1} s{layer}",
            self.label(step)
        ));
        self.tell(&Told::Done {
            stage: &self.stage,
            step,
            seconds,
            bytes,
        })
    }

    /// A line that a command of a step printed.
    fn output(&mut self, text: &str) {
        let Some((step, ..)) = self.running else {
            return;
        };
        match &self.bar {
            Some(bar) => {
                bar.set_message(cut(&format!("{} {text}", self.label(step))));
                self.last.push_back(text.to_owned());
                if self.last.len() > LAST_LINES {
                    self.last.pop_front();
                }
            }
            None => self.note(&format!("{} | {text}", self.label(step))),
        }
    }

    /// A line of the server itself.
    fn other(&self, message: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(cut(message)),
            None => self.note(&format!("[{}] {message}", self.stage)),
        }
    }

    /// The step that ran has failed: shows what it said last, if that was not shown.
    pub(super) fn failed(&mut self) {
        for line in std::mem::take(&mut self.last) {
            self.note(&format!("  {line}"));
        }
        self.finish();
    }

    /// Ends the display.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn label(&self, step: usize) -> String {
        format!("[{} {step}/{}]", self.stage, self.steps.len())
    }

    /// Prints something for a person.
    pub(super) fn note(&self, text: &str) {
        if self.is_json {
            return;
        }
        match &self.bar {
            Some(bar) => bar.suspend(|| print_note(text)),
            None => print_note(text),
        }
    }

    /// Prints a line for a program.
    pub(super) fn tell(&self, told: &Told<'_>) -> Result<(), CliError> {
        if self.is_json {
            print_json_line(told)?;
        }
        Ok(())
    }
}

/// Reads a line of the server's log about a step.
#[derive(Debug, PartialEq, Eq)]
enum Said<'a> {
    Began { cached: bool },
    Output(&'a str),
    Layer(u64),
}

impl<'a> Said<'a> {
    fn read(message: &'a str) -> Self {
        let (message, cached) = match message.strip_prefix("CACHED ") {
            Some(rest) => (rest, true),
            None => (message, false),
        };
        let rest = message
            .strip_prefix("[builder ")
            .and_then(|rest| rest.split_once("] "))
            .map(|(_, rest)| rest);
        let Some(rest) = rest else {
            return Self::Output(message);
        };
        if let Some(text) = rest
            .strip_prefix("[stdout]: ")
            .or_else(|| rest.strip_prefix("[stderr]: "))
        {
            return Self::Output(text);
        }
        let layer = rest
            .strip_prefix("layer of ")
            .and_then(|rest| rest.strip_suffix(" bytes")?.parse().ok());
        layer.map_or(Self::Began { cached }, Self::Layer)
    }
}

/// A line that fits a display.
fn cut(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_server_begins_a_step_or_belongs_to_one() {
        let check = |message: &str, expected: Said<'_>| {
            assert_eq!(Said::read(message), expected, "{message}");
        };
        check(
            "[builder 1/2] RUN make [abc]",
            Said::Began { cached: false },
        );
        check(
            "CACHED [builder 1/2] RUN make [abc]",
            Said::Began { cached: true },
        );
        check("[builder 1/2] [stderr]:   oops", Said::Output("  oops"));
        check("[builder 1/2] layer of 42 bytes", Said::Layer(42));
        check(
            "Build finished, took 1s",
            Said::Output("Build finished, took 1s"),
        );
    }
}
