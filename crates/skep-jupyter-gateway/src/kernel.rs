//! One kernel: a context of a sandbox, its clients, and the requests that wait.
//!
//! One task owns it (`owner.rs`) and answers one request after another; another keeps its sandbox
//! alive while somebody uses it (`keeper.rs`). Requests on the control channel are answered beside
//! them.

mod control;
mod execution;
mod keeper;
mod output;
mod owner;
mod questions;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use skep_client::{Client as Api, ClientError, Context, Sandbox};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::activity::{Activity, State, written};
use crate::clients::{Client, send_to_all};
use crate::gateway::Kernels;
use crate::message::{Channel, Message, Request, failed, nobody};

/// Number of requests that wait for their turn.
const QUEUE: usize = 256;
/// Size of the requests that wait for their turn.
const QUEUE_BYTES: usize = 64 << 20;
/// Number of clients of one kernel.
pub(crate) const MOST_CLIENTS: usize = 16;

/// Parts of a kernel.
#[derive(Debug)]
pub(crate) struct KernelOptions {
    pub(crate) id: String,
    pub(crate) spec: String,
    pub(crate) team: String,
    pub(crate) api: Api,
    pub(crate) sandbox: Sandbox,
    pub(crate) context: Context,
    pub(crate) idle: Duration,
    pub(crate) kernels: Kernels,
}

/// One kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    id: String,
    spec: String,
    team: String,
    sandbox: Sandbox,
    context: Context,
    idle: Duration,
    /// Names this run of it in headers.
    session: Arc<str>,
    clients: Mutex<Vec<Client>>,
    /// The API as its last user may use it: it is kept alive with that while it works for nobody.
    last_user: Mutex<Api>,
    requests: mpsc::Sender<Asked>,
    room: Arc<Semaphore>,
    /// Counts interrupts, so that none is missed.
    interrupts: watch::Sender<u64>,
    /// Counts restarts. What was asked before one is not answered after it.
    restarts: watch::Sender<u64>,
    activity: Mutex<Activity>,
    /// The wait of code for input, with the client that is to answer.
    input: Mutex<Option<(Client, oneshot::Sender<String>)>>,
    /// Its answer about itself.
    info: OnceCell<Value>,
    ended: CancellationToken,
}

/// A request on the shell channel that waits for its turn.
#[derive(Debug)]
struct Asked {
    request: Request,
    from: Client,
    restarts: u64,
    _room: OwnedSemaphorePermit,
}

/// Membership of a client, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Joined {
    kernel: Arc<Kernel>,
    client: Client,
}

impl Kernel {
    /// A kernel, and its two tasks.
    pub(crate) fn start(options: KernelOptions) -> Arc<Self> {
        let (requests, asked) = mpsc::channel(QUEUE);
        let kernel = Arc::new(Self {
            id: options.id,
            spec: options.spec,
            team: options.team,
            sandbox: options.sandbox,
            context: options.context,
            idle: options.idle,
            session: Uuid::new_v4().to_string().into(),
            clients: Mutex::default(),
            last_user: Mutex::new(options.api),
            requests,
            room: Arc::new(Semaphore::new(QUEUE_BYTES)),
            interrupts: watch::Sender::new(0),
            restarts: watch::Sender::new(0),
            activity: Mutex::new(Activity {
                state: State::Idle,
                last: Timestamp::now(),
            }),
            input: Mutex::default(),
            info: OnceCell::new(),
            ended: CancellationToken::new(),
        });
        drop(skep_telemetry::spawn(
            "jupyter kernel",
            owner::own(Arc::clone(&kernel), asked),
        ));
        drop(skep_telemetry::spawn(
            "jupyter keeper",
            keeper::keep(Arc::clone(&kernel), options.kernels),
        ));
        kernel
    }

    /// The kernel as Jupyter writes it.
    pub(crate) fn rendered(&self) -> Value {
        let activity = *self.activity.lock();
        json!({
            "id": self.id,
            "name": self.spec,
            "last_activity": written(activity.last),
            "execution_state": activity.state.name(),
            "connections": self.clients.lock().len(),
        })
    }

    /// Adds a client; `None` if there are too many.
    pub(crate) fn join(self: &Arc<Self>, client: Client) -> Option<Joined> {
        let mut clients = self.clients.lock();
        if clients.len() >= MOST_CLIENTS {
            return None;
        }
        clients.push(client.clone());
        drop(clients);
        *self.last_user.lock() = client.api.clone();
        Some(Joined {
            kernel: Arc::clone(self),
            client,
        })
    }

    /// Puts a request on the shell channel into the queue.
    pub(crate) async fn ask(&self, from: &Client, request: Request, size: usize) {
        let permits = u32::try_from(size.clamp(1, QUEUE_BYTES)).expect("the room is smaller");
        let room = Arc::clone(&self.room).try_acquire_many_owned(permits);
        let refused = match room {
            Ok(room) => {
                let asked = Asked {
                    request,
                    from: from.clone(),
                    restarts: *self.restarts.borrow(),
                    _room: room,
                };
                self.requests
                    .try_send(asked)
                    .err()
                    .map(|error| match error {
                        mpsc::error::TrySendError::Full(asked)
                        | mpsc::error::TrySendError::Closed(asked) => asked.request,
                    })
            }
            Err(_full) => Some(request),
        };
        if let Some(request) = refused {
            let message =
                "too many requests wait for this kernel; ask again when some were answered";
            self.reply(from, &request, failed("QueueFull", message))
                .await;
        }
    }

    /// Gives an answer to code that waits for one of this client.
    pub(crate) fn answer_input(&self, from: &Client, value: String) {
        let mut input = self.input.lock();
        if input.as_ref().is_some_and(|(client, _)| client.is(from))
            && let Some((_, answer)) = input.take()
            && answer.send(value).is_err()
        {
            tracing::debug!("an answer came when the code had ended");
        }
    }

    /// Interrupts the code that runs.
    pub(crate) fn interrupt(&self) {
        self.interrupts.send_modify(|count| *count += 1);
    }

    /// Restarts the kernel. What runs ends, what waits is not run, and variables are gone.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub(crate) async fn restart(&self, api: &Api) -> Result<(), ClientError> {
        self.restarts.send_modify(|count| *count += 1);
        let contexts = self.sandbox.through(api).contexts();
        contexts.restart(&self.context.id).await?;
        let content = json!({"execution_state": "restarting"});
        self.publish("status", &nobody(), &content).await;
        Ok(())
    }

    /// Ends the kernel and its sandbox.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; one that has ended already is none.
    pub(crate) async fn shut_down(&self, api: &Api) -> Result<(), ClientError> {
        match self.sandbox.through(api).kill().await {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        self.end().await;
        Ok(())
    }

    /// Says that the kernel is no more, and lets its clients and tasks go.
    async fn end(&self) {
        let content = json!({"execution_state": "dead"});
        self.publish("status", &nobody(), &content).await;
        self.ended.cancel();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Returns when it has ended.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Tells all clients.
    async fn publish(&self, kind: &str, parent: &Arc<RawValue>, content: &impl Serialize) {
        let message = Message::new(&self.session, Channel::Iopub, kind, parent, content);
        let clients = self.clients.lock().clone();
        send_to_all(&clients, &message).await;
    }

    /// Tells all clients that it works for a request now, or has done so.
    async fn publish_state(&self, parent: &Arc<RawValue>, state: State) {
        let content = json!({"execution_state": state.name()});
        self.publish("status", parent, &content).await;
    }

    /// Answers a request to whoever asked, on the channel on which it was asked.
    async fn reply(&self, to: &Client, request: &Request, content: Value) {
        let Some(kind) = request.reply_kind() else {
            return;
        };
        let (session, channel) = (&self.session, request.channel);
        let message = Message::new(session, channel, &kind, &request.header, &content);
        to.send(&message).await;
    }

    fn set_state(&self, state: State) {
        *self.activity.lock() = Activity {
            state,
            last: Timestamp::now(),
        };
    }
}

#[cfg(test)]
impl Kernel {
    /// A kernel whose API is there.
    pub(crate) fn at(url: &str) -> Arc<Self> {
        let api = Api::direct(url, "e2b_a").expect("it is an address");
        Self::start(KernelOptions {
            id: "k".to_owned(),
            spec: "python3".to_owned(),
            team: "a".to_owned(),
            sandbox: api.sandbox("i1"),
            api,
            context: Context {
                id: "c".to_owned(),
                language: "python".to_owned(),
                cwd: "/".to_owned(),
            },
            idle: Duration::from_mins(1),
            kernels: Kernels::default(),
        })
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.client.close();
        let mut clients = self.kernel.clients.lock();
        clients.retain(|client| !client.is(&self.client));
    }
}
