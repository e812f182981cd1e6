//! Requests on the control channel, which wait for nothing.

use serde::Deserialize;
use serde_json::{Value, json};
use skep_telemetry::Chain;

use super::Kernel;
use crate::activity::State;
use crate::clients::Client;
use crate::failure::name_of;
use crate::message::{Request, failed, ok};

/// Content of a `shutdown_request`.
#[derive(Default, Deserialize)]
struct ShutDown {
    #[serde(default)]
    restart: bool,
}

impl Kernel {
    /// Answers a request on the control channel.
    pub(crate) async fn control(&self, from: &Client, request: &Request) {
        let parent = &request.header;
        self.publish_state(parent, State::Busy).await;
        let content = match request.kind.as_str() {
            "interrupt_request" => {
                self.interrupt();
                Some(ok(Value::Null))
            }
            "shutdown_request" => {
                self.answer_shutdown(from, request).await;
                None
            }
            "kernel_info_request" => {
                let sandbox = self.sandbox.through(&from.api);
                Some(self.info(&sandbox).await)
            }
            kind => {
                let message = format!("kernels of this gateway do not answer `{kind}`");
                Some(failed("NotSupported", &message))
            }
        };
        if let Some(content) = content {
            self.reply(from, request, content).await;
        }
        self.publish_state(parent, State::Idle).await;
    }

    /// The answer comes first where the kernel ends: nobody would read it afterwards.
    async fn answer_shutdown(&self, from: &Client, request: &Request) {
        let wanted: ShutDown = request.read().unwrap_or_default();
        let wants_restart = wanted.restart;
        let done = ok(json!({"restart": wants_restart}));
        let ended = if wants_restart {
            self.restart(&from.api).await
        } else {
            self.reply(from, request, done.clone()).await;
            self.shut_down(&from.api).await
        };
        match ended {
            Ok(()) if wants_restart => self.reply(from, request, done).await,
            Ok(()) => {}
            Err(error) => {
                let message = Chain(&error).to_string();
                let content = failed(name_of(&error), &message);
                self.reply(from, request, content).await;
            }
        }
    }
}
