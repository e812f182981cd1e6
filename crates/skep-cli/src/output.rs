//! The one place that prints.

use std::io::{self, Write};

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::CliError;

/// Output format of a command.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct OutputArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints data for machines, on standard output.
///
/// # Errors
///
/// As [`print_line`].
pub fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value).map_err(CliError::failure)?;
    print_line(&escape_json(&text))
}

/// Prints data for machines on one line of standard output, where more lines follow.
///
/// # Errors
///
/// As [`print_line`].
pub fn print_json_line(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string(value).map_err(CliError::failure)?;
    print_line(&escape_json(&text))
}

/// Prints one line of data, on standard output.
///
/// # Errors
///
/// If it cannot be written; [`CliError::is_unread`] if nobody reads it any more.
pub fn print_line(line: &str) -> Result<(), CliError> {
    print_bytes(format!("{line}\n").as_bytes())
}

/// Writes bytes as they are on standard output.
///
/// # Errors
///
/// As [`print_line`].
pub fn print_bytes(bytes: &[u8]) -> Result<(), CliError> {
    write(io::stdout().lock(), bytes).map_err(CliError::output)
}

/// Writes bytes as they are on standard error.
///
/// # Errors
///
/// As [`print_line`].
pub fn print_error_bytes(bytes: &[u8]) -> Result<(), CliError> {
    write(io::stderr().lock(), bytes).map_err(CliError::output)
}

/// Prints something that is not data, on standard error.
pub fn print_note(note: &str) {
    let lines: Vec<_> = note.split('\n').map(printable).collect();
    let text = lines.join("\n") + "\n";
    // There is nobody left to be told that nobody reads this.
    drop(write(io::stderr().lock(), text.as_bytes()));
}

/// Prints rows under a header, on standard output, without any line that is not text.
///
/// # Errors
///
/// As [`print_line`].
pub fn print_table(header: &[&str], rows: Vec<Vec<String>>) -> Result<(), CliError> {
    print_line(&render_table(header, rows))
}

fn write(mut target: impl Write, bytes: &[u8]) -> io::Result<()> {
    target.write_all(bytes)?;
    target.flush()
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
