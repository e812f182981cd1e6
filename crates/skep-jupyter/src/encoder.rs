//! Variables and directories for kernels that take nothing but code.
//!
//! Jupyter's protocol has no word for them, so they are told in the kernel's own language. What
//! is told is built by a pure function per language, in which a value is data and never code.
//! Kernels of ours take variables and directories as data ([`crate::frame::Request`]).

mod python;
mod r;

use std::collections::BTreeMap;

/// A language in which variables and directories can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoder {
    /// Python, as IPython's kernels run it.
    Python,
    /// R, as IRkernel runs it.
    R,
}

impl Encoder {
    /// The encoder of a language, as a kernel or its specification calls it. `None`: nothing
    /// can be told to it after its start.
    pub fn of(language: &str) -> Option<Self> {
        match language.to_ascii_lowercase().as_str() {
            "python" => Some(Self::Python),
            "r" => Some(Self::R),
            _ => None,
        }
    }

    /// Code that sets variables, and remembers what they were.
    pub fn set_variables(self, variables: &BTreeMap<String, String>) -> String {
        match self {
            Self::Python => python::set_variables(variables),
            Self::R => r::set_variables(variables),
        }
    }

    /// Code that gives the variables of [`Self::set_variables`] back what they were. Doing it
    /// twice is no harm.
    pub fn restore_variables(self) -> String {
        match self {
            Self::Python => python::restore_variables(),
            Self::R => r::restore_variables(),
        }
    }

    /// Code that replaces the variables that were set by the last call of this, for good. One
    /// that is not among them any more gets back what it was; one whose value is the same is
    /// not touched, so that what user code assigned stays.
    pub fn keep_variables(self, variables: &BTreeMap<String, String>) -> String {
        match self {
            Self::Python => python::keep_variables(variables),
            Self::R => r::keep_variables(variables),
        }
    }

    /// Code that changes the working directory.
    pub fn change_directory(self, path: &str) -> String {
        match self {
            Self::Python => python::change_directory(path),
            Self::R => r::change_directory(path),
        }
    }
}

/// Code that makes a kernel what callers expect, if it needs any. Kernels say themselves which
/// program they are.
pub fn preparation(implementation: &str) -> Option<String> {
    match implementation {
        "ipython" => Some(python::prepare_ipykernel()),
        "IRkernel" => Some(r::prepare_irkernel()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
