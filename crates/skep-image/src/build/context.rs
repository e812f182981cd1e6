//! The state that one step hands to the next.

use std::path::PathBuf;

use crate::catalog::Manifest;
use skep_launch::Bind;
use skep_packages::PackageSettings;

use crate::key::{ContentKey, KeyWriter};
use crate::package_layer::read_through;
use crate::recipe::{Action, DebianOrigin, Recipe};
use crate::runner::resolver;
use crate::step::{StepError, StepLaunch, write_file};
use crate::store::{Draft, Store};

/// Changes whenever steps run in other surroundings, so that layers of before are not taken.
const STEP_VERSION: &str = "step-2";

/// The search path of steps, until a recipe sets one.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Directory in which a step finds the files it copies.
const FILES: &str = "/run/skep-files";

/// Directories that package clients fill and no sandbox needs. They are somewhere else while a
/// step runs, so that no layer holds them.
const ELSEWHERE: [(&str, &str); 4] = [
    ("/tmp", "tmp"),
    ("/var/tmp", "var-tmp"),
    ("/var/cache/apt", "apt-cache"),
    ("/var/lib/apt/lists", "apt-lists"),
];

/// Installs files: owner, group and mode, then pairs of where each is and where it goes.
const INSTALL: &str = r#"
set -eu
owner=$1 group=$2 mode=$3
shift 3
while [ $# -gt 0 ]; do
    install -D -o "$owner" -g "$group" -m "$mode" -- "$1" "$2"
    shift 2
done
"#;

/// The template as it is after the steps so far.
#[derive(Debug)]
pub(super) struct Context {
    key: ContentKey,
    layers: Vec<ContentKey>,
    env: Vec<(String, String)>,
    user: String,
    workdir: Option<String>,
}

impl Context {
    pub(super) fn new(parent: Option<Manifest>) -> Self {
        match parent {
            Some(parent) => Self {
                key: parent.key,
                layers: parent.layers,
                env: parent.env,
                user: parent.user,
                workdir: parent.workdir,
            },
            None => Self {
                key: KeyWriter::new("nothing").finish(),
                layers: Vec::new(),
                env: Vec::new(),
                user: "root".to_owned(),
                workdir: None,
            },
        }
    }

    /// The key of a bootstrap.
    pub(super) fn debian_key(&self, origin: &DebianOrigin, version: &str) -> ContentKey {
        let mut packages: Vec<&str> = origin.packages.iter().map(String::as_str).collect();
        packages.sort_unstable();
        packages.dedup();
        let mut writer = KeyWriter::new("debian");
        writer
            .text(version)
            .text(std::env::consts::ARCH)
            .text(&origin.suite)
            .list(packages.into_iter())
            .list(origin.without.iter().map(String::as_str))
            .list(origin.keep.iter().map(String::as_str));
        writer.finish()
    }

    /// The key of what the template is after `action`.
    pub(super) fn step_key(&self, action: &Action) -> ContentKey {
        let mut writer = KeyWriter::new(STEP_VERSION);
        writer.key(&self.key);
        match action {
            Action::Run { script, user } => {
                let user = user.as_deref().unwrap_or(&self.user);
                writer.text("run").text(user).text(script);
            }
            Action::Copy { files, owner, mode } => {
                writer.text("copy").text(owner).text(mode);
                for (target, content) in files {
                    writer.text(target).part(content);
                }
            }
            Action::Env(variables) => {
                writer.text("env");
                for (name, value) in variables {
                    writer.text(name).text(value);
                }
            }
            Action::User(user) => {
                writer.text("user").text(user);
            }
            Action::Workdir(path) => {
                writer.text("workdir").text(path);
            }
        }
        writer.finish()
    }

    /// Goes on after a step that made a layer.
    pub(super) fn add_layer(&mut self, key: ContentKey) {
        self.key = key;
        self.layers.push(key);
    }

    /// Goes on after a step that only settles how later ones run.
    pub(super) fn settle(&mut self, action: &Action, key: ContentKey) {
        self.key = key;
        match action {
            Action::Env(variables) => {
                for (name, value) in variables {
                    self.env.retain(|(earlier, _)| earlier != name);
                    self.env.push((name.clone(), value.clone()));
                }
            }
            Action::User(user) => self.user.clone_from(user),
            Action::Workdir(path) => self.workdir = Some(path.clone()),
            Action::Run { .. } | Action::Copy { .. } => {}
        }
    }

    /// The launch of a step that makes a layer.
    pub(super) fn launch(
        &self,
        action: &Action,
        store: &Store,
        draft: &Draft,
        host: &PackageSettings,
    ) -> Result<StepLaunch, StepError> {
        let layers: Vec<PathBuf> = self
            .layers
            .iter()
            .map(|key| store.layer_root(&key.layer()))
            .collect();
        let scratch = draft.scratch();
        let staging = scratch.join("staging");
        let settings = scratch.join("host");
        let sources = read_through(&layers, "/etc/apt/sources.list");
        let mut env = self.step_env();
        env.extend(
            host.for_build(&settings, sources.as_deref())
                .map_err(StepError::system("write the host's package settings"))?,
        );
        let mut mounts = vec![
            Bind {
                source: resolver(),
                target: "/etc/resolv.conf".to_owned(),
                writable: false,
            },
            Bind {
                source: settings,
                target: skep_packages::BUILD_DIR.to_owned(),
                writable: false,
            },
        ];
        for (target, name) in ELSEWHERE {
            let source = scratch.join(name);
            make_dir(&source, 0o1777)?;
            mounts.push(Bind {
                source,
                target: target.to_owned(),
                writable: true,
            });
        }
        make_dir(&staging, 0o755)?;
        let command = match action {
            Action::Run { script, user } => {
                run_command(user.as_deref().unwrap_or(&self.user), script)
            }
            Action::Copy { files, owner, mode } => {
                let source = scratch.join("files");
                mounts.push(Bind {
                    source: source.clone(),
                    target: FILES.to_owned(),
                    writable: false,
                });
                for (index, (_, content)) in files.iter().enumerate() {
                    write_file(&source.join(index.to_string()), content)?;
                }
                let targets = files.iter().map(|(target, _)| target.as_str());
                copy_command(targets, owner, mode)
            }
            Action::Env(_) | Action::User(_) | Action::Workdir(_) => {
                unreachable!("these steps have no layer")
            }
        };
        Ok(StepLaunch {
            layers,
            upper: draft.root(),
            work: draft.work(),
            staging,
            mounts,
            command,
            env,
            workdir: self.workdir.clone().unwrap_or_else(|| "/".to_owned()),
        })
    }

    fn step_env(&self) -> Vec<(String, String)> {
        let own = [
            ("PATH", PATH),
            ("HOME", "/root"),
            ("LANG", "C.UTF-8"),
            ("DEBIAN_FRONTEND", "noninteractive"),
            ("PIP_NO_CACHE_DIR", "1"),
            ("PIP_ROOT_USER_ACTION", "ignore"),
            ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
            ("UV_NO_CACHE", "1"),
            ("npm_config_cache", "/tmp/npm"),
            ("npm_config_update_notifier", "false"),
        ];
        let mut env: Vec<(String, String)> = own
            .iter()
            .filter(|(name, _)| self.env.iter().all(|(set, _)| set != name))
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        env.extend(self.env.iter().cloned());
        env
    }

    /// The finished template.
    pub(super) fn finish(self, recipe: &Recipe) -> Manifest {
        let resources = recipe.resources;
        let mut writer = KeyWriter::new("template");
        writer.key(&self.key).text(&recipe.name);
        for number in [
            resources.cpus,
            resources.memory_mib,
            resources.disk_mib,
            resources.pids,
        ] {
            writer.part(&number.to_le_bytes());
        }
        // Nothing is written where there is none: keys of other templates stay what they were.
        for (name, command) in [("start", &recipe.start), ("ready", &recipe.ready)] {
            if let Some(command) = command {
                writer.text(name).text(command);
            }
        }
        Manifest {
            name: recipe.name.clone(),
            description: recipe.description.clone(),
            stands_in_for: recipe.stands_in_for.clone(),
            key: writer.finish(),
            layers: self.layers,
            env: self.env,
            user: self.user,
            workdir: self.workdir,
            resources,
            start: recipe.start.clone(),
            ready: recipe.ready.clone(),
        }
    }
}

fn run_command(user: &str, script: &str) -> Vec<String> {
    const STRICT: [&str; 4] = ["-e", "-u", "-o", "pipefail"];
    let mut command = if user == "root" {
        vec!["/bin/bash"]
    } else {
        // Sets the home of the user too, and keeps the rest of the environment.
        vec!["/usr/sbin/runuser", "-s", "/bin/bash", user, "--"]
    };
    command.extend(STRICT);
    command.extend(["-c", script]);
    command.into_iter().map(str::to_owned).collect()
}

fn copy_command<'a>(
    targets: impl Iterator<Item = &'a str>,
    owner: &str,
    mode: &str,
) -> Vec<String> {
    let (user, group) = owner
        .split_once(':')
        .expect("the recipe's owners are user and group");
    let mut command: Vec<String> = ["/bin/sh", "-c", INSTALL, "copy", user, group, mode]
        .map(str::to_owned)
        .to_vec();
    for (index, target) in targets.enumerate() {
        command.extend([format!("{FILES}/{index}"), target.to_owned()]);
    }
    command
}

fn make_dir(path: &std::path::Path, mode: u32) -> Result<(), StepError> {
    use std::os::unix::fs::PermissionsExt;

    std::fs::create_dir_all(path)
        .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)))
        .map_err(StepError::system(format!("make `{}`", path.display())))
}
