//! `skep team …`: who may use this server, and how much.
//!
//! These commands change the database itself, so they need the data directory and no key. A
//! server that runs goes by the change from the next request on.

use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use skep_cli::{CliError, OutputArgs, print_json, print_line, print_note, print_table};
use skep_control::ApiKey;
use skep_store::{Standing, Store, StoreError, Team};
use skep_types::TeamId;

/// Commands for teams.
#[derive(Debug, Subcommand)]
pub enum TeamCommand {
    /// Create a team and its first key, which is shown once
    #[command(after_help = "\
Examples:
  sudo skep team create research --max-sandboxes 20")]
    Create {
        /// Short name of the team, in lower case
        slug: String,
        /// Its limits
        #[command(flatten)]
        limits: LimitArgs,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List teams
    #[command(after_help = "\
Examples:
  sudo skep team list")]
    List {
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Set limits of a team; those not given stay as they are
    #[command(after_help = "\
Examples:
  sudo skep team limits research --max-sandboxes 50
  sudo skep team limits research --reset")]
    Limits {
        /// Short name of the team
        slug: String,
        /// Its limits
        #[command(flatten)]
        limits: LimitArgs,
        /// Go by the configuration where no limit is given
        #[arg(long)]
        reset: bool,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Remove a team that has had no sandboxes, and revoke its keys
    #[command(after_help = "\
Examples:
  sudo skep team delete research")]
    Delete {
        /// Short name of the team
        slug: String,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Block a team: it may list and kill sandboxes, but not start any
    #[command(after_help = "\
Examples:
  sudo skep team block research 'over budget until May'")]
    Block {
        /// Short name of the team
        slug: String,
        /// Reason, shown to its members
        reason: String,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Unblock a team
    #[command(after_help = "\
Examples:
  sudo skep team unblock research")]
    Unblock {
        /// Short name of the team
        slug: String,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Limits of a team.
#[derive(Debug, Clone, Copy, Args)]
pub struct LimitArgs {
    /// Maximum number of running sandboxes
    #[arg(long, value_name = "COUNT")]
    max_sandboxes: Option<u32>,
    /// Maximum lifetime of a sandbox
    #[arg(long, value_name = "HOURS")]
    max_lifetime_hours: Option<u32>,
}

impl LimitArgs {
    /// The limits of a team with those that were given. The others stay, or are the
    /// configuration's again.
    fn over(self, team: &Team, reset: bool) -> (Option<u32>, Option<Duration>) {
        let (sandboxes, lifetime) = if reset {
            (None, None)
        } else {
            (team.max_sandboxes, team.max_lifetime)
        };
        (
            self.max_sandboxes.or(sandboxes),
            self.lifetime().or(lifetime),
        )
    }

    fn lifetime(self) -> Option<Duration> {
        let hours = self.max_lifetime_hours?;
        Some(Duration::from_hours(u64::from(hours)))
    }
}

/// A team as machines read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    #[serde(rename = "teamID")]
    team_id: &'a str,
    slug: &'a str,
    is_default: bool,
    max_sandboxes: Option<u32>,
    max_lifetime_hours: Option<u64>,
    blocked: Option<&'a str>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<&'a str>,
}

impl<'a> Shown<'a> {
    fn of(team: &'a Team) -> Self {
        Self {
            team_id: team.id.as_str(),
            slug: &team.slug,
            is_default: team.is_default,
            max_sandboxes: team.max_sandboxes,
            max_lifetime_hours: team.max_lifetime.map(|lifetime| lifetime.as_secs() / 3600),
            blocked: match &team.standing {
                Standing::Good => None,
                Standing::Blocked(reason) => Some(reason),
                Standing::Banned => Some("banned"),
            },
            created_at: team.created_at,
            api_key: None,
        }
    }
}

impl TeamCommand {
    /// Does it, on the database in `data_dir`.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(&self, data_dir: &Path) -> Result<(), CliError> {
        let path = data_dir.join("skep.db");
        if !path.exists() {
            return Err(CliError::input(
                format!("there is no record in `{}`", data_dir.display()),
                "`skep up` makes one; `--data-dir` names another",
            ));
        }
        let store = Store::open(&path).map_err(CliError::failure)?;
        match self {
            Self::Create {
                slug,
                limits,
                output,
            } => create(&store, slug, *limits, *output).await,
            Self::List { output } => list(&store, *output).await,
            Self::Limits {
                slug,
                limits,
                reset,
                output,
            } => {
                let team = find(&store, slug).await?;
                let (sandboxes, lifetime) = limits.over(&team, *reset);
                let setting = store.teams().set_limits(team.id, sandboxes, lifetime);
                setting.recorded().await.map_err(CliError::failure)?;
                show(&store, slug, *output).await
            }
            Self::Delete { slug, output } => delete(&store, slug, *output).await,
            Self::Block {
                slug,
                reason,
                output,
            } => {
                stand(&store, slug, Standing::Blocked(reason.clone())).await?;
                show(&store, slug, *output).await
            }
            Self::Unblock { slug, output } => {
                stand(&store, slug, Standing::Good).await?;
                show(&store, slug, *output).await
            }
        }
    }
}

async fn create(
    store: &Store,
    slug: &str,
    limits: LimitArgs,
    output: OutputArgs,
) -> Result<(), CliError> {
    check_slug(slug)?;
    let team = Team {
        id: TeamId::random(),
        slug: slug.to_owned(),
        name: slug.to_owned(),
        is_default: false,
        max_sandboxes: limits.max_sandboxes,
        max_lifetime: limits.lifetime(),
        standing: Standing::Good,
        created_at: Timestamp::now(),
    };
    match store.teams().insert(team.clone()).recorded().await {
        Ok(()) => {}
        Err(StoreError::Taken { .. }) => {
            let message = format!("there is a team `{slug}` already");
            return Err(CliError::input(message, "`skep team list` shows all"));
        }
        Err(error) => return Err(CliError::failure(error)),
    }
    let key = ApiKey::random();
    let record = key.record(team.id.clone(), "first key");
    let inserting = store.keys().insert(record);
    inserting.recorded().await.map_err(CliError::failure)?;
    if output.json {
        print_json(&Shown {
            api_key: Some(key.reveal()),
            ..Shown::of(&team)
        })?;
    } else {
        print_note("its key; keep it: it is not shown again");
        print_line(key.reveal())?;
    }
    Ok(())
}

/// A short name becomes part of template names, so it has their letters.
fn check_slug(slug: &str) -> Result<(), CliError> {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=40).contains(&slug.len()) && slug.bytes().all(letter) && !slug.starts_with('-') {
        return Ok(());
    }
    Err(CliError::input(
        format!("`{slug}` is not a short name"),
        "use up to 40 lower-case letters, digits and dashes",
    ))
}

async fn list(store: &Store, output: OutputArgs) -> Result<(), CliError> {
    let teams = store.teams().list().await.map_err(CliError::failure)?;
    let shown: Vec<_> = teams.iter().map(Shown::of).collect();
    if output.json {
        return print_json(&shown);
    }
    let usual = || "as configured".to_owned();
    let row = |team: &Shown<'_>| {
        vec![
            team.slug.to_owned(),
            team.team_id.to_owned(),
            team.max_sandboxes
                .map_or_else(usual, |count| count.to_string()),
            team.max_lifetime_hours
                .map_or_else(usual, |hours| format!("{hours} h")),
            team.blocked.unwrap_or("-").to_owned(),
        ]
    };
    let header = ["team", "id", "sandboxes", "lifetime", "blocked"];
    print_table(&header, shown.iter().map(row).collect())
}

/// Shows a team as it is now.
async fn show(store: &Store, slug: &str, output: OutputArgs) -> Result<(), CliError> {
    let team = find(store, slug).await?;
    if output.json {
        return print_json(&Shown::of(&team));
    }
    print_note(&format!("changed team {slug}"));
    Ok(())
}

async fn delete(store: &Store, slug: &str, output: OutputArgs) -> Result<(), CliError> {
    let team = find(store, slug).await?;
    let deleting = store.teams().delete(team.id, Timestamp::now());
    if !deleting.recorded().await.map_err(CliError::failure)? {
        return Err(CliError::input(
            format!("team `{slug}` is the default, or has had sandboxes, which the database keeps"),
            format!("`skep team block {slug} REASON` keeps it from starting more"),
        ));
    }
    if output.json {
        return print_json(&serde_json::json!({ "slug": slug, "deleted": true }));
    }
    print_note(&format!("removed team {slug} and revoked its keys"));
    Ok(())
}

async fn stand(store: &Store, slug: &str, standing: Standing) -> Result<(), CliError> {
    let team = find(store, slug).await?;
    let standing = store.teams().set_standing(team.id, standing);
    standing.recorded().await.map_err(CliError::failure)
}

async fn find(store: &Store, slug: &str) -> Result<Team, CliError> {
    let teams = store.teams().list().await.map_err(CliError::failure)?;
    let found = teams.into_iter().find(|team| team.slug == slug);
    found.ok_or_else(|| {
        let message = format!("there is no team `{slug}`");
        CliError::input(message, "`skep team list` shows all")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_not_given_stays_unless_it_is_reset() {
        let day = Duration::from_hours(24);
        let team = Team {
            id: TeamId::random(),
            slug: "guests".to_owned(),
            name: "guests".to_owned(),
            is_default: false,
            max_sandboxes: Some(3),
            max_lifetime: Some(day),
            standing: Standing::Good,
            created_at: Timestamp::UNIX_EPOCH,
        };
        let given = LimitArgs {
            max_sandboxes: Some(7),
            max_lifetime_hours: None,
        };
        assert_eq!(given.over(&team, false), (Some(7), Some(day)));
        assert_eq!(given.over(&team, true), (Some(7), None));
    }
}
