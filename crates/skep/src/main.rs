//! The `skep` executable: server and command line, with the agent and the launcher inside.

mod args;
mod console;
mod identity;
mod inspection;
mod isolation;
mod mcp;
mod metrics;
mod serve;
mod suggest;
mod up;
mod vault;
mod wiring;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory as _, Parser as _};
use skep_admin::{
    Invocation, TemplateCommand, bench, code, criu, doctor, local_key, man, root, rotate_key,
    template,
};
use skep_cli::{CliError, ExitKind, KeyCommand, print_bytes};
use skep_image::{Cancel, Catalog};
use skep_launch::Launcher;
use skep_packages::PackageSettings;
use skep_telemetry::logging::{self, Format, Reader};
use skep_types::TemplateImage;

use args::{Cli, Command};
use skep_config::{self as config, Config, ConfigError, env_vars};

fn main() -> ExitCode {
    // First of all: a launcher must not have a second thread.
    if let Some(code) = skep_guest::run(std::env::args_os()) {
        return code;
    }
    // As for a launcher: whoever reads what strangers wrote leaves namespaces.
    let mut arguments = std::env::args_os().skip(1);
    let part = arguments.next();
    if part
        .as_deref()
        .is_some_and(|part| part == skep_oci::UNPACK_LAYER)
    {
        return skep_oci::unpack_layer(arguments);
    }
    if part.is_some_and(|part| part == skep_egress::EGRESS_PROXY) {
        return skep_egress::run(arguments);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(error),
    };
    let json = cli.json;
    match run(cli) {
        Ok(code) => code,
        Err(error) => error.report(json),
    }
}

/// Tells what is wrong with the arguments, or prints the help that was asked for.
fn misused(error: clap::Error) -> ExitCode {
    let arguments: Vec<_> = std::env::args_os()
        .skip(1)
        .filter_map(|argument| argument.into_string().ok())
        .collect();
    let error = suggest::suggest(error, &Cli::command(), &arguments);
    let printed = error.print().map_err(CliError::output);
    match (printed, u8::try_from(error.exit_code())) {
        (Err(unread), _) => unread.report(false),
        (Ok(()), code) => ExitCode::from(code.unwrap_or(2)),
    }
}

fn run(cli: Cli) -> Result<ExitCode, CliError> {
    let config = || load_config(&cli);
    let file = cli.config.as_deref();
    match &cli.command {
        Command::Up(args) => {
            root::require("up")?;
            let config = args.serve.over(config()?);
            let is_program = args.serve.json;
            start_logging(if is_program {
                Reader::Operator
            } else {
                Reader::Person
            })?;
            up::up(config, args)?;
        }
        Command::Serve(args) => {
            root::require("serve")?;
            start_logging(Reader::Operator)?;
            up::serve(args.over(config()?), args)?;
        }
        Command::Template(TemplateCommand::Build(args)) if args.is_built_in()? => {
            root::require("template build")?;
            let mut config = config()?;
            config.cache_dir = args.cache_dir.clone().unwrap_or(config.cache_dir);
            start_logging(Reader::Operator)?;
            let started = Instant::now();
            let image = build_template(&config, &args.what)?;
            template::tell_built(&image, started.elapsed(), args.output.json)?;
        }
        Command::Template(TemplateCommand::List {
            list,
            cache_dir: Some(cache_dir),
        }) => {
            root::require_for("template list", cache_dir)?;
            template::list(cache_dir, list.json())?;
        }
        Command::Key(KeyCommand::Rotate { key, output, .. })
            if key.as_deref().is_none_or(|key| key == local_key::NAME) =>
        {
            let data_dir = config()?.data_dir;
            runtime()?.block_on(rotate_key::rotate(&data_dir, *output))?;
        }
        Command::Sandbox(_)
        | Command::Volume(_)
        | Command::Key(_)
        | Command::Template(_)
        | Command::Secret(_)
        | Command::Webhook(_)
        | Command::Events(_)
        | Command::Console(_) => {
            let config = config()?;
            return client(invocation(None, &config), cli.command, cli.json);
        }
        Command::Team(command) => {
            let data_dir = config()?.data_dir;
            root::require_for("team", &data_dir)?;
            runtime()?.block_on(command.run(&data_dir))?;
        }
        Command::Bench(args) => {
            if args.against.is_none() {
                root::require("bench")?;
            }
            return bench::run(args, file, &config()?);
        }
        Command::Run { server, run } => {
            let config = config()?;
            let ran = code::run(invocation(file, &config), server, (**run).clone());
            return Ok(ran.unwrap_or_else(|error| not_run(&error, cli.json)));
        }
        Command::Repl { server, repl } => {
            let config = config()?;
            let ran = code::repl(invocation(file, &config), server, (**repl).clone());
            return Ok(ran.unwrap_or_else(|error| not_run(&error, cli.json)));
        }
        Command::Mcp { server, mcp } => {
            // Standard output is the protocol's; standard error is shown by agents.
            let config = config()?;
            return skep_admin::mcp::stdio(invocation(file, &config), server, (**mcp).clone());
        }
        Command::Notebook(command) => {
            let config = config()?;
            return code::notebook(invocation(file, &config), command.clone());
        }
        Command::Uninstall(args) => {
            let mut config = config()?;
            config.cache_dir = args.cache_dir.clone().unwrap_or(config.cache_dir);
            runtime()?.block_on(args.run(&config))?;
        }
        Command::Doctor(args) => {
            root::require("doctor")?;
            let config = config()?;
            if args.fetch {
                criu::fetch_if_missing(&config, &host_settings()?);
            }
            return doctor::run(&config, args.output.json);
        }
        Command::Man { directory } => man::run(Cli::command(), directory.as_deref())?,
        Command::Completions { shell } => {
            // To memory first: it panics if nobody reads it.
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "skep", &mut text);
            print_bytes(&text)?;
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

fn invocation<'a>(config_file: Option<&'a Path>, config: &'a Config) -> Invocation<'a> {
    Invocation {
        config,
        config_file,
        environment,
        build: |config, name| build_template(config, name).map(drop),
    }
}

fn client(invocation: Invocation<'_>, command: Command, json: bool) -> Result<ExitCode, CliError> {
    let server = &invocation.default_server();
    let failure_code = if let Command::Sandbox(command) = &command {
        command.failure_code()
    } else {
        None
    };
    let done = runtime()?.block_on(async {
        match command {
            Command::Sandbox(command) => command.run(server, environment).await,
            Command::Key(command) => command.run(server).await,
            Command::Template(TemplateCommand::Build(args)) => {
                let client = args.server.client(server)?;
                let path = Path::new(&args.what);
                Box::pin(args.dockerfile.run(path, &client, args.output.json)).await
            }
            Command::Template(TemplateCommand::List { list, .. }) => list.run(server).await,
            Command::Template(TemplateCommand::Server(command)) => command.run(server).await,
            Command::Volume(command) => command.run(server).await,
            Command::Secret(command) => command.run(server).await,
            Command::Webhook(command) => command.run(server).await,
            Command::Events(arguments) => arguments.run(server).await,
            Command::Console(arguments) => arguments.run(server).await,
            Command::Up(_)
            | Command::Serve(_)
            | Command::Run { .. }
            | Command::Repl { .. }
            | Command::Notebook(_)
            | Command::Mcp { .. }
            | Command::Doctor(_)
            | Command::Uninstall(_)
            | Command::Team(_)
            | Command::Bench(_)
            | Command::Completions { .. }
            | Command::Man { .. } => unreachable!("only client commands come here"),
        }
    });
    match (done, failure_code) {
        (Ok(code), _) => Ok(ExitCode::from(code)),
        (Err(error), Some(code)) => Ok(error.report_as(code, json)),
        (Err(error), None) => Err(error),
    }
}

fn build_template(config: &Config, name: &str) -> Result<TemplateImage, CliError> {
    let catalog = Catalog::open(&config.cache_dir).map_err(CliError::failure)?;
    template::build(
        &catalog,
        &host_settings()?,
        &launcher()?,
        name,
        &Cancel::default(),
    )
}

fn start_logging(reader: Reader) -> Result<(), CliError> {
    let directives = environment(env_vars::SKEP_LOG);
    let word = environment(env_vars::SKEP_LOG_FORMAT);
    let format = word
        .as_deref()
        .map(|word| {
            let message = format!("`{}` is `{word}`", env_vars::SKEP_LOG_FORMAT);
            Format::named(word).ok_or_else(|| CliError::input(message, "it takes `text` or `json`"))
        })
        .transpose()?;
    logging::start(directives.as_deref(), format, reader);
    Ok(())
}

/// This very executable, started as a launcher.
fn launcher() -> Result<Launcher, CliError> {
    let executable = std::env::current_exe().map_err(CliError::failure)?;
    Ok(Launcher::new(executable, [skep_guest::LAUNCH]))
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
fn not_run(error: &CliError, json: bool) -> ExitCode {
    const PLATFORM: u8 = 125;
    error.report_as(PLATFORM, json)
}
