//! A backend of its own for each test, and what it has left on the host.

use std::fs;
use std::future::Future;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use skep_isolation::{Isolation, LaunchError, LaunchRequest, Launched};
use skep_native::{Native, NativeConfig};
use skep_types::{Egress, ExecutionId, Redacted, Resources, SandboxId, Sharing, TenantId};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::agent::PORT;

/// Time limit for anything. Hosts that are emulated take their time.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Hierarchies of cgroup v1 in which a sandbox has groups.
const HIERARCHIES: [&str; 6] = ["memory", "pids", "cpu", "cpuacct", "freezer", "blkio"];

/// Returns true if the limits of this host are on cgroup v2.
pub(crate) fn has_unified_cgroups() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

pub(crate) fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

/// A backend of its own, and a layer to launch from.
pub(crate) struct Bench {
    /// Missing only while it is replaced.
    native: Option<Arc<Native>>,
    pub(crate) config: NativeConfig,
    directory: TempDir,
    finished: bool,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(|_| ()).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut NativeConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        make_layer(&directory.path().join("layer"));
        let executable = std::env::current_exe().unwrap();
        let mut config = NativeConfig::new(directory.path().join("data"), executable);
        change(&mut config);
        Self {
            native: Some(Arc::new(start(&config).await)),
            config,
            directory,
            finished: false,
        }
    }

    pub(crate) fn request(&self) -> LaunchRequest {
        request_from(&self.layer())
    }

    pub(crate) async fn launch(&self) -> Launched {
        self.native().launch(self.request()).await.unwrap()
    }

    /// Warms the zygote of the first tenant.
    pub(crate) async fn warm(&self) {
        let request = self.request();
        self.native().warm(&request.layers, &request.tenant).await;
    }

    /// Launches with an agent that was told `config`, which keeps it from starting.
    pub(crate) async fn launch_with(&self, config: &str) -> LaunchError {
        let mut request = self.request();
        request.agent_config = Redacted::new(config.into());
        self.native().launch(request).await.unwrap_err()
    }

    /// Replaces the server by a new one, as a restart does.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.start().await;
    }

    /// Stops the server; its sandboxes stay.
    pub(crate) async fn stop(&mut self) {
        let old = self
            .native
            .take()
            .and_then(Arc::into_inner)
            .expect("the test holds no other handle");
        old.stop().await;
    }

    pub(crate) async fn start(&mut self) {
        self.native = Some(Arc::new(start(&self.config).await));
    }

    pub(crate) fn layer(&self) -> PathBuf {
        self.directory.path().join("layer")
    }

    pub(crate) fn native(&self) -> &Arc<Native> {
        self.native.as_ref().expect("it is not being replaced")
    }

    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.config.host.data_dir.join("sandboxes")
    }

    /// Returns true if a disk has been made before its sandbox.
    pub(crate) fn has_ready_disk(&self) -> bool {
        let disks = fs::read_dir(self.config.host.data_dir.join("disks"));
        let mut names = disks.into_iter().flatten().flatten();
        names.any(|disk| disk.file_name().to_string_lossy().starts_with("ready-"))
    }

    /// Everything that sandboxes of this backend have on the host right now.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        let mut list = |what: &str, directory: &Path, matches: &dyn Fn(&str) -> bool| {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let name = entry.file_name().into_string().unwrap();
                if entry.path().is_dir() && matches(&name) {
                    left.push(format!("{what} {name}"));
                }
            }
        };
        list("directory", &self.sandboxes(), &|_| true);
        let number = fs::read_to_string(self.config.host.data_dir.join("instance")).unwrap();
        let prefix = format!("skep{number}-");
        list("link", Path::new("/sys/class/net"), &|name| {
            name.starts_with(&prefix)
        });
        for hierarchy in HIERARCHIES {
            let directory = format!("/sys/fs/cgroup/{hierarchy}/skep-{number}");
            list(hierarchy, Path::new(&directory), &|_| true);
        }
        // On v2 one group stands for all of them.
        if has_unified_cgroups() {
            let directory = format!("/sys/fs/cgroup/skep-{number}");
            for hierarchy in HIERARCHIES {
                list(hierarchy, Path::new(&directory), &|_| true);
            }
        }
        let data = self.config.host.data_dir.to_str().unwrap();
        for device in fs::read_dir("/sys/block").unwrap().flatten() {
            let file = device.path().join("loop/backing_file");
            if fs::read_to_string(file).is_ok_and(|path| path.contains(data)) {
                left.push(format!("loop device {:?}", device.file_name()));
            }
        }
        if fs::read_to_string("/proc/self/mountinfo")
            .unwrap()
            .contains(data)
        {
            left.push("mount".into());
        }
        left
    }

    /// Waits until nothing is left: the kernel lets go of some things a moment after the last
    /// process.
    pub(crate) async fn wait_until_empty(&self) {
        skep_testkit::wait_until(DEADLINE, async || {
            let left = self.left();
            if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(", "))
            }
        })
        .await;
    }

    /// Ends the test: nothing may be left of the installation either.
    pub(crate) async fn finish(mut self) {
        self.wait_until_empty().await;
        let native = self
            .native
            .take()
            .and_then(Arc::into_inner)
            .expect("the test holds no other handle");
        native.dismantle().await.unwrap();
        self.finished = true;
    }
}

/// One of the tenants that there are.
pub(crate) fn tenant(number: u8) -> TenantId {
    let team = format!("{number:020}").parse().unwrap();
    TenantId::new(&team, Sharing::WithinTeam)
}

/// A small sandbox with internet, from this layer.
pub(crate) fn request_from(layer: &Path) -> LaunchRequest {
    LaunchRequest {
        id: SandboxId::random(),
        execution: ExecutionId::random(),
        layers: vec![layer.to_owned()],
        tenant: tenant(0),
        resources: Resources {
            cpus: 1,
            memory_mib: 128,
            disk_mib: 32,
            pids: 32,
        },
        egress: Egress::default(),
        mounts: Vec::new(),
        becomes_layer: false,
        agent_config: Redacted::new(b"normal".to_vec()),
    }
}

impl Drop for Bench {
    /// A test that fails leaves nothing on the host either.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let native = self.native.take().and_then(Arc::into_inner);
        let config = self.config.clone();
        // Waiting is not allowed on a thread that runs tasks.
        let dismantled = std::thread::spawn(move || {
            block_on(async {
                let native = match native {
                    Some(native) => native,
                    None => start(&config).await,
                };
                native.dismantle().await.unwrap();
            });
        });
        dismantled.join().unwrap();
    }
}

async fn start(config: &NativeConfig) -> Native {
    Native::start(config.clone()).await.unwrap_or_else(|error| {
        panic!("{}", skep_telemetry::Chain(&error));
    })
}

fn make_layer(layer: &Path) {
    fs::create_dir(layer).unwrap();
    for name in ["etc", "tmp", "home"] {
        fs::create_dir(layer.join(name)).unwrap();
    }
    fs::set_permissions(layer.join("tmp"), PermissionsExt::from_mode(0o1777)).unwrap();
    let executable = std::env::current_exe().unwrap();
    fs::hard_link(&executable, layer.join("probe"))
        .or_else(|_| fs::copy(&executable, layer.join("probe")).map(drop))
        .unwrap();
}

/// Asks the agent of a sandbox one question.
pub(crate) async fn ask(sandbox: &Launched, question: &str) -> String {
    ask_at(sandbox.address(), question)
        .await
        .unwrap_or_else(|error| format!("no answer: {error}"))
}

pub(crate) async fn ask_at(address: IpAddr, question: &str) -> std::io::Result<String> {
    let asked = async {
        let mut stream = tokio::net::TcpStream::connect((address, PORT)).await?;
        stream.write_all(format!("{question}\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    tokio::time::timeout(DEADLINE, asked).await?
}
