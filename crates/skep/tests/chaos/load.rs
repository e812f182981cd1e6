//! Callers that keep the server busy until it is gone.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use skep_client::{Cause, Client, ClientError, Command, NewSandbox};
use skep_telemetry::Chain;
use tokio::task::JoinSet;

use crate::ledger::{Ledger, ends_after};

/// More sandboxes are not kept at a time, by each caller.
const POPULATION: usize = 3;
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_secs(1);

/// Dice that fall the same way for the same seed.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A ledger that several callers write.
pub(crate) type Shared = Arc<Mutex<Ledger>>;

/// Starts callers, each of which goes on until the server no longer answers.
pub(crate) fn start(client: &Client, ledger: &Shared, seeds: &[u64]) -> JoinSet<()> {
    let mut callers = JoinSet::new();
    for (owner, seed) in (0..).zip(seeds) {
        let caller = Caller {
            owner,
            client: client.clone(),
            ledger: Arc::clone(ledger),
            dice: Dice::new(*seed),
        };
        callers.spawn(caller.call_until_nobody_answers());
    }
    callers
}

struct Caller {
    owner: u64,
    client: Client,
    ledger: Shared,
    dice: Dice,
}

impl Caller {
    async fn call_until_nobody_answers(mut self) {
        loop {
            match self.call().await {
                Ok(()) => {}
                Err(error) if error.is_unreachable() || error.is_lost() => return,
                // Its second is over.
                Err(error) if error.is_not_found() => {}
                // The server's answer was cut off in the middle.
                Err(error) if matches!(error.cause(), Cause::Answer(_)) => return,
                Err(error) => panic!("{}", Chain(&error)),
            }
        }
    }

    async fn call(&mut self) -> Result<(), ClientError> {
        let living = self.ledger.lock().living(self.owner);
        let chosen = match living.len() {
            0 => return self.create(LONG).await,
            count => usize::try_from(self.dice.below(count.try_into().unwrap())).unwrap(),
        };
        let id = living[chosen].clone();
        match self.dice.below(8) {
            0..=2 if living.len() < POPULATION => self.create(LONG).await,
            3 if living.len() < POPULATION => self.create(SHORT).await,
            0..=4 => self.kill(&id).await,
            5 => self.set_timeout(&id).await,
            _ => self.run(&id).await,
        }
    }

    async fn create(&self, lifetime: Duration) -> Result<(), ClientError> {
        let asked = Timestamp::now();
        let body = NewSandbox {
            template_id: "base".to_owned(),
            timeout: Some(i64::try_from(lifetime.as_secs()).unwrap()),
            ..NewSandbox::default()
        };
        let sandbox = self.client.sandboxes().create(&body).await?;
        let ends = ends_after(asked, lifetime);
        let token = sandbox.access_token().await?.map(str::to_owned);
        self.ledger
            .lock()
            .created(self.owner, sandbox.id(), token, ends);
        Ok(())
    }

    async fn kill(&self, id: &str) -> Result<(), ClientError> {
        self.ledger.lock().kill_asked(id);
        self.client.sandbox(id).kill().await?;
        self.ledger.lock().kill_answered(id);
        Ok(())
    }

    async fn set_timeout(&self, id: &str) -> Result<(), ClientError> {
        self.ledger.lock().deadline_asked(id);
        let asked = Timestamp::now();
        let lifetime = LONG + Duration::from_secs(7);
        self.client.sandbox(id).set_timeout(lifetime).await?;
        let ends = ends_after(asked, lifetime);
        self.ledger.lock().deadline_answered(id, ends);
        Ok(())
    }

    async fn run(&self, id: &str) -> Result<(), ClientError> {
        let token = self.ledger.lock().token(id);
        let sandbox = self.client.sandbox(id).with_access_token(token.as_deref());
        let ran = async {
            let mut command = sandbox.commands().start(Command::new("true")).await?;
            while command.next().await?.is_some() {}
            Ok(())
        };
        match ran.await {
            // Its second was over in the middle.
            Err(_)
                if !self
                    .ledger
                    .lock()
                    .living(self.owner)
                    .contains(&id.to_owned()) =>
            {
                Ok(())
            }
            ran => ran,
        }
    }
}
