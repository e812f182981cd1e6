//! `skep run`, `skep repl`, `skep notebook` and `skep mcp`: which server they use, and what must be there first.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use skep_cli::{
    ChosenServerArgs, CliError, DefaultServer, NotebookCommand, ReplArgs, RunArgs, Screen,
};
use skep_client::Client;
use skep_config::{Config, env_vars};
use skep_image::{Catalog, builtin};
use tokio::time::timeout;

use crate::announce::INTERPRETER;
use crate::local_key;
use crate::private_server::PrivateServer;
use crate::template::FIRST_TEMPLATE;

/// Body of the answer to `GET /health`, of our servers and of E2B's.
const HEALTHY: &str = "Health check successful";
/// Time limit for the health check of a server on this host. Something else may listen there.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);

/// One call of the program: its configuration, and what it has of the environment.
#[derive(Clone, Copy)]
pub struct Invocation<'a> {
    /// The configuration, with what the arguments say.
    pub config: &'a Config,
    /// The file that was named by the arguments.
    pub config_file: Option<&'a Path>,
    /// Reads a variable.
    pub environment: fn(&str) -> Option<String>,
    /// Builds a built-in template on this host. Blocks.
    pub build: fn(&Config, &str) -> Result<(), CliError>,
}

impl fmt::Debug for Invocation<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = formatter.debug_struct("Invocation");
        all.field("config_file", &self.config_file);
        all.finish_non_exhaustive()
    }
}

impl Invocation<'_> {
    /// The server that client commands talk to when they name none: what the SDKs are told, or the
    /// one that the configuration of this host says.
    pub fn default_server(&self) -> DefaultServer {
        let configured = || format!("http://{}", reachable(self.config.listen));
        DefaultServer {
            url: self.told_server().unwrap_or_else(configured),
            local_key: local_key::path(&self.config.data_dir),
        }
    }

    /// The URL of the API that the SDKs are told by the environment.
    fn told_server(&self) -> Option<String> {
        (self.environment)(env_vars::E2B_API_URL).filter(|url| !url.is_empty())
    }
}

/// Requirements of a command on the server it runs on.
pub(crate) struct Needs {
    /// Templates of a new sandbox, in the order in which they are tried; none if the sandbox is
    /// there already.
    pub(crate) templates: Vec<String>,
    /// True if the sandbox is to outlive the command.
    pub(crate) keeps: bool,
}

/// A server that code can run on.
enum Reached {
    Running(Client),
    Own(Box<PrivateServer>),
}

/// Runs a file or a piece of code.
///
/// # Errors
///
/// Reason that kept it from being run.
pub fn run(
    invocation: Invocation<'_>,
    server: &ChosenServerArgs,
    args: RunArgs,
) -> Result<ExitCode, CliError> {
    let prepared = args.prepare()?;
    let needs = Needs {
        templates: prepared.templates(),
        keeps: prepared.keeps_sandbox(),
    };
    let environment = invocation.environment;
    with_server(invocation, server, &needs, async |client| {
        prepared
            .run(client, Screen::detect(environment), environment)
            .await
    })
}

/// Opens a prompt.
///
/// # Errors
///
/// Reason that kept it from being opened.
pub fn repl(
    invocation: Invocation<'_>,
    server: &ChosenServerArgs,
    args: ReplArgs,
) -> Result<ExitCode, CliError> {
    let needs = Needs {
        templates: args.templates(),
        keeps: args.keeps_sandbox(),
    };
    let environment = invocation.environment;
    with_server(invocation, server, &needs, async |client| {
        args.run(client, Screen::detect(environment), environment)
            .await
    })
}

/// Runs a notebook, or writes what was run as one.
///
/// # Errors
///
/// Reason that kept it from being run or written.
pub fn notebook(
    invocation: Invocation<'_>,
    command: NotebookCommand,
) -> Result<ExitCode, CliError> {
    match command {
        NotebookCommand::Run { server, run } => {
            let prepared = run.prepare()?;
            let needs = Needs {
                templates: prepared.templates(),
                keeps: false,
            };
            with_server(invocation, &server, &needs, async |client| {
                prepared.run(client, invocation.environment).await
            })
        }
        NotebookCommand::Export { server, export } => {
            let needs = Needs {
                templates: Vec::new(),
                keeps: false,
            };
            let work = async |client| export.run(client).await;
            with_server(invocation, &server, &needs, work)
        }
    }
}

/// Does `work` with the server that was named, or the one on this host, or one of its own.
pub(crate) fn with_server(
    invocation: Invocation<'_>,
    server: &ChosenServerArgs,
    needs: &Needs,
    work: impl AsyncFnOnce(Client) -> Result<u8, CliError>,
) -> Result<ExitCode, CliError> {
    // The second thread keeps the sandbox alive while the first waits for a reader.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(CliError::failure)?;
    let reached = match runtime.block_on(running(invocation, server))? {
        Some(client) => Reached::Running(client),
        None => {
            check_private(invocation.config, needs)?;
            ensure_template(invocation, &needs.templates)?;
            let started = PrivateServer::start(invocation.config_file, invocation.config)?;
            Reached::Own(Box::new(started))
        }
    };
    let code = match reached {
        Reached::Running(client) => runtime.block_on(work(client)),
        Reached::Own(server) => {
            let code = server
                .client()
                .and_then(|client| runtime.block_on(work(client)));
            let stopped = server.stop();
            code.and_then(|code| stopped.map(|()| code))
        }
    }?;
    Ok(ExitCode::from(code))
}

/// A client of the server that was named, or of the one on this host; `None` if none runs.
async fn running(
    invocation: Invocation<'_>,
    server: &ChosenServerArgs,
) -> Result<Option<Client>, CliError> {
    let key = local_key::path(&invocation.config.data_dir);
    if let Some(named) = server.named(&key) {
        return named.map(Some);
    }
    if let Some(url) = invocation.told_server() {
        return server.at(&url, &key).map(Some);
    }
    let url = format!("http://{}", reachable(invocation.config.listen));
    let stranger = Client::new(&url, "")?;
    let answer = timeout(HEALTH_TIMEOUT, stranger.health()).await;
    if !matches!(answer, Ok(Ok(text)) if text == HEALTHY) {
        return Ok(None);
    }
    server.at(&url, &key).map(Some)
}

/// The address at which a client on this host reaches a server that listens on `address`.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => {
            SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))
        }
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::from((Ipv6Addr::LOCALHOST, address.port()))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => address,
    }
}

/// Checks that a private server of the command can do what is asked for.
fn check_private(config: &Config, needs: &Needs) -> Result<(), CliError> {
    let nobody = format!("no server runs at http://{}", reachable(config.listen));
    let start = "`sudo skep up` starts one; `--server` names another";
    if needs.templates.is_empty() {
        return Err(CliError::input(
            format!("{nobody}, so there is no sandbox to run in"),
            start,
        ));
    }
    if needs.keeps {
        return Err(CliError::input(
            format!("{nobody}, and a sandbox ends with the server of its command"),
            format!("{start}, where sandboxes can be kept"),
        ));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(CliError::input(
            format!("{nobody}, and starting one needs root"),
            format!("run this command with `sudo`, or {start}"),
        ));
    }
    Ok(())
}

/// Builds a built-in template unless one of these is there. Blocks.
fn ensure_template(invocation: Invocation<'_>, names: &[String]) -> Result<(), CliError> {
    let (config, build) = (invocation.config, invocation.build);
    for name in names {
        if is_built(&config.cache_dir, name)? && !builtin().contains_key(name) {
            return Ok(());
        }
    }
    // The first is the usual one: the last is what is built for the sake of a language.
    let first_is_built = match names {
        [first, _, ..] => is_built(&config.cache_dir, first)?,
        [] | [_] => false,
    };
    let Some(name) = names.last().filter(|_| !first_is_built) else {
        return Ok(());
    };
    let is_built = is_built(&config.cache_dir, name)?;
    match name.as_str() {
        // It takes long, so it is built by who asks for it; the default stands in for it.
        INTERPRETER if is_built => Ok(()),
        INTERPRETER => build(config, FIRST_TEMPLATE),
        name if is_built && !builtin().contains_key(name) => Ok(()),
        name => build(config, name),
    }
}

fn is_built(cache_dir: &Path, name: &str) -> Result<bool, CliError> {
    let listed = Catalog::open(cache_dir)
        .and_then(|catalog| catalog.list())
        .map_err(CliError::failure)?;
    Ok(listed.iter().any(|template| template.image.name == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_everywhere_is_found_on_loopback() {
        let found = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(found("0.0.0.0:3000"), "127.0.0.1:3000");
        assert_eq!(found("[::]:3000"), "[::1]:3000");
        assert_eq!(found("10.0.0.1:80"), "10.0.0.1:80");
    }
}
