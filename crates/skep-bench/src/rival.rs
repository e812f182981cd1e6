//! A floor or a rival: a process that does a thing once for each line it reads, and says how
//! long it took.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::criu_floor::{CRIU_FLOOR, Tree};
use crate::error::{BenchError, local};
use crate::floor::FLOOR;

/// Puts the common part before every driver, so that each is one program.
macro_rules! driver {
    ($name:literal) => {
        concat!(
            include_str!("../drivers/answer.py"),
            include_str!(concat!("../drivers/", $name))
        )
    };
}

pub(crate) const IPYKERNEL: &str = driver!("ipykernel.py");
pub(crate) const SHELL: &str = driver!("shell.py");
pub(crate) const JUPYTER_SERVER: &str = driver!("jupyter_server.py");

/// Time limit for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// A rival that runs.
#[derive(Debug)]
pub(crate) struct Rival {
    name: &'static str,
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    log: PathBuf,
}

/// The first says only that the rival is ready.
#[derive(Deserialize)]
struct Answer {
    seconds: Option<f64>,
}

impl Rival {
    /// Starts a driver.
    pub(crate) async fn python(
        name: &'static str,
        python: &Path,
        driver: &str,
        scratch: &Path,
    ) -> Result<Self, BenchError> {
        let mut command = Command::new(python);
        // Neither the directory nor the variables of whoever started the bench have a say.
        command.args(["-I", "-c", driver]);
        Self::start(name, command, scratch).await
    }

    /// Starts the floor of namespaces.
    pub(crate) async fn floor(executable: &Path, scratch: &Path) -> Result<Self, BenchError> {
        let mut command = Command::new(executable);
        command.arg(FLOOR).arg(scratch);
        Self::start("bare namespaces", command, scratch).await
    }

    /// Starts the floor of images: CRIU alone, and a tree of processes for it.
    pub(crate) async fn criu(
        executable: &Path,
        criu: &[String],
        tree: Tree,
        scratch: &Path,
    ) -> Result<Self, BenchError> {
        let mut command = Command::new(executable);
        let numbers = [tree.bytes, tree.processes].map(|number| number.to_string());
        command
            .arg(CRIU_FLOOR)
            .arg(scratch)
            .args(numbers)
            .args(criu);
        Self::start("plain CRIU", command, scratch).await
    }

    /// Starts a program that speaks as the drivers do.
    pub(crate) async fn start(
        name: &'static str,
        mut command: Command,
        scratch: &Path,
    ) -> Result<Self, BenchError> {
        let log = scratch.join(format!("{}.log", name.replace(' ', "-")));
        let errors = File::create(&log).map_err(local("write", &log))?;
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .map_err(local("start", command.as_std().get_program()))?;
        let orders = process.stdin.take().expect("it is piped");
        let answers = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut rival = Self {
            name,
            process,
            orders,
            answers,
            log,
        };
        match rival.next_answer().await?.seconds {
            None => Ok(rival),
            Some(_) => Err(rival.failed("it answers before it is asked")),
        }
    }

    /// Makes it do `action` once; returns the seconds it took.
    pub(crate) async fn ask(&mut self, action: &str) -> Result<f64, BenchError> {
        let order = format!("{action}\n");
        if let Err(error) = self.orders.write_all(order.as_bytes()).await {
            return Err(self.failed(&error.to_string()));
        }
        let answer = self.next_answer().await?;
        answer
            .seconds
            .ok_or_else(|| self.failed("it does not answer what it was asked"))
    }

    /// Lets it end and waits for that.
    pub(crate) async fn finish(mut self) -> Result<(), BenchError> {
        drop(self.orders);
        let late = |_| BenchError::Late {
            what: "the end of a rival",
            limit: ANSWER_TIMEOUT,
        };
        let ended = timeout(ANSWER_TIMEOUT, self.process.wait())
            .await
            .map_err(late)?;
        ended.map(drop).map_err(local("end", self.log))
    }

    async fn next_answer(&mut self) -> Result<Answer, BenchError> {
        let mut line = String::new();
        match timeout(ANSWER_TIMEOUT, self.answers.read_line(&mut line)).await {
            Err(_) => Err(self.failed("it is silent")),
            Ok(Err(error)) => Err(self.failed(&error.to_string())),
            Ok(Ok(_)) => serde_json::from_str(&line).map_err(|_| self.failed("it has ended")),
        }
    }

    fn failed(&self, what: &str) -> BenchError {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let last = log.trim_end().lines().next_back().unwrap_or_default();
        BenchError::Rival {
            rival: self.name,
            reason: format!("{what}; its last words: `{last}`"),
        }
    }
}
