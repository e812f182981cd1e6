//! The terminal of whoever runs the command.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use skep_client::TerminalSize;
use tokio::io::unix::AsyncFd;

/// The terminal, open a second time: reading without waiting is a property of the open file,
/// and the shell that we return to shares ours.
#[derive(Debug)]
pub(crate) struct Terminal {
    file: AsyncFd<File>,
}

/// Passes every key on as it is. The terminal is as it was when this is dropped.
#[derive(Debug)]
pub(crate) struct Raw<'a> {
    terminal: &'a Terminal,
    before: Termios,
}

/// Does not show what is typed. The terminal is as it was when this is dropped.
#[derive(Debug)]
pub(crate) struct Hidden<'a>(#[expect(dead_code, reason = "its drop is its use")] Raw<'a>);

impl Terminal {
    /// The terminal on standard input; `None` if that is something else.
    ///
    /// # Errors
    ///
    /// If it cannot be opened again.
    pub(crate) fn open() -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !rustix::termios::isatty(stdin.as_fd()) {
            return Ok(None);
        }
        let name = rustix::termios::ttyname(stdin.as_fd(), Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(name, flags, Mode::empty())?);
        #[expect(
            deprecated,
            reason = "what the newer call demands is what a file is: open, and always the same"
        )]
        let file = AsyncFd::new(file)?;
        Ok(Some(Self { file }))
    }

    /// Size of the terminal; a usual size if it does not know.
    pub(crate) fn size(&self) -> io::Result<TerminalSize> {
        let size = tcgetwinsize(self.file.get_ref())?;
        Ok(match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => TerminalSize { cols: 80, rows: 24 },
            (cols, rows) => TerminalSize { cols, rows },
        })
    }

    /// Passes every key on as it is, until the result is dropped.
    pub(crate) fn raw(&self) -> io::Result<Raw<'_>> {
        let before = tcgetattr(self.file.get_ref())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(self.file.get_ref(), OptionalActions::Now, &raw)?;
        Ok(Raw {
            terminal: self,
            before,
        })
    }

    /// Hides what is typed, but for the ends of lines, until the result is dropped.
    pub(crate) fn hide(&self) -> io::Result<Hidden<'_>> {
        let before = tcgetattr(self.file.get_ref())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(self.file.get_ref(), OptionalActions::Now, &hidden)?;
        Ok(Hidden(Raw {
            terminal: self,
            before,
        }))
    }

    /// Bytes typed; empty when the terminal is gone.
    pub(crate) async fn read(&self) -> io::Result<Vec<u8>> {
        let mut keys = vec![0; 4096];
        loop {
            let mut ready = self.file.readable().await?;
            match ready.try_io(|file| file.get_ref().read(&mut keys)) {
                Ok(Ok(length)) => {
                    keys.truncate(length);
                    return Ok(keys);
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_not_yet) => {}
            }
        }
    }

    /// Shows `bytes`, waiting while the terminal cannot take more.
    pub(crate) async fn show(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.file.writable().await?;
            match ready.try_io(|file| file.get_ref().write(bytes)) {
                Ok(Ok(length)) => bytes = &bytes[length..],
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_not_yet) => {}
            }
        }
        Ok(())
    }
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        let file = self.terminal.file.get_ref();
        // A terminal that is gone need not be restored.
        tcsetattr(file, OptionalActions::Drain, &self.before).ok();
    }
}
