//! A template build as a person watches it.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use skep_cli::print_note;
use skep_image::{BuildEvent, Progress};

/// A bar on a terminal, a line per step elsewhere. Everything goes to standard error.
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

/// A line per step, for logs. Steps taken from the store are only counted.
#[derive(Default)]
struct Lines {
    template: String,
    steps: usize,
    built: usize,
}

impl Progress for Lines {
    fn event(&mut self, event: BuildEvent<'_>) {
        let Self {
            template, steps, ..
        } = self;
        match event {
            BuildEvent::Planned { template, steps } => {
                template.clone_into(&mut self.template);
                self.steps = steps;
                self.built = 0;
            }
            BuildEvent::Started { step, title } => {
                self.built += 1;
                print_note(&format!("{template}: step {step}/{steps}: {title}"));
            }
            BuildEvent::Waiting { step, title } => {
                print_note(&format!(
                    "{template}: step {step}/{steps}: another build does: {title}"
                ));
            }
            BuildEvent::Finished {
                step,
                elapsed,
                bytes,
            } => {
                let seconds = elapsed.as_secs_f32();
                let mebibytes = bytes.div_ceil(1024 * 1024);
                print_note(&format!(
                    "{template}: step {step}/{steps}: done in {seconds:.1} s, {mebibytes} MiB"
                ));
            }
            BuildEvent::Ready { template, .. } if self.built > 0 => {
                print_note(&format!("template `{template}` is ready"));
            }
            BuildEvent::Cached { .. }
            | BuildEvent::Output { .. }
            | BuildEvent::Advanced { .. }
            | BuildEvent::Ready { .. } => {}
        }
    }
}
