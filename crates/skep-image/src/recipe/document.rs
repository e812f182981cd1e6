//! The text of a recipe, checked and turned into a [`Recipe`].

use std::collections::BTreeMap;

use serde::Deserialize;
use skep_types::Resources;

use super::spelling::{is_absolute, is_pattern, is_user, is_variable, is_word, nearest_key};
use super::{Action, DebianOrigin, Origin, Recipe, RecipeSource, Step};

/// Errors in a recipe.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// It is not TOML, or a key is missing, unknown or of the wrong kind. The source shows
    /// the line.
    #[error("the recipe cannot be read")]
    Syntax {
        /// Guess of what the author meant, if there is one.
        hint: Option<String>,
        /// Position and message of the parser.
        source: Box<toml::de::Error>,
    },
    /// The keys are right but what they say is not.
    #[error("{place} {problem}")]
    Meaning {
        /// The part of the recipe.
        place: String,
        /// Description of the problem.
        problem: String,
        /// Text to write instead.
        hint: String,
    },
}

impl RecipeError {
    /// Remedy for the author, if there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Syntax { hint, .. } => hint.as_deref(),
            Self::Meaning { hint, .. } => Some(hint),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    name: String,
    description: String,
    #[serde(default)]
    stands_in_for: Vec<String>,
    from: From,
    #[serde(default)]
    step: Vec<StepDocument>,
    #[serde(default)]
    resources: ResourcesDocument,
    start: Option<String>,
    ready: Option<String>,
    preload: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct From {
    debian: Option<String>,
    #[serde(default)]
    packages: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    keep: Vec<String>,
    template: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepDocument {
    title: Option<String>,
    run: Option<String>,
    #[serde(rename = "as")]
    run_as: Option<String>,
    copy: Option<String>,
    to: Option<String>,
    owner: Option<String>,
    mode: Option<String>,
    env: Option<BTreeMap<String, String>>,
    user: Option<String>,
    workdir: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ResourcesDocument {
    cpus: Option<u32>,
    memory_mib: Option<u32>,
    disk_mib: Option<u32>,
    pids: Option<u32>,
}

fn meaning(place: impl Into<String>, problem: impl Into<String>, hint: &str) -> RecipeError {
    RecipeError::Meaning {
        place: place.into(),
        problem: problem.into(),
        hint: hint.to_owned(),
    }
}

pub(super) fn parse(source: &RecipeSource) -> Result<Recipe, RecipeError> {
    let document: Document = toml::from_str(&source.text).map_err(|error| RecipeError::Syntax {
        hint: nearest_key(error.message()),
        source: Box::new(error),
    })?;
    if document.preload.is_some() {
        return Err(meaning(
            "`preload`",
            "is reserved and has no effect yet",
            "leave it out",
        ));
    }
    let is_blank =
        |command: &Option<String>| command.as_ref().is_some_and(|text| text.trim().is_empty());
    if is_blank(&document.start) || is_blank(&document.ready) {
        return Err(meaning(
            "`start` or `ready`",
            "is empty",
            "write a command, or leave it out",
        ));
    }
    if !is_word(&document.name, b"-_") {
        return Err(meaning(
            "`name`",
            format!("cannot be `{}`", document.name),
            "use a-z, 0-9, `-` and `_`",
        ));
    }
    if let Some(name) = document
        .stands_in_for
        .iter()
        .find(|name| !is_word(name, b"-_"))
    {
        return Err(meaning(
            "`stands_in_for`",
            format!("cannot contain `{name}`"),
            "write names of templates, such as `code-interpreter-v1`",
        ));
    }
    let steps = document
        .step
        .into_iter()
        .enumerate()
        .map(|(index, step)| read_step(index + 1, step, source))
        .collect::<Result<_, _>>()?;
    Ok(Recipe {
        name: document.name,
        description: document.description,
        stands_in_for: document.stands_in_for,
        origin: read_origin(document.from)?,
        steps,
        resources: read_resources(&document.resources)?,
        start: document.start,
        ready: document.ready,
    })
}

fn read_origin(from: From) -> Result<Origin, RecipeError> {
    let only_debian = [
        ("packages", &from.packages),
        ("without", &from.without),
        ("keep", &from.keep),
    ];
    match (from.debian, from.template) {
        (Some(suite), None) => {
            if !is_word(&suite, b"-") {
                return Err(meaning(
                    "`from.debian`",
                    format!("cannot be `{suite}`"),
                    "write the name of a release, such as `trixie`",
                ));
            }
            if let Some(name) = from.packages.iter().find(|name| !is_word(name, b"+-.:")) {
                return Err(meaning(
                    "`from.packages`",
                    format!("cannot contain `{name}`"),
                    "write one package name per entry",
                ));
            }
            let mut patterns = from.without.iter().chain(&from.keep);
            if let Some(pattern) = patterns.find(|pattern| !is_pattern(pattern)) {
                return Err(meaning(
                    "`from.without` or `from.keep`",
                    format!("cannot contain `{}`", pattern.escape_debug()),
                    "write patterns of absolute paths, such as `/usr/share/man/*`",
                ));
            }
            Ok(Origin::Debian(DebianOrigin {
                suite,
                packages: from.packages,
                without: from.without,
                keep: from.keep,
            }))
        }
        (None, Some(template)) => {
            if let Some((key, _)) = only_debian.into_iter().find(|(_, list)| !list.is_empty()) {
                return Err(meaning(
                    format!("`from.{key}`"),
                    "goes with `debian`, not with `template`",
                    "install packages in a `run` step",
                ));
            }
            if !is_word(&template, b"-_") {
                return Err(meaning(
                    "`from.template`",
                    format!("cannot be `{template}`"),
                    "write the name of a template, such as `base`",
                ));
            }
            Ok(Origin::Template(template))
        }
        (Some(_), Some(_)) | (None, None) => Err(meaning(
            "`from`",
            "needs one of `debian` and `template`",
            "write `debian = \"trixie\"` or `template = \"base\"`",
        )),
    }
}

const STEP_KINDS: &str = "`run`, `copy`, `env`, `user` and `workdir`";

fn read_step(
    number: usize,
    step: StepDocument,
    source: &RecipeSource,
) -> Result<Step, RecipeError> {
    let place = format!("step {number}");
    let refuse = |problem: &str, hint: String| Err(meaning(place.clone(), problem, &hint));
    check_companions(&place, &step)?;
    let (title, action) = match (step.run, step.copy, step.env, step.user, step.workdir) {
        (Some(script), None, None, None, None) => read_run(&place, script, step.run_as)?,
        (None, Some(from), None, None, None) => {
            let target = (step.to, step.owner, step.mode);
            read_copy(&place, &from, target, source)?
        }
        (None, None, Some(env), None, None) => read_env(&place, env)?,
        (None, None, None, Some(user), None) => read_user(&place, user)?,
        (None, None, None, None, Some(path)) => read_workdir(&place, path)?,
        (None, None, None, None, None) => {
            return refuse("does nothing", format!("write one of {STEP_KINDS}"));
        }
        _ => {
            let hint =
                format!("write only one of {STEP_KINDS} and make the others steps of their own");
            return refuse("does several things", hint);
        }
    };
    Ok(Step {
        title: step.title.unwrap_or(title),
        action,
    })
}

/// Refuses keys that say something about an action that the step does not have.
fn check_companions(place: &str, step: &StepDocument) -> Result<(), RecipeError> {
    let copy_keys = [
        ("to", &step.to),
        ("owner", &step.owner),
        ("mode", &step.mode),
    ];
    if step.copy.is_none()
        && let Some((key, _)) = copy_keys.into_iter().find(|(_, value)| value.is_some())
    {
        return Err(meaning(
            place,
            format!("has `{key}` without `copy`"),
            "`to`, `owner` and `mode` say how files are copied",
        ));
    }
    if step.run.is_none() && step.run_as.is_some() {
        return Err(meaning(
            place,
            "has `as` without `run`",
            "`as` says who runs a script; `user` changes it for all following steps",
        ));
    }
    Ok(())
}

fn read_run(
    place: &str,
    script: String,
    user: Option<String>,
) -> Result<(String, Action), RecipeError> {
    let title = script.trim().lines().next().unwrap_or_default().to_owned();
    if title.is_empty() {
        return Err(meaning(place, "runs nothing", "write a script"));
    }
    if let Some(user) = user.as_deref().filter(|user| !is_user(user)) {
        return Err(meaning(
            place,
            format!("cannot run as `{user}`"),
            "write the name of a user of the template",
        ));
    }
    Ok((title, Action::Run { script, user }))
}

fn read_copy(
    place: &str,
    from: &str,
    (to, owner, mode): (Option<String>, Option<String>, Option<String>),
    source: &RecipeSource,
) -> Result<(String, Action), RecipeError> {
    let to = to.ok_or_else(|| {
        meaning(
            place,
            format!("copies `{from}` nowhere"),
            "add `to = \"/where/it/goes\"`",
        )
    })?;
    let owner = owner.unwrap_or_else(|| "root:root".to_owned());
    let mode = mode.unwrap_or_else(|| "0644".to_owned());
    check_copy(place, &to, &owner, &mode)?;
    let files = beside(source, from, &to);
    if files.is_empty() {
        return Err(meaning(
            place,
            format!("copies `{from}`, which is not beside the recipe"),
            "write a path relative to the recipe's directory",
        ));
    }
    let title = format!("copy {from} to {to}");
    Ok((title, Action::Copy { files, owner, mode }))
}

fn read_env(place: &str, env: BTreeMap<String, String>) -> Result<(String, Action), RecipeError> {
    if let Some(name) = env.keys().find(|name| !is_variable(name)) {
        return Err(meaning(
            place,
            format!("sets `{name}`, which is not a variable name"),
            "use letters, digits and `_`",
        ));
    }
    let title = "set the environment".to_owned();
    Ok((title, Action::Env(env.into_iter().collect())))
}

fn read_user(place: &str, user: String) -> Result<(String, Action), RecipeError> {
    if !is_user(&user) {
        return Err(meaning(
            place,
            format!("cannot continue as `{user}`"),
            "write the name of a user of the template",
        ));
    }
    Ok((format!("continue as {user}"), Action::User(user)))
}

fn read_workdir(place: &str, path: String) -> Result<(String, Action), RecipeError> {
    if !is_absolute(&path) {
        return Err(meaning(
            place,
            format!("cannot continue in `{path}`"),
            "write an absolute path without `..`",
        ));
    }
    Ok((format!("continue in {path}"), Action::Workdir(path)))
}

fn check_copy(place: &str, to: &str, owner: &str, mode: &str) -> Result<(), RecipeError> {
    if !is_absolute(to) {
        return Err(meaning(
            place,
            format!("copies to `{to}`"),
            "write an absolute path without `..`",
        ));
    }
    let valid_owner = owner
        .split_once(':')
        .is_some_and(|(user, group)| is_user(user) && is_user(group));
    if !valid_owner {
        return Err(meaning(
            place,
            format!("gives files to `{owner}`"),
            "write `user:group`",
        ));
    }
    let valid_mode =
        (3..=4).contains(&mode.len()) && mode.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    if !valid_mode {
        return Err(meaning(
            place,
            format!("gives files the mode `{mode}`"),
            "write octal digits, such as `0644`",
        ));
    }
    Ok(())
}

/// The files that `from` names, a file or a directory, each with the path it gets below `to`.
fn beside(
    source: &RecipeSource,
    from: &str,
    to: &str,
) -> Vec<(String, std::borrow::Cow<'static, [u8]>)> {
    if let Some(content) = source.files.get(from) {
        return vec![(to.to_owned(), content.clone())];
    }
    let directory = format!("{}/", from.trim_end_matches('/'));
    source
        .files
        .iter()
        .filter_map(|(path, content)| {
            let below = path.strip_prefix(&directory)?;
            let target = format!("{}/{below}", to.trim_end_matches('/'));
            Some((target, content.clone()))
        })
        .collect()
}

fn read_resources(document: &ResourcesDocument) -> Result<Resources, RecipeError> {
    let default = Resources::default();
    let checked = |key: &str, value: Option<u32>, default: u32| match value {
        Some(0) => Err(meaning(
            format!("`resources.{key}`"),
            "is 0",
            "a sandbox needs some; leave the key out for the default",
        )),
        Some(value) => Ok(value),
        None => Ok(default),
    };
    Ok(Resources {
        cpus: checked("cpus", document.cpus, default.cpus)?,
        memory_mib: checked("memory_mib", document.memory_mib, default.memory_mib)?,
        disk_mib: checked("disk_mib", document.disk_mib, default.disk_mib)?,
        pids: checked("pids", document.pids, default.pids)?,
    })
}
