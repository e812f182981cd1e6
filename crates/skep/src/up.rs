//! `skep up` and `skep serve`: what is built first, and who is told what.

use std::path::Path;
use std::time::Duration;

use skep_admin::announce::{self, Example, INTERPRETER, NextSteps, Ready};
use skep_admin::{criu, install_error};
use skep_api::Access;
use skep_cli::CliError;
use skep_domain::LOCAL_DOMAIN;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::args::{ServeArgs, UpArgs};
use crate::background_build::BackgroundBuild;
use crate::config::Config;
use crate::front_door::Protocol;
use crate::serve::{self, Choices, Ends};
use crate::{build_template, environment, host_settings};

/// The template that is built before anything is served. It is based on `base`, and while
/// `code-interpreter-v1` is not built it stands in for that: the SDKs ask for these two when nobody
/// names one.
pub(crate) const FIRST_TEMPLATE: &str = "code-interpreter-slim";
/// Templates that are built while it serves: what `Sandbox.create(mcp=…)` of the SDKs asks for, which
/// is small, and the whole interpreter, which takes long.
const REST: &[&str] = &["mcp-gateway", INTERPRETER];
/// Time for which the announcement waits for hints about this host.
const HINT_TIMEOUT: Duration = Duration::from_secs(1);

/// Builds what is missing and serves; builds the rest while it does.
///
/// # Errors
///
/// Whatever kept the server from starting, with a hint.
pub(crate) fn up(config: Config, args: &UpArgs) -> Result<(), CliError> {
    build_template(&config, FIRST_TEMPLATE)?;
    criu::fetch_if_missing(&config, &host_settings()?);
    let audience = if args.serve.json {
        Audience::Program
    } else {
        Audience::Person
    };
    let build = (!args.slim).then(|| BackgroundBuild::new(&config.cache_dir, REST));
    run(config, &args.serve, audience, build)
}

/// Serves and builds nothing.
///
/// # Errors
///
/// Whatever kept the server from starting, with a hint.
pub(crate) fn serve(config: Config, args: &ServeArgs) -> Result<(), CliError> {
    let audience = if args.json {
        Audience::Program
    } else {
        Audience::Journal
    };
    run(config, args, audience, None)
}

/// Reader of the announcement.
#[derive(Debug, Clone, Copy)]
enum Audience {
    Program,
    Person,
    Journal,
}

fn run(
    config: Config,
    args: &ServeArgs,
    audience: Audience,
    build: Option<BackgroundBuild>,
) -> Result<(), CliError> {
    let choices = choices(&config, args)?;
    let data_dir = config.data_dir.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::failure)?;
    let served = runtime.block_on(async {
        let announcement = Announcement::prepare(audience, &config)?;
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
    fn prepare(audience: Audience, config: &Config) -> Result<Self, CliError> {
        Ok(match audience {
            Audience::Program => Self::Program,
            Audience::Journal => Self::Journal,
            Audience::Person => {
                let example = Example::of_templates(&config.cache_dir)?;
                let unknown = NextSteps::unknown(own_command()?, example);
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
                let found = timeout(HINT_TIMEOUT, looking).await;
                let found = found.ok().and_then(Result::ok).flatten();
                announce::tell_person(ready, &found.unwrap_or(fallback))
            }
        };
        if told.is_err() {
            tracing::warn!("nobody reads how to connect");
        }
    }
}

/// This executable as its caller can write it: by its name if that finds it.
fn own_command() -> Result<String, CliError> {
    let executable = std::env::current_exe().map_err(CliError::failure)?;
    let search_path = environment("PATH").unwrap_or_default();
    let directory = std::env::current_dir().unwrap_or_default();
    Ok(announce::quoted(&shortest(
        &executable,
        &search_path,
        &directory,
    )))
}

fn shortest(executable: &Path, search_path: &str, directory: &Path) -> String {
    let parent = executable.parent().unwrap_or_else(|| Path::new("/"));
    let found_by_name = std::env::split_paths(search_path).any(|entry| entry == parent);
    let path = executable.strip_prefix(directory).unwrap_or(executable);
    match executable.file_name() {
        Some(name) if found_by_name => name.to_string_lossy().into_owned(),
        Some(_) | None => path.to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_written_as_short_as_it_works() {
        let path = "/usr/local/bin:/usr/bin";
        for (executable, expected) in [
            ("/usr/bin/skep", "skep"),
            ("/home/me/skep/target/release/skep", "target/release/skep"),
            ("/opt/skep", "/opt/skep"),
        ] {
            let directory = Path::new("/home/me/skep");
            let found = shortest(Path::new(executable), path, directory);
            assert_eq!(found, expected);
        }
    }
}
