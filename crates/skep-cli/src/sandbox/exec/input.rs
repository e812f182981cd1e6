//! Our standard input on its way to a command.

use std::io::Read as _;

use skep_client::Sandbox;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Size of the pieces that are read and sent.
const PIECE: usize = 64 * 1024;
/// Pieces that are read ahead of what the command takes.
const AHEAD: usize = 2;

/// Input that is being passed on, until this is dropped.
#[derive(Debug)]
pub(super) struct Passing(JoinHandle<Option<()>>);

impl Drop for Passing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Passes on what is read until it ends, and then ends the input of the command.
pub(super) fn pass(sandbox: &Sandbox, pid: u32) -> Passing {
    let (sender, receiver) = mpsc::channel(AHEAD);
    // A thread of its own: a read of a terminal cannot be taken back, and nothing may wait for it
    // when the command has ended.
    std::thread::spawn(move || read(&sender));
    let sandbox = sandbox.clone();
    let passing = async move { send(&sandbox, pid, receiver).await };
    Passing(skep_telemetry::spawn("pass on standard input", passing))
}

fn read(sender: &mpsc::Sender<Vec<u8>>) {
    let mut input = std::io::stdin().lock();
    let mut piece = vec![0; PIECE];
    // What cannot be read is at its end.
    while let Ok(length @ 1..) = input.read(&mut piece) {
        if sender.blocking_send(piece[..length].to_vec()).is_err() {
            return;
        }
    }
}

async fn send(sandbox: &Sandbox, pid: u32, mut pieces: mpsc::Receiver<Vec<u8>>) {
    let commands = sandbox.commands();
    while let Some(piece) = pieces.recv().await {
        // A command that has ended, or reads no more, is told of by its own end.
        if commands.send_input(pid, &piece).await.is_err() {
            return;
        }
    }
    drop(commands.close_input(pid).await);
}
