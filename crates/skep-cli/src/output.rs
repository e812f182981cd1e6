//! The one place that prints.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this module is the output"
)]

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// Output format of a command.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct OutputArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints data for machines, on standard output.
pub fn print_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => println!("{}", escape_json(&text)),
        Err(error) => eprintln!("error: cannot print JSON: {error}"),
    }
}

/// Prints one line of data, on standard output.
pub fn print_line(line: &str) {
    println!("{line}");
}

/// Prints something that is not data, on standard error.
pub fn print_note(note: &str) {
    let lines: Vec<_> = note.split('\n').map(printable).collect();
    eprintln!("{}", lines.join("\n"));
}

/// Prints rows under a header, on standard output, without any line that is not text.
pub fn print_table(header: &[&str], rows: Vec<Vec<String>>) {
    println!("{}", render_table(header, rows));
}

/// The text without anything that a terminal would obey: code in a sandbox may have written it,
/// or another member of the team.
pub(crate) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_obeyed(letter) && letter != '\t' {
            printable.extend(letter.escape_default());
        } else {
            printable.push(letter);
        }
    }
    printable
}

/// JSON in which a terminal finds nothing to obey either. What `serde_json` leaves as it is can
/// only be within a string, where every character may be escaped.
fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_obeyed(letter) && letter != '\n' {
            escaped.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Returns true if a terminal does something else than show this character: controls, and what
/// turns the direction of the text around it.
fn is_obeyed(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn render_table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|name| name.to_uppercase()));
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell)));
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
    fn nothing_that_others_wrote_is_obeyed_by_the_terminal() {
        let hostile = "\x1b]0;title\x07\u{9b}2J\x7f\u{202e}\nforged row";
        let table = render_table(&["name"], vec![vec![hostile.to_owned()]]);
        assert_eq!(table.lines().count(), 2, "{table}");
        let json = serde_json::to_string_pretty(&[hostile]).unwrap();
        let escaped = escape_json(&json);
        for text in [&table, &escaped] {
            assert!(
                !text
                    .chars()
                    .any(|letter| is_obeyed(letter) && letter != '\n'),
                "{text:?}"
            );
        }
        assert_eq!(
            serde_json::from_str::<Vec<String>>(&escaped).unwrap(),
            [hostile]
        );
    }

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
