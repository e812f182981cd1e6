//! The product: a running `skep serve`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use skep_client::{Client, ClientError, NewSandbox, ServerCommand, ServerProcess, VolumeMount};
use skep_native::{Native, NativeConfig};
use skep_wire::agent::AGENT_PORT;
use tempfile::TempDir;

use crate::sentinels::Sentinels;
use crate::target::Target;
use crate::{restored, world};

/// Time limit for a stop in good order.
const STOP: Duration = Duration::from_secs(120);
/// Lifetime of a sandbox that nobody kills.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(15);

/// A template that has a zygote.
pub(crate) const WITH_ZYGOTE: &str = "code-interpreter-slim";

/// A server and its data.
#[derive(Debug)]
pub(crate) struct Product {
    server: ServerProcess,
    pub(crate) client: Client,
    /// Address that the server listens on.
    pub(crate) address: String,
    /// True if its template has a zygote.
    pub(crate) has_zygote: bool,
    data: TempDir,
    /// True if the data directory is on a disk of its own.
    has_own_disk: bool,
}

/// Resource limits that most servers give their sandboxes.
const LIMITS: &str = "[limits]\ncpus = 1\nmemory_mib = 256\ndisk_mib = 256\npids = 256\n";

/// Sharing of a server's zygotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zygotes {
    /// Each team has its own, as by default.
    PerTeam,
    /// All teams share one.
    Shared,
}

impl Zygotes {
    /// Number of zygotes when the first of two teams has a sandbox, and when both have.
    pub(crate) fn counts(self) -> [u64; 2] {
        match self {
            Self::PerTeam => [1, 2],
            Self::Shared => [1, 1],
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewTeam {
    api_key: String,
}

impl Product {
    /// A server whose attackers live in sandboxes that a zygote may enter, and beside kernels
    /// that it has forked, or not. They are of another template then.
    pub(crate) fn start(has_zygote: bool) -> Self {
        Self::start_in(
            tempfile::tempdir().unwrap(),
            has_zygote,
            Self::spares(),
            Zygotes::PerTeam,
            LIMITS,
        )
    }

    /// A server that forks kernels, for several teams.
    pub(crate) fn with_zygotes(zygotes: Zygotes) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), true, 0, zygotes, LIMITS)
    }

    /// A server without zygotes whose data is on a disk of so many MiB.
    pub(crate) fn start_on_disk_of(mebibytes: u32, more: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        let (image, folder) = (data.path().join("disk.img"), data.path().join("data"));
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(u64::from(mebibytes) << 20).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        std::fs::create_dir(&folder).unwrap();
        run(Command::new("mount")
            .args(["-o", "loop"])
            .args([&image, &folder]));
        let mut product = Self::start_in(data, false, 0, Zygotes::PerTeam, more);
        product.has_own_disk = true;
        product
    }

    fn start_in(
        data: TempDir,
        has_zygote: bool,
        spares: usize,
        zygotes: Zygotes,
        more: &str,
    ) -> Self {
        let config = data.path().join("skep.toml");
        let text = format!(
            "when_stopped = \"end\"\n\
             [pool]\nready = {}\ndisks = 0\nzygotes = {}\nshare_zygotes = {}\nwarm = []\n\
             [pause]\ncheckpoint_after = 0\n\
             [network]\ndns_upstreams = [\"{}\"]\n{more}",
            spares,
            has_zygote,
            zygotes == Zygotes::Shared,
            world::RESOLVER.ip()
        );
        std::fs::write(&config, text).unwrap();
        let log = std::fs::File::options()
            .create_new(true)
            .append(true)
            .read(true)
            .open(data.path().join("log"))
            .unwrap();
        let server = ServerCommand::new(env!("CARGO_BIN_EXE_skep"), data.path().join("data"))
            .config(config)
            .start(log)
            .unwrap();
        Self {
            client: server.client().unwrap(),
            address: server.address().unwrap().to_string(),
            server,
            has_zygote,
            data,
            has_own_disk: false,
        }
    }

    /// Number of sandboxes the server keeps ready: none, so that what an attack leaves can be told
    /// from what is kept, unless whoever runs the suite wants to see both.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test program is its own `main`"
    )]
    pub(crate) fn spares() -> usize {
        let count = std::env::var_os("SKEP_POOL_READY");
        count.map_or(0, |count| count.to_str().unwrap().parse().unwrap())
    }

    /// Returns true if all attacks are to be made beside a zygote, and not only those on zygotes.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test program is its own `main`"
    )]
    pub(crate) fn all_with_zygote() -> bool {
        std::env::var_os("SKEP_POOL_ZYGOTES").is_some_and(|zygotes| zygotes == "true")
    }

    /// Waits until the zygote is warm, if there is to be one. The first sandbox asks for it.
    pub(crate) async fn warm(&self, sentinels: &Sentinels) {
        if !self.has_zygote {
            return;
        }
        // One that could not be made, on a host that was too busy say, is made for a later sandbox.
        skep_testkit::wait_until(Duration::from_secs(240), async || {
            let asking = self.create(sentinels).await;
            self.kill(&asking).await;
            let waiting = self.wait_for_zygotes(1);
            let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
            waited.map_err(|_elapsed| self.log_about("zygote"))
        })
        .await;
    }

    /// Waits until there are so many zygotes.
    pub(crate) async fn wait_for_zygotes(&self, count: u64) {
        let deadline = std::time::Duration::from_secs(120);
        skep_testkit::wait_until(deadline, async || {
            match self.counted("skep_zygotes").await {
                there if there == count => Ok(()),
                there => Err(format!(
                    "there are {there} zygotes; {}",
                    self.log_about("zygote")
                )),
            }
        })
        .await;
    }

    /// Lines of the server's log that have this word in them, so that a failure tells its cause.
    pub(crate) fn log_about(&self, word: &str) -> String {
        let log = std::fs::read_to_string(self.data.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(word)).collect();
        lines.join("\n")
    }

    /// Value of a metric of the server.
    pub(crate) async fn counted(&self, name: &str) -> u64 {
        let text = self.client.server_metrics().await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    }

    /// Makes a team, and a client that has its key.
    pub(crate) fn add_team(&self, slug: &str) -> Client {
        let key = self.add_team_key(slug);
        Client::new(&format!("http://{}", self.address), &key).unwrap()
    }

    /// Key of the server's first team.
    pub(crate) fn api_key(&self) -> &str {
        self.server.api_key()
    }

    /// Makes a team, and returns its key.
    pub(crate) fn add_team_key(&self, slug: &str) -> String {
        let made = Command::new(env!("CARGO_BIN_EXE_skep"))
            .arg("--data-dir")
            .arg(self.data())
            .args(["team", "create", slug, "--json"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let team: NewTeam = serde_json::from_slice(&made.stdout).unwrap();
        team.api_key
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.data.path().join("data")
    }

    /// A new sandbox of the template `base`, or of one with a zygote.
    pub(crate) async fn create(&self, sentinels: &Sentinels) -> Target {
        self.create_with(sentinels, &BTreeMap::new()).await
    }

    /// A new sandbox with these variables.
    pub(crate) async fn create_with(
        &self,
        sentinels: &Sentinels,
        variables: &BTreeMap<String, String>,
    ) -> Target {
        self.order(&self.client, sentinels, variables).await
    }

    /// A new sandbox for the team of a client.
    pub(crate) async fn create_for(&self, client: &Client, sentinels: &Sentinels) -> Target {
        self.order(client, sentinels, &BTreeMap::new()).await
    }

    /// A new sandbox with these volumes.
    pub(crate) async fn create_on(
        &self,
        sentinels: &Sentinels,
        mounts: Vec<VolumeMount>,
    ) -> Target {
        self.try_create_on(sentinels, mounts).await.unwrap()
    }

    pub(crate) async fn try_create_on(
        &self,
        sentinels: &Sentinels,
        mounts: Vec<VolumeMount>,
    ) -> Result<Target, ClientError> {
        let new = NewSandbox {
            volume_mounts: Some(mounts),
            ..ordered(self.template(), &BTreeMap::new())
        };
        let mut target = create_new(&self.client, &new).await?;
        target.surroundings.extend(sentinels.surroundings());
        if restored::all() {
            restored::sleep_and_wake(self, &target).await;
        }
        Ok(target)
    }

    fn template(&self) -> &'static str {
        if self.has_zygote { WITH_ZYGOTE } else { "base" }
    }

    async fn order(
        &self,
        client: &Client,
        sentinels: &Sentinels,
        variables: &BTreeMap<String, String>,
    ) -> Target {
        let mut target = create(client, self.template(), variables).await.unwrap();
        let surroundings = &mut target.surroundings;
        surroundings.extend(sentinels.surroundings());
        surroundings.insert("ATTACK_TOKEN".into(), target.token.clone());
        surroundings.insert(
            "ATTACK_FILES".into(),
            format!("http://127.0.0.1:{AGENT_PORT}"),
        );
        if restored::all() {
            restored::sleep_and_wake(self, &target).await;
        }
        target
    }

    pub(crate) async fn kill(&self, target: &Target) {
        self.client.sandbox(&target.id).kill().await.unwrap();
    }

    /// Kills a sandbox that may be gone; says whether it was not.
    pub(crate) async fn try_kill(&self, id: &str) -> bool {
        match self.client.sandbox(id).kill().await {
            Ok(()) => true,
            Err(error) if error.is_not_found() => false,
            Err(error) => panic!("{}", skep_telemetry::Chain(&error)),
        }
    }

    /// The server's entry in `/proc`.
    pub(crate) fn process(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.server.pid()))
    }

    /// The processes of the agent of a sandbox.
    pub(crate) fn agents(&self, id: &str) -> Vec<i32> {
        let list = |group: PathBuf| {
            let path = group.join(id).join("agent/cgroup.procs");
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let mut pids: Vec<i32> = self
            .groups()
            .into_iter()
            .flat_map(|group| {
                list(group)
                    .lines()
                    .map(|pid| pid.parse().unwrap())
                    .collect::<Vec<_>>()
            })
            .collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Resident memory of a sandbox's agent.
    pub(crate) fn agent_memory(&self, id: &str) -> u64 {
        let resident = |pid: &i32| -> u64 {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            line.unwrap()
                .trim()
                .trim_end_matches(" kB")
                .parse()
                .unwrap()
        };
        self.agents(id).iter().map(resident).sum::<u64>() << 10
    }

    /// The number by which everything of this server is called on the host.
    pub(crate) fn number(&self) -> String {
        std::fs::read_to_string(self.data().join("instance")).unwrap()
    }

    /// The cgroups, one per hierarchy, below which every sandbox has its own.
    pub(crate) fn groups(&self) -> Vec<PathBuf> {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("skep-{}", self.number());
        let hierarchies = std::fs::read_dir(root).unwrap();
        hierarchies
            .map(|entry| entry.unwrap().path().join(&name))
            .chain([root.join(&name)])
            .filter(|path| path.is_dir())
            .collect()
    }

    /// Stops the server, which ends its sandboxes, and takes what is left off the host.
    pub(crate) async fn finish(self) {
        let data = self.data();
        self.server.stop(STOP).unwrap();
        dismantle(&data).await;
        if self.has_own_disk {
            run(Command::new("umount").arg("-l").arg(data));
        }
    }
}

/// A new sandbox, without surroundings yet.
pub(crate) async fn create(
    client: &Client,
    template: &str,
    variables: &BTreeMap<String, String>,
) -> Result<Target, ClientError> {
    create_new(client, &ordered(template, variables)).await
}

fn ordered(template: &str, variables: &BTreeMap<String, String>) -> NewSandbox {
    NewSandbox {
        template_id: template.to_owned(),
        timeout: Some(TIMEOUT.as_secs().try_into().unwrap()),
        secure: Some(true),
        env_vars: Some(variables.clone()),
        ..NewSandbox::default()
    }
}

async fn create_new(client: &Client, new: &NewSandbox) -> Result<Target, ClientError> {
    let sandbox = client.sandboxes().create(new).await?;
    let token = sandbox.access_token().await?;
    Ok(Target {
        client: client.clone(),
        id: sandbox.id().to_owned(),
        token: token.expect("it was asked for").to_owned(),
        surroundings: BTreeMap::new(),
    })
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

async fn dismantle(data: &Path) {
    let config = NativeConfig::new(data, env!("CARGO_BIN_EXE_skep"));
    let native = Native::start(config).await.unwrap();
    native.dismantle().await.unwrap();
}
