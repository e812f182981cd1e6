//! One execution, from its first line to its end.

use std::time::Duration;

use skep_client::{ClientError, ContextRef, RunOptions};
use skep_wire::interpreter::{AnswerLine, RaisedError, Usage};
use tokio::time::{Instant, sleep_until};

use super::asking::{Asking, typed};
use super::painter::{ScreenPainter, Shows, cell_name};
use super::{Language, Session, Signalled, Signals};
use crate::CliError;
use crate::terminal::Terminal;

/// Time after which a person who pressed Ctrl-C is told what else there is.
const HINT_AFTER: Duration = Duration::from_secs(1);

/// The end of an execution.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The code ran to its end.
    Done(Usage),
    /// The code raised an error, which is not shown yet.
    Raised(RaisedError),
    /// The command was told to leave, and waits for it no more.
    Left(Signalled),
}

/// Code to run, and the way its results are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    /// The source text that is run.
    pub(crate) code: &'a str,
    /// Context or language of the sandbox that it runs in.
    pub(crate) context: ContextRef<'a>,
    /// Environment and limits of the execution.
    pub(crate) options: &'a RunOptions,
    /// Selection of results shown beside the output.
    pub(crate) shows: Shows,
    /// The language and the name of the file that the code is from.
    pub(crate) file: Option<(&'a Language, &'a str)>,
    /// The terminal at which a person answers when the code asks for input.
    pub(crate) terminal: Option<&'a Terminal>,
}

/// Runs code and shows what it does. The first Ctrl-C interrupts it, the second leaves it.
///
/// # Errors
///
/// If it cannot be run, its connection is lost, or nobody reads what it does.
pub(crate) async fn follow(
    session: &Session,
    job: Job<'_>,
    painter: &mut ScreenPainter,
    signals: &mut Signals,
) -> Result<Ending, CliError> {
    let sandbox = session.sandbox();
    let mut execution = sandbox
        .interpreter(job.context)
        .execute(job.code, job.options)
        .await?;
    let mut raised = None;
    let mut usage = Usage::default();
    let mut hint_at = None;
    let mut asking = None;
    loop {
        tokio::select! {
            line = execution.next() => {
                let Some(line) = line? else {
                    break;
                };
                match &line {
                    AnswerLine::NumberOfExecutions { execution_count } => {
                        rename(painter, job.file, *execution_count);
                    }
                    AnswerLine::Receipt { usage: used, .. } => usage = used.clone(),
                    AnswerLine::InputRequest { prompt, password } => {
                        if let Some(terminal) = job.terminal {
                            let asked = Asking::begin(terminal, prompt, *password).await;
                            asking = Some(asked.map_err(CliError::output)?);
                            painter.moved(true);
                        }
                    }
                    // The last one says what became of the kernel.
                    AnswerLine::Error(error) => raised = Some(error.clone()),
                    AnswerLine::Stdout { .. }
                    | AnswerLine::Stderr { .. }
                    | AnswerLine::Result(_)
                    | AnswerLine::Output { .. }
                    | AnswerLine::ContextRestarted { .. }
                    | AnswerLine::OutputLost { .. }
                    | AnswerLine::TooLarge { .. }
                    | AnswerLine::Keepalive
                    | AnswerLine::EndOfExecution
                    | AnswerLine::Unknown => {}
                }
                painter.line(&line, job.shows)?;
            }
            line = typed(asking.as_ref()), if asking.is_some() => {
                // Before the answer is sent: what the code prints next is shown.
                asking = None;
                painter.moved(line.is_none());
                if let Some(id) = &execution.id {
                    unless_over(sandbox.executions().input(id, line).await)?;
                }
            }
            signal = signals.next() => match (signal, &execution.id) {
                (Signalled::Interrupt, Some(id)) if hint_at.is_none() => {
                    hint_at = Some(Instant::now() + HINT_AFTER);
                    unless_over(sandbox.executions().interrupt(id).await)?;
                }
                (signal, _) => return Ok(Ending::Left(signal)),
            },
            () = until(hint_at), if hint_at.is_some_and(|at| at > Instant::now()) => {
                painter.note("the code is being interrupted; Ctrl-C again leaves it")?;
            }
        }
    }
    Ok(match raised {
        Some(error) => Ending::Raised(error),
        None => Ending::Done(usage),
    })
}

fn rename(painter: &mut ScreenPainter, file: Option<(&Language, &str)>, count: u64) {
    if let Some((language, name)) = file
        && let Some(cell) = cell_name(language, count)
    {
        painter.rename(cell, name.to_owned());
    }
}

/// Code that has ended in the meantime needs neither an interrupt nor an answer, and code that was
/// interrupted does not ask any more.
fn unless_over(told: Result<(), ClientError>) -> Result<(), CliError> {
    match told {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
