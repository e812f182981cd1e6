//! Recipes: what a template is made of, as data.

mod builtin;
mod document;
mod spelling;

use std::borrow::Cow;
use std::collections::BTreeMap;

use skep_types::Resources;

pub use builtin::builtin;
pub use document::RecipeError;

/// A recipe as it is written: its text, and the files that lie beside it.
#[derive(Debug, Clone, Default)]
pub struct RecipeSource {
    /// The text of `recipe.toml`.
    pub text: Cow<'static, str>,
    /// The files beside it, by their path relative to it.
    pub files: BTreeMap<String, Cow<'static, [u8]>>,
}

/// A recipe that can be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Name of the template.
    pub name: String,
    /// Purpose of the template, in one sentence.
    pub description: String,
    /// Names under which it is found while no template of that name is built.
    pub stands_in_for: Vec<String>,
    /// The origin that it starts from.
    pub origin: Origin,
    /// The steps that are applied to it, in order.
    pub steps: Vec<Step>,
    /// The limits of its sandboxes.
    pub resources: Resources,
    /// Command that each of its sandboxes starts with, if there is one.
    pub start: Option<String>,
    /// Command that succeeds when that has done what others wait for.
    pub ready: Option<String>,
}

/// Origins of recipes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A fresh Debian.
    Debian(DebianOrigin),
    /// Another template, with its environment, user and working directory.
    Template(String),
}

/// A Debian system as its packages make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebianOrigin {
    /// The release, such as `trixie`.
    pub suite: String,
    /// The packages beside the essential ones.
    pub packages: Vec<String>,
    /// Patterns of paths that packages do not install, now or later in a sandbox.
    pub without: Vec<String>,
    /// Patterns of paths that are installed although `without` names them.
    pub keep: Vec<String>,
}

/// One thing done to the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Description of the step, for display.
    pub title: String,
    /// The action that it takes.
    pub action: Action,
}

/// Actions of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Runs a script with bash, which stops at the first command that fails.
    Run {
        /// Script for the shell.
        script: String,
        /// User that runs it; `None` is the user of the steps before.
        user: Option<String>,
    },
    /// Puts files of the recipe into the template.
    Copy {
        /// The files: where each goes, and what is in it.
        files: Vec<(String, Cow<'static, [u8]>)>,
        /// The owner, as `user:group`.
        owner: String,
        /// The mode, in octal digits.
        mode: String,
    },
    /// Sets variables for the following steps and for the sandboxes.
    Env(Vec<(String, String)>),
    /// Changes who runs the following steps, and commands in the sandboxes.
    User(String),
    /// Changes where the following steps, and commands in the sandboxes, run.
    Workdir(String),
}

impl Recipe {
    /// Reads a recipe.
    ///
    /// # Errors
    ///
    /// [`RecipeError`] names what is wrong; its `hint` says what to write instead.
    pub fn parse(source: &RecipeSource) -> Result<Self, RecipeError> {
        document::parse(source)
    }
}

impl Action {
    /// Returns true if the step leaves files behind, so that it gets a layer.
    pub(crate) fn has_layer(&self) -> bool {
        match self {
            Self::Run { .. } | Self::Copy { .. } => true,
            Self::Env(_) | Self::User(_) | Self::Workdir(_) => false,
        }
    }
}
