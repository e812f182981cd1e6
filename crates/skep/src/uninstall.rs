//! `skep uninstall`: takes an installation off this host, and says what goes before it goes.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use skep_cli::{CliError, print_json, print_note, print_table};
use skep_install::{Action, Installation, Plan};

use crate::args::UninstallArgs;
use crate::config::{Config, DEFAULT_PATH};
use crate::install_error;

/// Shows what there is, asks, and removes it.
///
/// # Errors
///
/// With exit code 1 if there is something to decide first: a server runs, nobody said yes, the
/// directory is no installation. With 2 if something could not be removed; it can be run again.
pub(crate) async fn run(config: &Config, args: &UninstallArgs) -> Result<(), CliError> {
    if !rustix::process::geteuid().is_root() {
        return Err(CliError::input(
            "an installation is taken off the host by root",
            "run it with sudo",
        ));
    }
    let installation = Installation {
        data_dir: config.data_dir.clone(),
        cache_dir: config.cache_dir.clone(),
        is_usual: config.data_dir == Config::default().data_dir,
        configuration: DEFAULT_PATH.into(),
        keep_data: args.keep_data,
    };
    let mut plan = Plan::make(&installation).map_err(install_error)?;
    if let Some(running) = plan.server.filter(|_| !args.dry_run) {
        if !args.stop {
            let runs = skep_install::still_runs(&config.data_dir, running);
            return Err(install_error(runs));
        }
        skep_install::stop(running).await.map_err(install_error)?;
        plan = Plan::make(&installation).map_err(install_error)?;
    }
    show(&plan, args);
    if args.dry_run || !plan.has_work() {
        return Ok(());
    }
    if !args.yes {
        ask(&plan)?;
    }
    let outcome = skep_install::uninstall(&installation, &plan).await;
    if outcome.is_ok() && args.keep_data {
        let path = plan.data_dir.display();
        print_note(&format!("kept `{path}`, with its keys and its database"));
    }
    if outcome.is_ok() && !args.json {
        let kept = plan.rows.iter().filter(|row| row.action == Action::Keep);
        print_note(&match kept.count() {
            0 => "done: nothing is left".to_owned(),
            kept => format!("done: nothing is left but what is kept ({kept})"),
        });
    }
    outcome.map_err(install_error)
}

fn show(plan: &Plan, args: &UninstallArgs) {
    if args.json {
        print_json(&plan.as_json());
        return;
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
        print_table(&["action", "what", "name", "detail"], rows.collect());
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
