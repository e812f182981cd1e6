//! Building and listing templates.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use skep_cli::{
    CliError, DockerfileArgs, OutputArgs, ServerArgs, Suggested, TEMPLATES, TemplateListArgs,
    TemplateServerCommand, print_json, print_note, print_table,
};
use skep_image::{BuildError, Builder, Cancel, Catalog, LaunchRunner, Listed, Mmdebstrap, builtin};
use skep_launch::Launcher;
use skep_packages::PackageSettings;
use skep_types::TemplateImage;

use crate::progress;

/// Template that is built before anything is served. It is based on `base`, and while
/// `code-interpreter-v1` is not built it stands in for that: the SDKs ask for these two when nobody
/// names one.
pub const FIRST_TEMPLATE: &str = "code-interpreter-slim";

const BUILD_EXAMPLES: &str = "\
Examples:
  skep template build . -n app                     the Dockerfile of this directory
  skep template build ./Dockerfile -n app:v2 --tag stable --build-arg VERSION=3
  sudo skep template build code-interpreter-languages";

/// Commands for templates.
#[derive(Debug, Subcommand)]
pub enum TemplateCommand {
    /// Build a template from a Dockerfile, or a built-in one
    ///
    /// A Dockerfile is built by a server, in sandboxes; Ctrl-C cancels the build there. A built-in
    /// template is built on this host, which needs root.
    #[command(after_help = BUILD_EXAMPLES)]
    Build(Box<BuildArgs>),
    /// List templates
    #[command(after_help = "\
Examples:
  skep template list
  sudo skep template list --cache-dir /var/cache/skep    what is built on this host, without a server")]
    List {
        /// Commands that ask a server
        #[command(flatten)]
        list: TemplateListArgs,
        /// List what is built in this directory of this host instead
        #[arg(long, value_name = "DIR")]
        cache_dir: Option<PathBuf>,
    },
    /// Further commands that ask a server
    #[command(flatten)]
    Server(TemplateServerCommand),
}

/// Arguments of `skep template build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The server to ask
    #[command(flatten)]
    pub server: ServerArgs,
    /// Path of a Dockerfile or of its directory; or the name of a built-in template
    #[arg(value_name = "SOURCE", value_parser = Suggested(TEMPLATES))]
    pub what: String,
    /// Options of a build from a Dockerfile
    #[command(flatten)]
    pub dockerfile: DockerfileArgs,
    /// Built-in templates: directory of layers [default: /var/cache/skep]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["name", "tag", "target"])]
    pub cache_dir: Option<PathBuf>,
    /// Output format
    #[command(flatten)]
    pub output: OutputArgs,
}

impl BuildArgs {
    /// Returns true if a built-in template is meant: its name, where no Dockerfile is given a name.
    ///
    /// # Errors
    ///
    /// If it is neither that nor a path.
    pub fn is_built_in(&self) -> Result<bool, CliError> {
        let recipes = builtin();
        if self.dockerfile.name.is_none() && recipes.contains_key(&self.what) {
            return Ok(true);
        }
        if Path::new(&self.what).exists() {
            return Ok(false);
        }
        let names: Vec<_> = recipes.keys().map(String::as_str).collect();
        Err(CliError::input(
            format!(
                "`{}` is no file, no directory and no built-in template",
                self.what
            ),
            format!("the built-in templates are: {}", names.join(", ")),
        ))
    }
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
