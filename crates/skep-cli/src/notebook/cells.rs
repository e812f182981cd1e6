//! The cells of a notebook while it runs.

use skep_jupyter::{Output, Transcript};
use skep_notebook::{Cell, CellKind, Notebook, Timing};

/// A notebook and what its cells have produced until now.
#[derive(Debug)]
pub(super) struct Cells {
    notebook: Notebook,
    runs: Vec<Run>,
}

/// A cell that was run.
#[derive(Debug, Default)]
pub(super) struct Run {
    index: usize,
    pub(super) transcript: Transcript,
    pub(super) count: Option<u64>,
    pub(super) timing: Timing,
}

impl Cells {
    /// The notebook without the outputs of earlier runs.
    pub(super) fn new(mut notebook: Notebook) -> Self {
        let code = notebook.cells_mut().iter_mut();
        code.filter(|cell| cell.kind() == CellKind::Code)
            .for_each(Cell::clear);
        Self {
            notebook,
            runs: Vec::new(),
        }
    }

    /// The places of the cells that are to be run.
    pub(super) fn runnable(&self) -> Vec<usize> {
        self.notebook
            .cells()
            .iter()
            .enumerate()
            .filter(|(_, cell)| cell.kind() == CellKind::Code && !cell.source().trim().is_empty())
            .filter(|(_, cell)| !has_tag(cell, "skip-execution"))
            .map(|(index, _)| index)
            .collect()
    }

    pub(super) fn cell(&self, index: usize) -> &Cell {
        &self.notebook.cells()[index]
    }

    /// Returns true if this cell is there to show an error.
    pub(super) fn may_raise(&self, index: usize) -> bool {
        has_tag(self.cell(index), "raises-exception")
    }

    /// A cell begins.
    pub(super) fn begin(&mut self, index: usize, now: i64) {
        self.runs.push(Run {
            index,
            timing: Timing {
                started: Some(now),
                ..Timing::default()
            },
            ..Run::default()
        });
    }

    /// The cell that began last.
    pub(super) fn last(&mut self) -> Option<&mut Run> {
        self.runs.last_mut()
    }

    /// The last cell has produced something. An update may be for an earlier one.
    pub(super) fn output(&mut self, output: &Output) {
        let Some((last, earlier)) = self.runs.split_last_mut() else {
            return;
        };
        last.transcript.push(output);
        if let Output::Updated(bundle) = output {
            let id = bundle.display_id.as_deref().unwrap_or_default();
            for run in earlier
                .iter_mut()
                .filter(|run| run.transcript.displays_of(id) > 0)
            {
                run.transcript.update(bundle);
                run.write_to(&mut self.notebook);
            }
        }
    }

    /// The last cell has ended, or is left as it is.
    pub(super) fn end(&mut self, now: i64) {
        if let Some(last) = self.runs.last_mut() {
            last.timing.ended = Some(now);
            last.transcript.finish();
            last.write_to(&mut self.notebook);
        }
    }

    /// Number of cells that were run.
    pub(super) fn count(&self) -> usize {
        self.runs.len()
    }

    /// The text of the notebook as it is now.
    pub(super) fn text(&self) -> String {
        self.notebook.write()
    }
}

impl Run {
    fn write_to(&self, notebook: &mut Notebook) {
        notebook.cells_mut()[self.index].record(&self.transcript, self.count, self.timing);
    }
}

fn has_tag(cell: &Cell, tag: &str) -> bool {
    cell.tags().iter().any(|found| found == tag)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skep_jupyter::{Bundle, JsonText};

    use super::*;

    fn cells(sources: &[(&str, &str, &[&str])]) -> Cells {
        let cell = |(kind, source, tags): &(&str, &str, &[&str])| {
            let metadata = json!({"tags": tags});
            let old = json!([{"output_type": "stream", "name": "stdout", "text": "old"}]);
            json!({"cell_type": kind, "source": source, "metadata": metadata, "outputs": old, "execution_count": 7})
        };
        let cells: Vec<Value> = sources.iter().map(cell).collect();
        let notebook = json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4});
        Cells::new(Notebook::read(&notebook.to_string()).unwrap())
    }

    fn outputs(cells: &Cells, index: usize) -> Value {
        let notebook: Value = serde_json::from_str(&cells.text()).unwrap();
        notebook["cells"][index]["outputs"].clone()
    }

    fn display(text: &str) -> Bundle {
        Bundle {
            display_id: Some("d".to_owned()),
            ..Bundle::from(vec![("text/plain".to_owned(), JsonText::string(text))])
        }
    }

    #[test]
    fn only_code_that_says_something_is_run() {
        let cells = cells(&[
            ("markdown", "# a", &[]),
            ("code", "1", &[]),
            ("code", " \n", &[]),
            ("code", "2", &["skip-execution"]),
            ("raw", "3", &[]),
            ("code", "4", &["raises-exception"]),
        ]);
        assert_eq!(cells.runnable(), [1, 5]);
        assert!(cells.may_raise(5) && !cells.may_raise(1));
        assert_eq!(outputs(&cells, 3), json!([]));
        assert_eq!(outputs(&cells, 4)[0]["text"], "old");
    }

    #[test]
    fn an_update_changes_what_an_earlier_cell_shows() {
        let mut cells = cells(&[("code", "1", &[]), ("code", "2", &[])]);
        cells.begin(0, 1);
        cells.output(&Output::Rich {
            bundle: display("old"),
            is_main: false,
        });
        cells.end(2);
        cells.begin(1, 3);
        cells.output(&Output::Updated(display("new")));
        cells.end(4);
        assert_eq!(outputs(&cells, 0)[0]["data"]["text/plain"], json!(["new"]));
        assert_eq!((outputs(&cells, 1), cells.count()), (json!([]), 2));
    }
}
