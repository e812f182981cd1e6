//! One client, over standard input and output.

use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::transport::io::stdio_pipes;
use skep_client::Client;
use tokio::signal::unix::{SignalKind, signal};

use crate::service::Service;
use crate::settings::Settings;

/// Failure of the conversation itself.
pub type StdioError = Box<dyn std::error::Error + Send + Sync>;

/// Serves one client until it closes its end or a signal comes, and ends what ends with it.
///
/// # Errors
///
/// If the client does not speak the protocol.
pub async fn serve_stdio(client: Client, settings: Settings) -> Result<(), StdioError> {
    let service = Service::of_session(Arc::new(settings), client, "");
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let conversation = async {
        let running = service.clone().serve(stdio_pipes()).await?;
        running.waiting().await?;
        Ok(())
    };
    let ended = tokio::select! {
        ended = conversation => ended,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    service.end().await;
    ended
}
