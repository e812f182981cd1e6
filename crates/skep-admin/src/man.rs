//! `skep man`: pages for `man`, one for each command.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use skep_cli::{CliError, print_bytes, print_note};

/// Writes a page for `program` and every command of it into `directory`, or prints the first one.
///
/// # Errors
///
/// If they cannot be written.
pub fn run(program: Command, directory: Option<&Path>) -> Result<(), CliError> {
    let pages = pages(program).map_err(CliError::failure)?;
    let Some(directory) = directory else {
        let (_, first) = &pages[0];
        return print_bytes(first);
    };
    let failed = |error: io::Error| {
        CliError::failure(error).hint(format!("cannot write to `{}`", directory.display()))
    };
    fs::create_dir_all(directory).map_err(failed)?;
    for (name, page) in &pages {
        fs::write(directory.join(name), page).map_err(failed)?;
    }
    let (count, place) = (pages.len(), directory.display());
    print_note(&format!("wrote {count} pages to {place}"));
    Ok(())
}

/// The pages of a command and all below it, with their file names: `skep-sandbox-exec.1`.
fn pages(mut root: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    root.build();
    let mut pages = Vec::new();
    collect(&root, "skep", &mut pages)?;
    Ok(pages)
}

fn collect(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let mut page = Vec::new();
    Man::new(command.clone()).title(name).render(&mut page)?;
    pages.push((format!("{name}.1"), page));
    let shown = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    for below in command.get_subcommands().filter(shown) {
        collect(below, &format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn every_command_that_people_use_has_a_page() {
        let exec = Command::new("exec").arg(Arg::new("timeout").long("timeout"));
        let sandbox = Command::new("sandbox").subcommand(exec);
        let hidden = Command::new("agent").hide(true);
        let program = Command::new("skep").subcommands([sandbox, hidden]);
        let pages = pages(program).unwrap();
        let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["skep.1", "skep-sandbox.1", "skep-sandbox-exec.1"],
            "what is hidden has none"
        );
        let exec = String::from_utf8_lossy(&pages[2].1);
        assert!(exec.contains(".TH skep-sandbox-exec 1"), "{exec}");
        assert!(exec.contains("timeout"), "{exec}");
    }
}
