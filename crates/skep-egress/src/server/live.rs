//! The connections of a sandbox to hosts that it has asked for by name.
//!
//! The server keeps a descriptor of each, so that it can end a connection without the help of the
//! process that uses it.

use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use skep_types::HostName;

use super::{Gate, Lookup};
use crate::message::{Connection, Refusal};
use crate::process::MOST_CONNECTIONS;

/// The connections of a sandbox, and the policy that they are under.
pub(super) struct Live {
    gate: Arc<dyn Gate>,
    /// Held while the policy is asked, so that a connection is either judged by the policy that is
    /// in force, or among those that a change looks at.
    connections: Mutex<HashMap<Connection, Held>>,
}

struct Held {
    host: HostName,
    address: Ipv4Addr,
    port: u16,
    socket: TcpStream,
}

impl Live {
    pub(super) fn new(gate: Arc<dyn Gate>) -> Self {
        Self {
            gate,
            connections: Mutex::default(),
        }
    }

    pub(super) fn rule_for(&self, host: &HostName, port: u16) -> Option<String> {
        self.gate.rule_for(host, port)
    }

    pub(super) async fn look_up(&self, host: &HostName) -> Lookup {
        self.gate.look_up(host).await
    }

    pub(super) fn is_full(&self) -> bool {
        self.connections.lock().len() >= MOST_CONNECTIONS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connections.lock().is_empty()
    }

    /// Adds a connection, if the policy allows its host now, and tells the rule.
    pub(super) fn add(
        &self,
        connection: Connection,
        host: HostName,
        (address, port): (Ipv4Addr, u16),
        socket: &TcpStream,
    ) -> Result<String, Refusal> {
        let socket = socket.try_clone().map_err(|_| Refusal::TooMany)?;
        let mut connections = self.connections.lock();
        let rule = self.gate.rule_for(&host, port).ok_or(Refusal::NotAllowed)?;
        if connections.len() >= MOST_CONNECTIONS || connections.contains_key(&connection) {
            return Err(Refusal::TooMany);
        }
        let held = Held {
            host,
            address,
            port,
            socket,
        };
        connections.insert(connection, held);
        Ok(rule)
    }

    pub(super) fn remove(&self, connection: Connection) {
        self.connections.lock().remove(&connection);
    }

    /// Ends the connections that the policy does not allow any more.
    pub(super) fn cut(&self) {
        let mut connections = self.connections.lock();
        connections.retain(|_, held| {
            let stays = self.gate.may_stay(&held.host, held.port, held.address);
            if !stays {
                held.end();
            }
            stays
        });
    }

    /// Ends all connections.
    pub(super) fn clear(&self) {
        for (_, held) in self.connections.lock().drain() {
            held.end();
        }
    }
}

impl Held {
    fn end(&self) {
        // Not connected any more, if that fails.
        if let Err(error) = self.socket.shutdown(Shutdown::Both) {
            tracing::debug!(%error, "a connection has ended by itself");
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Live")
            .field("connections", &self.connections.lock().len())
            .finish_non_exhaustive()
    }
}
