//! `skep run`, `skep repl` and `skep notebook`: which server they use, and what must be there first.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use skep_cli::{ChosenServerArgs, CliError, NotebookCommand, ReplArgs, RunArgs, Screen};
use skep_client::Client;
use skep_image::{Catalog, builtin};
use tokio::time::timeout;

use crate::args::Cli;
use crate::config::Config;
use crate::private_server::PrivateServer;
use crate::{build_template, environment, local_key};

/// Body of the answer to `GET /health`, of our servers and of E2B's.
const HEALTHY: &str = "Health check successful";
/// Time limit for the health check of a server on this host. Something else may listen there.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);
/// The name that the SDKs ask for. Smaller templates stand in for it.
const USUAL_TEMPLATE: &str = "code-interpreter-v1";

/// Requirements of a command on the server it runs on.
struct Needs {
    /// The template of a new sandbox; `None` if the sandbox is there already.
    template: Option<String>,
    /// True if the sandbox is to outlive the command.
    keeps: bool,
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
/// Whatever kept it from being run.
pub(crate) fn run(
    cli: &Cli,
    config: Config,
    server: &ChosenServerArgs,
    args: RunArgs,
) -> Result<ExitCode, CliError> {
    let prepared = args.prepare()?;
    let needs = Needs {
        template: prepared.template(),
        keeps: prepared.keeps_sandbox(),
    };
    with_server(cli, &config, server, &needs, async |client| {
        prepared
            .run(client, Screen::detect(environment), environment)
            .await
    })
}

/// Opens a prompt.
///
/// # Errors
///
/// Whatever kept it from being opened.
pub(crate) fn repl(
    cli: &Cli,
    config: Config,
    server: &ChosenServerArgs,
    args: ReplArgs,
) -> Result<ExitCode, CliError> {
    let needs = Needs {
        template: args.template(),
        keeps: args.keeps_sandbox(),
    };
    with_server(cli, &config, server, &needs, async |client| {
        args.run(client, Screen::detect(environment), environment)
            .await
    })
}

/// Runs a notebook, or writes what was run as one.
///
/// # Errors
///
/// Whatever kept it from being run or written.
pub(crate) fn notebook(
    cli: &Cli,
    config: Config,
    command: NotebookCommand,
) -> Result<ExitCode, CliError> {
    match command {
        NotebookCommand::Run { server, run } => {
            let prepared = run.prepare()?;
            let needs = Needs {
                template: prepared.template(),
                keeps: false,
            };
            with_server(cli, &config, &server, &needs, async |client| {
                prepared.run(client, environment).await
            })
        }
        NotebookCommand::Export { server, export } => {
            let needs = Needs {
                template: None,
                keeps: false,
            };
            let work = async |client| export.run(client).await;
            with_server(cli, &config, &server, &needs, work)
        }
    }
}

/// Does `work` with the server that was named, or the one on this host, or one of its own.
fn with_server(
    cli: &Cli,
    config: &Config,
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
    let reached = match runtime.block_on(running(config, server))? {
        Some(client) => Reached::Running(client),
        None => {
            check_private(config, needs)?;
            if let Some(template) = &needs.template {
                ensure_template(config, template)?;
            }
            let started = PrivateServer::start(cli.config.as_deref(), config)?;
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
async fn running(config: &Config, server: &ChosenServerArgs) -> Result<Option<Client>, CliError> {
    let key = local_key::path(&config.data_dir);
    if let Some(named) = server.named() {
        return named.client(&key).map(Some);
    }
    let url = format!("http://{}", reachable(config.listen));
    let stranger = Client::new(&url, "")?;
    let answer = timeout(HEALTH_TIMEOUT, stranger.health()).await;
    if !matches!(answer, Ok(Ok(text)) if text == HEALTHY) {
        return Ok(None);
    }
    server.at(url).client(&key).map(Some)
}

/// The address at which a client on this host reaches a server that listens on `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => {
            SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))
        }
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, address.port()))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => address,
    }
}

/// Checks that a private server of the command can do what is asked for.
fn check_private(config: &Config, needs: &Needs) -> Result<(), CliError> {
    let nobody = format!("no server runs at http://{}", reachable(config.listen));
    let start = "`sudo skep up` starts one; `--server` names another";
    if needs.template.is_none() {
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

/// Builds a built-in template unless it is there. Blocks.
fn ensure_template(config: &Config, name: &str) -> Result<(), CliError> {
    let is_built = is_built(&config.cache_dir, name)?;
    match name {
        // It takes long, so it is built by who asks for it; the default stands in for it.
        USUAL_TEMPLATE if is_built => Ok(()),
        USUAL_TEMPLATE => build_template(config, crate::DEFAULT_TEMPLATE),
        name if is_built && !builtin().contains_key(name) => Ok(()),
        name => build_template(config, name),
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
