//! The port through which control uses templates.

mod fake;

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use skep_types::{
    LayerFile, LayerKey, Resources, TeamId, TemplateId, TemplateImage, TemplateReference, closest,
};

use crate::Team;

pub use fake::FakeTemplates;

/// The templates that sandboxes are made of.
pub trait Templates: fmt::Debug + Send + Sync {
    /// Resolves a team's reference to an image, ready to run.
    ///
    /// Without a namespace the team's own comes first, then the names that belong to everybody
    /// (`base`), then template ids.
    ///
    /// # Errors
    ///
    /// [`ResolveError`].
    fn resolve<'a>(
        &'a self,
        reference: &'a TemplateReference,
        team: &'a Team,
    ) -> BoxFuture<'a, Result<TemplateImage, ResolveError>>;

    /// Describes the template that a team's reference means, also if it cannot run.
    ///
    /// # Errors
    ///
    /// [`ResolveError`], where [`ResolveError::NoAccess`] says that another team has it.
    fn find<'a>(
        &'a self,
        reference: &'a TemplateReference,
        team: &'a Team,
    ) -> BoxFuture<'a, Result<TemplateInfo, ResolveError>>;

    /// The templates of a team and those that belong to everybody.
    ///
    /// # Errors
    ///
    /// [`ResolveError::Failed`].
    fn list<'a>(&'a self, team: &'a Team)
    -> BoxFuture<'a, Result<Vec<TemplateInfo>, ResolveError>>;

    /// Describes layers, in the order of their keys. One that is gone has no title.
    ///
    /// # Errors
    ///
    /// [`ResolveError::Failed`].
    fn layers<'a>(
        &'a self,
        keys: &'a [LayerKey],
    ) -> BoxFuture<'a, Result<Vec<LayerInfo>, ResolveError>>;

    /// The files that layers have together, the lowest layer first, at most so many.
    ///
    /// # Errors
    ///
    /// [`ResolveError::Failed`].
    fn files<'a>(
        &'a self,
        keys: &'a [LayerKey],
        most: usize,
    ) -> BoxFuture<'a, Result<LayerFiles, ResolveError>>;
}

/// Description of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerInfo {
    /// Its key.
    pub key: LayerKey,
    /// The step that made it, in words.
    pub title: Option<String>,
    /// Bytes that it takes on the disk.
    pub bytes: u64,
}

/// Files of layers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerFiles {
    /// The files, by path.
    pub files: BTreeMap<String, LayerFile>,
    /// True if there are more.
    pub has_more: bool,
}

/// Description of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateInfo {
    /// Id of the template, which changes with its recipe.
    pub id: TemplateId,
    /// Bare names of the template, the first first.
    pub names: Vec<String>,
    /// Owning team; `None` if it belongs to everybody.
    pub owner: Option<TeamId>,
    /// True if other teams may use it.
    pub public: bool,
    /// The limits of its sandboxes.
    pub resources: Resources,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of the last build.
    pub updated_at: Timestamp,
}

/// Failure to resolve a reference.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is none of that name, but perhaps one that is called nearly so.
    #[error("template '{reference}' not found{}", suggestion(.meant.as_deref()))]
    NotFound {
        /// The reference that was looked for.
        reference: TemplateReference,
        /// The name that may have been meant.
        meant: Option<String>,
    },
    /// There is one of that name, but not with that tag.
    #[error("tag '{}' does not exist for template '{}'", .0.tag.as_deref().unwrap_or("default"), .0.identifier)]
    NoSuchTag(TemplateReference),
    /// It belongs to another team that does not share it.
    #[error("you don't have access to template '{0}'")]
    NoAccess(TemplateReference),
    /// It is there but cannot run yet: it is being built, or fetched. Waiting helps.
    #[error("template '{0}' is not ready yet")]
    NotReady(TemplateReference),
    /// The templates could not be read.
    #[error("cannot look up the template")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ResolveError {
    /// There is no template of that name among those with the `known` names.
    pub fn not_found<'a>(
        reference: &TemplateReference,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self::NotFound {
            reference: reference.clone(),
            meant: closest(&reference.identifier, known).map(str::to_owned),
        }
    }
}

fn suggestion(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}
