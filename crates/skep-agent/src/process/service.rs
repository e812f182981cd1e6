//! The process service of the contract.

use std::sync::Arc;
use std::time::{Duration, Instant};

use buffa::EnumValue;
use connectrpc::{ConnectError, ErrorCode, RequestContext, ServiceStream};
use futures_util::StreamExt;
use rustix::io::Errno;
use rustix::process::Signal;
use skep_linux::spawn_as::SpawnStep;
use skep_telemetry::Chain;
use skep_wire::rpc::process as wire;
use skep_wire::rpc::process::process_event::data_event::Output as WireOutput;
use skep_wire::rpc::process::process_event::{DataEvent, EndEvent, Event, StartEvent};
use skep_wire::rpc::process::process_input::Input as WireInput;
use skep_wire::rpc::process::process_selector::Selector;
use tokio::sync::mpsc;

use super::Process;
use super::input::{self, Input};
use super::launch::{Launch, StartError, start};
use super::registry::{Found, SelectError};
use super::subscribers::Output;
use crate::agent::Agent;
use crate::http::caller;
use crate::process::exit_status::Ended;

/// Time for which the answer to a kill waits for the end of the process.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

impl From<SelectError> for ConnectError {
    fn from(error: SelectError) -> Self {
        let code = match &error {
            SelectError::Pid(_) | SelectError::Tag(_) => ErrorCode::NotFound,
            SelectError::Missing => ErrorCode::InvalidArgument,
        };
        Self::new(code, error.to_string())
    }
}

impl From<StartError> for ConnectError {
    fn from(error: StartError) -> Self {
        let code = match &error {
            // The contract fixes this text; the cause is that nobody is called so.
            StartError::User { .. } => {
                return Self::new(ErrorCode::Unauthenticated, error.to_string());
            }
            StartError::NoCommand
            | StartError::ZeroByte { .. }
            | StartError::VariableName { .. }
            | StartError::Path(_)
            | StartError::NoDirectory { .. }
            | StartError::NotADirectory { .. } => ErrorCode::InvalidArgument,
            StartError::Spawn { source, .. } => match source.step {
                SpawnStep::Exec | SpawnStep::Directory => ErrorCode::InvalidArgument,
                SpawnStep::Fork | SpawnStep::Session => ErrorCode::ResourceExhausted,
                SpawnStep::Cgroup
                | SpawnStep::Descriptors
                | SpawnStep::Terminal
                | SpawnStep::Signals
                | SpawnStep::OomScore
                | SpawnStep::Limits
                | SpawnStep::Credentials => ErrorCode::Internal,
            },
            StartError::Stuck { .. } => ErrorCode::Internal,
            StartError::Cgroup(source) | StartError::Fork(source) | StartError::Stdio(source) => {
                match Errno::from_io_error(source) {
                    Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
                        ErrorCode::ResourceExhausted
                    }
                    _ => ErrorCode::Internal,
                }
            }
        };
        Self::new(code, Chain(&error).to_string())
    }
}

pub(crate) async fn list(
    agent: Arc<Agent>,
    _context: RequestContext,
    _request: wire::ListRequest,
) -> Result<wire::ListResponse, ConnectError> {
    let processes = agent
        .processes
        .list()
        .into_iter()
        .map(|process| wire::ProcessInfo {
            config: process.config.clone().into(),
            pid: process.pid(),
            tag: process.tag.clone(),
        });
    Ok(wire::ListResponse {
        processes: processes.collect(),
    })
}

pub(crate) async fn start_process(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::StartRequest,
) -> Result<ServiceStream<wire::StartResponse>, ConnectError> {
    let process = request
        .process
        .into_option()
        .ok_or_else(|| ConnectError::new(ErrorCode::InvalidArgument, "process is required"))?;
    let launch = Launch {
        process,
        terminal: request
            .pty
            .into_option()
            .map(|pty| pty.size.into_option().unwrap_or_default()),
        stdin: request.stdin.unwrap_or(true),
        tag: request.tag,
        username: caller::username(context.headers()),
        deadline: context.deadline(),
    };
    let (processes, spawner) = (Arc::clone(&agent.processes), Arc::clone(&agent.spawner));
    let (process, outputs) = start(processes, spawner, agent.settings.current(), launch).await?;
    let events = follow(process, outputs, &context);
    Ok(Box::pin(events.map(|event| {
        event.map(|event| wire::StartResponse {
            event: event.into(),
        })
    })))
}

pub(crate) async fn connect(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::ConnectRequest,
) -> Result<ServiceStream<wire::ConnectResponse>, ConnectError> {
    let answer = |event: Result<wire::ProcessEvent, ConnectError>| {
        event.map(|event| wire::ConnectResponse {
            event: event.into(),
        })
    };
    let selector = request
        .process
        .into_option()
        .and_then(|selector| selector.selector);
    match agent.processes.find(selector.as_ref())? {
        Found::Live(process) => {
            let outputs = process.subscribers.subscribe();
            Ok(Box::pin(follow(process, outputs, &context).map(answer)))
        }
        Found::Retired(retired) => {
            let events = [started(retired.pid), ended(&retired.ended)];
            Ok(Box::pin(futures_util::stream::iter(
                events.map(|event| answer(Ok(event))),
            )))
        }
    }
}

pub(crate) async fn update(
    agent: Arc<Agent>,
    _context: RequestContext,
    request: wire::UpdateRequest,
) -> Result<wire::UpdateResponse, ConnectError> {
    let process = live(&agent, request.process.into_option())?;
    if let Some(size) = request
        .pty
        .into_option()
        .and_then(|pty| pty.size.into_option())
    {
        let internal = |text: String| ConnectError::new(ErrorCode::Internal, text);
        process
            .resize(&size)
            .ok_or_else(|| internal("error resizing tty: tty not assigned to process".to_owned()))?
            .map_err(|error| internal(format!("error resizing tty: {error}")))?;
    }
    Ok(wire::UpdateResponse::default())
}

pub(crate) async fn send_input(
    agent: Arc<Agent>,
    _context: RequestContext,
    request: wire::SendInputRequest,
) -> Result<wire::SendInputResponse, ConnectError> {
    let process = live(&agent, request.process.into_option())?;
    write(&process, request.input.into_option()).await?;
    Ok(wire::SendInputResponse::default())
}

pub(crate) async fn stream_input(
    agent: Arc<Agent>,
    _context: RequestContext,
    mut requests: ServiceStream<wire::StreamInputRequest>,
) -> Result<wire::StreamInputResponse, ConnectError> {
    use wire::stream_input_request::Event;
    let mut process = None;
    while let Some(request) = requests.next().await {
        match request?.event {
            Some(Event::Start(start)) => process = Some(live(&agent, start.process.into_option())?),
            Some(Event::Data(data)) => {
                let process = process.as_ref().ok_or_else(|| {
                    ConnectError::new(
                        ErrorCode::InvalidArgument,
                        "input came before the start event",
                    )
                })?;
                write(process, data.input.into_option()).await?;
            }
            Some(Event::Keepalive(_)) => {}
            None => {
                return Err(ConnectError::new(
                    ErrorCode::Unimplemented,
                    "event is not set",
                ));
            }
        }
    }
    Ok(wire::StreamInputResponse::default())
}

pub(crate) async fn send_signal(
    agent: Arc<Agent>,
    _context: RequestContext,
    request: wire::SendSignalRequest,
) -> Result<wire::SendSignalResponse, ConnectError> {
    let process = live(&agent, request.process.into_option())?;
    let signal = match request.signal {
        EnumValue::Known(wire::Signal::SIGNAL_SIGTERM) => Signal::TERM,
        EnumValue::Known(wire::Signal::SIGNAL_SIGKILL) => Signal::KILL,
        EnumValue::Known(wire::Signal::SIGNAL_UNSPECIFIED) | EnumValue::Unknown(_) => {
            let text = format!("invalid signal: {}", request.signal.to_i32());
            return Err(ConnectError::new(ErrorCode::Unimplemented, text));
        }
    };
    match process.signal(agent.processes.reaper(), signal) {
        Ok(()) => {}
        // It has exited and only others hold its output open; it is released now and ends.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            return Err(ConnectError::new(
                ErrorCode::Internal,
                format!("error sending signal: {error}"),
            ));
        }
    }
    if signal == Signal::KILL {
        // Who asks next should find it gone. One that the kernel cannot end now is not waited for.
        let gone = tokio::time::timeout(KILL_TIMEOUT, process.gone.cancelled()).await;
        tracing::debug!(gone = gone.is_ok(), "process was killed");
    }
    Ok(wire::SendSignalResponse::default())
}

pub(crate) async fn close_stdin(
    agent: Arc<Agent>,
    _context: RequestContext,
    request: wire::CloseStdinRequest,
) -> Result<wire::CloseStdinResponse, ConnectError> {
    let process = live(&agent, request.process.into_option())?;
    let failed =
        |text: &str| ConnectError::new(ErrorCode::Unknown, format!("error closing stdin: {text}"));
    match &process.input {
        // Closing twice is closing once.
        Input::Stdin(queue) => match input::close(queue).await {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(failed(&error.to_string())),
        },
        Input::Terminal(_) => {
            return Err(failed(
                "the process has a tty; send it an end-of-file character",
            ));
        }
        Input::None => return Err(failed("stdin not enabled or closed")),
    }
    Ok(wire::CloseStdinResponse::default())
}

fn live(
    agent: &Agent,
    selector: Option<wire::ProcessSelector>,
) -> Result<Arc<Process>, SelectError> {
    let selector: Option<Selector> = selector.and_then(|selector| selector.selector);
    agent.processes.find_live(selector.as_ref())
}

async fn write(process: &Process, data: Option<wire::ProcessInput>) -> Result<(), ConnectError> {
    let internal = |text: String| ConnectError::new(ErrorCode::Internal, text);
    match (data.and_then(|input| input.input), &process.input) {
        (Some(WireInput::Stdin(data)), Input::Stdin(queue)) => input::write(queue, data)
            .await
            .map_err(|error| internal(format!("error writing to stdin: {error}"))),
        (Some(WireInput::Stdin(_)), Input::Terminal(_) | Input::None) => Err(internal(
            "error writing to stdin: stdin not enabled or closed".to_owned(),
        )),
        (Some(WireInput::Pty(data)), Input::Terminal(queue)) => input::write(queue, data)
            .await
            .map_err(|error| internal(format!("error writing to tty: {error}"))),
        (Some(WireInput::Pty(_)), Input::Stdin(_) | Input::None) => Err(internal(
            "error writing to tty: tty not assigned to process".to_owned(),
        )),
        (None, _) => Err(ConnectError::new(
            ErrorCode::Unimplemented,
            "input is not set",
        )),
    }
}

/// A subscription on its way to the client: `start`, output, `end`, and a sign of life when
/// there is nothing to say.
fn follow(
    process: Arc<Process>,
    outputs: mpsc::Receiver<Output>,
    context: &RequestContext,
) -> impl futures_util::Stream<Item = Result<wire::ProcessEvent, ConnectError>> + Send + use<> {
    let state = Follow {
        process,
        outputs,
        keepalive: caller::keepalive(context.headers()),
        deadline: context.deadline(),
    };
    let first = Ok(started(state.process.pid()));
    futures_util::stream::once(std::future::ready(first)).chain(futures_util::stream::unfold(
        Some(state),
        |state| async move {
            let mut state = state?;
            let (event, go_on) = state.next().await;
            Some((event, go_on.then_some(state)))
        },
    ))
}

struct Follow {
    process: Arc<Process>,
    outputs: mpsc::Receiver<Output>,
    keepalive: Duration,
    deadline: Option<Instant>,
}

impl Follow {
    /// The next event, and whether there is another after it.
    async fn next(&mut self) -> (Result<wire::ProcessEvent, ConnectError>, bool) {
        // The deadline is asked for first: a process that never stops talking must not outlast it.
        let now = Instant::now();
        let silence = now + self.keepalive;
        let wake = self
            .deadline
            .map_or(silence, |deadline| deadline.min(silence));
        tokio::select! {
            biased;
            () = std::future::ready(()), if self.deadline.is_some_and(|deadline| deadline <= now) => {
                let text = "the deadline of the stream has passed";
                (Err(ConnectError::new(ErrorCode::DeadlineExceeded, text)), false)
            }
            output = self.outputs.recv() => match output {
                Some(output) => (Ok(data(output)), true),
                None => (self.finish(), false),
            },
            () = tokio::time::sleep_until(wake.into()) => {
                if self.deadline.is_some_and(|deadline| deadline <= wake) {
                    let text = "the deadline of the stream has passed";
                    return (Err(ConnectError::new(ErrorCode::DeadlineExceeded, text)), false);
                }
                (Ok(event(Event::Keepalive(Box::default()))), true)
            }
        }
    }

    fn finish(&self) -> Result<wire::ProcessEvent, ConnectError> {
        match self.process.subscribers.ended() {
            Some(end) => Ok(ended(&end)),
            None => Err(ConnectError::new(
                ErrorCode::Aborted,
                "the stream was read too slowly while others listened; connect again",
            )),
        }
    }
}

fn event(event: Event) -> wire::ProcessEvent {
    wire::ProcessEvent { event: Some(event) }
}

fn started(pid: u32) -> wire::ProcessEvent {
    event(Event::Start(Box::new(StartEvent { pid })))
}

fn data(output: Output) -> wire::ProcessEvent {
    let output = match output {
        Output::Stdout(bytes) => WireOutput::Stdout(bytes),
        Output::Stderr(bytes) => WireOutput::Stderr(bytes),
        Output::Terminal(bytes) => WireOutput::Pty(bytes),
    };
    event(Event::Data(Box::new(DataEvent {
        output: Some(output),
    })))
}

fn ended(end: &Ended) -> wire::ProcessEvent {
    event(Event::End(Box::new(EndEvent {
        exit_code: end.exit_code,
        exited: end.exited,
        status: end.status.clone(),
        error: end.error(),
    })))
}
