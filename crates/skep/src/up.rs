//! `skep up` and `skep serve`: what is built first, and who is told what.

use std::time::Duration;

use skep_admin::announce::{self, Example, INTERPRETER, NextSteps, Ready};
use skep_admin::front_door::Protocol;
use skep_admin::template::FIRST_TEMPLATE;
use skep_admin::{BackgroundBuild, criu, install_error};
use skep_api::Access;
use skep_cli::CliError;
use skep_domain::LOCAL_DOMAIN;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::args::{ServeArgs, UpArgs};
use crate::config::Config;
use crate::serve::{self, Choices, Ends};
use crate::{build_template, environment, host_settings, launcher};

/// Templates that are built while it serves: what `Sandbox.create(mcp=…)` of the SDKs asks for, which
/// is small, and the whole interpreter, which takes long.
const REST: &[&str] = &["mcp-gateway", INTERPRETER];
/// Time for which the announcement waits for hints about this host.
const HINT_TIMEOUT: Duration = Duration::from_secs(1);

/// Builds what is missing and serves; builds the rest while it does.
///
/// # Errors
///
/// Reason that kept the server from starting, with a hint.
pub(crate) fn up(config: Config, args: &UpArgs) -> Result<(), CliError> {
    build_template(&config, FIRST_TEMPLATE)?;
    let host = host_settings()?;
    criu::fetch_if_missing(&config, &host);
    let reader = if args.serve.json {
        Reader::Program
    } else {
        Reader::Person
    };
    let build = if args.slim {
        None
    } else {
        Some(BackgroundBuild {
            cache_dir: config.cache_dir.clone(),
            names: REST,
            host,
            launcher: launcher()?,
        })
    };
    run(config, &args.serve, reader, build)
}

/// Serves and builds nothing.
///
/// # Errors
///
/// Reason that kept the server from starting, with a hint.
pub(crate) fn serve(config: Config, args: &ServeArgs) -> Result<(), CliError> {
    let reader = if args.json {
        Reader::Program
    } else {
        Reader::Journal
    };
    run(config, args, reader, None)
}

/// Reader of the announcement.
#[derive(Debug, Clone, Copy)]
enum Reader {
    Program,
    Person,
    Journal,
}

fn run(
    config: Config,
    args: &ServeArgs,
    reader: Reader,
    build: Option<BackgroundBuild>,
) -> Result<(), CliError> {
    let choices = choices(&config, args)?;
    let data_dir = config.data_dir.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::failure)?;
    let served = runtime.block_on(async {
        let announcement = Announcement::prepare(reader, &config)?;
        let announce = async |ready: &Ready| announcement.make(ready).await;
        serve::serve(config, choices, announce, build).await
    });
    if !args.private {
        return served;
    }
    // What a server that failed has made is removed too.
    let removed = runtime.block_on(skep_install::remove(&data_dir));
    served.and(removed.map_err(install_error))
}

fn choices(config: &Config, args: &ServeArgs) -> Result<Choices, CliError> {
    if args.no_auth && !config.listen.ip().is_loopback() {
        return Err(CliError::input(
            format!(
                "`--no-auth` would let everybody who reaches {} in",
                config.listen
            ),
            "listen on 127.0.0.1, or give your callers keys with `skep key create`",
        ));
    }
    Ok(Choices {
        access: if args.no_auth {
            Access::Trusted
        } else {
            Access::Keys
        },
        protocol: match (args.private, args.tls) {
            (true, _) => Protocol::Private,
            (false, true) => Protocol::TlsAlone,
            (false, false) => Protocol::Usual,
        },
        ends: if args.private {
            Ends::WithStandardInput
        } else {
            Ends::BySignal
        },
    })
}

/// An announcement, and what is looked up for it while the server starts.
enum Announcement {
    Program,
    Journal,
    Person {
        fallback: NextSteps,
        looking: JoinHandle<Option<NextSteps>>,
    },
}

impl Announcement {
    fn prepare(reader: Reader, config: &Config) -> Result<Self, CliError> {
        Ok(match reader {
            Reader::Program => Self::Program,
            Reader::Journal => Self::Journal,
            Reader::Person => {
                let example = Example::of_templates(&config.cache_dir)?;
                let unknown = NextSteps::unknown(
                    announce::own_command(&environment("PATH").unwrap_or_default())?,
                    example,
                );
                let domain = config.domain.as_deref().unwrap_or(LOCAL_DOMAIN);
                let looking = unknown.clone().look(domain.to_owned());
                Self::Person {
                    fallback: unknown,
                    looking: skep_telemetry::spawn("next steps", looking),
                }
            }
        })
    }

    async fn make(self, ready: &Ready) {
        let told = match self {
            Self::Program => announce::tell_program(ready),
            Self::Journal => {
                announce::tell_journal(ready);
                Ok(())
            }
            Self::Person { fallback, looking } => {
                let found = timeout(HINT_TIMEOUT, looking)
                    .await
                    .ok()
                    .and_then(Result::ok)
                    .flatten();
                announce::tell_person(ready, &found.unwrap_or(fallback))
            }
        };
        if told.is_err() {
            tracing::warn!("standard output is closed, connection settings not printed");
        }
    }
}
