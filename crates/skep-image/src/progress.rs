//! Progress events of a build.

use std::time::Duration;

use skep_types::TemplateId;

/// Something that happened in a build. Steps are counted from 1.
#[derive(Debug, Clone, PartialEq)]
pub enum BuildEvent<'a> {
    /// The build of a template begins and will take this many steps. A template that another
    /// one is based on announces itself first.
    Planned {
        /// Name of the template.
        template: &'a str,
        /// Number of its steps.
        steps: usize,
    },
    /// A step begins.
    Started {
        /// Number of the step.
        step: usize,
        /// Title of the step.
        title: &'a str,
    },
    /// A step was done by an earlier build and is taken from the store.
    Cached {
        /// Number of the step.
        step: usize,
        /// Title of the step.
        title: &'a str,
    },
    /// Another process is doing this very step; this one waits for its result.
    Waiting {
        /// Number of the step.
        step: usize,
        /// Title of the step.
        title: &'a str,
    },
    /// A line that the step printed, without its line end.
    Output {
        /// The line; at most 4 KiB of it.
        line: &'a str,
    },
    /// Fraction of the step that is done, where that can be told: from 0 to 1, never going back.
    Advanced {
        /// The part that is done.
        fraction: f32,
    },
    /// A step is done and its layer is in the store.
    Finished {
        /// Number of the step.
        step: usize,
        /// Duration of the step.
        elapsed: Duration,
        /// Size of its layer on disk.
        bytes: u64,
    },
    /// The template is complete and can be found by its name.
    Ready {
        /// Name of the template.
        template: &'a str,
        /// Id of the finished template.
        id: &'a TemplateId,
    },
}

/// Receiver of a build's events. They come from the thread that runs the build, so an
/// implementation that blocks holds the build up.
pub trait Progress {
    /// Takes one event.
    fn event(&mut self, event: BuildEvent<'_>);
}

/// A receiver that drops all events, for a build that nobody watches.
#[derive(Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn event(&mut self, _event: BuildEvent<'_>) {}
}

/// Reads how far a run of `apt-get install` is from what it prints: every package is fetched,
/// unpacked and set up, and the number of packages is told before.
#[derive(Debug, Default)]
pub(crate) struct PackageMeter {
    /// Number of progress lines expected, three for each package, and number seen so far.
    expected: u32,
    done: u32,
    /// Fraction reported last. A second announcement makes the rest longer, and a bar that goes
    /// back would look like a fault.
    told: f32,
}

impl PackageMeter {
    /// Takes a line; gives the fraction done when the line moved it forward.
    pub(crate) fn line(&mut self, line: &str) -> Option<f32> {
        const DONE: [&str; 3] = ["Get:", "Unpacking ", "Setting up "];
        if let Some(packages) = newly_installed(line) {
            self.expected = self.expected.saturating_add(packages.saturating_mul(3));
        } else if self.expected > 0 && DONE.iter().any(|prefix| line.starts_with(prefix)) {
            self.done = self.done.saturating_add(1).min(self.expected);
        } else {
            return None;
        }
        let fraction = f64::from(self.done) / f64::from(self.expected.max(1));
        #[expect(clippy::cast_possible_truncation, reason = "a number from 0 to 1")]
        let fraction = fraction as f32;
        if fraction <= self.told {
            return None;
        }
        self.told = fraction;
        Some(fraction)
    }
}

fn newly_installed(line: &str) -> Option<u32> {
    let (before, _) = line.split_once(" newly installed")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_run_is_measured_from_its_own_words() {
        let lines = [
            "Reading package lists...",
            "0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.",
            "Get:1 somewhere trixie/main amd64 jq [1 kB]",
            "Get:2 somewhere trixie/main amd64 less [1 kB]",
            "Unpacking jq (1.7) ...",
            "Setting up jq (1.7) ...",
            "Unpacking less (6) ...",
            "Setting up less (6) ...",
            "Setting up a trigger that nobody counted ...",
        ];
        let mut meter = PackageMeter::default();
        let told: Vec<_> = lines.iter().filter_map(|line| meter.line(line)).collect();
        assert_eq!(told.len(), 6);
        assert_eq!(told.last(), Some(&1.0));
        assert!(told.is_sorted());
    }

    #[test]
    fn output_that_is_not_about_packages_moves_nothing() {
        let mut meter = PackageMeter::default();
        assert_eq!(meter.line("Setting up before anything was announced"), None);
        assert_eq!(meter.line("hello"), None);
    }

    #[test]
    fn a_second_announcement_never_moves_the_bar_back() {
        let mut meter = PackageMeter::default();
        let first = meter.line("0 upgraded, 1 newly installed, 0 to remove");
        let second = meter.line("Unpacking a");
        let third = meter.line("0 upgraded, 99 newly installed, 0 to remove");
        let fourth = meter.line("Unpacking b");
        assert_eq!(
            (first, second.is_some(), third, fourth),
            (None, true, None, None)
        );
    }
}
