//! Templates that are made ready before anybody asks for a sandbox of them.

use skep_store::StoreError;
use skep_telemetry::Chain;
use skep_types::{
    BuildId, SandboxKind, TeamId, TemplateId, TemplateImage, TemplateReference, TenantId,
};

use crate::{Control, ResolveError};

/// Sandboxes of a template as most callers order them.
fn usual_kind(team: &TeamId, template: TemplateImage) -> SandboxKind {
    let tenant = TenantId::new(team, template.sharing);
    SandboxKind { template, tenant }
}

impl Control {
    /// Makes sandboxes of these templates ready for the default team, which the local key belongs
    /// to, as far as the templates are built, and as that team means their names. Returns when that
    /// is under way. Another team's are made when it first asks.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the database cannot be read. A template that cannot run is no error: it
    /// may be built later.
    pub async fn warm(&self, templates: &[TemplateReference]) -> Result<(), StoreError> {
        if templates.is_empty() {
            return Ok(());
        }
        let team = self.default_team().await?;
        for reference in templates {
            let resolved = match self.find_version(&team, reference).await {
                Ok(Some(version)) => Ok(version.image),
                Ok(None) => self.inner.templates.resolve(reference, &team).await,
                Err(error) => Err(error),
            };
            match resolved {
                Ok(template) => self.inner.nodes.warm(usual_kind(&team.id, template)),
                Err(error @ (ResolveError::NotFound { .. } | ResolveError::NotReady(_))) => {
                    tracing::debug!(error = %Chain(&error), "cannot warm template");
                }
                Err(
                    error @ (ResolveError::NoSuchTag(_)
                    | ResolveError::NoAccess(_)
                    | ResolveError::Failed(_)),
                ) => tracing::warn!(error = %Chain(&error), "cannot warm template"),
            }
        }
        Ok(())
    }

    /// Makes sandboxes of a version ready for its team, which asks for one as soon as it is built.
    pub(crate) async fn warm_version(&self, team: TeamId, template: TemplateId, build: BuildId) {
        let reference = TemplateReference {
            namespace: None,
            identifier: template.to_string(),
            tag: Some(build.to_string()),
        };
        let warming = async {
            let Some(team) = self.inner.store.teams().find(team).await? else {
                return Ok(());
            };
            if let Some(version) = self.find_version(&team, &reference).await? {
                let kind = usual_kind(&team.id, version.image);
                self.inner.nodes.warm_built(kind);
            }
            Ok::<_, ResolveError>(())
        };
        if let Err(error) = warming.await {
            tracing::debug!(error = %Chain(&error), "a new version is not made ready");
        }
    }
}
