//! The node's agents, over HTTP.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use skep_agent_protocol::AgentConfig;
use skep_node::{Agents, ConfigureError};
use skep_wire::agent::AGENT_PORT;
use skep_wire::headers::CONTROL_TOKEN;
use tokio::net::TcpStream;

/// Time limit for an agent. One that is well needs a millisecond.
const CONFIGURE_TIMEOUT: Duration = Duration::from_secs(2);

/// Agents at the addresses of their sandboxes.
#[derive(Debug)]
pub(crate) struct HttpAgents;

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
}

async fn init(address: IpAddr, config: &AgentConfig) -> anyhow::Result<()> {
    let stream = TcpStream::connect((address, AGENT_PORT))
        .await
        .context("cannot connect")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let body = serde_json::to_vec(config)?;
    let request = Request::post("/init")
        .header(HOST, "agent")
        .header(CONTENT_TYPE, "application/json")
        .header(CONTROL_TOKEN, &config.control_token)
        .body(Full::new(Bytes::from(body)))?;
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
