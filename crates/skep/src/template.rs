//! Building and listing templates.

use std::path::Path;

use skep_cli::{CliError, print_json, print_note, print_table};
use skep_image::{BuildError, Builder, Cancel, Catalog, LaunchRunner, Listed, Mmdebstrap, builtin};
use skep_launch::Launcher;
use skep_packages::PackageSettings;
use skep_types::TemplateImage;

use crate::progress;
use crate::up::Example;

/// Name of the template that the code-interpreter SDKs ask for by default.
const INTERPRETER: &str = "code-interpreter-v1";

/// Builds a built-in template, or finds that it is built. Blocks.
///
/// # Errors
///
/// With the hint of the step that failed.
pub(crate) fn build(
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

/// Says which templates answer to names of others, since those have more in them.
///
/// # Errors
///
/// If the catalog cannot be read.
pub(crate) fn say_who_stands_in(cache_dir: &Path) -> Result<(), CliError> {
    for template in listed(cache_dir)? {
        let own = &template.image.name;
        for other in template.names.iter().filter(|name| *name != own) {
            print_note(&format!(
                "`{own}` stands in for `{other}`; `skep template build {other}` builds that"
            ));
        }
    }
    Ok(())
}

/// The example to show for the templates that are built.
///
/// # Errors
///
/// If the catalog cannot be read.
pub(crate) fn example(cache_dir: &Path) -> Result<Example, CliError> {
    let catalog = Catalog::open(cache_dir).map_err(CliError::failure)?;
    let interpreter = catalog.find(INTERPRETER).map_err(CliError::failure)?;
    Ok(interpreter.map_or(Example::Command, |_| Example::Interpreter))
}

/// Prints the templates that are built.
///
/// # Errors
///
/// If the catalog cannot be read.
pub(crate) fn list(cache_dir: &Path, json: bool) -> Result<(), CliError> {
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
        print_json(&rows);
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
        print_table(&["name", "id", "layers", "size"], rows.collect());
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
