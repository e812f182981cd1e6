//! Environment variables and other values, as command lines give them.

use std::collections::BTreeMap;

use crate::CliError;

/// Reads `NAME=VALUE`, and `NAME` for the value that `environment` has.
///
/// # Errors
///
/// If a name is missing, or there is no such variable.
pub(crate) fn variables(
    texts: &[String],
    environment: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, CliError> {
    let variable = |text: &String| match text.split_once('=') {
        Some(("", _)) => Err(CliError::input(
            format!("`{text}` has no name"),
            "write NAME=VALUE, or NAME for the value that it has here",
        )),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match environment(text) {
            Some(value) => Ok((text.clone(), value)),
            None => Err(CliError::input(
                format!("`{text}` has no value"),
                "write NAME=VALUE",
            )),
        },
    };
    texts.iter().map(variable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<BTreeMap<String, String>, CliError> {
        let texts: Vec<_> = texts.iter().map(|&text| text.to_owned()).collect();
        variables(&texts, |name| (name == "HERE").then(|| "here".to_owned()))
    }

    #[test]
    fn a_variable_has_a_value_or_the_one_it_has_here() {
        let found = read(&["A=1=2", "B=", "HERE"]).unwrap();
        let expected = [("A", "1=2"), ("B", ""), ("HERE", "here")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found, BTreeMap::from(expected));
        assert!(read(&["=x"]).is_err() && read(&["MISSING"]).is_err());
    }
}
