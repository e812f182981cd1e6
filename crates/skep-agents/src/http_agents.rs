//! The node's agents, over HTTP.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use skep_agent_protocol::AgentConfig;
use skep_native::CheckpointedAgents;
use skep_node::{Agents, ConfigureError, StartCommandError};
use skep_types::{AccessToken, Redacted, TemplateStart};
use skep_wire::agent::AGENT_PORT;
use skep_wire::headers::CONTROL_TOKEN;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::commands::{AgentAddress, AgentCommand, Printed};

/// Time limit for an agent. One that is well needs a millisecond.
const CONFIGURE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for an agent to say that it is well, with room for a host that is overloaded.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for an agent to prepare for an image, or to go on after one. It may wait for a
/// kernel that is being forked.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two looks whether it is.
const READY_PAUSE: Duration = Duration::from_millis(200);

/// Agents at the addresses of their sandboxes.
#[derive(Debug)]
pub struct HttpAgents;

impl Agents for HttpAgents {
    fn configure<'a>(
        &'a self,
        address: IpAddr,
        config: &'a AgentConfig,
    ) -> BoxFuture<'a, Result<(), ConfigureError>> {
        async move {
            let told = tokio::time::timeout(CONFIGURE_TIMEOUT, init(address, config)).await;
            told.map_err(anyhow::Error::from)
                .flatten()
                .map_err(|error| ConfigureError {
                    address,
                    source: error.into(),
                })
        }
        .boxed()
    }

    fn trust<'a>(
        &'a self,
        address: IpAddr,
        control_token: &'a str,
        authority: &'a str,
    ) -> BoxFuture<'a, Result<(), ConfigureError>> {
        async move {
            let told = async {
                let body = serde_json::to_vec(authority)?;
                tell(address, "/skep/trust", control_token, body).await
            };
            let told = tokio::time::timeout(CONFIGURE_TIMEOUT, told).await;
            told.map_err(anyhow::Error::from)
                .flatten()
                .map_err(|error| ConfigureError {
                    address,
                    source: error.into(),
                })
        }
        .boxed()
    }

    fn start<'a>(
        &'a self,
        address: IpAddr,
        config: &'a AgentConfig,
        start: &'a TemplateStart,
    ) -> BoxFuture<'a, Result<(), StartCommandError>> {
        async move {
            let limit = TemplateStart::READY_WITHIN;
            let started = tokio::time::timeout(limit, start_and_wait(address, config, start))
                .await
                .unwrap_or_else(|_elapsed| {
                    Err(anyhow::anyhow!(
                        "it was not ready after {} s",
                        limit.as_secs()
                    ))
                });
            started.map_err(|error| StartCommandError(error.into()))
        }
        .boxed()
    }

    fn answers(&self, address: IpAddr) -> BoxFuture<'_, bool> {
        async move {
            match tokio::time::timeout(HEALTH_TIMEOUT, health(address)).await {
                Ok(Ok(())) => true,
                Ok(Err(error)) => {
                    tracing::debug!(%address, %error, "an agent is not well");
                    false
                }
                Err(_elapsed) => false,
            }
        }
        .boxed()
    }
}

/// Starts what a template starts, and waits until its ready command succeeds.
async fn start_and_wait(
    address: IpAddr,
    config: &AgentConfig,
    start: &TemplateStart,
) -> anyhow::Result<()> {
    let token = config.access_token.as_deref().unwrap_or_default();
    let agent = AgentAddress {
        address,
        token: AccessToken::from_record(token),
    };
    // What the owner of the sandbox has set is above what the template has.
    let environment = start
        .env
        .iter()
        .filter(|(name, _)| !config.env.contains_key(name))
        .cloned()
        .collect();
    let shell = |text: &String| ["/bin/bash", "-l", "-c", text].map(str::to_owned);
    let started_by = start.command.as_ref().map(shell);
    let ready_by = start.ready.as_ref().map(shell);
    let command = |arguments, timeout| AgentCommand {
        arguments,
        user: &start.user,
        directory: start.workdir.as_deref(),
        environment: &environment,
        timeout,
    };
    let begun = Notify::new();
    let started = async {
        let Some(arguments) = &started_by else {
            return std::future::pending().await;
        };
        let note = |news: Printed<'_>| {
            if matches!(news, Printed::Started) {
                begun.notify_one();
            }
        };
        match agent.run(&command(arguments, None), note).await {
            // One that puts itself into the background has ended well.
            Ok(ended) if ended.code == Some(0) => std::future::pending().await,
            Ok(ended) => anyhow::anyhow!("the start command ended: {}", ended.status),
            Err(error) => error.into(),
        }
    };
    let ready = async {
        if start.command.is_some() {
            begun.notified().await;
        }
        let Some(arguments) = &ready_by else {
            return Ok(());
        };
        let ready = command(arguments, Some(TemplateStart::READY_WITHIN));
        loop {
            if agent.run(&ready, |_| ()).await?.code == Some(0) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(READY_PAUSE).await;
        }
    };
    tokio::select! {
        error = started => Err(error),
        ready = ready => ready,
    }
}

impl CheckpointedAgents for HttpAgents {
    fn prepare<'a>(
        &'a self,
        address: IpAddr,
        config: &'a Redacted<Vec<u8>>,
    ) -> BoxFuture<'a, io::Result<()>> {
        async move {
            let told = async {
                let token = control_token(config)?;
                tell(address, "/skep/checkpoint/prepare", &token, Vec::new()).await
            };
            in_time(told).await
        }
        .boxed()
    }

    fn go_on<'a>(
        &'a self,
        address: IpAddr,
        config: &'a Redacted<Vec<u8>>,
        new: Option<&'a Redacted<Vec<u8>>>,
    ) -> BoxFuture<'a, io::Result<()>> {
        async move {
            let told = async {
                let token = control_token(config)?;
                let body = new.map_or(b"null".to_vec(), |new| new.reveal().clone());
                tell(address, "/skep/checkpoint/go-on", &token, body).await
            };
            in_time(told).await
        }
        .boxed()
    }
}

/// An agent that was stopped for a while has other things to do, too.
async fn in_time(told: impl Future<Output = anyhow::Result<()>>) -> io::Result<()> {
    match tokio::time::timeout(CHECKPOINT_TIMEOUT, told).await {
        Ok(told) => told.map_err(io::Error::other),
        Err(elapsed) => Err(io::Error::new(io::ErrorKind::TimedOut, elapsed)),
    }
}

/// The token that opens the control routes of an agent with this configuration.
fn control_token(config: &Redacted<Vec<u8>>) -> anyhow::Result<String> {
    let config: AgentConfig = serde_json::from_slice(config.reveal())?;
    Ok(config.control_token)
}

async fn tell(address: IpAddr, path: &str, token: &str, body: Vec<u8>) -> anyhow::Result<()> {
    let request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .header(CONTROL_TOKEN, token)
        .body(Full::new(Bytes::from(body)))?;
    ask(address, request).await
}

async fn health(address: IpAddr) -> anyhow::Result<()> {
    let request = Request::get("/health").body(Full::default())?;
    ask(address, request).await
}

async fn init(address: IpAddr, config: &AgentConfig) -> anyhow::Result<()> {
    let body = serde_json::to_vec(config)?;
    tell(address, "/init", &config.control_token, body).await
}

/// Sends a request to an agent and expects it to succeed.
async fn ask(address: IpAddr, mut request: Request<Full<Bytes>>) -> anyhow::Result<()> {
    let stream = TcpStream::connect((address, AGENT_PORT))
        .await
        .context("cannot connect")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let host = HeaderValue::from_static("agent");
    request.headers_mut().insert(HOST, host);
    let answer = async {
        let status = sender.send_request(request).await?.status();
        ensure!(status.is_success(), "answer is {status}");
        Ok(())
    };
    tokio::select! {
        answer = answer => answer,
        // It ends only when it breaks, as long as somebody may still send.
        ended = connection => Err(ended.err().map_or_else(
            || anyhow::anyhow!("agent closed the connection"),
            anyhow::Error::from,
        )),
    }
}
