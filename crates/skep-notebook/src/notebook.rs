//! A whole notebook.

use std::collections::HashSet;

use serde_json::value::RawValue;

use crate::cell::{Cell, CellKind};
use crate::language::Language;
use crate::object::Object;
use crate::parameters::{self, Parameter, ParameterError};
use crate::pretty;

/// The newest version of the format that is written: 4.5.
const NEWEST_MINOR: u64 = 5;
/// First minor version in which every cell has an id.
const MINOR_WITH_IDS: u64 = 5;
/// First minor version in which cells have attachments.
const MINOR_WITH_ATTACHMENTS: u64 = 1;

/// A notebook, kept as it was read.
#[derive(Debug, Clone)]
pub struct Notebook {
    /// Everything, with nothing of use under `cells`.
    fields: Object,
    cells: Vec<Cell>,
}

/// Errors of reading a notebook.
#[derive(Debug, thiserror::Error)]
pub enum NotebookError {
    /// It is no JSON, or no object.
    #[error("it is not JSON, as a notebook is")]
    Json(#[source] serde_json::Error),
    /// It is JSON, but not that of a notebook.
    #[error("it has no `{missing}`, which every notebook has")]
    NoNotebook {
        /// Name of the missing field.
        missing: &'static str,
    },
    /// It is of another version of the format.
    #[error("it is a notebook of version {major}; only version 4 can be read")]
    Version {
        /// Major version that it names.
        major: u64,
    },
    /// One of its cells is none.
    #[error("cell {number} cannot be read")]
    Cell {
        /// Position of the cell, counted from 1.
        number: usize,
        /// Error of the parser.
        source: serde_json::Error,
    },
}

impl Notebook {
    /// Reads a notebook of version 4.0 or newer. What the standard does not know is kept.
    ///
    /// # Errors
    ///
    /// [`NotebookError`]
    pub fn read(text: &str) -> Result<Self, NotebookError> {
        let text = text.trim_start_matches('\u{feff}');
        let mut fields: Object = serde_json::from_str(text).map_err(NotebookError::Json)?;
        let missing = |missing| NotebookError::NoNotebook { missing };
        let major: u64 = fields.read("nbformat").ok_or_else(|| missing("nbformat"))?;
        if major != 4 {
            return Err(NotebookError::Version { major });
        }
        let listed: Vec<Box<RawValue>> = fields.read("cells").ok_or_else(|| missing("cells"))?;
        fields.set("cells", &());
        let cells = listed.iter().enumerate().map(|(index, cell)| {
            Cell::read(cell).map_err(|source| NotebookError::Cell {
                number: index + 1,
                source,
            })
        });
        let mut notebook = Self {
            cells: cells.collect::<Result<_, _>>()?,
            fields,
        };
        notebook.settle_version();
        Ok(notebook)
    }

    /// Keeps the minor version unless the notebook has what came later, and sees to what the
    /// version asks for.
    fn settle_version(&mut self) {
        let told = self.minor();
        let least =
            |minor, has: fn(&Cell) -> bool| if self.cells.iter().any(has) { minor } else { 0 };
        let minor = told
            .max(least(MINOR_WITH_IDS, Cell::has_id))
            .max(least(MINOR_WITH_ATTACHMENTS, Cell::has_attachments));
        if minor != told || self.fields.get("nbformat_minor").is_none() {
            self.fields.set("nbformat_minor", &minor);
        }
        if self.fields.read::<Object>("metadata").is_none() {
            self.fields.set("metadata", &Object::default());
        }
        self.name_cells();
    }

    /// Gives a name to every cell that has none, or one that is no name or another cell's.
    fn name_cells(&mut self) {
        if self.minor() < MINOR_WITH_IDS {
            return;
        }
        let mut taken = HashSet::new();
        for (index, cell) in self.cells.iter_mut().enumerate() {
            let is_well = cell.id().is_some_and(|id| is_id(&id) && taken.insert(id));
            if !is_well {
                let mut salt = index as u64;
                let mut id = made_id(salt, cell.source());
                while !taken.insert(id.clone()) {
                    salt = salt.wrapping_add(0x1_0000);
                    id = made_id(salt, cell.source());
                }
                cell.set_id(&id);
            }
        }
    }

    fn minor(&self) -> u64 {
        self.fields.read("nbformat_minor").unwrap_or_default()
    }

    /// Returns the cells in their order.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Its cells, to be changed.
    pub fn cells_mut(&mut self) -> &mut [Cell] {
        &mut self.cells
    }

    /// The language that it says it is in.
    pub fn language(&self) -> Option<Language> {
        Language::of(&self.metadata())
    }

    fn metadata(&self) -> Object {
        self.fields.read("metadata").unwrap_or_default()
    }

    /// Says which language it is in, if nothing in it does.
    pub fn state_language(&mut self, language: &Language) {
        let mut metadata = self.metadata();
        if Language::of(&metadata).is_none() {
            language.describe(&mut metadata);
            self.fields.set("metadata", &metadata);
        }
    }

    /// Adds a cell that sets `parameters`, after the one with the tag `parameters` or before all
    /// code, in the place of one that was added so before.
    ///
    /// # Errors
    ///
    /// [`ParameterError`] if the language has no form for them.
    pub fn set_parameters(
        &mut self,
        parameters: &[Parameter],
        language: &Language,
    ) -> Result<(), ParameterError> {
        const INJECTED: &str = "injected-parameters";
        if parameters.is_empty() {
            return Ok(());
        }
        let source = parameters::code(parameters, language)?;
        let has_tag = |tag: &'static str| move |cell: &Cell| cell.tags().iter().any(|t| t == tag);
        self.cells.retain(|cell| !has_tag(INJECTED)(cell));
        let place = match self.cells.iter().position(has_tag("parameters")) {
            Some(defaults) => defaults + 1,
            None => {
                let is_code = |cell: &Cell| cell.kind() == CellKind::Code;
                self.cells.iter().position(is_code).unwrap_or(0)
            }
        };
        let mut cell = Cell::code(&source);
        cell.add_tag(INJECTED);
        self.cells.insert(place, cell);
        self.name_cells();
        Ok(())
    }

    /// The text of the notebook, as Jupyter writes it.
    pub fn write(&self) -> String {
        let mut text = String::from("{");
        let mut separator = "";
        for (name, value) in self.fields.entries() {
            text.push_str(separator);
            separator = ",";
            pretty::break_line(1, &mut text);
            let quoted = serde_json::to_string(name).expect("a string is always JSON");
            text.push_str(&quoted);
            text.push_str(": ");
            if name == "cells" {
                write_cells(&self.cells, &mut text);
            } else {
                pretty::write(value.get(), 1, &mut text);
            }
        }
        text.push_str("\n}\n");
        text
    }

    /// The text of a new notebook, in pieces, so that not all of it need be in memory at once.
    /// Every cell needs an id.
    pub fn pieces<Cells>(
        language: &Language,
        cells: Cells,
    ) -> impl Iterator<Item = String> + use<Cells>
    where
        Cells: Iterator<Item = Cell>,
    {
        let mut metadata = Object::default();
        language.describe(&mut metadata);
        let mut tail = String::from("\n ],\n \"metadata\": ");
        metadata.write(1, &mut tail);
        tail.push_str(&format!(
            ",\n \"nbformat\": 4,\n \"nbformat_minor\": {NEWEST_MINOR}\n}}\n"
        ));
        let cells = cells.enumerate().map(|(index, cell)| {
            let mut text = String::from(if index == 0 { "\n  " } else { ",\n  " });
            cell.write(2, &mut text);
            text
        });
        std::iter::once("{\n \"cells\": [".to_owned())
            .chain(cells)
            .chain(std::iter::once(tail))
    }
}

fn write_cells(cells: &[Cell], text: &mut String) {
    if cells.is_empty() {
        text.push_str("[]");
        return;
    }
    let mut separator = "[";
    for cell in cells {
        text.push_str(separator);
        separator = ",";
        pretty::break_line(2, text);
        cell.write(2, text);
    }
    pretty::break_line(1, text);
    text.push(']');
}

/// Returns true if the standard accepts this as the id of a cell.
fn is_id(id: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&id.len()) && id.bytes().all(is_legal)
}

/// An id that is always the same for the same cell, of the length that Jupyter's have.
pub(crate) fn made_id(number: u64, source: &str) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = number.to_le_bytes();
    let hash = bytes
        .iter()
        .chain(source.as_bytes())
        .fold(OFFSET, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
        });
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

#[cfg(test)]
mod tests;
