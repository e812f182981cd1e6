//! `skep uninstall`: takes an installation off this host, and says what goes before it goes.

mod folders;
mod plan;
mod server;

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;
use skep_cli::{CliError, ExitKind, print_json, print_note, print_table};
use skep_host::Kind;

use crate::args::UninstallArgs;
use crate::cache_users;
use crate::config::Config;
use crate::dismantle;
use plan::{Action, Plan};

/// Time limit for the kernel to release the last loop device.
const LETTING_GO: Duration = Duration::from_secs(20);
/// Interval between two looks at it meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// Shows what there is, asks, and removes it.
///
/// # Errors
///
/// With exit code 1 if there is something to decide first: a server runs, nobody said yes, the
/// directory is no installation. With 2 if something could not be removed; it can be run again.
pub(crate) async fn run(config: &Config, args: &UninstallArgs) -> Result<(), CliError> {
    if !rustix::process::geteuid().is_root() {
        return Err(CliError::input(
            "an installation is taken off the machine by root",
            "run it with sudo",
        ));
    }
    folders::check_data_dir(&config.data_dir)?;
    let mut plan = Plan::make(config, args)?;
    if let Some(running) = plan.server.filter(|_| !args.dry_run) {
        if !args.stop {
            return Err(server::still_runs(&config.data_dir, running));
        }
        server::stop(running).await?;
        plan = Plan::make(config, args)?;
    }
    show(&plan, args);
    if args.dry_run || !plan.has_work() {
        return Ok(());
    }
    if !args.yes {
        ask(&plan)?;
    }
    let outcome = carry_out(config, args, &plan).await;
    if outcome.is_ok() && !args.json {
        let kept = plan.rows.iter().filter(|row| row.action == Action::Keep);
        print_note(&match kept.count() {
            0 => "done: nothing is left".to_owned(),
            kept => format!("done: nothing is left but what is kept ({kept})"),
        });
    }
    outcome
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
        print_note(&format!("nothing of `{path}` is on this machine"));
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

/// Everything in order, the data last: what is left after a failure is found by the next run.
async fn carry_out(config: &Config, args: &UninstallArgs, plan: &Plan) -> Result<(), CliError> {
    let data_dir = config.data_dir.canonicalize();
    let data_dir = data_dir.unwrap_or_else(|_| config.data_dir.clone());
    if plan.is_on_machine() {
        dismantle::everything(&config.data_dir).await?;
    }
    unmount_below(&config.data_dir, plan)?;
    nothing_is_left(&config.data_dir).await?;
    for row in plan.rows.iter().filter(|row| row.action == Action::Remove) {
        if let Some(path) = &row.path {
            folders::remove(path)?;
        }
    }
    if args.keep_data {
        print_note(&format!(
            "kept `{}`, with its keys and its record",
            plan.data_dir.display()
        ));
        return Ok(());
    }
    cache_users::unregister(&config.cache_dir, &data_dir).map_err(CliError::failure)
}

fn unmount_below(data_dir: &Path, plan: &Plan) -> Result<(), CliError> {
    let found = plan::footprint_of(data_dir)?;
    let mut points: Vec<&str> = found
        .items
        .iter()
        .filter(|item| item.kind == Kind::Mount)
        .map(|item| item.name.as_str())
        .collect();
    points.sort_by_key(|point| std::cmp::Reverse(point.len()));
    for point in points {
        rustix::mount::unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).map_err(
            |error| {
                CliError::failure(io::Error::from(error)).hint(format!(
                    "`{point}` is mounted in `{}`",
                    plan.data_dir.display()
                ))
            },
        )?;
    }
    Ok(())
}

/// Waits until the host has nothing of this installation. The kernel lets go of a loop device
/// a moment after its last mount.
async fn nothing_is_left(data_dir: &Path) -> Result<(), CliError> {
    let deadline = Instant::now() + LETTING_GO;
    loop {
        let left = plan::footprint_of(data_dir)?;
        let left = left.items.iter().filter(|item| item.stays.is_none());
        let left: Vec<String> = left
            .map(|item| format!("{} `{}`", item.kind.name(), item.name))
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(CliError {
                kind: ExitKind::Failure,
                source: format!("this is left: {}", left.join(", ")).into(),
                hints: vec!["the data was not touched; run it again".to_owned()],
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}
