//! The history of a context as a notebook.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use skep_jupyter::Output;
use skep_kernels::{HistoryView, Loss, Past, PastCell};
use skep_notebook::{Cell, Language, Notebook, Timing};

use crate::failure::{Sentence, ended};

/// The notebook, written cell by cell while it is sent.
pub(crate) fn response(history: HistoryView) -> Response {
    let language = Language::named(&history.language);
    let pieces = Notebook::pieces(&language, cells(history));
    let body = Body::from_stream(stream::iter(pieces.map(Ok::<_, Infallible>)));
    let headers = [
        (CONTENT_TYPE, "application/x-ipynb+json"),
        (
            CONTENT_DISPOSITION,
            "attachment; filename=\"context.ipynb\"",
        ),
    ];
    (headers, body).into_response()
}

fn cells(history: HistoryView) -> impl Iterator<Item = Cell> {
    let HistoryView {
        forgotten, entries, ..
    } = history;
    let note = (forgotten > 0).then(|| {
        let text = format!(
            "*{forgotten} earlier cells are not in this notebook: only the last ones are kept.*"
        );
        Cell::markdown(&text).numbered(0)
    });
    let cells = entries
        .into_iter()
        .zip(forgotten + 1..)
        .filter(|(past, _)| !is_blank(past));
    note.into_iter()
        .chain(cells.map(|(past, number)| cell(&past).numbered(number)))
}

/// Returns true for a cell without code that came to nothing: somebody looked whether there is a
/// kernel.
fn is_blank(past: &Past) -> bool {
    match past {
        Past::Cell(cell) => {
            cell.code.trim().is_empty()
                && cell.failure.is_none()
                && cell.transcript.shown().is_empty()
        }
        Past::Restarted { .. } | Past::RolledBack { .. } | Past::Forked { .. } => false,
    }
}

fn cell(past: &Arc<Past>) -> Cell {
    match &**past {
        Past::Cell(cell) => code_cell(cell),
        Past::Restarted { loss } => Cell::markdown(&restarted(*loss)),
        Past::RolledBack { checkpoint } => Cell::markdown(&format!(
            "*The context was rolled back to its checkpoint {checkpoint} here.*"
        )),
        Past::Forked { origin } => Cell::markdown(&format!(
            "*The context was forked from {origin}, with everything that was defined there.*"
        )),
    }
}

fn code_cell(past: &PastCell) -> Cell {
    let mut cell = match past.code_left_out {
        0 => Cell::code(&past.code),
        bytes => Cell::code(&format!(
            "{}\n[{bytes} bytes of code were not kept]",
            past.code
        )),
    };
    let transcript = match &past.failure {
        Some(failure) => {
            let mut transcript = past.transcript.clone();
            transcript.push(&Output::Raised(Sentence::about(failure).into_raised()));
            Cow::Owned(transcript)
        }
        None => Cow::Borrowed(&past.transcript),
    };
    let timing = Timing {
        started: past.started,
        accepted: past.accepted,
        ended: past.ended,
    };
    cell.record(&transcript, past.count, timing);
    cell
}

fn restarted(loss: Option<Loss>) -> String {
    let why = match loss {
        None => "somebody asked for it".to_owned(),
        Some(Loss::Exited) => "the code asked for it".to_owned(),
        Some(Loss::Stuck) => "the code did not react to an interrupt".to_owned(),
        Some(Loss::Died(exit)) => format!("it {}", ended(exit)),
    };
    format!("*The kernel was restarted here: {why}. What was defined above was lost.*")
}
