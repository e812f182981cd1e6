//! Values that are offered where others are taken, too.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

/// Parser of a text that names some values: help and the completions of shells offer them, and
/// every other one is as good.
#[derive(Debug, Clone, Copy)]
pub struct Suggested(pub &'static [&'static str]);

impl TypedValueParser for Suggested {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            self.0.iter().map(|&name| PossibleValue::new(name)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_values_are_taken_too() {
        let argument = Arg::new("lang")
            .long("lang")
            .value_parser(Suggested(&["python"]));
        let command = Command::new("skep").arg(argument);
        let read = |text: &str| {
            let matches = command
                .clone()
                .try_get_matches_from(["skep", "--lang", text]);
            matches.unwrap().get_one::<String>("lang").cloned()
        };
        assert_eq!(read("python").as_deref(), Some("python"));
        assert_eq!(read("julia").as_deref(), Some("julia"));
    }
}
