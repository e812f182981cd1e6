//! The connections of a sandbox to hosts that it has asked for by name.
//!
//! The server keeps a descriptor of each, so that it can end a connection without the help of the
//! process that uses it.

use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use skep_types::{EgressProxy, HostName};

use super::Gate;
use super::judge::Treatment;
use crate::message::{Connection, Refusal, Way};
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
    host: Option<HostName>,
    end: End,
    port: u16,
    way: Way,
    treatment: Treatment,
    socket: TcpStream,
}

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(super) struct End {
    /// Its address; none if only a proxy knows it.
    pub(super) address: Option<Ipv4Addr>,
    /// The proxy of the sandbox's owner through which it is reached.
    pub(super) through: Option<EgressProxy>,
}

/// A connection that is asked for.
#[derive(Debug)]
pub(super) struct Asked {
    /// Number of the process that asks.
    pub(super) process: u64,
    pub(super) connection: Connection,
    /// Name of the host, if one was read.
    pub(super) host: Option<HostName>,
    /// Address and port that the sandbox has connected to.
    pub(super) address: Ipv4Addr,
    pub(super) port: u16,
    pub(super) way: Way,
    pub(super) treatment: Treatment,
}

/// The reason for which a connection is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Permit {
    /// This rule names its host.
    Name(String),
    /// Its address is allowed, whatever host is there.
    Address,
}

impl Live {
    pub(super) fn new(gate: Arc<dyn Gate>) -> Self {
        Self {
            gate,
            connections: Mutex::default(),
        }
    }

    pub(super) fn gate(&self) -> &dyn Gate {
        &*self.gate
    }

    /// Returns the reason for which the policy allows a connection.
    pub(super) fn permit(&self, asked: &Asked) -> Result<Permit, Refusal> {
        let host = asked.host.as_ref();
        if let Some(rule) = host.and_then(|host| self.gate.rule_for(host, asked.port)) {
            return Ok(Permit::Name(rule));
        }
        if self.gate.reaches(asked.address) {
            return Ok(Permit::Address);
        }
        let is_named = host.is_some();
        Err(if is_named {
            Refusal::NotAllowed
        } else {
            Refusal::NoName
        })
    }

    /// The host of a connection that carries requests, and whether they are in TLS.
    pub(super) fn route(&self, connection: Connection) -> Option<(Option<HostName>, bool)> {
        let connections = self.connections.lock();
        let held = connections.held.get(&connection)?;
        match held.treatment {
            Treatment::Requests { secure } => Some((held.host.clone(), secure)),
            Treatment::Direct | Treatment::Metered | Treatment::Inspect => None,
        }
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

    /// Adds a connection, if the process is there that has asked for it and the policy allows it
    /// now, and tells the rule; none if its address is allowed.
    pub(super) fn add(
        &self,
        asked: &Asked,
        end: End,
        socket: &TcpStream,
    ) -> Result<Option<String>, Refusal> {
        let socket = socket.try_clone().map_err(|_| Refusal::TooMany)?;
        let mut connections = self.connections.lock();
        let rule = match self.permit(asked)? {
            Permit::Name(rule) => Some(rule),
            Permit::Address => None,
        };
        if connections.process != asked.process {
            return Err(Refusal::NoAnswer);
        }
        let held = &connections.held;
        if held.len() >= MOST_CONNECTIONS || held.contains_key(&asked.connection) {
            return Err(Refusal::TooMany);
        }
        let held = Held {
            host: asked.host.clone(),
            end,
            port: asked.port,
            way: asked.way,
            treatment: asked.treatment,
            socket,
        };
        // The policy may have changed while it was dialled, and the end is not what was asked for
        // where a name led there.
        if !self.may_stay(&held) {
            return Err(Refusal::BrokenOff);
        }
        connections.held.insert(asked.connection, held);
        Ok(rule)
    }

    /// Returns true if the policy in force lets a connection lead where it does, as it does.
    fn may_stay(&self, held: &Held) -> bool {
        let host = held.host.as_ref();
        self.gate.may_stay(host, held.port, held.end.address)
            && self.is_treated_right(held)
            && self.is_led_right(held)
    }

    /// Returns true if the rules in force want no more to be done with a connection than is done.
    fn is_treated_right(&self, held: &Held) -> bool {
        let rule = held
            .host
            .as_ref()
            .and_then(|host| self.gate.request_rule(host));
        let wanted = Treatment::of(rule.as_ref().map(|(_, rule)| rule), held.way);
        match held.treatment {
            Treatment::Direct => wanted == Treatment::Direct,
            Treatment::Metered => wanted != Treatment::Inspect,
            Treatment::Requests { .. } => true,
            Treatment::Inspect => false,
        }
    }

    /// Returns true if a connection goes through the proxy through which all are to go, or through
    /// none if there is none.
    fn is_led_right(&self, held: &Held) -> bool {
        match (&held.end.through, self.gate.proxy()) {
            (None, None) => true,
            (Some(through), Some(proxy)) => through.is_same_way(&proxy),
            (Some(_), None) | (None, Some(_)) => false,
        }
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
            let stays = self.may_stay(held);
            if !stays {
                held.end();
            }
            stays
        });
    }

    /// Ends all connections of the process that sends requests, when that has ended.
    pub(super) fn end_routes(&self) {
        self.connections.lock().held.retain(|_, held| {
            let is_direct = held.treatment == Treatment::Direct;
            if !is_direct {
                held.end();
            }
            is_direct
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
