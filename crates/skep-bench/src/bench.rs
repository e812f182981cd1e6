//! One run: what is measured, with what, and where the samples go.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use skep_client::Client;

use crate::args::{BenchArgs, Part, Rounds};
use crate::error::BenchError;
use crate::measurement::{Recorder, Series};
use crate::progress::Progress;
use crate::sandbox::Sandbox;
use crate::server::{OwnServer, Setup};

/// Time limit for a server to warm up its zygotes, and polling interval meanwhile.
const WARMING: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// State shared by all parts of the bench.
pub(crate) struct Bench<'a> {
    pub(crate) what: Part,
    pub(crate) client: Client,
    pub(crate) template: &'a str,
    pub(crate) plain_template: &'a str,
    pub(crate) rounds: Rounds,
    /// Time between the end of one sandbox and the next.
    pause: Duration,
    /// The server, if it is the bench's own.
    pub(crate) own: Option<OwnServer>,
    /// A directory that nothing else uses and that is removed at the end.
    pub(crate) scratch: PathBuf,
    /// Directory in which programs of rivals are kept between runs.
    pub(crate) rivals: PathBuf,
    /// An executable that is the floor of namespaces, or of images, if told so.
    pub(crate) floor: PathBuf,
    /// CRIU of this host, if it has one.
    pub(crate) criu: Option<Vec<String>>,
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
        setup: &Setup,
        (client, own): (Client, Option<OwnServer>),
        progress: &'a dyn Progress,
    ) -> Self {
        Self {
            what: args.what,
            client,
            template: &args.template,
            plain_template: &args.plain_template,
            rounds: args.rounds(),
            pause: Duration::from_millis(args.pause.into()),
            own,
            scratch: setup.directory.clone(),
            rivals: setup.cache_dir.join("bench"),
            floor: setup.floor.clone(),
            criu: setup.criu.clone(),
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

    /// Begins a round; to be called first in each.
    pub(crate) fn begin_round(&mut self, round: u32) {
        self.recorder.warm_up(round < self.rounds.warmup);
        self.progress.step();
    }

    /// Waits, if asked to, for what the last sandbox has left to be done.
    pub(crate) async fn pause(&self) {
        tokio::time::sleep(self.pause).await;
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
            match self.client.sandbox(&id).kill().await {
                Ok(()) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
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

    /// A sandbox whose interpreter is warm, and whether it has one. Its kernels are forked, if the
    /// server can do that for this template.
    pub(crate) async fn warm_sandbox(&mut self) -> Result<(Sandbox, bool), BenchError> {
        let mut sandbox = self.create().await?;
        sandbox.ready().await?;
        let interprets = sandbox.has_interpreter().await;
        if interprets {
            if self.own.is_some() {
                // This one may have come before what its kernels would be forked from.
                self.kill(&sandbox).await?;
                self.wait_for_zygote().await?;
                sandbox = self.create().await?;
            }
            sandbox.run_one(None).await?;
        } else {
            let template = self.template;
            self.notes.push(format!(
                "template `{template}` has no interpreter: only commands were measured"
            ));
        }
        Ok((sandbox, interprets))
    }

    /// Waits until the server has tried to make what kernels of the template are forked from.
    async fn wait_for_zygote(&mut self) -> Result<(), BenchError> {
        let limit = Instant::now() + WARMING;
        while Instant::now() < limit {
            let metrics = self.client.server_metrics().await?;
            if counted(&metrics, "skep_zygote_starts_total") > 0.0 {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        self.notes
            .push("the server forks no kernels: they were started".to_owned());
        Ok(())
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

/// The sum of a metric over all its labels.
pub(crate) fn counted(metrics: &str, name: &str) -> f64 {
    let lines = metrics.lines();
    let values = lines.filter_map(|line| {
        let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
        let is_whole = labels.is_empty() || labels.starts_with('{');
        is_whole.then(|| value.parse::<f64>().ok()).flatten()
    });
    values.sum()
}

/// Speed over a time that is never taken for nothing.
pub(crate) fn per_second(amount: f64, time: Duration) -> f64 {
    amount / time.as_secs_f64().max(f64::EPSILON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels_and_no_other() {
        let metrics = "# TYPE made counter\nmade{outcome=\"ready\"} 2\nmade{outcome=\"failed\"} 1\n\
                       made_sum 40\nalone 7\n";
        assert!((counted(metrics, "made") - 3.0).abs() < f64::EPSILON);
        assert!((counted(metrics, "alone") - 7.0).abs() < f64::EPSILON);
        assert!(counted(metrics, "missing").abs() < f64::EPSILON);
    }
}
