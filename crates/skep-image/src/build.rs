//! Building a template: from a recipe to an image, step by step, each once.

mod context;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use skep_types::TemplateImage;

use crate::cancel::Cancel;
use crate::catalog::{Catalog, CatalogError, Manifest};
use crate::key::ContentKey;
use crate::progress::{BuildEvent, PackageMeter, Progress};
use crate::recipe::{Origin, Recipe, RecipeError, RecipeSource};
use crate::step::{Bootstrap, StepError, StepRunner, Surroundings};
use crate::store::{Draft, Lock, LockOutcome, StoreError};
use context::Context;
use skep_packages::PackageSettings;

/// Polling interval of a build that waits for another one.
const GLANCE: Duration = Duration::from_millis(200);

/// Builds templates out of recipes, layer by layer.
#[derive(Clone, Copy)]
pub struct Builder<'a> {
    /// Store of layers and templates.
    pub catalog: &'a Catalog,
    /// Makes first layers.
    pub bootstrap: &'a dyn Bootstrap,
    /// Runs the steps of recipes.
    pub runner: &'a dyn StepRunner,
    /// The host's settings for package registries.
    pub host: &'a PackageSettings,
    /// Asked to stop from another thread.
    pub cancel: &'a Cancel,
}

/// Failure to build a template. Whatever was finished is kept and found by the next build.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no recipe of this name, and no template either.
    #[error("there is no recipe for template `{0}`")]
    UnknownTemplate(String),
    /// Recipes are based on each other in a circle.
    #[error("template `{0}` is based on itself")]
    Circle(String),
    /// A recipe cannot be read.
    #[error("the recipe of template `{template}` is wrong")]
    Recipe {
        /// Name of the template.
        template: String,
        /// The error in the recipe.
        source: RecipeError,
    },
    /// A step failed.
    #[error(
        "template `{template}` failed at step {step} ({title}); its output is in `{}`",
        log.display()
    )]
    Step {
        /// Name of the template.
        template: String,
        /// Number of the step, from 1.
        step: usize,
        /// Title of the step.
        title: String,
        /// File with its output.
        log: PathBuf,
        /// The failure of the step.
        source: StepError,
    },
    /// Layers or templates could not be read or written.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

impl BuildError {
    /// Returns true if somebody stopped the build, so that nothing is wrong with it.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Step {
                source: StepError::Cancelled,
                ..
            }
        )
    }

    /// Remedy for the user, if there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Recipe { source, .. } => source.hint(),
            Self::Step { source, .. } => match source {
                StepError::ProgramMissing { hint, .. } => Some(hint),
                StepError::Cancelled => Some("build again to go on with this step"),
                StepError::TooLate | StepError::Failed(_) | StepError::System { .. } => None,
            },
            Self::UnknownTemplate(_) | Self::Circle(_) | Self::Catalog(_) => None,
        }
    }
}

impl From<StoreError> for BuildError {
    fn from(error: StoreError) -> Self {
        Self::Catalog(error.into())
    }
}

impl std::fmt::Debug for Builder<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Builder")
            .field("catalog", &self.catalog)
            .finish_non_exhaustive()
    }
}

impl Builder<'_> {
    /// Builds a template and those it is based on, as far as that has not been done before.
    ///
    /// Blocks for minutes. The build can be stopped with [`Builder::cancel`] or by the death of
    /// the process; building again then goes on with the step that was not finished.
    ///
    /// # Errors
    ///
    /// [`BuildError`]; layers that were finished are kept, the template's name points to what
    /// it did before.
    pub fn build(
        &self,
        recipes: &BTreeMap<String, RecipeSource>,
        name: &str,
        progress: &mut dyn Progress,
    ) -> Result<TemplateImage, BuildError> {
        self.catalog.store().sweep()?;
        let manifest = self.build_chain(recipes, name, &mut Vec::new(), progress)?;
        Ok(self.catalog.image(&manifest)?)
    }

    /// Builds what `name` is based on, then `name`. `path` holds the names on the way here.
    fn build_chain(
        &self,
        recipes: &BTreeMap<String, RecipeSource>,
        name: &str,
        path: &mut Vec<String>,
        progress: &mut dyn Progress,
    ) -> Result<Manifest, BuildError> {
        if path.iter().any(|earlier| earlier == name) {
            return Err(BuildError::Circle(name.to_owned()));
        }
        let Some(source) = recipes.get(name) else {
            let built = self.catalog.manifest(name)?;
            return built.ok_or_else(|| BuildError::UnknownTemplate(name.to_owned()));
        };
        let recipe = Recipe::parse(source).map_err(|source| BuildError::Recipe {
            template: name.to_owned(),
            source,
        })?;
        path.push(name.to_owned());
        let parent = match &recipe.origin {
            Origin::Debian(_) => None,
            Origin::Template(parent) => Some(self.build_chain(recipes, parent, path, progress)?),
        };
        let manifest = self.build_recipe(&recipe, parent, progress)?;
        let image = self.catalog.publish(&manifest)?;
        progress.event(BuildEvent::Ready {
            template: name,
            id: &image.id,
        });
        Ok(manifest)
    }

    fn build_recipe(
        &self,
        recipe: &Recipe,
        parent: Option<Manifest>,
        progress: &mut dyn Progress,
    ) -> Result<Manifest, BuildError> {
        let steps_with_layers = recipe.steps.iter().filter(|step| step.action.has_layer());
        let first = usize::from(parent.is_none());
        progress.event(BuildEvent::Planned {
            template: &recipe.name,
            steps: first + steps_with_layers.count(),
        });
        let mut context = Context::new(parent);
        let mut number = 0;
        if let Origin::Debian(origin) = &recipe.origin {
            number += 1;
            let title = format!("bootstrap Debian {}", origin.suite);
            let key = context.debian_key(origin, self.bootstrap.version());
            let job = Job {
                template: &recipe.name,
                number,
                title: &title,
                key,
            };
            self.layer(&job, progress, |draft, surroundings| {
                let (root, scratch) = (draft.root(), draft.scratch());
                self.bootstrap
                    .bootstrap(origin, self.host, &root, &scratch, surroundings)
            })?;
            context.add_layer(key);
        }
        for step in &recipe.steps {
            let key = context.step_key(&step.action);
            if !step.action.has_layer() {
                context.settle(&step.action, key);
                continue;
            }
            number += 1;
            let job = Job {
                template: &recipe.name,
                number,
                title: &step.title,
                key,
            };
            self.layer(&job, progress, |draft, surroundings| {
                let store = self.catalog.store();
                let launch = context.launch(&step.action, store, draft, self.host)?;
                self.runner.run(&launch, surroundings)
            })?;
            context.add_layer(key);
        }
        Ok(context.finish(recipe))
    }

    /// Makes one layer with `work`, or finds that it has been made.
    fn layer(
        &self,
        job: &Job<'_>,
        progress: &mut dyn Progress,
        work: impl FnOnce(&Draft, Surroundings<'_>) -> Result<(), StepError>,
    ) -> Result<(), BuildError> {
        let store = self.catalog.store();
        let fail = |source| job.failed(store.log_path(&job.key), source);
        let Some(_lock) = self.wait_for_layer(job, progress)? else {
            progress.event(BuildEvent::Cached {
                step: job.number,
                title: job.title,
            });
            return Ok(());
        };
        if self.cancel.is_cancelled() {
            return Err(fail(StepError::Cancelled));
        }
        progress.event(BuildEvent::Started {
            step: job.number,
            title: job.title,
        });
        let start = Instant::now();
        let draft = store.draft(&job.key)?;
        let log_path = store.log_path(&job.key);
        let mut log = Log::create(&log_path)?;
        let mut meter = PackageMeter::default();
        let mut output = |line: &str| {
            log.line(line);
            progress.event(BuildEvent::Output { line });
            if let Some(fraction) = meter.line(line) {
                progress.event(BuildEvent::Advanced { fraction });
            }
        };
        let surroundings = Surroundings {
            cancel: self.cancel,
            output: &mut output,
        };
        work(&draft, surroundings).map_err(fail)?;
        let record = store.commit(draft, job.title)?;
        progress.event(BuildEvent::Finished {
            step: job.number,
            elapsed: start.elapsed(),
            bytes: record.bytes,
        });
        Ok(())
    }

    /// Takes the right to make a layer; `None` if it is there already, perhaps because another
    /// process made it while this one waited.
    fn wait_for_layer(
        &self,
        job: &Job<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Option<Lock>, BuildError> {
        let store = self.catalog.store();
        let mut told = false;
        loop {
            if store.layer(&job.key)?.is_some() {
                return Ok(None);
            }
            if let LockOutcome::Held(lock) = store.try_lock(&job.key)? {
                // It may have been finished between the look and the lock.
                let finished = store.layer(&job.key)?.is_some();
                return Ok((!finished).then_some(lock));
            }
            if !told {
                told = true;
                progress.event(BuildEvent::Waiting {
                    step: job.number,
                    title: job.title,
                });
            }
            if self.cancel.wait(GLANCE) {
                return Err(job.failed(store.log_path(&job.key), StepError::Cancelled));
            }
        }
    }
}

/// A layer that is to be made.
struct Job<'a> {
    template: &'a str,
    number: usize,
    title: &'a str,
    key: ContentKey,
}

impl Job<'_> {
    fn failed(&self, log: PathBuf, source: StepError) -> BuildError {
        BuildError::Step {
            template: self.template.to_owned(),
            step: self.number,
            title: self.title.to_owned(),
            log,
            source,
        }
    }
}

/// The output of a step, kept for whoever wants to know why it failed.
struct Log(Option<File>);

impl Log {
    fn create(path: &Path) -> Result<Self, StoreError> {
        let file = File::create(path).map_err(StoreError::files("create", path))?;
        Ok(Self(Some(file)))
    }

    fn line(&mut self, line: &str) {
        let Some(file) = &mut self.0 else { return };
        if let Err(error) = writeln!(file, "{line}") {
            // A full disk fails the step itself; the log only goes without its end.
            tracing::warn!(%error, "build log cannot be written, output of the step is dropped");
            self.0 = None;
        }
    }
}
