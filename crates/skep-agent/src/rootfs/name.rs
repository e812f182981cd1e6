//! Names in a directory.

use std::ffi::{CStr, CString};
use std::io;

use rustix::io::Errno;

/// A single step: no slash, so that no call that is given one can follow a link to another
/// directory on its way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(CString);

impl Name {
    /// `EINVAL` for what is no name of a file.
    pub(crate) fn new(name: impl Into<Vec<u8>>) -> io::Result<Self> {
        let name = CString::new(name).map_err(|_zero| Errno::INVAL)?;
        if name.is_empty() || name.as_bytes().contains(&b'/') {
            return Err(Errno::INVAL.into());
        }
        Ok(Self(name))
    }

    /// The directory itself.
    pub(super) fn itself() -> Self {
        Self(c".".to_owned())
    }

    /// The name as the kernel wants it.
    pub(super) fn as_c_str(&self) -> &CStr {
        &self.0
    }

    /// The name as well as it can be shown.
    pub(crate) fn shown(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// The name, if it is text.
    pub(crate) fn as_text(&self) -> Option<String> {
        self.0.to_str().ok().map(str::to_owned)
    }

    /// The bytes of the name.
    pub(crate) fn length(&self) -> usize {
        self.0.as_bytes().len()
    }

    /// Returns true for `.` and `..`, which name no entry of a directory.
    pub(crate) fn is_dots(&self) -> bool {
        matches!(self.0.as_bytes(), b"." | b"..")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_step() {
        for path in ["", "/", "a/", "/a", "a/b", "a\0b"] {
            Name::new(path).expect_err(path);
        }
        for name in ["a", "..", ".a", "ü"] {
            assert_eq!(Name::new(name).unwrap().shown(), name);
        }
    }
}
