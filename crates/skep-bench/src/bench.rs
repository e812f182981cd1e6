//! One run: what is measured, with what, and where the samples go.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use skep_client::Client;

use crate::args::{BenchArgs, Rounds, What};
use crate::error::{BenchError, calling};
use crate::measurement::{Recorder, Series};
use crate::progress::Progress;
use crate::sandbox::Sandbox;
use crate::server::{OwnServer, ServerCommand};

/// What every part needs.
pub(crate) struct Bench<'a> {
    pub(crate) what: What,
    pub(crate) client: Client,
    pub(crate) template: &'a str,
    pub(crate) plain_template: &'a str,
    pub(crate) rounds: Rounds,
    /// The server, if it is the bench's own.
    pub(crate) own: Option<OwnServer>,
    /// A folder that nothing else uses and that is removed at the end.
    pub(crate) scratch: PathBuf,
    /// Where programs of rivals are kept between runs.
    pub(crate) rivals: PathBuf,
    /// This executable, which is also the floor of namespaces.
    pub(crate) executable: PathBuf,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) recorder: Recorder,
    /// Worth knowing beside the numbers.
    pub(crate) notes: Vec<String>,
    /// Sandboxes that were made and not killed yet.
    living: BTreeSet<String>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        args: &'a BenchArgs,
        server: &ServerCommand,
        (client, own): (Client, Option<OwnServer>),
        progress: &'a dyn Progress,
    ) -> Self {
        Self {
            what: args.what,
            client,
            template: &args.template,
            plain_template: &args.plain_template,
            rounds: args.rounds(),
            own,
            scratch: server.folder.clone(),
            rivals: server.cache_dir.join("bench"),
            executable: server.executable.clone(),
            progress,
            recorder: Recorder::default(),
            notes: Vec::new(),
            living: BTreeSet::new(),
        }
    }

    /// The numbers of the rounds, the warm-up first. Samples of the warm-up are dropped.
    pub(crate) fn all_rounds(&self) -> std::ops::Range<u32> {
        let Rounds { warmup, measured } = self.rounds;
        self.progress
            .begin(self.what.name(), u64::from(warmup + measured));
        0..warmup + measured
    }

    /// To be called first in each round.
    pub(crate) fn begin_round(&mut self, round: u32) {
        self.recorder.warm_up(round < self.rounds.warmup);
        self.progress.step();
    }

    /// A new sandbox of the template.
    pub(crate) async fn create(&mut self) -> Result<Sandbox, BenchError> {
        let template = self.template;
        self.create_from(template).await
    }

    /// A new sandbox of another template.
    pub(crate) async fn create_from(&mut self, template: &str) -> Result<Sandbox, BenchError> {
        let sandbox = Sandbox::create(&self.client, template).await?;
        self.living.insert(sandbox.id.clone());
        Ok(sandbox)
    }

    /// Takes note of sandboxes that were made elsewhere.
    pub(crate) fn keep_track(&mut self, sandboxes: &[Sandbox]) {
        let ids = sandboxes.iter().map(|sandbox| sandbox.id.clone());
        self.living.extend(ids);
    }

    /// Forgets sandboxes that were ended elsewhere.
    pub(crate) fn forget(&mut self, sandboxes: &[Sandbox]) {
        for sandbox in sandboxes {
            self.living.remove(&sandbox.id);
        }
    }

    /// Ends a sandbox.
    pub(crate) async fn kill(&mut self, sandbox: &Sandbox) -> Result<(), BenchError> {
        sandbox.kill().await?;
        self.living.remove(&sandbox.id);
        Ok(())
    }

    /// Ends what a part that failed has left. The bench's own server ends its own.
    pub(crate) async fn clean_up(&mut self) -> Result<(), BenchError> {
        for id in std::mem::take(&mut self.living) {
            match self.client.delete(&["sandboxes", &id]).await {
                Ok(()) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(calling("kill a sandbox that is left")(error)),
            }
        }
        Ok(())
    }

    /// Waits for `work` and records how long it took.
    pub(crate) async fn time<T>(
        &mut self,
        series: Series,
        work: impl Future<Output = Result<T, BenchError>>,
    ) -> Result<T, BenchError> {
        let start = Instant::now();
        let done = work.await?;
        self.recorder.add(series, start.elapsed().as_secs_f64());
        Ok(done)
    }

    /// Records how long it has been since `start`.
    pub(crate) fn since(&mut self, series: Series, start: Instant) {
        self.recorder.add(series, start.elapsed().as_secs_f64());
    }

    /// A sandbox whose interpreter is warm, or `None` if the template has none.
    pub(crate) async fn warm_sandbox(&mut self) -> Result<(Sandbox, bool), BenchError> {
        let sandbox = self.create().await?;
        sandbox.ready().await?;
        let interprets = sandbox.has_interpreter().await;
        if interprets {
            sandbox.run_one(None).await?;
        } else {
            let template = self.template;
            self.notes.push(format!(
                "template `{template}` has no interpreter: only commands were measured"
            ));
        }
        Ok((sandbox, interprets))
    }

    /// Says so if the targets are about another number of sandboxes.
    pub(crate) fn note_number(&mut self, meant: u32, count: u32) {
        if meant != count {
            self.notes.push(format!(
                "the targets are about {meant} sandboxes; these were {count}"
            ));
        }
    }

    /// The bench's own server.
    pub(crate) fn own_server(&mut self) -> Result<&mut OwnServer, BenchError> {
        let what = self.what.name();
        self.own.as_mut().ok_or(BenchError::NeedsOwnServer(what))
    }
}

/// Speed over a time that is never taken for nothing.
pub(crate) fn per_second(amount: f64, time: Duration) -> f64 {
    amount / time.as_secs_f64().max(f64::EPSILON)
}
