//! The one place that prints.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this module is the output"
)]

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// How a command prints.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct OutputArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints data for machines, on standard output.
pub fn print_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("error: cannot print JSON: {error}"),
    }
}

/// Prints one line of data, on standard output.
pub fn print_line(line: &str) {
    println!("{line}");
}

/// Prints something that is not data, on standard error.
pub fn print_note(note: &str) {
    eprintln!("{note}");
}

/// Prints rows under a header, on standard output, without any line that is not text.
pub fn print_table(header: &[&str], rows: Vec<Vec<String>>) {
    println!("{}", render_table(header, rows));
}

fn render_table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|name| name.to_uppercase()));
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_well_without_lines_or_colour() {
        let rows = vec![
            vec!["i1".to_owned(), "running".to_owned()],
            vec!["i22".to_owned(), "ended".to_owned()],
        ];
        assert_eq!(
            render_table(&["id", "state"], rows),
            "ID   STATE\ni1   running\ni22  ended"
        );
    }
}
