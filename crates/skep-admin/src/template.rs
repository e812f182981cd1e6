//! Building and listing templates.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use skep_cli::{CliError, OutputArgs, Suggested, TEMPLATES, print_json, print_note, print_table};
use skep_image::{BuildError, Builder, Cancel, Catalog, LaunchRunner, Listed, Mmdebstrap, builtin};
use skep_launch::Launcher;
use skep_packages::PackageSettings;
use skep_types::TemplateImage;

use crate::progress;

/// Commands for templates.
#[derive(Debug, Subcommand)]
pub enum TemplateCommand {
    /// Build a built-in template, reusing cached layers
    #[command(after_help = "\
Examples:
  sudo skep template build code-interpreter-languages")]
    Build {
        /// Name of the template
        #[arg(value_parser = Suggested(TEMPLATES))]
        name: String,
        /// Directory of template layers [default: /var/cache/skep]
        #[arg(long, value_name = "DIR")]
        cache_dir: Option<PathBuf>,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List templates
    #[command(after_help = "\
Examples:
  skep template list")]
    List {
        /// Directory of template layers [default: /var/cache/skep]
        #[arg(long, value_name = "DIR")]
        cache_dir: Option<PathBuf>,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Builds a built-in template, or finds that it is built. Blocks.
///
/// # Errors
///
/// With the hint of the step that failed.
pub fn build(
    catalog: &Catalog,
    host: &PackageSettings,
    launcher: &Launcher,
    name: &str,
    cancel: &Cancel,
) -> Result<TemplateImage, CliError> {
    let bootstrap = Mmdebstrap;
    let runner = LaunchRunner::new(launcher.clone());
    let builder = Builder {
        catalog,
        bootstrap: &bootstrap,
        runner: &runner,
        host,
        cancel,
    };
    let recipes = builtin();
    builder
        .build(&recipes, name, progress::renderer().as_mut())
        .map_err(|error| {
            let hint = match &error {
                BuildError::UnknownTemplate(_) => {
                    let names: Vec<_> = recipes.keys().map(String::as_str).collect();
                    Some(format!("the built-in templates are: {}", names.join(", ")))
                }
                BuildError::Circle(_)
                | BuildError::Recipe { .. }
                | BuildError::Step { .. }
                | BuildError::Catalog(_) => error.hint().map(str::to_owned),
            };
            let failure = CliError::failure(error);
            hint.into_iter().fold(failure, CliError::hint)
        })
}

/// Says that a template is built, which took so long.
///
/// # Errors
///
/// If nobody reads it.
pub fn tell_built(image: &TemplateImage, took: Duration, json: bool) -> Result<(), CliError> {
    if json {
        return print_json(&serde_json::json!({
            "templateID": image.id.as_str(),
            "name": image.name,
            "layers": image.layers.len(),
            "seconds": took.as_secs_f64(),
        }));
    }
    let (name, seconds) = (&image.name, took.as_secs());
    print_note(&match seconds {
        0 => format!("`{name}` is built already"),
        seconds => format!("built `{name}` in {seconds} s"),
    });
    Ok(())
}

/// Prints the templates that are built.
///
/// # Errors
///
/// If the catalog cannot be read.
pub fn list(cache_dir: &Path, json: bool) -> Result<(), CliError> {
    let templates = listed(cache_dir)?;
    if json {
        let rows: Vec<_> = templates
            .iter()
            .map(|template| {
                serde_json::json!({
                    "templateID": template.image.id.as_str(),
                    "name": template.image.name,
                    "names": template.names,
                    "layers": template.image.layers.len(),
                    "bytes": bytes(template),
                })
            })
            .collect();
        print_json(&rows)?;
    } else if templates.is_empty() {
        print_note("no templates yet; `skep template build base` builds the first");
    } else {
        let rows = templates.iter().map(|template| {
            vec![
                template.names.join(", "),
                template.image.id.to_string(),
                template.image.layers.len().to_string(),
                format!("{} MiB", bytes(template).div_ceil(1024 * 1024)),
            ]
        });
        print_table(&["name", "id", "layers", "size"], rows.collect())?;
    }
    Ok(())
}

fn listed(cache_dir: &Path) -> Result<Vec<Listed>, CliError> {
    Catalog::open(cache_dir)
        .and_then(|catalog| catalog.list())
        .map_err(CliError::failure)
}

fn bytes(template: &Listed) -> u64 {
    template.layers.iter().map(|layer| layer.bytes).sum()
}
