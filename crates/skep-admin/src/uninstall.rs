//! `skep uninstall`: takes an installation off this host, and says what goes before it goes.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use skep_cli::{CliError, print_json, print_note, print_table};
use skep_config::{Config, DEFAULT_PATH};
use skep_install::{Action, Installation, Plan};

use crate::{install_error, root};

/// Arguments of `uninstall`.
#[derive(Debug, Clone, Args)]
pub struct UninstallArgs {
    /// Show what would be removed, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,

    /// Stop the server first, if it runs
    #[arg(long)]
    stop: bool,

    /// Keep the database, keys, logs and templates
    #[arg(long)]
    keep_data: bool,

    /// Directory of template layers [default: /var/cache/skep]
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl UninstallArgs {
    /// Shows what there is, asks, and removes it.
    ///
    /// # Errors
    ///
    /// With exit code 1 if there is something to decide first: a server runs, nobody said yes, the
    /// directory is no installation. With 2 if something could not be removed; it can be run again.
    pub async fn run(&self, config: &Config) -> Result<(), CliError> {
        root::require("uninstall")?;
        let installation = Installation {
            data_dir: config.data_dir.clone(),
            cache_dir: config.cache_dir.clone(),
            is_usual: config.data_dir == Config::default().data_dir,
            configuration: DEFAULT_PATH.into(),
            keep_data: self.keep_data,
        };
        let mut plan = Plan::make(&installation).map_err(install_error)?;
        if let Some(running) = plan.server.filter(|_| !self.dry_run) {
            if !self.stop {
                let runs = skep_install::still_runs(&config.data_dir, running);
                return Err(install_error(runs));
            }
            skep_install::stop(running).await.map_err(install_error)?;
            plan = Plan::make(&installation).map_err(install_error)?;
        }
        show(&plan, self)?;
        if self.dry_run || !plan.has_work() {
            return Ok(());
        }
        if !self.yes {
            ask(&plan)?;
        }
        let outcome = skep_install::uninstall(&installation, &plan).await;
        if outcome.is_ok() && self.keep_data {
            let path = plan.data_dir.display();
            print_note(&format!("kept `{path}`, with its keys and its database"));
        }
        if outcome.is_ok() && !self.json {
            let kept = plan.rows.iter().filter(|row| row.action == Action::Keep);
            print_note(&match kept.count() {
                0 => "done: nothing is left".to_owned(),
                kept => format!("done: nothing is left but what is kept ({kept})"),
            });
        }
        outcome.map_err(install_error)
    }
}

fn show(plan: &Plan, args: &UninstallArgs) -> Result<(), CliError> {
    if args.json {
        return print_json(&plan.as_json());
    }
    if !plan.rows.is_empty() {
        let rows = plan.rows.iter().map(|row| {
            let action = row.action.word().to_owned();
            vec![
                action,
                row.kind.to_owned(),
                row.name.clone(),
                row.detail.clone(),
            ]
        });
        print_table(&["action", "what", "name", "detail"], rows.collect())?;
    }
    if !plan.has_work() {
        let path = plan.data_dir.display();
        print_note(&format!("nothing of `{path}` is on this host"));
    } else if args.dry_run {
        print_note(match plan.server {
            Some(_) => {
                "nothing was changed; a server runs, which `skep uninstall --stop` stops first"
            }
            None => "nothing was changed; `skep uninstall` removes this",
        });
    }
    Ok(())
}

/// Asks whoever sits at the terminal.
fn ask(plan: &Plan) -> Result<(), CliError> {
    let refused = |message: &str| {
        CliError::input(
            message,
            "`--yes` answers for you; `--dry-run` only shows what would go",
        )
    };
    if !io::stdin().is_terminal() {
        return Err(refused("nobody is there to ask"));
    }
    let mut terminal = io::stderr();
    write!(terminal, "{} Remove this? [y/N] ", plan.summary())
        .and_then(|()| terminal.flush())
        .map_err(CliError::failure)?;
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(CliError::failure)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(refused("nothing was removed")),
    }
}
