//! Entry points for the fuzz targets in `fuzz/`: the agent's routes without a socket, and its pure
//! readers one by one. In no program that is shipped.

use std::sync::Arc;

use axum::Router;
use skep_agent_protocol::AgentConfig;
use tokio::sync::Semaphore;

use crate::agent::{Agent, LISTINGS};
use crate::filesystem::watch::Watchers;
use crate::http::authorize;
use crate::http::encoding::{self, Coding};
use crate::http::files::fuzzing as files;
use crate::http::routes;
use crate::http::signature::{self, Operation, Signed};
use crate::process::reaper::{Orphans, Reaper};
use crate::process::{Processes, Spawner};
use crate::sandbox::log::SandboxLog;
use crate::sandbox::metrics::Meter;
use crate::sandbox::path;
use crate::sandbox::settings::{self, Settings};
use crate::sandbox::users::{Accounts, User};

/// State shared by agents that follow one another: the one place that waits for children.
#[derive(Debug, Clone)]
pub struct Bench(Arc<Reaper>);

impl Default for Bench {
    fn default() -> Self {
        Self(Arc::new(Reaper::new(Orphans::Leave)))
    }
}

impl Bench {
    /// Waits for children for as long as the runtime lives.
    ///
    /// # Errors
    ///
    /// If no signal handler can be installed.
    pub async fn reap(&self) -> std::io::Result<()> {
        self.0.run().await
    }

    /// An agent that nobody has spoken to yet, in the filesystem that this thread sees.
    pub fn agent(&self, config: AgentConfig) -> BenchAgent {
        let log = SandboxLog::open(None).expect("without memory nothing is opened");
        let agent = Arc::new(Agent {
            settings: Settings::new(config),
            processes: Arc::new(Processes::new(Arc::clone(&self.0), log)),
            spawner: Arc::new(Spawner {
                accounts: Accounts {
                    passwd: "/etc/passwd".into(),
                    group: "/etc/group".into(),
                },
                path: "/usr/bin:/bin".to_owned(),
                cgroups: Vec::new(),
                kernel_cgroups: None,
                fork_client: None,
                kill_count: None,
                memory_keeper: None,
                open_files: None,
                raise_oom_score: false,
                start_timeout: crate::options::START_TIMEOUT,
            }),
            watchers: Watchers::default(),
            listings: Arc::new(Semaphore::new(LISTINGS)),
            meter: Meter::new(),
            identity_directory: "/run/e2b".into(),
        });
        let routes = routes::routes(&agent);
        BenchAgent { agent, routes }
    }
}

/// One agent with its routes, to be driven by a fuzz target.
#[derive(Debug)]
pub struct BenchAgent {
    agent: Arc<Agent>,
    /// All its routes.
    pub routes: Router,
}

impl BenchAgent {
    /// The name of the sandbox, which only the control routes may change.
    pub fn sandbox_id(&self) -> String {
        self.agent.settings.current().sandbox_id.clone()
    }

    /// The variables of every process, which only the control routes may change.
    pub fn environment(&self) -> Vec<(String, String)> {
        settings::environment(&self.agent.settings.current())
            .into_iter()
            .collect()
    }
}

/// Returns true if only the server may ask for this path.
pub fn is_control(path: &str) -> bool {
    authorize::is_control(path)
}

/// Resolves a path for a user with this home; `None` if it means nothing.
pub fn resolve(path: &str, home: &str, workdir: Option<&str>) -> Option<String> {
    let user = User {
        name: "user".to_owned(),
        home: home.to_owned(),
        uid: 1000,
        gid: 1000,
        groups: vec![1000],
    };
    path::resolve(path, &user, workdir).ok()
}

/// The shortest spelling of an absolute path.
pub fn clean(path: &str) -> String {
    path::clean(path)
}

/// The directory and the last name of a path.
pub fn split(path: &str) -> (&str, &str) {
    (path::parent(path), path::base_name(path))
}

/// The signed parameters of a link to a file.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// Path of the file, as it stands in the query.
    pub path: &'a str,
    /// True for a link to upload, false for one to download.
    pub is_for_writing: bool,
    /// User whose home and rights the path is resolved with.
    pub username: &'a str,
    /// Time of expiry, in Unix seconds.
    pub expiration: Option<i64>,
}

impl<'a> Link<'a> {
    fn signed(self) -> Signed<'a> {
        Signed {
            path: self.path,
            operation: if self.is_for_writing {
                Operation::Write
            } else {
                Operation::Read
            },
            username: self.username,
            expiration: self.expiration,
        }
    }

    /// The one signature that opens it.
    pub fn sign(self, token: &str) -> String {
        signature::sign(&self.signed(), token)
    }

    /// Returns true if a caller who shows this is let in.
    pub fn admits(
        self,
        token: &str,
        shown_token: Option<&[u8]>,
        shown_signature: Option<&str>,
        now: i64,
    ) -> bool {
        signature::check(&self.signed(), token, shown_token, shown_signature, now).is_ok()
    }
}

/// Returns true if an answer is compressed; `None` if nothing we speak is acceptable.
pub fn chooses_gzip(accept: Option<&str>, identity_only: bool) -> Option<bool> {
    encoding::choose(accept, identity_only).map(|coding| coding == Coding::Gzip)
}

pub use files::{Part, disposition, media_type, metadata_pairs, wanted};
