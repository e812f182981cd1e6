//! Templates that a team can use.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use skep_store::StoreError;
use skep_types::{TemplateId, TemplateReference};
use uuid::Uuid;

use crate::{Caller, Control, ResolveError, TemplateInfo};

/// A template with how much the team uses it.
#[derive(Debug, Clone)]
pub struct ListedTemplate {
    /// Names, owner, limits and times of the template.
    pub info: TemplateInfo,
    /// The build that it is. A template is immutable, so its id stands for one build.
    pub build: Uuid,
    /// Number of sandboxes that the team made of it.
    pub spawns: u64,
    /// Time at which it last did.
    pub last_spawned_at: Option<Timestamp>,
}

/// Failure to show templates.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The reference gives none.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// Usage counts could not be read.
    #[error(transparent)]
    Record(#[from] StoreError),
}

impl Control {
    /// The templates the caller's team can use.
    ///
    /// # Errors
    ///
    /// [`TemplateError`].
    pub async fn templates(&self, caller: &Caller) -> Result<Vec<ListedTemplate>, TemplateError> {
        let infos = self.inner.templates.list(&caller.team).await?;
        let team = caller.team.id.clone();
        let spawns = self.inner.store.sandboxes().spawns(team).await?;
        let listed = |info: TemplateInfo| {
            let spawns = spawns.iter().find(|spawns| spawns.template == info.id);
            ListedTemplate {
                build: build_of(&info.id),
                spawns: spawns.map_or(0, |spawns| spawns.count),
                last_spawned_at: spawns.map(|spawns| spawns.last),
                info,
            }
        };
        Ok(infos.into_iter().map(listed).collect())
    }

    /// The template that the caller's team means by a reference.
    ///
    /// # Errors
    ///
    /// [`ResolveError`].
    pub async fn find_template(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<TemplateInfo, ResolveError> {
        self.inner.templates.find(reference, &caller.team).await
    }
}

fn build_of(template: &TemplateId) -> Uuid {
    let digest = Sha256::digest(template.as_str());
    let bytes = digest.first_chunk().expect("the digest has 32 bytes");
    uuid::Builder::from_custom_bytes(*bytes).into_uuid()
}
