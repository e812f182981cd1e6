//! A child process whose output is read line by line and which can be stopped.

use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::cancel::Cancel;

/// No step of a template takes longer; one that does hangs.
const DEADLINE: Duration = Duration::from_secs(60 * 60);
/// Time limit for a child that was asked to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(100);
const LONGEST_LINE: u64 = 4096;

/// Reason for which output was not followed to its natural end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The build was cancelled.
    Cancelled,
    /// It took too long.
    TooLate,
}

/// Urgency with which a process is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// It may clean up.
    Ask,
    /// It had its time.
    Force,
}

/// Runs a command in a process group of its own until everything that shares its output has
/// closed it, and hands over each line of what it prints.
pub(crate) fn run_lines(
    mut command: Command,
    cancel: &Cancel,
    line: &mut dyn FnMut(&str),
) -> io::Result<(ExitStatus, Option<Stopped>)> {
    let (reader, writer) = io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    let mut child = command.spawn()?;
    // The command keeps its ends of the pipe, and the reader would never see the end.
    drop(command);
    let stopped = follow(reader, cancel, &mut |urgency| signal(&child, urgency), line);
    Ok((child.wait()?, stopped))
}

/// Hands over the lines from a pipe until its last writer is gone. A cancelled build, or one
/// that takes too long, has the writers asked and then forced to end with `stop`.
pub(crate) fn follow(
    reader: PipeReader,
    cancel: &Cancel,
    stop: &mut dyn FnMut(Urgency),
    line: &mut dyn FnMut(&str),
) -> Option<Stopped> {
    let start = Instant::now();
    let mut asked: Option<(Instant, Stopped)> = None;
    thread::scope(|scope| {
        // The reader waits when this many lines are not taken, and so does the child.
        let (sender, receiver) = sync_channel(256);
        scope.spawn(move || read_lines(reader, &sender));
        loop {
            match receiver.recv_timeout(GLANCE) {
                Ok(text) => line(&text),
                Err(RecvTimeoutError::Disconnected) => return asked.map(|(_, reason)| reason),
                Err(RecvTimeoutError::Timeout) => {}
            }
            match asked {
                None if cancel.is_cancelled() => {
                    stop(Urgency::Ask);
                    asked = Some((Instant::now(), Stopped::Cancelled));
                }
                None if start.elapsed() > DEADLINE => {
                    stop(Urgency::Ask);
                    asked = Some((Instant::now(), Stopped::TooLate));
                }
                Some((when, _)) if when.elapsed() > GRACE => stop(Urgency::Force),
                None | Some(_) => {}
            }
        }
    })
}

fn signal(child: &Child, urgency: Urgency) {
    let group = Pid::from_raw(child.id().cast_signed()).expect("a child has a process id");
    let signal = match urgency {
        Urgency::Ask => Signal::TERM,
        Urgency::Force => Signal::KILL,
    };
    // A group that is gone already needs no signal; after any other refusal the output does
    // not end and the next round signals again.
    if let Err(error) = kill_process_group(group, signal) {
        tracing::debug!(%error, "process group of a build child is gone");
    }
}

fn read_lines(reader: PipeReader, sender: &SyncSender<String>) {
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match reader
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut bytes)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&bytes);
                // A progress meter rewrites its line with carriage returns; the last state is
                // the one that counts.
                let line = text
                    .trim_end_matches(['\n', '\r'])
                    .rsplit('\r')
                    .next()
                    .unwrap_or_default();
                if sender.send(line.to_owned()).is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_of_both_outputs_arrive_in_order_with_the_status() {
        let mut lines = Vec::new();
        let (status, stopped) = run_lines(
            shell("echo one; echo two >&2; printf 'a\\rb\\r\\n'; exit 3"),
            &Cancel::default(),
            &mut |line| lines.push(line.to_owned()),
        )
        .unwrap();
        assert_eq!(lines, ["one", "two", "b"]);
        assert_eq!((status.code(), stopped), (Some(3), None));
    }

    #[test]
    fn cancelling_ends_the_child_and_its_children() {
        let cancel = Cancel::default();
        let asking = cancel.clone();
        let (_, stopped) = run_lines(
            shell("echo ready; sleep 600 & wait"),
            &cancel,
            &mut |line| {
                assert_eq!(line, "ready");
                asking.cancel();
            },
        )
        .unwrap();
        assert_eq!(stopped, Some(Stopped::Cancelled));
    }
}
