//! Lines that code asks a person at the terminal for.

use std::io;

use crate::terminal::{Hidden, Terminal};

/// A question of the code that nobody has answered yet. What is typed is shown again when this is
/// dropped.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    terminal: &'a Terminal,
    _hidden: Option<Hidden<'a>>,
}

impl<'a> Asking<'a> {
    /// Shows the prompt on the terminal itself: standard output may be a file.
    pub(super) async fn begin(
        terminal: &'a Terminal,
        prompt: &str,
        is_password: bool,
    ) -> io::Result<Self> {
        terminal.show(prompt.as_bytes()).await?;
        let hidden = if is_password {
            Some(terminal.hide()?)
        } else {
            None
        };
        Ok(Self {
            terminal,
            _hidden: hidden,
        })
    }

    /// Waits for a line; `None` if Ctrl-D was typed instead, or the terminal is gone.
    ///
    /// # Cancel safety
    ///
    /// The terminal keeps a line until it is read, so none is lost when this is dropped.
    pub(super) async fn line(&self) -> Option<String> {
        let typed = self.terminal.read().await.unwrap_or_default();
        if typed.is_empty() {
            return None;
        }
        let text = String::from_utf8_lossy(&typed);
        Some(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }
}

/// The line that is typed, if the code asks for one.
pub(super) async fn typed(asking: Option<&Asking<'_>>) -> Option<String> {
    match asking {
        Some(asking) => asking.line().await,
        None => std::future::pending().await,
    }
}
