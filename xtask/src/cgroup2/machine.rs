//! An emulated machine, from its start to the end of its checks.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::checks::Check;
use super::guest_root::System;
use super::outcome::{MachineReport, Outcome, Verdict};
use super::packages::Emulator;
use super::tools::tell;

/// Time limit for a machine to start and to bring itself down, beside that of its checks.
const START_TIMEOUT: Duration = Duration::from_secs(240);

/// Lines of a failed check that are shown.
const SHOWN_LINES: usize = 60;

/// Lines of a machine that wait to be read.
const WAITING_LINES: usize = 1024;

/// First process of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Init {
    Systemd,
    /// A script that mounts what is needed.
    Plain,
}

/// A kind of host.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) name: &'static str,
    /// Release of Debian.
    pub(super) suite: &'static str,
    pub(super) init: Init,
    /// The one that runs every check.
    pub(super) is_first: bool,
}

/// All kinds of hosts.
pub(super) const MACHINES: [Machine; 3] = [
    Machine {
        name: "debian-13",
        suite: "trixie",
        init: Init::Systemd,
        is_first: true,
    },
    Machine {
        name: "debian-12",
        suite: "bookworm",
        init: Init::Systemd,
        is_first: false,
    },
    Machine {
        name: "plain",
        suite: "trixie",
        init: Init::Plain,
        is_first: false,
    },
];

/// Disks beside that of the root. Machines change none of them: what they write is forgotten when
/// they end, not when they restart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disks<'a> {
    pub(super) payload: &'a Path,
    pub(super) templates: &'a Path,
}

/// A line that a machine has said.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// It runs a kernel of this release.
    Started(String),
    CheckStarted(String),
    CheckEnded(Outcome),
    /// A line of output of the check under way.
    Output(String),
    Ended,
    /// Something else, such as a message of systemd.
    Other,
}

impl Machine {
    /// Runs the checks and returns their outcomes. A machine that hangs is ended.
    pub(super) fn run(
        &self,
        cache: &Path,
        emulator: &Emulator,
        system: &System,
        disks: Disks<'_>,
        checks: &[Check],
    ) -> anyhow::Result<MachineReport> {
        let logs = cache.join("logs");
        std::fs::create_dir_all(&logs)?;
        let console = logs.join(format!("{}.console", self.name));
        let mut log = File::create(logs.join(format!("{}.log", self.name)))?;
        tell(&format!("{}: starting", self.name));
        let mut command = self.command(emulator, system, disks, &console);
        if !checks.iter().any(|check| check.restarts) {
            // One whose kernel panics ends.
            command.arg("-no-reboot");
        }
        let mut process = command.spawn().context("cannot run the emulator")?;
        let (sender, lines) = sync_channel(WAITING_LINES);
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        let reader = std::thread::spawn(move || pass_on(output, &sender));
        let report = self.listen(&lines, Instant::now() + START_TIMEOUT, &mut log, checks);
        end(&mut process)?;
        drop(lines);
        if reader.join().is_err() {
            anyhow::bail!("the reader of a machine's output ended in panic");
        }
        let report = report?;
        if report.is_cut_short() {
            tell(&format!("{}: it did not come to its end:", self.name));
            last_lines(&console)?;
        }
        Ok(report)
    }

    fn command(
        &self,
        emulator: &Emulator,
        system: &System,
        disks: Disks<'_>,
        console: &Path,
    ) -> Command {
        let drive =
            |file: &Path, more: &str| format!("if=virtio,format=raw,file={}{more}", file.display());
        let init = match self.init {
            Init::Systemd => "",
            Init::Plain => " guest.init=/opt/guest/plain-init",
        };
        let words = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on systemd.show_status=0";
        let mut command = emulator.command();
        command
            // Nehalem is what the wheels of numpy need; wider vectors are slow to imitate.
            .args(["-machine", "q35", "-accel", "tcg,thread=multi"])
            .args(["-cpu", "Nehalem", "-smp", "2", "-m", "4096"])
            .args(["-nodefaults", "-nographic", "-nic", "none"])
            .arg("-kernel")
            .arg(&system.kernel)
            .arg("-initrd")
            .arg(&system.initrd)
            .args(["-append", &format!("{words}{init}")])
            .arg("-serial")
            .arg(format!("file:{}", console.display()))
            .args(["-monitor", "none", "-device", "virtio-rng-pci"])
            .args(["-drive", &drive(&system.root, ",snapshot=on,cache=unsafe")])
            .args(["-drive", &drive(disks.payload, ",readonly=on")])
            .args([
                "-drive",
                &drive(disks.templates, ",snapshot=on,cache=unsafe"),
            ])
            .args(["-device", "virtio-serial-pci"])
            .args(["-chardev", "stdio,id=report,signal=off"])
            .args(["-device", "virtserialport,chardev=report,name=report"])
            // A port whose input has ended is closed for the machine, too: it would wait for ever.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    /// Follows what the machine says until it has ended, until `deadline` if it has not started by
    /// then, or until all checks must have ended.
    fn listen(
        &self,
        lines: &Receiver<String>,
        mut deadline: Instant,
        log: &mut File,
        checks: &[Check],
    ) -> anyhow::Result<MachineReport> {
        let mut report = MachineReport {
            machine: self.name,
            kernel: None,
            outcomes: Vec::new(),
        };
        let mut shown = VecDeque::new();
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let line = match lines.recv_timeout(rest) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    tell(&format!("{}: no end in sight, ending it", self.name));
                    show(&shown);
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            writeln!(log, "{line}")?;
            match Said::read(&line) {
                Said::Started(kernel) => {
                    tell(&format!("{}: {kernel} runs", self.name));
                    if report.kernel.is_none() {
                        deadline += checks.iter().map(|check| check.limit).sum::<Duration>();
                    }
                    report.kernel = Some(kernel);
                }
                Said::CheckStarted(name) => {
                    tell(&format!("{}: {name} …", self.name));
                    shown.clear();
                }
                Said::Output(text) => {
                    shown.push_back(text);
                    if shown.len() > SHOWN_LINES {
                        shown.pop_front();
                    }
                }
                Said::CheckEnded(outcome) => {
                    if outcome.verdict != Verdict::Passed {
                        show(&shown);
                    }
                    tell(&format!("{}: {outcome}", self.name));
                    report.outcomes.push(outcome);
                }
                Said::Ended => break,
                Said::Other => {}
            }
        }
        let missing = checks.iter().skip(report.outcomes.len());
        report.outcomes.extend(missing.map(|check| Outcome {
            check: check.name.clone(),
            verdict: Verdict::NotRun,
            took: Duration::ZERO,
        }));
        Ok(report)
    }
}

impl Said {
    fn read(line: &str) -> Self {
        let words: Vec<&str> = line.trim_end().split(' ').collect();
        match words.as_slice() {
            ["guest", "started", _, release] => Self::Started((*release).to_owned()),
            ["check", "started", name] => Self::CheckStarted((*name).to_owned()),
            ["check", "ended", name, code, begun, ended] => {
                let seconds = |text: &str| text.parse::<f64>().unwrap_or_default();
                let took = (seconds(ended) - seconds(begun)).max(0.0);
                Self::CheckEnded(Outcome {
                    check: (*name).to_owned(),
                    verdict: match code.parse() {
                        Ok(0) => Verdict::Passed,
                        Ok(code) => Verdict::Failed(code),
                        Err(_) => Verdict::Failed(-1),
                    },
                    took: Duration::from_secs_f64(took),
                })
            }
            ["guest", "ended", _] => Self::Ended,
            ["out", ..] => Self::Output(line.get(4..).unwrap_or_default().to_owned()),
            _ => Self::Other,
        }
    }
}

/// Passes on what a machine says, line by line, until it or the listener ends.
fn pass_on(mut output: impl std::io::BufRead, sender: &SyncSender<String>) {
    let mut line = Vec::new();
    while matches!(output.read_until(b'\n', &mut line), Ok(1..)) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if sender.send(text).is_err() {
            return;
        }
        line.clear();
    }
}

fn end(process: &mut Child) -> anyhow::Result<()> {
    if process.try_wait()?.is_none() {
        process.kill()?;
    }
    process.wait()?;
    Ok(())
}

#[expect(clippy::print_stderr, reason = "what failed is for people, not output")]
fn show(lines: &VecDeque<String>) {
    for line in lines {
        eprintln!("    {line}");
    }
}

fn last_lines(file: &Path) -> anyhow::Result<()> {
    let text = BufReader::new(File::open(file)?).split(b'\n');
    let mut lines = VecDeque::new();
    for line in text {
        lines.push_back(String::from_utf8_lossy(&line?).into_owned());
        if lines.len() > SHOWN_LINES {
            lines.pop_front();
        }
    }
    show(&lines);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_says_is_understood() {
        assert_eq!(
            Said::read("guest started 31.20 6.12.48+deb13-cloud-amd64"),
            Said::Started("6.12.48+deb13-cloud-amd64".to_owned())
        );
        assert_eq!(
            Said::read("check ended limits 101 40.5 43.0\r"),
            Said::CheckEnded(Outcome {
                check: "limits".to_owned(),
                verdict: Verdict::Failed(101),
                took: Duration::from_millis(2500),
            })
        );
        assert_eq!(
            Said::read("out check ended limits 0 1 2"),
            Said::Output("check ended limits 0 1 2".to_owned())
        );
        assert_eq!(Said::read("[   12.0] loop0: detected"), Said::Other);
    }
}
