//! `skep sandbox connect`, in a real terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use skep_client::NewSandbox;
use skep_testkit::wait_for;

use crate::installation::Installation;

pub(crate) const TERMINAL_TIMEOUT: Duration = Duration::from_secs(60);

/// A terminal with a program in it, as a person would have it.
pub(crate) struct Screen {
    keyboard: File,
    /// The side of the program, kept open so that its settings can be looked at.
    pub(crate) line: File,
    /// Everything that ever appeared.
    shown: Arc<Mutex<String>>,
    pub(crate) program: Child,
}

impl Screen {
    pub(crate) fn open(command: &Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keyboard = openpt(flags).unwrap();
        unlockpt(&keyboard).unwrap();
        let line = File::from(ioctl_tiocgptpeer(&keyboard, flags).unwrap());
        let keyboard = File::from(keyboard);
        resize(&keyboard, 80, 24);
        let side = || Stdio::from(line.try_clone().unwrap());
        // Makes it the controlling terminal, which is who learns of another size.
        let program = Command::new("setsid")
            .args(["--ctty", "--wait"])
            .arg(command.get_program())
            .args(command.get_args())
            .envs(
                command
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("TERM", "xterm-mono")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .unwrap();
        let shown = Arc::<Mutex<String>>::default();
        let mut screen = keyboard.try_clone().unwrap();
        let written = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..length]);
                written.lock().push_str(&text);
            }
        });
        Self {
            keyboard,
            line,
            shown,
            program,
        }
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Types until there is an answer: what is typed while nobody listens is lost.
    pub(crate) fn insist(&mut self, keys: &str, text: &str) {
        let mut typed: Option<Instant> = None;
        wait_for(TERMINAL_TIMEOUT, || {
            if typed.is_none_or(|typed| typed.elapsed() > Duration::from_secs(1)) {
                self.type_in(keys);
                typed = Some(Instant::now());
            }
            let shown = self.shown.lock();
            shown.contains(text).then_some(()).ok_or("no answer yet")
        });
    }

    /// Everything that has appeared until now.
    pub(crate) fn shown(&self) -> String {
        self.shown.lock().clone()
    }

    /// Waits for `text` behind the last `before`: a prompt, for instance, which reads keys
    /// differently from the moment it is shown.
    pub(crate) fn expect_after(&self, before: &str, text: &str) {
        wait_for(TERMINAL_TIMEOUT, || {
            let shown = self.shown.lock();
            let is_shown = shown
                .rsplit_once(before)
                .is_some_and(|(_, rest)| rest.contains(text));
            if is_shown {
                Ok(())
            } else {
                Err(format!("no {text:?} after {before:?} in {shown:?}"))
            }
        });
    }

    pub(crate) fn expect(&self, text: &str) {
        wait_for(TERMINAL_TIMEOUT, || {
            let shown = self.shown.lock();
            if shown.contains(text) {
                Ok(())
            } else {
                Err(format!("no {text:?} in {shown:?}"))
            }
        });
    }
}

fn resize(keyboard: &File, cols: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(keyboard, size).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_in_a_sandbox_has_the_size_and_the_keys_and_outlives_the_server() {
    let mut installation = Installation::start();
    let body = NewSandbox {
        template_id: "base".to_owned(),
        ..NewSandbox::default()
    };
    let client = installation.client();
    let sandbox = client.sandboxes().create(&body).await.unwrap();
    let arguments = ["sandbox", "connect", sandbox.id()];
    let mut screen = Screen::open(&installation.client_command(&arguments));
    let before = format!("{:?}", tcgetattr(&screen.line).unwrap());

    screen.type_in("echo answer-$((40+2)) $TERM; stty size\r");
    screen.expect("answer-42 xterm-mono");
    screen.expect("24 80");
    resize(&screen.keyboard, 101, 33);
    // The news travels on a way of its own; a question in between may be too early.
    screen.type_in("until [ \"$(stty size)\" = '33 101' ]; do sleep 0.1; done; echo re''sized\r");
    screen.expect("resized");
    // Ctrl-C ends what runs in the sandbox, and nothing here.
    screen.type_in("echo slee''ping; sleep 1000\r");
    screen.expect("sleeping");
    screen.type_in("\u{3}");
    screen.insist("echo interr''upted\r", "interrupted\r\n");

    installation.kill();
    installation.restart();
    screen.expect("trying again");
    screen.insist("echo a''gain\r", "again\r\n");
    screen.type_in("exit 7\r");
    let ended = wait_for(TERMINAL_TIMEOUT, || {
        screen.program.try_wait().unwrap().ok_or("it goes on")
    });
    assert_eq!(ended.code(), Some(7));
    let after = format!("{:?}", tcgetattr(&screen.line).unwrap());
    assert_eq!(after, before, "the terminal is as it was");
}
