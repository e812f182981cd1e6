//! `skep template …`, against a server.

mod build;
mod context;
mod diff;
mod files;
mod history;
mod inspect;
mod list;
mod plan;
mod progress;
mod prune;
mod reference;
mod stage;
mod tag;
mod unpacked;
mod upload;

use clap::Subcommand;
use jiff::Timestamp;

use crate::{CliError, DefaultServer};

pub use build::DockerfileArgs;
pub use diff::DiffArgs;
pub use history::HistoryArgs;
pub use inspect::InspectArgs;
pub use list::TemplateListArgs;
pub use prune::PruneArgs;
pub use tag::{DeleteArgs, PublishArgs, TagArgs, UntagArgs};

/// Subcommands of `skep template` that ask a server.
#[derive(Debug, Subcommand)]
pub enum TemplateServerCommand {
    /// Show one version of a template: steps, layers, environment, commands
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(InspectArgs),
    /// List the builds of a template: state, size, tags and content
    #[command(after_help = history::EXAMPLES)]
    History(HistoryArgs),
    /// Give tags to a version of a template; rolling back is giving a tag to an older one
    #[command(after_help = tag::TAG_EXAMPLES)]
    Tag(TagArgs),
    /// Take tags off a template
    #[command(after_help = tag::UNTAG_EXAMPLES)]
    Untag(UntagArgs),
    /// Show what differs between two versions: steps, layers, sizes and files
    #[command(after_help = diff::EXAMPLES)]
    Diff(DiffArgs),
    /// Delete old versions that no tag means and nothing uses
    #[command(after_help = prune::EXAMPLES)]
    Prune(PruneArgs),
    /// Delete a template with all its versions, or one version
    #[command(after_help = tag::DELETE_EXAMPLES)]
    Delete(DeleteArgs),
    /// Let other teams use a template, or not any more
    #[command(after_help = tag::PUBLISH_EXAMPLES)]
    Publish(PublishArgs),
}

impl TemplateServerCommand {
    /// Does it, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(&self, default: &DefaultServer) -> Result<u8, CliError> {
        match self {
            Self::Inspect(args) => args.run(default).await,
            Self::History(args) => args.run(default).await,
            Self::Tag(args) => args.run(default).await,
            Self::Untag(args) => args.run(default).await,
            Self::Diff(args) => args.run(default).await,
            Self::Prune(args) => args.run(default).await,
            Self::Delete(args) => args.run(default).await,
            Self::Publish(args) => args.run(default).await,
        }
    }
}

/// A moment for people, in UTC.
fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20),
    }
}

/// The first digits of an id.
fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_unit_that_fits() {
        assert_eq!(size(12), "12 B");
        assert_eq!(size(2000), "2 KiB");
        assert_eq!(size((5 << 20) + (1 << 19)), "5.5 MiB");
    }
}
