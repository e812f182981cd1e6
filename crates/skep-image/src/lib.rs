//! Templates: recipes, layers, the content store.
//!
//! A [`Recipe`] is data. A [`Builder`] turns it into read-only layers, one for each step that
//! leaves files behind, each kept under a key made of everything that went into it. A
//! [`Catalog`] finds the finished templates. Everything here blocks; call it where blocking is
//! allowed.

mod bootstrap;
mod build;
mod cancel;
mod catalog;
mod child;
pub mod fake;
mod image_cache;
mod key;
mod layer_draft;
mod layer_files;
mod package_layer;
mod progress;
mod recipe;
mod runner;
mod step;
mod step_record;
mod store;

pub use bootstrap::Mmdebstrap;
pub use build::{BuildError, Builder};
pub use cancel::Cancel;
pub use catalog::{Catalog, CatalogError, Listed};
pub use image_cache::{CatalogVersion, ImageCache};
pub use key::ContentKey;
pub use layer_draft::{LayerDraft, LayerStart};
pub use progress::{BuildEvent, Progress, Silent};
pub use recipe::{Action, DebianOrigin, Origin, Recipe, RecipeError, RecipeSource, Step, builtin};
pub use runner::LaunchRunner;
pub use step::{Bootstrap, StepError, StepLaunch, StepRunner, Surroundings};
pub use step_record::{StepContext, StepRecord};
pub use store::{Collected, LayerRecord, StoreError};
