//! Controls: sandboxes in which an attack must succeed.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use skep_agent_protocol::AgentConfig;
use skep_client::Client;
use skep_isolation::{Isolation as _, LaunchError, LaunchRequest, Launched};
use skep_native::{Defence, Native, NativeConfig, ZygoteConfig};
use skep_types::{
    Egress, ExecutionId, Redacted, Resources, SandboxId, TeamId, TemplateImage, TenantId,
};
use skep_wire::agent::AGENT_PORT;
use skep_wire::interpreter::INTERPRETER_PORT;
use tempfile::TempDir;

use crate::attack::helper;
use crate::sentinels::Sentinels;
use crate::suite::layer_paths;
use crate::target::{Target, secret};
use crate::world;

/// Programs that attack one sandbox at a time.
pub(crate) const ATTACKERS: usize = 4;

const TOKEN: &str = "token-of-a-control-sandbox";
/// Directory of the zygote's program in a template.
const KERNEL_FOLDER: &str = "opt/venv/lib/python3.13/site-packages/skep_kernel";
/// Port of a server that opens files without care.
const CARELESS_PORT: u16 = 8099;
/// A port that nothing in a sandbox listens on.
const FREE_PORT: &str = "49899";

/// Difference of the sandbox in which an attack must succeed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Control {
    /// Without these defences.
    Without(BTreeSet<Defence>),
    /// The file API is one that opens what it is told.
    CarelessFiles,
    /// The agent asks for no token, and its control token is a word.
    OpenAgent,
    /// The program is started by somebody who leaves a descriptor open.
    OpenDescriptor,
    /// Kernels are forked by a zygote that gives up its rights in the sandbox.
    EnteringZygote,
    /// Kernels of two teams are forked from one zygote.
    SharedZygote,
    /// The program looks at a port that the agent does not hold.
    FreePort,
}

impl FromStr for Control {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "a file API that opens what it is told" => Ok(Self::CarelessFiles),
            "an agent without tokens" => Ok(Self::OpenAgent),
            "a parent that leaves a descriptor open" => Ok(Self::OpenDescriptor),
            "a zygote that enters the sandbox first" => Ok(Self::EnteringZygote),
            "a zygote that teams share" => Ok(Self::SharedZygote),
            "a port that nobody holds" => Ok(Self::FreePort),
            other => Err(format!("no control is called `{other}`")),
        }
    }
}

impl Control {
    /// Description of what is left out, or of how else the control differs.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Without(walls) => crate::attack::in_words(walls),
            Self::CarelessFiles => "careful opening of files".into(),
            Self::OpenAgent => "tokens of the agent".into(),
            Self::OpenDescriptor => "closing of descriptors".into(),
            Self::EnteringZygote => "giving up of rights before the sandbox is entered".into(),
            Self::SharedZygote => "a zygote for each team".into(),
            Self::FreePort => "an agent at the interpreter's port".into(),
        }
    }

    /// The program and arguments that run an attack where it must succeed.
    pub(crate) fn command(&self, source: &str) -> Vec<String> {
        let command: &[&str] = match self {
            Self::Without(_)
            | Self::CarelessFiles
            | Self::OpenAgent
            | Self::EnteringZygote
            | Self::SharedZygote => {
                return crate::target::command(source);
            }
            Self::FreePort => {
                let port = INTERPRETER_PORT.to_string();
                assert!(source.contains(&port), "the program names no port");
                return crate::target::command(&source.replace(&port, FREE_PORT));
            }
            Self::OpenDescriptor => &[
                "sh",
                "-c",
                "exec python3 -I -c \"$0\" 9</etc/hostname",
                source,
            ],
        };
        command.iter().map(ToString::to_string).collect()
    }

    fn walls(&self) -> Vec<Defence> {
        match self {
            Self::Without(walls) => walls.iter().copied().collect(),
            Self::CarelessFiles
            | Self::OpenAgent
            | Self::OpenDescriptor
            | Self::EnteringZygote
            | Self::SharedZygote
            | Self::FreePort => Vec::new(),
        }
    }

    /// Returns true if its attacks are on forks, in sandboxes below a zygote.
    pub(crate) fn has_zygote(&self) -> bool {
        *self == Self::EnteringZygote
    }

    /// Returns true if its attacks must come at the right moment, which they do not always.
    pub(crate) fn is_race(&self) -> bool {
        self.has_zygote()
    }

    /// Number of its attacks that may run in one sandbox at a time. Those on forks are in each
    /// other's way.
    pub(crate) fn attackers(&self) -> usize {
        if self.has_zygote() { 1 } else { ATTACKERS }
    }
}

/// A backend with its sandboxes, for one kind of control.
pub(crate) struct Weakened {
    native: Native,
    attacker: Launched,
    neighbour: Launched,
    pub(crate) target: Target,
    _data: TempDir,
    _layer: Option<TempDir>,
}

impl Weakened {
    pub(crate) async fn new(
        control: &Control,
        image: &TemplateImage,
        sentinels: &Sentinels,
    ) -> Result<Self, LaunchError> {
        let data = tempfile::tempdir().unwrap();
        let mut config = NativeConfig::new(data.path(), env!("CARGO_BIN_EXE_skep"));
        config.without = control.walls();
        config.host.resolvers = vec![world::RESOLVER.into()];
        config.zygotes = control.has_zygote().then(ZygoteConfig::default);
        let native = Native::start(config).await.unwrap();
        let tenant = TenantId::new(&TeamId::random(), image.sharing);
        let mut layers = layer_paths(image);
        let layer = control.has_zygote().then(entering_zygote);
        if let Some(layer) = &layer {
            layers.push(layer.path().to_owned());
            native.warm(&layers, &tenant).await;
        }
        let template = &Template { image, layers };
        let attacker = launch(&native, control, template, &tenant, None).await?;
        // Without a network of its own a second agent would find its port taken.
        let (neighbour, address) = if control.walls().contains(&Defence::OwnNetwork) {
            (attacker.clone(), IpAddr::V4(Ipv4Addr::LOCALHOST))
        } else {
            let neighbour = launch(&native, control, template, &tenant, Some(secret())).await?;
            (neighbour, attacker.address())
        };
        let mut surroundings = sentinels.surroundings();
        let mut tell = |name: &str, value: String| {
            surroundings.insert(format!("ATTACK_{name}"), value);
        };
        tell("NEIGHBOUR", neighbour.address().to_string());
        tell("TOKEN", TOKEN.to_owned());
        let careless = *control == Control::CarelessFiles;
        let port = if careless { CARELESS_PORT } else { AGENT_PORT };
        tell("FILES", format!("http://127.0.0.1:{port}"));
        let target = Target {
            client: Client::new(&format!("http://{address}:{AGENT_PORT}"), "").unwrap(),
            id: "control".into(),
            token: TOKEN.into(),
            surroundings,
        };
        if careless {
            serve_carelessly(&target).await;
        }
        if control.has_zygote() {
            let address = neighbour.address();
            let victim = Target {
                client: Client::new(&format!("http://{address}:{AGENT_PORT}"), "").unwrap(),
                ..target.clone()
            };
            victim.make_contexts_forever().await;
        }
        Ok(Self {
            native,
            attacker,
            neighbour,
            target,
            _data: data,
            _layer: layer,
        })
    }

    pub(crate) async fn finish(self) {
        self.attacker.destroy().await.unwrap();
        self.neighbour.destroy().await.unwrap();
        drop((self.attacker, self.neighbour));
        self.native.dismantle().await.unwrap();
    }
}

/// A layer with another zygote than the template's.
fn entering_zygote() -> TempDir {
    let layer = tempfile::tempdir().unwrap();
    let mut folder = layer.path().to_owned();
    // What is uppermost says who may enter a directory.
    let open = |folder: &Path| {
        std::fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    };
    open(&folder);
    for name in KERNEL_FOLDER.split('/') {
        folder.push(name);
        std::fs::create_dir(&folder).unwrap();
        open(&folder);
    }
    std::fs::write(folder.join("zygote.py"), include_str!("entering_zygote.py")).unwrap();
    layer
}

/// A template, and the directories that its sandboxes get.
struct Template<'a> {
    image: &'a TemplateImage,
    layers: Vec<PathBuf>,
}

async fn launch(
    native: &Native,
    control: &Control,
    Template { image, layers }: &Template<'_>,
    tenant: &TenantId,
    variables: Option<(String, String)>,
) -> Result<Launched, LaunchError> {
    let id = SandboxId::random();
    let open = *control == Control::OpenAgent;
    let config = AgentConfig {
        control_token: if open {
            "control".into()
        } else {
            unguessable()
        },
        access_token: (!open).then(|| TOKEN.to_owned()),
        traffic_token: None,
        sandbox_id: id.to_string(),
        template_id: image.id.to_string(),
        env: image.env.iter().cloned().chain(variables).collect(),
        default_user: image.user.clone(),
        default_workdir: image.workdir.clone(),
        authority: None,
        memory_mib: 0,
        secrets: Vec::new(),
    };
    let request = LaunchRequest {
        id,
        execution: ExecutionId::random(),
        layers: layers.clone(),
        tenant: tenant.clone(),
        resources: Resources {
            disk_mib: 256,
            ..Resources::default()
        },
        egress: Egress::default(),
        mounts: Vec::new(),
        becomes_layer: false,
        agent_config: Redacted::new(serde_json::to_vec(&config).unwrap()),
    };
    native.launch(request).await
}

fn unguessable() -> String {
    SandboxId::random().to_string()
}

async fn serve_carelessly(target: &Target) {
    let source = helper("careless_files.py");
    let mut target = target.clone();
    target
        .surroundings
        .insert("CARELESS_FILES".to_owned(), source);
    let script = format!(
        "setsid python3 -I -c \"$CARELESS_FILES\" {CARELESS_PORT} </dev/null >/dev/null 2>&1 & \
         for i in $(seq 100); do \
           python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {CARELESS_PORT}))' 2>/dev/null && exit 0; \
           sleep 0.1; \
         done; exit 1"
    );
    target.shell(&script).await;
}
