//! The `skep` executable: server, agent, launcher and command line in one file.

mod agent;
mod args;
mod bench;
mod code;
mod doctor;
mod interpreter;
mod isolation;
mod local_key;
mod logging;
mod metrics;
mod private_server;
mod progress;
mod serve;
mod team;
mod template;
mod tls;
mod traces;
mod uninstall;
mod up;
mod wiring;

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use skep_api::Access;
use skep_cli::{CliError, ExitKind};
use skep_image::{Cancel, Catalog};
use skep_launch::Launcher;
use skep_packages::PackageSettings;

use args::{Cli, Command, ServeArgs, TemplateCommand};
use serve::{Choices, Ends};
use skep_config::{self as config, Config, ConfigError, env_vars};
use skep_install::{Cause, InstallError};

/// The first argument that makes this process a launcher.
const LAUNCH: &str = "launch";
/// The template that `skep up` sees to. It is based on `base`, and while nobody has built
/// `code-interpreter-v1` it stands in for that: the SDKs ask for these two when nobody names one.
const DEFAULT_TEMPLATE: &str = "code-interpreter-slim";

fn main() -> ExitCode {
    // The launcher enters namespaces, which a process with threads cannot: nothing may start
    // one before this line.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == LAUNCH)
    {
        return skep_launch::run();
    }
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}

fn run(cli: Cli) -> Result<ExitCode, CliError> {
    let config = || load_config(&cli);
    match &cli.command {
        Command::Agent(args) => agent::run(args)?,
        Command::Up(args) => {
            let config = args.over(config()?);
            start_logging();
            build_template(&config, DEFAULT_TEMPLATE)?;
            template::say_who_stands_in(&config.cache_dir)?;
            serve(config, args)?;
        }
        Command::Serve(args) => {
            start_logging();
            serve(args.over(config()?), args)?;
        }
        Command::Template(TemplateCommand::Build { name, cache_dir }) => {
            let mut config = config()?;
            config.cache_dir = cache_dir.clone().unwrap_or(config.cache_dir);
            start_logging();
            build_template(&config, name)?;
        }
        Command::Template(TemplateCommand::List { cache_dir, output }) => {
            let cache_dir = cache_dir
                .clone()
                .map_or_else(|| config().map(|c| c.cache_dir), Ok)?;
            template::list(&cache_dir, output.json)?;
        }
        Command::Sandbox(_) | Command::Key(_) => {
            let local_key = local_key::path(&config()?.data_dir);
            return client(cli.command, &local_key);
        }
        Command::Team(command) => {
            let data_dir = config()?.data_dir;
            runtime()?.block_on(command.run(&data_dir))?;
        }
        Command::Bench(args) => {
            return bench::run(args, cli.config.as_deref(), &config()?);
        }
        Command::Run { server, run } => {
            let ran = code::run(&cli, config()?, server, (**run).clone());
            return Ok(ran.unwrap_or_else(|error| not_run(&error)));
        }
        Command::Repl { server, repl } => {
            let ran = code::repl(&cli, config()?, server, (**repl).clone());
            return Ok(ran.unwrap_or_else(|error| not_run(&error)));
        }
        Command::Notebook(command) => return code::notebook(&cli, config()?, command.clone()),
        Command::Uninstall(args) => {
            let mut config = config()?;
            config.cache_dir = args.cache_dir.clone().unwrap_or(config.cache_dir);
            runtime()?.block_on(uninstall::run(&config, args))?;
        }
        Command::Doctor(output) => return doctor::run(&config()?, output.json),
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "skep", &mut std::io::stdout());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A runtime for commands that wait for one thing at a time.
fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failure)
}

fn client(command: Command, local_key: &Path) -> Result<ExitCode, CliError> {
    let code = runtime()?.block_on(async {
        match command {
            Command::Sandbox(command) => command.run(local_key).await,
            Command::Key(command) => command.run(local_key).await,
            Command::Up(_)
            | Command::Serve(_)
            | Command::Run { .. }
            | Command::Repl { .. }
            | Command::Notebook(_)
            | Command::Template(_)
            | Command::Doctor(_)
            | Command::Uninstall(_)
            | Command::Team(_)
            | Command::Bench(_)
            | Command::Completions { .. }
            | Command::Agent(_) => unreachable!("only client commands come here"),
        }
    })?;
    Ok(ExitCode::from(code))
}

fn serve(config: Config, args: &ServeArgs) -> Result<(), CliError> {
    if args.no_auth && !config.listen.ip().is_loopback() {
        return Err(CliError::input(
            format!(
                "`--no-auth` would let everybody who reaches {} in",
                config.listen
            ),
            "listen on 127.0.0.1, or give your callers keys with `skep key create`",
        ));
    }
    let choices = Choices {
        access: if args.no_auth {
            Access::Trusted
        } else {
            Access::Keys
        },
        local_tls: args.tls,
        ends: if args.private {
            Ends::WithStandardInput
        } else {
            Ends::BySignal
        },
    };
    let data_dir = config.data_dir.clone();
    let example = template::example(&config.cache_dir)?;
    let announce = |ready: &serve::Ready| {
        if args.json {
            up::announce_json(ready);
        } else {
            up::announce(ready, example);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::failure)?;
    let served = runtime.block_on(serve::serve(config, choices, announce));
    if !args.private {
        return served;
    }
    // What a server that failed has made is removed too.
    let removed = runtime.block_on(skep_install::remove(&data_dir));
    served.and(removed.map_err(install_error))
}

fn build_template(config: &Config, name: &str) -> Result<(), CliError> {
    let catalog = Catalog::open(&config.cache_dir).map_err(CliError::failure)?;
    template::build(
        &catalog,
        &host_settings()?,
        &launcher()?,
        name,
        &Cancel::default(),
    )
    .map(drop)
}

/// A failure of work on an installation, as the command line tells it.
fn install_error(error: InstallError) -> CliError {
    CliError {
        kind: match error.cause {
            Cause::Operator => ExitKind::Input,
            Cause::Host => ExitKind::Failure,
        },
        source: error.source,
        hints: error.hints,
    }
}

fn start_logging() {
    logging::start(environment(env_vars::SKEP_LOG).as_deref());
}

/// This very executable, started as a launcher.
fn launcher() -> Result<Launcher, CliError> {
    let executable = std::env::current_exe().map_err(CliError::failure)?;
    Ok(Launcher::new(executable, [LAUNCH]))
}

fn load_config(cli: &Cli) -> Result<Config, CliError> {
    let mut config = Config::load(cli.config.as_deref(), environment).map_err(|error| {
        let hint = match &error {
            ConfigError::Read { .. } => "`--config` takes the path of a readable file",
            ConfigError::Parse { .. } | ConfigError::Environment { .. } => {
                "docs/reference/configuration.md lists every key"
            }
        };
        CliError {
            kind: ExitKind::Input,
            source: Box::new(error),
            hints: vec![hint.to_owned()],
        }
    })?;
    if let Some(data_dir) = &cli.data_dir {
        config.data_dir.clone_from(data_dir);
    }
    Ok(config)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads variables of ours"
)]
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The package mirrors, proxies and certificate authorities of this host.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads variables of others"
)]
fn host_settings() -> Result<PackageSettings, CliError> {
    PackageSettings::detect(std::env::vars()).map_err(CliError::failure)
}

/// Code that was not run, or not to its end: no exit code of its own may look like this.
fn not_run(error: &CliError) -> ExitCode {
    const PLATFORM: u8 = 125;
    error.report();
    ExitCode::from(PLATFORM)
}
