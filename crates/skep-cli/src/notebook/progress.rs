//! Progress display of a running notebook.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::{CliError, print_json_line, print_note};

/// Length limit of a cell's first line in the display.
const LONGEST: usize = 48;
/// Interval at which the elapsed time is redrawn.
const TICK: Duration = Duration::from_millis(120);

/// A line for machines.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Told<'a> {
    /// A cell has ended.
    Cell {
        /// Position among the cells of the notebook, from 1.
        number: usize,
        /// Id of the cell, if it has one.
        id: Option<String>,
        /// `ok`, or the kind of the error.
        outcome: &'a str,
        /// Duration of the run.
        seconds: f64,
    },
    /// It is all over.
    Notebook {
        /// File that the notebook was written to.
        output: String,
        /// Number of cells that were run.
        cells: usize,
        /// `ok`, or the kind of the error that ended it.
        outcome: &'a str,
        /// The exit code.
        exit_code: u8,
    },
}

/// A bar for a person, a line per cell for a log, or JSON for a program.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    is_json: bool,
    cells: usize,
    done: usize,
}

impl Progress {
    /// A display for so many cells.
    pub(super) fn new(cells: usize, is_json: bool) -> Self {
        let is_seen = !is_json && std::io::stderr().is_terminal();
        let bar = is_seen.then(|| {
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(Some(cells as u64), target);
            let style =
                ProgressStyle::with_template("{bar:24} {pos}/{len} cells  {elapsed}  {msg:.dim}");
            bar.set_style(style.expect("the template is a constant"));
            bar.enable_steady_tick(TICK);
            bar
        });
        Self {
            bar,
            is_json,
            cells,
            done: 0,
        }
    }

    /// A cell begins.
    pub(super) fn begin(&self, source: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(first_line(source));
        }
    }

    /// A cell has ended.
    ///
    /// # Errors
    ///
    /// If nobody reads about it any more.
    pub(super) fn end(&mut self, told: &Told<'_>, source: &str) -> Result<(), CliError> {
        self.done += 1;
        if self.is_json {
            print_json_line(told)?;
        } else if let Some(bar) = &self.bar {
            bar.inc(1);
        } else if let Told::Cell {
            outcome, seconds, ..
        } = told
        {
            let (done, cells) = (self.done, self.cells);
            let line = first_line(source);
            print_note(&format!(
                "[{done}/{cells}] {outcome:7} {seconds:7.2} s  {line}"
            ));
        }
        Ok(())
    }

    /// Something that a person wants to know.
    pub(super) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| print_note(text)),
            None => print_note(text),
        }
    }

    /// Ends the display, and prints the last line.
    ///
    /// # Errors
    ///
    /// If nobody reads it any more.
    pub(super) fn finish(&self, last: &Told<'_>) -> Result<(), CliError> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.is_json {
            print_json_line(last)?;
        }
        Ok(())
    }
}

/// The first line that says something, cut to fit.
fn first_line(source: &str) -> String {
    let line = source
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    // What would move the cursor is no text.
    let mut visible = line.chars().filter(|character| !character.is_control());
    let mut shown: String = visible.by_ref().take(LONGEST).collect();
    if visible.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_shown_by_its_first_line_that_says_something() {
        assert_eq!(first_line("\n  \n  import os\nos"), "import os");
        assert_eq!(first_line(""), "");
        assert_eq!(first_line("a\u{1b}[31m\rb"), "a[31mb");
        let long = "ü".repeat(60);
        assert_eq!(first_line(&long), format!("{}…", "ü".repeat(48)));
    }
}
