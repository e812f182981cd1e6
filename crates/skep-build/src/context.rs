//! State that one step leaves to the next, as commands see it.

use std::collections::BTreeMap;
use std::time::Duration;

use skep_image::StepContext;
use skep_types::BuildContext;

use crate::sandboxes::Command;

/// Environment, user and directory of the steps.
pub(crate) type Context = BuildContext;

/// Directories in which every command is looked for.
pub(crate) const STANDARD_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A command of a build in a login shell, as the SDKs expect it.
pub(crate) fn shell(
    context: &Context,
    user: Option<&str>,
    command: &str,
    timeout: Duration,
) -> Command {
    Command {
        arguments: ["/bin/bash", "-l", "-c", command]
            .map(str::to_owned)
            .to_vec(),
        user: user.unwrap_or(&context.user).to_owned(),
        directory: context.work_directory.clone(),
        environment: environment(context),
        timeout,
    }
}

/// Variables of a command.
fn environment(context: &Context) -> BTreeMap<String, String> {
    let mut environment = context.environment.clone();
    let path = path(context);
    environment.extend(path.map(|path| ("PATH".to_owned(), path)));
    environment
}

/// The path of a context, if it has one. It lacks none of the standard directories.
pub(crate) fn path(context: &Context) -> Option<String> {
    let own = context.environment.get("PATH")?;
    let mut path = own.clone();
    for standard in STANDARD_PATH.split(':') {
        if !own.split(':').any(|directory| directory == standard) {
            path.push(':');
            path.push_str(standard);
        }
    }
    Some(path)
}

/// Variables that values are expanded with: those of the context, and what a login shell has.
pub(crate) fn known_variables(context: &Context) -> BTreeMap<String, String> {
    let mut known = context.environment.clone();
    known
        .entry("PATH".to_owned())
        .or_insert_with(|| STANDARD_PATH.to_owned());
    known.entry("HOME".to_owned()).or_insert_with(|| {
        if context.user == "root" {
            "/root".to_owned()
        } else {
            format!("/home/{}", context.user)
        }
    });
    known
}

pub(crate) fn to_record(context: &Context) -> StepContext {
    StepContext {
        user: context.user.clone(),
        work_directory: context.work_directory.clone(),
        environment: context.environment.clone(),
    }
}

pub(crate) fn from_record(record: StepContext) -> Context {
    Context {
        user: record.user,
        work_directory: record.work_directory,
        environment: record.environment,
    }
}
