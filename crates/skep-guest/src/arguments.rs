//! Arguments of the agent, which the server writes.

use std::ffi::OsString;

/// Errors of the arguments: the server is of another version, or somebody else started this.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentsError {
    #[error("`{0}` is not an argument of the agent")]
    Unknown(String),
    #[error("`--fds` takes a list `name=number,…`")]
    Fds,
}

/// Reads `--fds name=number,…`: the descriptors handed over by the launcher, by name.
pub(crate) fn fds(
    given: impl Iterator<Item = OsString>,
) -> Result<Vec<(String, i32)>, ArgumentsError> {
    let mut given = given.map(|argument| argument.to_string_lossy().into_owned());
    let mut fds = Vec::new();
    while let Some(name) = given.next() {
        if name != "--fds" {
            return Err(ArgumentsError::Unknown(name));
        }
        let table = given.next().and_then(|text| fd_table(&text));
        fds = table.ok_or(ArgumentsError::Fds)?;
    }
    Ok(fds)
}

fn fd_table(text: &str) -> Option<Vec<(String, i32)>> {
    let named = |entry: &str| {
        let (name, number) = entry.split_once('=')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    text.split(',').map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[&str]) -> Result<Vec<(String, i32)>, ArgumentsError> {
        fds(given.iter().map(OsString::from))
    }

    #[test]
    fn descriptors_have_names_and_a_name_may_be_there_twice() {
        let read = parse(&["--fds", "config=3,work_cgroup=4,work_cgroup=5"]).unwrap();
        let expected = [("config", 3), ("work_cgroup", 4), ("work_cgroup", 5)];
        assert_eq!(
            read,
            expected.map(|(name, number)| (name.to_owned(), number))
        );
        assert_eq!(parse(&[]), Ok(Vec::new()));
    }

    #[test]
    fn what_cannot_be_understood_is_refused() {
        for wrong in ["", "config", "config=x", "config=3,,log=4"] {
            assert_eq!(
                parse(&["--fds", wrong]),
                Err(ArgumentsError::Fds),
                "{wrong}"
            );
        }
        assert_eq!(parse(&["--fds"]), Err(ArgumentsError::Fds));
        assert_eq!(
            parse(&["--port", "1"]),
            Err(ArgumentsError::Unknown("--port".to_owned()))
        );
    }
}
