//! The table of what `--json` prints.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory as _};

use super::Cli;

const PAGE: &str = include_str!("../../../../docs/reference/cli.md");
/// Words of the table about commands whose output is no data of ours.
const SAME: &str = "the same as without it";

/// Collects the commands that do something, by whether they have an output for machines.
fn collect(
    command: &Command,
    path: &str,
    json: &mut BTreeSet<String>,
    same: &mut BTreeSet<String>,
) {
    let below = command.get_subcommands();
    for below in below.filter(|below| !below.is_hide_set()) {
        let name = format!("{path} {}", below.get_name())
            .trim_start()
            .to_owned();
        // `bench` measures all without a subcommand, and its options are those of each.
        if below.has_subcommands() && name != "bench" {
            collect(below, &name, json, same);
        } else if below
            .get_arguments()
            .any(|argument| argument.get_id() == "json")
        {
            json.insert(name);
        } else {
            same.insert(name);
        }
    }
}

/// The commands in a cell of the table: a word alone stands below the command that the one before
/// it stands below.
fn named(cell: &str) -> Vec<String> {
    let mut parent = "";
    let spans = cell.split('`').skip(1).step_by(2);
    let whole = spans.map(|span| match span.split_once(' ') {
        Some((above, _)) => {
            parent = above;
            span.to_owned()
        }
        None => format!("{parent} {span}").trim_start().to_owned(),
    });
    whole.collect()
}

#[test]
fn the_table_tells_what_every_command_prints_as_json() {
    let (mut json, mut same) = (BTreeSet::new(), BTreeSet::new());
    collect(&Cli::command(), "", &mut json, &mut same);
    let (_, table) = PAGE
        .split_once("| command | prints |\n|---|---|\n")
        .unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let (mut told, mut told_same) = (BTreeSet::new(), BTreeSet::new());
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let to = if cells[2] == SAME {
            &mut told_same
        } else {
            &mut told
        };
        to.extend(named(cells[1]));
    }
    assert_eq!(
        told, json,
        "docs/reference/cli.md, and the commands with `--json`"
    );
    assert_eq!(told_same, same, "docs/reference/cli.md, and the others");
}
