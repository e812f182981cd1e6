//! A template build as a person watches it.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use skep_cli::print_note;
use skep_image::{BuildEvent, Progress};

/// A bar on a terminal, two lines elsewhere. Everything goes to standard error.
pub(crate) fn renderer() -> Box<dyn Progress + Send> {
    if std::io::stderr().is_terminal() {
        Box::new(Bar::default())
    } else {
        Box::new(Lines::default())
    }
}

/// Steps of a bar's length, fine enough to move within a step.
const RESOLUTION: u64 = 1000;

/// One bar for the template, with the step's name and the last line it printed. What is there
/// already is not worth a word.
struct Bar {
    bar: ProgressBar,
    done: u64,
    has_built: bool,
}

impl Default for Bar {
    fn default() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template(
            "{prefix:>12} [{bar:28}] {percent:>3}% {elapsed:>4}  {wide_msg}",
        )
        .expect("the template is a constant")
        .progress_chars("=> ");
        bar.set_style(style);
        Self {
            bar,
            done: 0,
            has_built: false,
        }
    }
}

impl Progress for Bar {
    fn event(&mut self, event: BuildEvent<'_>) {
        match event {
            BuildEvent::Planned { template, steps } => {
                self.done = 0;
                self.has_built = false;
                self.bar.reset();
                self.bar
                    .set_length(u64::try_from(steps).unwrap_or(1) * RESOLUTION);
                self.bar.set_prefix(template.to_owned());
                self.bar.enable_steady_tick(Duration::from_millis(200));
            }
            BuildEvent::Started { title, .. } => {
                self.has_built = true;
                self.bar.set_message(title.to_owned());
            }
            BuildEvent::Waiting { title, .. } => {
                self.bar
                    .set_message(format!("waiting for another build: {title}"));
            }
            BuildEvent::Output { line } => self.bar.set_message(line.trim().to_owned()),
            BuildEvent::Advanced { fraction } => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a fraction of a thousand"
                )]
                let part = (fraction.clamp(0.0, 1.0) * 1000.0) as u64;
                self.bar.set_position(self.done + part);
            }
            BuildEvent::Cached { .. } | BuildEvent::Finished { .. } => {
                self.done += RESOLUTION;
                self.bar.set_position(self.done);
            }
            BuildEvent::Ready { template, .. } => {
                self.bar.finish_and_clear();
                if self.has_built {
                    print_note(&format!("template `{template}` is ready"));
                }
            }
        }
    }
}

/// Two lines for a template that is built, for logs: what is there already is not worth a word,
/// and a step that fails is named by the error.
#[derive(Default)]
struct Lines {
    template: String,
    steps: usize,
    since: Option<Instant>,
}

impl Lines {
    /// The line to print for an event, if any.
    fn line(&mut self, event: &BuildEvent<'_>, now: Instant) -> Option<String> {
        match event {
            BuildEvent::Planned { template, steps } => {
                (*template).clone_into(&mut self.template);
                self.steps = *steps;
                self.since = None;
                None
            }
            BuildEvent::Started { step, title } | BuildEvent::Waiting { step, title }
                if self.since.is_none() =>
            {
                self.since = Some(now);
                let Self {
                    template, steps, ..
                } = self;
                Some(format!(
                    "building template `{template}`, from step {step} of {steps}: {title}"
                ))
            }
            BuildEvent::Ready { template, .. } => {
                let seconds = (now - self.since?).as_secs();
                Some(format!("template `{template}` is ready after {seconds} s"))
            }
            BuildEvent::Started { .. }
            | BuildEvent::Waiting { .. }
            | BuildEvent::Finished { .. }
            | BuildEvent::Cached { .. }
            | BuildEvent::Output { .. }
            | BuildEvent::Advanced { .. } => None,
        }
    }
}

impl Progress for Lines {
    fn event(&mut self, event: BuildEvent<'_>) {
        if let Some(line) = self.line(&event, Instant::now()) {
            print_note(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use skep_types::TemplateId;

    use super::*;

    #[test]
    fn a_log_has_two_lines_for_a_template_that_is_built_and_none_for_another() {
        let id: TemplateId = "abcdefghij0123456789".parse().unwrap();
        let now = Instant::now();
        let (template, title) = ("base", "install");
        let planned = BuildEvent::Planned { template, steps: 3 };
        let cached = BuildEvent::Cached { step: 1, title };
        let ready = BuildEvent::Ready { template, id: &id };
        let mut lines = Lines::default();
        let mut told = |events: &[BuildEvent<'_>]| {
            let lines = events.iter().filter_map(|event| lines.line(event, now));
            lines.collect::<Vec<_>>()
        };
        let nothing = [planned.clone(), cached.clone(), ready.clone()];
        assert!(told(&nothing).is_empty());
        let step = |step| BuildEvent::Started { step, title };
        let something = [planned, cached, step(2), step(3), ready];
        assert_eq!(
            told(&something),
            [
                "building template `base`, from step 2 of 3: install",
                "template `base` is ready after 0 s",
            ]
        );
    }
}
