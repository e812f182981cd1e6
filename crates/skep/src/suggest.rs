//! Suggestions for mistyped commands.
//!
//! The parser suggests what begins alike; people also make letters change places.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use skep_types::closest;

/// Adds the command that may have been meant to an error about one that there is not.
pub(crate) fn suggest(mut error: Error, root: &Command, arguments: &[String]) -> Error {
    if error.kind() != ErrorKind::InvalidSubcommand
        || error.get(ContextKind::SuggestedSubcommand).is_some()
    {
        return error;
    }
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let commands = level(root, arguments).get_subcommands();
    let names = commands.filter(|command| !command.is_hide_set());
    let meant = closest(wrong, names.map(Command::get_name)).map(str::to_owned);
    if let Some(meant) = meant {
        let suggestion = ContextValue::Strings(vec![meant]);
        error.insert(ContextKind::SuggestedSubcommand, suggestion);
    }
    error
}

/// The command whose subcommand is wrong: the last that `arguments` name one after another.
fn level<'a>(root: &'a Command, arguments: &[String]) -> &'a Command {
    arguments.iter().fold(root, |command, argument| {
        command.find_subcommand(argument).unwrap_or(command)
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::args::Cli;

    fn told(arguments: &[&str]) -> String {
        let arguments: Vec<_> = arguments.iter().map(|&text| text.to_owned()).collect();
        let all = [&["skep".to_owned()], arguments.as_slice()].concat();
        let error = Cli::try_parse_from(all).unwrap_err();
        suggest(error, &Cli::command(), &arguments).to_string()
    }

    #[test]
    fn a_mistyped_command_is_suggested_at_its_level() {
        assert!(told(&["rnu"]).contains("'run'"), "{}", told(&["rnu"]));
        let list = told(&["sandbox", "lsit"]);
        assert!(list.contains("'list'"), "{list}");
        let other = told(&["frobnicate"]);
        assert!(!other.contains("similar"), "{other}");
    }
}
