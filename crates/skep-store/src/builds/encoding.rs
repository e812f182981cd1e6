//! Orders and results of builds as JSON in columns of ours. Credentials are in neither.
//!
//! A type here has a field for each field of what it encodes, and is made by taking that apart, so
//! that a new field is an error until somebody has thought of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skep_types::{
    BuildBase, BuildContext, BuildOrder, BuildStep, BuiltTemplate, Instruction, Resources, Sharing,
    TemplateImage, TemplateStart, VersionCopy,
};

use super::BuildRecord;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Serialize, Deserialize)]
struct WrittenOrder {
    base: Base,
    steps: Vec<Step>,
    start_command: Option<String>,
    ready_command: Option<String>,
    force: bool,
}

#[derive(Serialize, Deserialize)]
enum Base {
    Image {
        reference: String,
    },
    Template {
        reference: String,
        image: Box<Image>,
        context: Context,
    },
}

#[derive(Serialize, Deserialize)]
struct Step {
    what: WrittenInstruction,
    force: bool,
}

#[derive(Serialize, Deserialize)]
enum WrittenInstruction {
    Run {
        command: String,
        user: Option<String>,
    },
    Copy {
        source: String,
        destination: String,
        owner: Option<String>,
        mode: Option<u32>,
        files: String,
    },
    CopyFrom {
        layers: Vec<String>,
        sources: Vec<String>,
        destination: String,
        owner: Option<String>,
        mode: Option<u32>,
    },
    Environment(Vec<(String, String)>),
    WorkDirectory(String),
    User {
        name: String,
        administrator: bool,
    },
}

#[derive(Serialize, Deserialize)]
struct Outcome {
    image: Image,
    context: Context,
}

#[derive(Serialize, Deserialize)]
struct Context {
    user: String,
    work_directory: Option<String>,
    environment: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct Image {
    id: String,
    name: String,
    layers: Vec<String>,
    env: Vec<(String, String)>,
    user: String,
    workdir: Option<String>,
    cpus: u32,
    memory_mib: u32,
    disk_mib: u32,
    pids: u32,
    between_teams: bool,
    start: Option<Start>,
}

/// Commands of every sandbox of a template.
#[derive(Debug, Serialize, Deserialize)]
struct Start {
    command: Option<String>,
    ready: Option<String>,
    user: String,
    workdir: Option<String>,
    env: Vec<(String, String)>,
}

pub(crate) fn has_credentials(order: &BuildOrder) -> bool {
    match &order.base {
        BuildBase::Image { credentials, .. } => credentials.is_some(),
        BuildBase::Template { .. } => false,
    }
}

pub(crate) fn encode_order(order: &BuildOrder) -> String {
    let BuildOrder {
        // Columns of their own.
        build: _,
        template: _,
        team: _,
        resources: _,
        base,
        steps,
        start_command,
        ready_command,
        force,
    } = order.clone();
    text(&WrittenOrder {
        base: match base {
            BuildBase::Image {
                reference,
                credentials: _,
            } => Base::Image { reference },
            BuildBase::Template {
                reference,
                image,
                context,
            } => Base::Template {
                reference,
                image: Box::new(image_of(*image)),
                context: context_of(context),
            },
        },
        steps: steps.into_iter().map(step_of).collect(),
        start_command,
        ready_command,
        force,
    })
}

pub(crate) fn decode_order(text: &str, record: &BuildRecord) -> Result<BuildOrder, BoxError> {
    let order: WrittenOrder = serde_json::from_str(text)?;
    Ok(BuildOrder {
        build: record.id,
        template: record.template.clone(),
        team: record.team.clone(),
        resources: record.resources,
        base: match order.base {
            Base::Image { reference } => BuildBase::Image {
                reference,
                credentials: None,
            },
            Base::Template {
                reference,
                image,
                context,
            } => BuildBase::Template {
                reference,
                image: Box::new(read_image(*image)?),
                context: read_context(context),
            },
        },
        steps: order
            .steps
            .into_iter()
            .map(read_step)
            .collect::<Result<_, BoxError>>()?,
        start_command: order.start_command,
        ready_command: order.ready_command,
        force: order.force,
    })
}

pub(crate) fn encode_result(built: &BuiltTemplate) -> String {
    let BuiltTemplate {
        image,
        context,
        // A column of its own.
        size: _,
    } = built.clone();
    text(&Outcome {
        image: image_of(image),
        context: context_of(context),
    })
}

pub(crate) fn decode_result(text: &str, size: u64) -> Result<BuiltTemplate, BoxError> {
    let outcome: Outcome = serde_json::from_str(text)?;
    Ok(BuiltTemplate {
        image: read_image(outcome.image)?,
        context: read_context(outcome.context),
        size,
    })
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists of them can be written")
}

fn step_of(step: BuildStep) -> Step {
    let BuildStep { instruction, force } = step;
    let what = match instruction {
        Instruction::Run { command, user } => WrittenInstruction::Run { command, user },
        Instruction::Copy {
            source,
            destination,
            owner,
            mode,
            files,
        } => WrittenInstruction::Copy {
            source,
            destination,
            owner,
            mode,
            files: files.as_str().to_owned(),
        },
        Instruction::CopyFrom { layers, copy } => {
            let VersionCopy {
                sources,
                destination,
                owner,
                mode,
            } = copy;
            WrittenInstruction::CopyFrom {
                layers: layers.iter().map(ToString::to_string).collect(),
                sources,
                destination,
                owner,
                mode,
            }
        }
        Instruction::Environment(variables) => WrittenInstruction::Environment(variables),
        Instruction::WorkDirectory(path) => WrittenInstruction::WorkDirectory(path),
        Instruction::User {
            name,
            administrator,
        } => WrittenInstruction::User {
            name,
            administrator,
        },
    };
    Step { what, force }
}

fn read_step(step: Step) -> Result<BuildStep, BoxError> {
    let instruction = match step.what {
        WrittenInstruction::Run { command, user } => Instruction::Run { command, user },
        WrittenInstruction::Copy {
            source,
            destination,
            owner,
            mode,
            files,
        } => Instruction::Copy {
            source,
            destination,
            owner,
            mode,
            files: files.parse()?,
        },
        WrittenInstruction::CopyFrom {
            layers,
            sources,
            destination,
            owner,
            mode,
        } => Instruction::CopyFrom {
            layers: layers
                .iter()
                .map(|key| key.parse())
                .collect::<Result<_, _>>()?,
            copy: VersionCopy {
                sources,
                destination,
                owner,
                mode,
            },
        },
        WrittenInstruction::Environment(variables) => Instruction::Environment(variables),
        WrittenInstruction::WorkDirectory(path) => Instruction::WorkDirectory(path),
        WrittenInstruction::User {
            name,
            administrator,
        } => Instruction::User {
            name,
            administrator,
        },
    };
    Ok(BuildStep {
        instruction,
        force: step.force,
    })
}

fn context_of(context: BuildContext) -> Context {
    let BuildContext {
        user,
        work_directory,
        environment,
    } = context;
    Context {
        user,
        work_directory,
        environment,
    }
}

fn read_context(context: Context) -> BuildContext {
    BuildContext {
        user: context.user,
        work_directory: context.work_directory,
        environment: context.environment,
    }
}

fn image_of(image: TemplateImage) -> Image {
    let TemplateImage {
        id,
        name,
        layers,
        env,
        user,
        workdir,
        resources,
        sharing,
        start,
    } = image;
    let Resources {
        cpus,
        memory_mib,
        disk_mib,
        pids,
    } = resources;
    Image {
        id: id.to_string(),
        name,
        layers: layers.iter().map(ToString::to_string).collect(),
        env,
        user,
        workdir,
        cpus,
        memory_mib,
        disk_mib,
        pids,
        between_teams: sharing == Sharing::BetweenTeams,
        start: start.map(|start| start_of(*start)),
    }
}

fn start_of(start: TemplateStart) -> Start {
    let TemplateStart {
        command,
        ready,
        user,
        workdir,
        env,
    } = start;
    Start {
        command,
        ready,
        user,
        workdir,
        env,
    }
}

fn read_start(start: Start) -> TemplateStart {
    TemplateStart {
        command: start.command,
        ready: start.ready,
        user: start.user,
        workdir: start.workdir,
        env: start.env,
    }
}

fn read_image(image: Image) -> Result<TemplateImage, BoxError> {
    let layers = image.layers.iter().map(|key| key.parse());
    Ok(TemplateImage {
        id: image.id.parse()?,
        name: image.name,
        layers: layers.collect::<Result<_, _>>()?,
        env: image.env,
        user: image.user,
        workdir: image.workdir,
        resources: Resources {
            cpus: image.cpus,
            memory_mib: image.memory_mib,
            disk_mib: image.disk_mib,
            pids: image.pids,
        },
        sharing: if image.between_teams {
            Sharing::BetweenTeams
        } else {
            Sharing::WithinTeam
        },
        start: image.start.map(|start| Box::new(read_start(start))),
    })
}
