//! The world outside, as a network namespace of the bench: no packet of it leaves this host.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use tokio::process::Command;

use super::tls::Identity;
use super::{EGRESS_ROLE, HOST, LOAD, ORIGIN, TLS};
use crate::error::{BenchError, local};
use crate::rival::Rival;

/// The host's end of the link, and the world's: addresses that are set aside for documentation, so
/// that they are nobody's, and public all the same.
const HERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
pub(super) const THERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);

/// A namespace in which a host and a resolver listen.
#[derive(Debug)]
pub(super) struct World {
    /// Name of the namespace and of the host's end of the link to it.
    name: String,
    pub(super) identity: Identity,
    /// Configuration of a server whose sandboxes ask this world for names.
    pub(super) config: PathBuf,
    executable: PathBuf,
    scratch: PathBuf,
    origin: Option<Rival>,
}

impl World {
    /// Makes the namespace and starts what listens in it. `executable` takes [`EGRESS_ROLE`].
    pub(super) async fn start(executable: &Path, scratch: &Path) -> Result<Self, BenchError> {
        let config = scratch.join("egress.toml");
        let text = format!("[network]\ndns_upstreams = [\"{THERE}\"]\n");
        fs::write(&config, text).map_err(local("write", &config))?;
        let name = format!("skb{}", std::process::id());
        ip(&["netns", "add", &name])?;
        // From here on, whatever happens, it is removed.
        let mut world = Self {
            name,
            identity: Identity::make(HOST, scratch)?,
            config,
            executable: executable.to_owned(),
            scratch: scratch.to_owned(),
            origin: None,
        };
        world.link()?;
        let mut origin = world.program(executable);
        origin.args([EGRESS_ROLE, ORIGIN, &THERE.to_string()]);
        origin.args([&world.identity.certificate, &world.identity.key]);
        world.origin = Some(Rival::start("world outside", origin, scratch).await?);
        Ok(world)
    }

    fn link(&self) -> Result<(), BenchError> {
        let name = self.name.as_str();
        let (here, there) = (HERE.to_string(), THERE.to_string());
        ip(&[
            "link", "add", name, "type", "veth", "peer", "name", "world", "netns", name,
        ])?;
        ip(&["addr", "add", &here, "peer", &there, "dev", name])?;
        ip(&["link", "set", name, "up"])?;
        ip(&[
            "-n", name, "addr", "add", &there, "peer", &here, "dev", "world",
        ])?;
        ip(&["-n", name, "link", "set", "world", "up"])?;
        ip(&["-n", name, "link", "set", "lo", "up"])
    }

    /// A program in the world.
    pub(super) fn program(&self, executable: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]);
        command.arg(executable.as_ref());
        command
    }

    /// A client in the network of a process: of the host's, if `proxy` is none, or of that proxy's.
    /// It trusts the authority in a file.
    pub(super) async fn load(
        &self,
        name: &'static str,
        process: u32,
        proxy: Option<SocketAddr>,
        authority: &Path,
    ) -> Result<Rival, BenchError> {
        let at = proxy.unwrap_or_else(|| SocketAddr::from((THERE, TLS)));
        let how = if proxy.is_some() { "proxy" } else { "host" };
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{process}/ns/net"));
        command.arg(&self.executable);
        command.args([EGRESS_ROLE, LOAD, how, &at.to_string()]);
        command.arg(authority);
        Rival::start(name, command, &self.scratch).await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Killed with what holds it, or the namespace would go on without a name.
        self.origin = None;
        for arguments in [
            ["link", "delete", &self.name],
            ["netns", "delete", &self.name],
        ] {
            // There is nobody to tell; what was not made cannot be removed.
            ip(&arguments).ok();
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), BenchError> {
    let output = Program::new("ip")
        .args(arguments)
        .output()
        .map_err(local("run", "ip"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(BenchError::World {
        step: arguments.join(" "),
        reason: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
