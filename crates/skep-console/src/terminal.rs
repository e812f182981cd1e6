//! `GET /skep/console/sandboxes/{id}/terminal`: a terminal, one message for each key.
//!
//! The first byte of a message is its kind. From the page: 0 is input, 1 a size (two numbers of 16
//! bits, columns first), 2 the end of the program. To the page: 0 is output, 1 the id of the
//! process (32 bits), 2 its exit code (32 bits), 3 the reason for which there is nothing more, in
//! words. A terminal outlives its socket, and `pid` finds it again.

use std::sync::Arc;

use axum::Extension;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::SplitStream;
use serde::Deserialize;
use skep_client::{
    ClientError, Command, CommandEvent, CommandSignal, CommandStream, Sandbox, TerminalSize,
};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::Visitor;
use crate::seats::{Seat, Seats};
use crate::socket::{Gone, PING, Sender, full, ping, prepared, send};

/// Wishes of a page for its terminal.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    cols: u16,
    rows: u16,
    user: Option<String>,
    cwd: Option<String>,
    /// Process of a terminal that was opened before.
    pid: Option<u32>,
}

/// Messages of a page.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Input(Bytes),
    Size(TerminalSize),
    End,
}

pub(crate) async fn open(
    State(seats): State<Arc<Seats>>,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<String>,
    Query(wanted): Query<Wanted>,
    upgrade: WebSocketUpgrade,
) -> Response {
    match seats.take(&visitor.team) {
        Some(seat) => {
            prepared(upgrade).on_upgrade(move |socket| serve(visitor, id, wanted, socket, seat))
        }
        None => full(),
    }
}

async fn serve(visitor: Visitor, id: String, wanted: Wanted, socket: WebSocket, _seat: Seat) {
    let (mut sender, receiver) = socket.split();
    let (sandbox, stream) = match begin(&visitor, &id, wanted).await {
        Ok(begun) => begun,
        Err(error) => {
            // The page has gone, or is told; there is nothing else to do.
            drop(send(&mut sender, in_words(&error)).await);
            return;
        }
    };
    let (pid_of, pid) = watch::channel(None);
    tokio::select! {
        _ = show(stream, &mut sender, &pid_of) => {}
        () = listen(&sandbox, receiver, pid) => {}
    }
}

async fn begin(
    visitor: &Visitor,
    id: &str,
    wanted: Wanted,
) -> Result<(Sandbox, CommandStream), ClientError> {
    // It reads the token, and leaves the deadline as it is.
    let sandbox = visitor.client.sandboxes().get(id).await?;
    let size = TerminalSize {
        cols: wanted.cols,
        rows: wanted.rows,
    };
    if let Some(pid) = wanted.pid {
        let stream = sandbox.commands().attach(pid).await?;
        sandbox.terminals().resize(pid, size).await?;
        return Ok((sandbox, stream));
    }
    let mut command = Command::new("/bin/bash")
        .args(["-i", "-l"])
        .env("TERM", "xterm-256color")
        .env("LANG", "C.UTF-8");
    if let Some(user) = wanted.user {
        command = command.user(user);
    }
    if let Some(cwd) = wanted.cwd {
        command = command.cwd(cwd);
    }
    let stream = sandbox.terminals().open(&command, size).await?;
    Ok((sandbox, stream))
}

/// Passes on what appears, until the program has ended or the page has gone.
async fn show(
    mut stream: CommandStream,
    sender: &mut Sender,
    pid_of: &watch::Sender<Option<u32>>,
) -> Result<(), Gone> {
    let mut alive = interval(PING);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = stream.next() => {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => return send(sender, in_words(&error)).await,
                };
                match event {
                    Some(CommandEvent::Started(pid)) => {
                        pid_of.send_replace(Some(pid));
                        send(sender, numbered(1, &pid.to_be_bytes())).await?;
                    }
                    Some(
                        CommandEvent::Terminal(bytes)
                        | CommandEvent::Stdout(bytes)
                        | CommandEvent::Stderr(bytes),
                    ) => send(sender, numbered(0, &bytes)).await?,
                    Some(CommandEvent::Ended { code, .. }) => {
                        return send(sender, numbered(2, &code.to_be_bytes())).await;
                    }
                    None => return Ok(()),
                }
            }
            _ = alive.tick() => ping(sender).await?,
        }
    }
}

/// Does what the page says, in its order, until it has gone.
async fn listen(
    sandbox: &Sandbox,
    mut receiver: SplitStream<WebSocket>,
    mut pid: watch::Receiver<Option<u32>>,
) {
    let Ok(pid) = pid.wait_for(Option::is_some).await.map(|pid| *pid) else {
        return;
    };
    let pid = pid.expect("it was waited for");
    while let Some(Ok(message)) = receiver.next().await {
        let Some(said) = understood(&message) else {
            continue;
        };
        let terminals = sandbox.terminals();
        let done = match said {
            Said::Input(bytes) => terminals.type_in(pid, &bytes).await,
            Said::Size(size) => terminals.resize(pid, size).await,
            Said::End => sandbox.commands().signal(pid, CommandSignal::Kill).await,
        };
        if let Err(error) = done {
            // The stream of what appears says it, if it is more than this message.
            tracing::debug!(%error, "a terminal does not take what a page says");
        }
    }
}

fn understood(message: &Message) -> Option<Said> {
    let Message::Binary(bytes) = message else {
        return None;
    };
    match (bytes.first()?, &bytes[1..]) {
        (0, _) => Some(Said::Input(bytes.slice(1..))),
        (1, &[a, b, c, d]) => Some(Said::Size(TerminalSize {
            cols: u16::from_be_bytes([a, b]),
            rows: u16::from_be_bytes([c, d]),
        })),
        (2, []) => Some(Said::End),
        _ => None,
    }
}

fn numbered(kind: u8, bytes: &[u8]) -> Message {
    let mut message = BytesMut::with_capacity(1 + bytes.len());
    message.put_u8(kind);
    message.put_slice(bytes);
    Message::Binary(message.freeze())
}

fn in_words(error: &ClientError) -> Message {
    let source = std::error::Error::source(error);
    let text = source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
    numbered(3, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bytes: &'static [u8]) -> Option<Said> {
        understood(&Message::Binary(Bytes::from_static(bytes)))
    }

    #[test]
    fn what_a_page_says_has_a_kind() {
        assert_eq!(said(b"\x00ls\n"), Some(Said::Input("ls\n".into())));
        let size = TerminalSize {
            cols: 258,
            rows: 24,
        };
        assert_eq!(said(b"\x01\x01\x02\x00\x18"), Some(Said::Size(size)));
        assert_eq!(said(b"\x02"), Some(Said::End));
        for odd in [&b""[..], b"\x01\x00", b"\x02x", b"\x09"] {
            assert_eq!(said(odd), None, "{odd:?}");
        }
        assert_eq!(understood(&Message::text("\u{0}ls")), None);
    }
}
