//! CRIU on this host: looked for, and fetched where there is none.

use skep_checkpoint::{Criu, CriuError, FetchError, SUITE, fetch};
use skep_cli::print_note;
use skep_config::Config;
use skep_packages::PackageSettings;
use skep_telemetry::Chain;
use skep_types::{Check, CheckStatus};

/// Name of the check.
const NAME: &str = "memory images";

fn find(config: &Config) -> Result<Criu, CriuError> {
    Criu::find(
        &Criu::fetched_in(&config.cache_dir),
        &config.data_dir.join("criu"),
    )
}

/// Checks whether this host can write the memory of sandboxes to disk.
pub fn check(config: &Config) -> Check {
    match find(config) {
        Ok(criu) => Check::good(
            NAME,
            format!(
                "memory of sandboxes goes to disk by criu {}",
                criu.version()
            ),
        ),
        Err(error) => Check {
            name: NAME,
            status: CheckStatus::Limited,
            detail: format!(
                "paused sandboxes stay in memory, and there are no forks and no snapshots with \
                 memory: {}",
                Chain(&error)
            ),
            cure: Some(
                "`sudo skep doctor --fetch` fetches criu from Debian's newest suite; or install criu \
                 4.2.1 or newer"
                    .to_owned(),
            ),
        },
    }
}

/// Fetches CRIU if this host has none. A host on which that fails serves without it.
pub fn fetch_if_missing(config: &Config, settings: &PackageSettings) {
    if find(config).is_ok() {
        return;
    }
    print_note("fetching criu, with which the memory of sandboxes goes to disk");
    if let Err(error) = fetch_for(config, settings) {
        let error = Chain(error.as_ref());
        print_note(&format!(
            "hint: without criu, paused sandboxes stay in memory: {error}"
        ));
    }
}

type Source = Box<dyn std::error::Error + Send + Sync>;

fn fetch_for(config: &Config, settings: &PackageSettings) -> Result<(), Source> {
    let apt = settings.apt();
    let sources = apt
        .sources_for(SUITE)
        .ok_or("this host names no mirror of Debian; install criu 4.2.1 or newer")?;
    let directory = Criu::fetched_in(&config.cache_dir);
    let fetched: Result<(), FetchError> = fetch(&directory, &sources, &apt.configuration(None));
    fetched?;
    find(config)?;
    Ok(())
}
