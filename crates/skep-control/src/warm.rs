//! Templates that are made ready before anybody asks for a sandbox of them.

use skep_store::StoreError;
use skep_telemetry::Chain;
use skep_types::{SandboxKind, TemplateReference, TenantId};

use crate::{Control, ResolveError};

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
                Ok(template) => {
                    let tenant = TenantId::new(&team.id, template.sharing);
                    self.inner.nodes.warm(SandboxKind { template, tenant });
                }
                Err(error @ (ResolveError::NotFound { .. } | ResolveError::NotReady(_))) => {
                    tracing::debug!(error = %Chain(&error), "a template is not made ready");
                }
                Err(
                    error @ (ResolveError::NoSuchTag(_)
                    | ResolveError::NoAccess(_)
                    | ResolveError::Failed(_)),
                ) => tracing::warn!(error = %Chain(&error), "a template is not made ready"),
            }
        }
        Ok(())
    }
}
