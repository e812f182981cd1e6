//! What a build begins with.

use skep_image::ContentKey;
use skep_telemetry::Chain;
use skep_types::{
    BuildBase, BuildFailure, BuildOrder, BuildPhase, RegistryCredentials, TemplateImage,
};

use crate::build::{Build, Place, StepFailure};
use crate::context::Context;
use crate::engine::Inner;
use crate::log::Log;
use crate::steps;

/// Prepares what the steps of an order begin with.
pub(crate) async fn begin<'a>(
    engine: &'a Inner,
    order: &'a BuildOrder,
    log: &'a Log,
    place: &'a Place,
) -> Result<Build<'a>, BuildFailure> {
    let build = Build {
        engine,
        order,
        log,
        place,
        layers: Vec::new(),
        state: ContentKey::of("build-nothing-1", []),
        context: Context {
            user: "root".to_owned(),
            work_directory: None,
            environment: Default::default(),
        },
        bytes: 0,
        is_forced: order.force,
    };
    match &order.base {
        BuildBase::Template {
            reference,
            image,
            context,
        } => Ok(from_template(build, reference, image, context)),
        BuildBase::Image {
            reference,
            credentials,
        } => {
            let built = from_image(build, reference, credentials.as_ref()).await;
            built.map_err(|failure| failure.in_phase(BuildPhase::Base))
        }
    }
}

fn from_template<'a>(
    mut build: Build<'a>,
    reference: &str,
    image: &TemplateImage,
    context: &Context,
) -> Build<'a> {
    build.layers.clone_from(&image.layers);
    let mut environment = image
        .env
        .iter()
        .cloned()
        .collect::<std::collections::BTreeMap<_, _>>();
    environment.extend(context.environment.clone());
    build.context = Context {
        user: if context.user.is_empty() {
            &image.user
        } else {
            &context.user
        }
        .clone(),
        work_directory: context
            .work_directory
            .clone()
            .or_else(|| image.workdir.clone()),
        environment,
    };
    build.state = steps::base_key(build.order, &build.layers, &build.context);
    let key = build.state.short();
    let log = build.log.of(BuildPhase::Base);
    log.info(format!("CACHED [base] FROM TEMPLATE {reference} [{key}]"));
    build
}

async fn from_image<'a>(
    mut build: Build<'a>,
    reference: &str,
    credentials: Option<&RegistryCredentials>,
) -> Result<Build<'a>, StepFailure> {
    let log = build.log.of(BuildPhase::Base);
    if reference.contains('$') {
        return Err(StepFailure::caller(format!(
            "image '{reference}' has a variable, which is not expanded; write the image itself"
        )));
    }
    let images = &build.engine.images;
    let pulled = images.pull(reference, credentials, build.order.force).await;
    let pulled = pulled.map_err(|error| {
        tracing::info!(error = %Chain(&error), "an image was not fetched");
        StepFailure::caller(error.message)
    })?;
    build.layers = pulled.layers;
    let variables = pulled.environment.into_iter();
    build.context.environment = variables
        .filter(|(_, value)| !value.trim().is_empty())
        .collect();
    build.state = steps::base_key(build.order, &build.layers, &build.context);
    let named = if reference.contains('@') {
        reference.to_owned()
    } else {
        format!("{reference}@{}", pulled.digest)
    };
    log.info(format!("[base] FROM {named} [{}]", build.state.short()));
    log.debug(format!("Layers of the image: {}", build.layers.len()));
    build.provision(&log).await?;
    Ok(build)
}
