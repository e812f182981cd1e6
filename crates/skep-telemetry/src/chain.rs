//! An error with all its causes on one line.

use std::error::Error;
use std::fmt;

/// Prints an error and its sources, each once: `cannot open x: Permission denied`.
///
/// Our errors do not repeat their source's text, so this is the one place where the whole
/// story is put together, at the place of logging.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(formatter, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("cannot open `x`")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn every_cause_is_told_once() {
        let error = Outer(std::io::Error::other("no such luck"));
        assert_eq!(Chain(&error).to_string(), "cannot open `x`: no such luck");
    }
}
