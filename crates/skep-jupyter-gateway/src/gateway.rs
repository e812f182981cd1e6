//! The kernels of all teams: those in memory, and those that are only sandboxes until somebody asks
//! for them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::http::StatusCode;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skep_client::{ClientError, Context, ListedSandbox, NewSandbox, Sandbox, SandboxState};
use uuid::Uuid;

use crate::activity::written;
use crate::failure::Failure;
use crate::kernel::{Kernel, KernelOptions};
use crate::kernelspecs::{self, Kernelspec};
use crate::{Settings, Visitor};

/// Key of the metadata under which a sandbox has the ID of its kernel.
const ID: &str = "skep.jupyter.kernel";
/// Key under which it has the name of its kernelspec.
const SPEC: &str = "skep.jupyter.kernelspec";
/// Key under which it has its language.
const LANGUAGE: &str = "skep.jupyter.language";

/// The kernels that this server knows of.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) settings: Settings,
    /// Time since which there is this gateway.
    pub(crate) started: Timestamp,
    kernels: Kernels,
}

/// Kernels in memory, by team and ID.
pub(crate) type Kernels = Arc<Mutex<HashMap<(String, String), Arc<Kernel>>>>;

impl Gateway {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            started: Timestamp::now(),
            kernels: Kernels::default(),
        }
    }

    /// Starts a kernel in a sandbox of its own.
    ///
    /// # Cancel safety
    ///
    /// What a dropped call has made is found in the list, or ends when it was idle for long enough.
    pub(crate) async fn start(
        &self,
        visitor: &Visitor,
        name: Option<&str>,
        env: BTreeMap<String, String>,
    ) -> Result<Arc<Kernel>, Failure> {
        let client = &visitor.client;
        let usual = &self.settings.template;
        let Some(spec) = kernelspecs::find(client, usual, name).await? else {
            let message = format!(
                "there is no kernelspec `{}`; GET api/kernelspecs lists those that there are",
                name.unwrap_or("python3")
            );
            return Err(Failure::new(StatusCode::BAD_REQUEST, message));
        };
        let id = Uuid::new_v4().to_string();
        let new = NewSandbox {
            template_id: spec.template.clone(),
            timeout: i64::try_from(self.settings.idle.as_secs()).ok(),
            metadata: Some(metadata(&id, &spec)),
            env_vars: Some(env).filter(|env| !env.is_empty()),
            ..NewSandbox::default()
        };
        let sandbox = client.sandboxes().create(&new).await?;
        match context_of(&sandbox, spec.language).await {
            Ok(context) => Ok(self.keep(visitor, id, spec.name, sandbox, context)),
            Err(error) => {
                if let Err(error) = sandbox.kill().await {
                    tracing::debug!(%error, "a sandbox without a kernel lives until its timeout");
                }
                Err(error.into())
            }
        }
    }

    /// The kernel with an ID, if it is the visitor's team's.
    pub(crate) async fn find(&self, visitor: &Visitor, id: &str) -> Result<Arc<Kernel>, Failure> {
        let key = (visitor.team.clone(), id.to_owned());
        let found = self.kernels.lock().get(&key).map(Arc::clone);
        if let Some(kernel) = found.filter(|kernel| !kernel.has_ended()) {
            return Ok(kernel);
        }
        // A server that was restarted meanwhile has forgotten it.
        let no_kernel = || Failure::no_kernel(id);
        if id.parse::<Uuid>().is_err() {
            return Err(no_kernel());
        }
        let sandboxes = visitor.client.sandboxes();
        let found = sandboxes.with_metadata(ID, id).await?;
        let listed = oldest(&found, id).ok_or_else(no_kernel)?;
        let metadata = |key: &str| listed.metadata.get(key);
        let spec = metadata(SPEC).ok_or_else(no_kernel)?;
        // Metadata is what somebody has written there.
        let language = metadata(LANGUAGE)
            .and_then(|name| kernelspecs::known_language(name))
            .ok_or_else(no_kernel)?;
        let sandbox = visitor.client.sandbox(&listed.sandbox_id);
        let context = context_of(&sandbox, language).await?;
        Ok(self.keep(visitor, id.to_owned(), spec.clone(), sandbox, context))
    }

    /// All kernels of a team, as Jupyter writes them.
    pub(crate) async fn list(&self, visitor: &Visitor) -> Result<Vec<Value>, Failure> {
        let sandboxes = visitor.client.sandboxes().list().await?;
        let kernels = self.kernels.lock();
        let running = sandboxes.iter().filter(|sandbox| is_running(sandbox));
        let rendered = running.filter_map(|sandbox| {
            let id = sandbox.metadata.get(ID)?;
            if !oldest(&sandboxes, id).is_some_and(|oldest| std::ptr::eq(oldest, sandbox)) {
                return None;
            }
            let spec = sandbox.metadata.get(SPEC)?;
            let known = kernels.get(&(visitor.team.clone(), id.clone()));
            Some(known.map_or_else(
                || {
                    json!({
                        "id": id,
                        "name": spec,
                        "last_activity": written(sandbox.started_at),
                        "execution_state": "idle",
                        "connections": 0,
                    })
                },
                |kernel| kernel.rendered(),
            ))
        });
        Ok(rendered.collect())
    }

    /// Keeps a kernel in memory, unless somebody else has done so meanwhile.
    fn keep(
        &self,
        visitor: &Visitor,
        id: String,
        spec: String,
        sandbox: Sandbox,
        context: Context,
    ) -> Arc<Kernel> {
        let key = (visitor.team.clone(), id.clone());
        let mut kernels = self.kernels.lock();
        if let Some(kernel) = kernels.get(&key).filter(|kernel| !kernel.has_ended()) {
            return Arc::clone(kernel);
        }
        let kernel = Kernel::start(KernelOptions {
            id,
            spec,
            team: visitor.team.clone(),
            api: visitor.client.clone(),
            sandbox,
            context,
            idle: self.settings.idle,
            kernels: Arc::clone(&self.kernels),
        });
        kernels.insert(key, Arc::clone(&kernel));
        kernel
    }
}

fn metadata(id: &str, spec: &Kernelspec) -> BTreeMap<String, String> {
    [
        (ID, id),
        (SPEC, spec.name.as_str()),
        (LANGUAGE, spec.language),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// The sandbox of a kernel. Forks have its metadata, and are younger.
fn oldest<'a>(sandboxes: &'a [ListedSandbox], id: &str) -> Option<&'a ListedSandbox> {
    let of_kernel = sandboxes.iter().filter(|sandbox| {
        is_running(sandbox) && sandbox.metadata.get(ID).is_some_and(|found| found == id)
    });
    of_kernel.min_by_key(|sandbox| (sandbox.started_at, sandbox.sandbox_id.as_str()))
}

fn is_running(sandbox: &ListedSandbox) -> bool {
    sandbox.state == SandboxState::Running
}

/// The oldest context of a language, which is its default one, and is made if there is none.
async fn context_of(sandbox: &Sandbox, language: &str) -> Result<Context, ClientError> {
    let contexts = sandbox.contexts().list().await?;
    let oldest = contexts
        .into_iter()
        .find(|context| context.language.eq_ignore_ascii_case(language));
    match oldest {
        Some(context) => Ok(context),
        None => {
            let options = skep_client::ContextOptions::default();
            sandbox.contexts().create(language, None, &options).await
        }
    }
}
