//! Base of a build.

use skep_image::ContentKey;
use skep_telemetry::Chain;
use skep_types::{
    BuildBase, BuildFailure, BuildOrder, BuildPhase, BuildStep, Instruction, RegistryCredentials,
    TemplateImage,
};

use crate::build::{Build, OpenSandboxes, StepFailure};
use crate::context::Context;
use crate::engine::Inner;
use crate::expand::expand;
use crate::log::Log;
use crate::steps;

/// Prepares what the steps of an order begin with.
pub(crate) async fn begin<'a>(
    engine: &'a Inner,
    order: &'a BuildOrder,
    log: &'a Log,
    open: &'a OpenSandboxes,
) -> Result<Build<'a>, BuildFailure> {
    let build = Build {
        engine,
        order,
        log,
        open,
        layers: Vec::new(),
        state: ContentKey::of("build-nothing-1", []),
        scope: ContentKey::of("build-nothing-1", []),
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
    build.scope = build.state;
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
    let expanded = expanded(reference, &build.order.steps)?;
    let reference = expanded.as_str();
    let images = &build.engine.images;
    let news = |line: String| log.info(format!("[base] {line}"));
    let pulled = images
        .pull(reference, credentials, build.order.force, &news)
        .await
        .map_err(|error| {
            tracing::info!(error = %Chain(&error), "an image was not fetched");
            StepFailure::caller(error.message)
        })?;
    build.layers = pulled.layers;
    let variables = pulled
        .environment
        .into_iter()
        .filter(|(_, value)| !value.trim().is_empty());
    // What the image says counts more than what the host does.
    let host = build.engine.host_settings.environment.iter().cloned();
    build.context.environment = host.chain(variables).collect();
    build.state = steps::base_key(build.order, &build.layers, &build.context);
    build.scope = build.state;
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

/// A reference with its variables. Clients read Dockerfiles themselves, and of `ARG V=13` before
/// `FROM debian:${V}` they make a step that sets `V`.
fn expanded(reference: &str, steps: &[BuildStep]) -> Result<String, StepFailure> {
    if !reference.contains('$') {
        return Ok(reference.to_owned());
    }
    let mut variables = std::collections::BTreeMap::new();
    for step in steps {
        if let Instruction::Environment(pairs) = &step.instruction {
            for (name, value) in pairs {
                // The first one: what comes later was not known at `FROM`.
                variables
                    .entry(name.clone())
                    .or_insert_with(|| value.clone());
            }
        }
    }
    let unset = |name: &str| !variables.contains_key(name);
    if let Some(name) = names(reference).find(|name| unset(name)) {
        return Err(StepFailure::caller(format!(
            "image '{reference}' has a variable '{name}', which nothing sets; write the image itself"
        )));
    }
    expand(reference, &variables)
        .map_err(|error| StepFailure::caller(format!("image '{reference}': {error}")))
}

/// Names of the variables in a reference that have no default beside them.
fn names(reference: &str) -> impl Iterator<Item = &str> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    reference.split('$').skip(1).filter_map(move |rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|character| !is_part(character));
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let has_default = after.starts_with(":-") || after.starts_with('-');
        (!name.is_empty() && !has_default).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reference: &str, expected: &str) {
        let pairs = [("V", "13"), ("V", "14"), ("NAME", "debian")];
        let steps = pairs.map(|(name, value)| BuildStep {
            instruction: Instruction::Environment(vec![(name.to_owned(), value.to_owned())]),
            force: false,
        });
        let text = match expanded(reference, &steps) {
            Ok(text) | Err(StepFailure::Caller(text)) => text,
            Err(StepFailure::Platform(error)) => panic!("{error}"),
        };
        assert_eq!(text, expected);
    }

    #[test]
    fn variables_of_a_dockerfile_are_in_its_image() {
        check("debian:13", "debian:13");
        check("debian:${V}", "debian:13");
        check("$NAME:$V-slim", "debian:13-slim");
        check("debian:${W:-12}", "debian:12");
        check(
            "debian:${W}",
            "image 'debian:${W}' has a variable 'W', which nothing sets; write the image itself",
        );
        check(
            "debian:${V",
            "image 'debian:${V': 'debian:${V' has a variable without an end",
        );
    }
}
