//! The tools: their names, texts and schemas. They are the interface that a model reads.

mod files;
mod packages;
mod run_code;
mod run_command;
mod sandboxes;

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use skep_client::Client;

use crate::failure::Failure;
use crate::schema::{Nulls, portable};
use crate::session::Session;

/// One call of a tool.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) session: &'a Session,
    pub(crate) client: &'a Client,
    pub(crate) context: &'a RequestContext<RoleServer>,
}

/// Hints for whoever decides whether a tool may be called without asking.
struct Hints {
    reads_only: bool,
    destroys: bool,
    repeats: bool,
    reaches_out: bool,
}

const READS: Hints = Hints {
    reads_only: true,
    destroys: false,
    repeats: true,
    reaches_out: false,
};

/// Changes nothing but a sandbox.
const WORKS: Hints = Hints {
    reads_only: false,
    destroys: false,
    repeats: false,
    reaches_out: true,
};

/// The tools that a session offers, in the order in which they are of use.
pub(crate) fn list(session: &Session) -> Vec<Tool> {
    let settings = session.settings();
    let mut tools = all(settings.internet);
    tools.retain(|tool| settings.offers(&tool.name));
    tools
}

/// Names of all tools.
pub const TOOL_NAMES: &[&str] = &[
    "run_code",
    "run_command",
    "read_file",
    "write_file",
    "list_files",
    "install_packages",
    "start_sandbox",
    "stop_sandbox",
    "list_sandboxes",
    "expose_port",
];

fn all(internet: bool) -> Vec<Tool> {
    let works = || Hints {
        reaches_out: internet,
        ..WORKS
    };
    vec![
        tool::<run_code::Arguments, run_code::Output>(
            "run_code",
            "Run code",
            "Runs code in a sandbox, as a cell of a notebook: variables, imports and functions of \
             earlier calls are still there. The value of the last expression, what is printed, \
             and plots and tables that are displayed come back. Files are kept in /home/user.",
            works(),
        ),
        tool::<run_command::Arguments, run_command::Output>(
            "run_command",
            "Run a shell command",
            "Runs a line of bash in a sandbox and returns its output and exit code. With \
             `background` it returns at once, and the command goes on: use that for servers.",
            works(),
        ),
        tool::<files::ReadArguments, files::ReadOutput>(
            "read_file",
            "Read a file",
            "Reads a file of a sandbox: text by lines, pictures as images, anything else as bytes.",
            READS,
        ),
        tool::<files::WriteArguments, files::WriteOutput>(
            "write_file",
            "Write a file",
            "Writes a file in a sandbox, in place of one that is there already, and makes the \
             directories above it.",
            Hints {
                destroys: true,
                repeats: true,
                reaches_out: false,
                ..WORKS
            },
        ),
        tool::<files::ListArguments, files::ListOutput>(
            "list_files",
            "List files",
            "Lists a directory of a sandbox.",
            READS,
        ),
        tool::<packages::Arguments, run_command::Output>(
            "install_packages",
            "Install packages",
            "Installs packages in a sandbox, from PyPI (pip), npm or Debian (apt). Many usual \
             ones are installed already: try to import first.",
            Hints {
                repeats: true,
                ..works()
            },
        ),
        tool::<sandboxes::StartArguments, sandboxes::StartOutput>(
            "start_sandbox",
            "Start a sandbox",
            "Starts one more sandbox, or takes up the one that has the name already. Not needed \
             before other tools: without `sandbox` they use the usual one. Use it for work that \
             must be kept apart, that needs another template, or that is to be found again by name.",
            WORKS,
        ),
        tool::<sandboxes::StopArguments, sandboxes::StopOutput>(
            "stop_sandbox",
            "Stop a sandbox",
            "Ends a sandbox. Its files, variables and processes are gone for good.",
            Hints {
                destroys: true,
                reaches_out: false,
                ..WORKS
            },
        ),
        tool::<sandboxes::ListArguments, sandboxes::ListOutput>(
            "list_sandboxes",
            "List sandboxes",
            "Lists the sandboxes of this API key, with their names and when they end.",
            READS,
        ),
        tool::<sandboxes::ExposeArguments, sandboxes::ExposeOutput>(
            "expose_port",
            "Expose a port",
            "Returns the URL at which a server in a sandbox is reached, and says whether it \
             listens already. Start the server with run_command and `background` first; it has \
             to listen on 0.0.0.0.",
            READS,
        ),
    ]
}

fn tool<Arguments, Output>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    hints: Hints,
) -> Tool
where
    Arguments: JsonSchema + 'static,
    Output: JsonSchema + 'static,
{
    let annotations = ToolAnnotations::with_title(title)
        .read_only(hints.reads_only)
        .destructive(hints.destroys)
        .idempotent(hints.repeats)
        .open_world(hints.reaches_out);
    let mut tool = Tool::new(name, description, Arc::new(JsonObject::new()))
        .with_title(title)
        .with_input_schema::<Arguments>()
        .with_output_schema::<Output>()
        .with_annotations(annotations);
    tool.input_schema = Arc::new(portable(&tool.input_schema, Nulls::LeftOut));
    let output = tool.output_schema.take();
    tool.output_schema = output.map(|schema| Arc::new(portable(&schema, Nulls::Alternative)));
    tool
}

impl Call<'_> {
    /// Does what was asked. `None` if there is no such tool.
    pub(crate) async fn run(
        &self,
        name: &str,
        arguments: JsonObject,
    ) -> Option<Result<CallToolResult, Failure>> {
        if !self.session.settings().offers(name) {
            return None;
        }
        Some(match name {
            "run_code" => run_code::run(self, parsed!(arguments)).await,
            "run_command" => run_command::run(self, parsed!(arguments)).await,
            "read_file" => files::read(self, parsed!(arguments)).await,
            "write_file" => files::write(self, parsed!(arguments)).await,
            "list_files" => files::list(self, parsed!(arguments)).await,
            "install_packages" => packages::run(self, parsed!(arguments)).await,
            "start_sandbox" => sandboxes::start(self, parsed!(arguments)).await,
            "stop_sandbox" => sandboxes::stop(self, parsed!(arguments)).await,
            "list_sandboxes" => sandboxes::list(self, parsed!(arguments)).await,
            "expose_port" => sandboxes::expose(self, parsed!(arguments)).await,
            _ => return None,
        })
    }
}

macro_rules! parsed {
    ($arguments:expr) => {
        match parse($arguments) {
            Ok(arguments) => arguments,
            Err(failure) => return Some(Err(failure)),
        }
    };
}
use parsed;

fn parse<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Failure> {
    serde_json::from_value(arguments.into()).map_err(|error| {
        Failure::new(
            format!("the arguments do not fit: {error}"),
            "See the input schema of the tool.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_reads_of_the_tools() {
        let tools = serde_json::to_string_pretty(&all(true)).unwrap();
        insta::assert_snapshot!(tools);
    }

    #[test]
    fn every_tool_can_be_chosen_by_its_name() {
        let names: Vec<_> = all(true).into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, TOOL_NAMES);
    }

    #[test]
    fn arguments_that_do_not_fit_are_explained() {
        let arguments = serde_json::json!({"code": 1}).as_object().unwrap().clone();
        let failure = parse::<run_code::Arguments>(arguments).err().unwrap();
        assert!(
            failure.text().contains("invalid type"),
            "{}",
            failure.text()
        );
        let arguments = serde_json::json!({"code": "1", "lang": "r"})
            .as_object()
            .unwrap()
            .clone();
        let failure = parse::<run_code::Arguments>(arguments).err().unwrap();
        assert!(
            failure.text().contains("unknown field `lang`"),
            "{}",
            failure.text()
        );
    }
}
