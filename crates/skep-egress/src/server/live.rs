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
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    /// Number of the process that has them. The next one numbers its connections anew.
    process: u64,
    held: HashMap<Connection, Held>,
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
        self.connections.lock().held.len() >= MOST_CONNECTIONS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connections.lock().held.is_empty()
    }

    /// The number of the process that asks.
    pub(super) fn process(&self) -> u64 {
        self.connections.lock().process
    }

    /// Adds a connection, if the process is there that has asked for it and the policy allows its
    /// host now, and tells the rule.
    pub(super) fn add(
        &self,
        (process, connection): (u64, Connection),
        host: HostName,
        (address, port): (Ipv4Addr, u16),
        socket: &TcpStream,
    ) -> Result<String, Refusal> {
        let socket = socket.try_clone().map_err(|_| Refusal::TooMany)?;
        let mut connections = self.connections.lock();
        let rule = self.gate.rule_for(&host, port).ok_or(Refusal::NotAllowed)?;
        if connections.process != process {
            return Err(Refusal::NoAnswer);
        }
        let held = &connections.held;
        if held.len() >= MOST_CONNECTIONS || held.contains_key(&connection) {
            return Err(Refusal::TooMany);
        }
        let held = Held {
            host,
            address,
            port,
            socket,
        };
        connections.held.insert(connection, held);
        Ok(rule)
    }

    /// Ends a connection that the process is done with, whether it is or not: one that is not held
    /// could not be cut.
    pub(super) fn remove(&self, connection: Connection) {
        // Closed when nobody waits for the lock any more.
        let held = self.connections.lock().held.remove(&connection);
        if let Some(held) = held {
            held.end();
        }
    }

    /// Ends the connections that the policy does not allow any more.
    pub(super) fn cut(&self) {
        let mut connections = self.connections.lock();
        connections.held.retain(|_, held| {
            let stays = self.gate.may_stay(&held.host, held.port, held.address);
            if !stays {
                held.end();
            }
            stays
        });
    }

    /// Ends all connections of a process that has ended.
    pub(super) fn clear(&self) {
        let mut connections = self.connections.lock();
        connections.process += 1;
        let ended = std::mem::take(&mut connections.held);
        drop(connections);
        ended.values().for_each(Held::end);
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
            .field("connections", &self.connections.lock().held.len())
            .finish_non_exhaustive()
    }
}
