//! A catalog in a temporary directory, with fakes to build in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use skep_image::fake::{FakeBootstrap, FakeRunner};
use skep_image::{
    BuildError, BuildEvent, Builder, Cancel, Catalog, Progress, RecipeSource, StepLaunch,
};
use skep_packages::PackageSettings;
use skep_types::TemplateImage;

/// Everything a build needs.
pub(crate) struct Workshop {
    pub(crate) catalog: Catalog,
    pub(crate) bootstrap: FakeBootstrap,
    pub(crate) runner: FakeRunner,
    pub(crate) host: PackageSettings,
    pub(crate) cancel: Cancel,
    dir: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

/// The events of a build, one line each.
#[derive(Debug, Default)]
pub(crate) struct Told(pub(crate) Vec<String>);

impl Progress for Told {
    fn event(&mut self, event: BuildEvent<'_>) {
        self.0.push(match event {
            BuildEvent::Planned { template, steps } => format!("planned {template} {steps}"),
            BuildEvent::Started { step, .. } => format!("started {step}"),
            BuildEvent::Cached { step, .. } => format!("cached {step}"),
            BuildEvent::Waiting { step, .. } => format!("waiting {step}"),
            BuildEvent::Output { line } => format!("output {line}"),
            BuildEvent::Advanced { fraction } => format!("advanced {fraction}"),
            BuildEvent::Finished { step, .. } => format!("finished {step}"),
            BuildEvent::Ready { template, .. } => format!("ready {template}"),
        });
    }
}

impl Workshop {
    /// One of its own. Steps write a file called `done`.
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut workshop = Self::in_dir(temporary.path().to_owned());
        workshop._temporary = Some(temporary);
        workshop
    }

    /// Another one that shares the directory of this one, as another process would.
    pub(crate) fn beside(&self) -> Self {
        Self::in_dir(self.dir.clone())
    }

    /// One in a directory that stays.
    pub(crate) fn in_dir(dir: PathBuf) -> Self {
        Self {
            catalog: Catalog::open(&dir).unwrap(),
            bootstrap: FakeBootstrap::default(),
            runner: FakeRunner::new(write_done),
            host: PackageSettings::none(),
            cancel: Cancel::default(),
            dir,
            _temporary: None,
        }
    }

    pub(crate) fn build(
        &self,
        recipes: &BTreeMap<String, RecipeSource>,
        name: &str,
    ) -> (Result<TemplateImage, BuildError>, Told) {
        let mut told = Told::default();
        let result = self.build_telling(recipes, name, &mut told);
        (result, told)
    }

    pub(crate) fn build_telling(
        &self,
        recipes: &BTreeMap<String, RecipeSource>,
        name: &str,
        progress: &mut dyn Progress,
    ) -> Result<TemplateImage, BuildError> {
        let builder = Builder {
            catalog: &self.catalog,
            bootstrap: &self.bootstrap,
            runner: &self.runner,
            host: &self.host,
            cancel: &self.cancel,
        };
        builder.build(recipes, name, progress)
    }

    /// A path in the store.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        fs::canonicalize(&self.dir).unwrap().join(below)
    }

    /// The names in one of the store's directories.
    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.dir.join(directory)).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

/// Default behaviour of steps in the fake runner.
pub(crate) fn write_done(launch: &StepLaunch) -> Result<(), skep_image::StepError> {
    fs::write(launch.upper.join("done"), b"x").unwrap();
    Ok(())
}

/// Recipes by name, from their texts.
pub(crate) fn recipes<const N: usize>(texts: [(&str, &str); N]) -> BTreeMap<String, RecipeSource> {
    texts
        .into_iter()
        .map(|(name, text)| {
            let source = RecipeSource {
                text: text.to_owned().into(),
                files: BTreeMap::new(),
            };
            (name.to_owned(), source)
        })
        .collect()
}

/// A recipe with three layers.
pub(crate) const SMALL: &str = r#"
name = "small"
description = "three layers"
[from]
debian = "trixie"
packages = ["jq"]
[[step]]
run = "first"
[[step]]
env = { COLOUR = "blue" }
[[step]]
run = "second"
[[step]]
user = "user"
"#;
