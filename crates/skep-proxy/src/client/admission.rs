//! Admission of connections: which are accepted, which are closed to make room, and how many of
//! their requests are served before their callers are authenticated.
//!
//! Whoever connects has not said who they are yet, so room is made rather than refused: a new
//! connection takes the place of the one that was idle the longest without ever having shown a
//! key or a token. Only connections that serve somebody, or have shown that they belong to
//! somebody, keep their place, and of those that serve somebody unknown there is a bounded
//! number. So a caller with a key finds a place as long as there is one at all.
//!
//! Requests without credentials, those whose key nobody has looked at, and those that are told no
//! are counted apart, so none of them takes the room of another. The first requests with a key
//! on a connection are let through to whoever knows the key, however many others there are.

mod address;
mod request_class;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::ProxyConfig;
use address::ClientAddress;
use request_class::{Allowance, Counts};
pub(crate) use request_class::{Credentials, RequestClass, TooManyRequests};

/// Limits on connections and on requests of unknown callers.
#[derive(Debug, Clone, Copy)]
struct Limits {
    connections: usize,
    per_address: usize,
    per_loopback_address: usize,
    anonymous: usize,
}

impl Limits {
    fn of(&self, address: ClientAddress) -> usize {
        if address.is_loopback() {
            self.per_loopback_address
        } else {
            self.per_address
        }
    }

    /// Limits on concurrent requests of one class from an address.
    fn allowance(&self, class: RequestClass, address: ClientAddress) -> Allowance {
        let of_address = self.of(address);
        match class {
            RequestClass::Unverified => Allowance {
                of_connection: CLAIMS_PER_CONNECTION,
                of_address: of_address.saturating_mul(CLAIMS_PER_CONNECTION),
                of_all: self.connections.saturating_mul(CLAIMS_PER_CONNECTION),
            },
            RequestClass::Anonymous => Allowance {
                of_connection: 0,
                of_address,
                of_all: self.anonymous,
            },
            RequestClass::Refused => Allowance {
                of_connection: 1,
                of_address,
                of_all: self.connections,
            },
        }
    }
}

/// The connections of a proxy.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: Limits,
    table: Mutex<Table>,
    open: watch::Sender<usize>,
}

/// Reason for which a connection is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The address has as many connections as it may, and none of them can go.
    Address,
    /// The server has as many connections as it may, and none of them can go.
    Server,
}

/// Number of requests with an unchecked key that every connection may have, whatever others have;
/// and, times the number of connections there may be, the number of those that go beyond. A client
/// that begins with many at once, before the first has told who it is, must not be taken for a
/// flood.
const CLAIMS_PER_CONNECTION: usize = 4;

#[derive(Debug, Default)]
struct Table {
    connections: HashMap<u64, Entry>,
    addresses: HashMap<ClientAddress, Address>,
    /// Connections that can go, by when they became idle.
    idle: BTreeMap<u64, u64>,
    /// Requests of all connections that have not shown anything that was right.
    requests: Counts,
    /// The next number for a connection, or for one that becomes idle.
    next: u64,
}

/// A connection. It is no more idle as soon as it serves an anonymous request or has shown a key
/// that may be right, and never again once it has shown one that was.
#[derive(Debug)]
struct Entry {
    address: ClientAddress,
    authenticated: bool,
    /// Set once it has shown a key that was wrong. A further unchecked key does not keep its place.
    distrusted: bool,
    /// Requests under way whose callers are not authenticated yet.
    requests: Counts,
    /// Sequence number of the moment since which it can go.
    idle: Option<u64>,
    evicted: CancellationToken,
}

impl Entry {
    fn can_go(&self) -> bool {
        let claims = self.requests.of(RequestClass::Unverified) > 0 && !self.distrusted;
        let serves = self.requests.of(RequestClass::Anonymous) > 0;
        !(self.authenticated || claims || serves)
    }
}

#[derive(Debug, Default)]
struct Address {
    open: usize,
    requests: Counts,
    idle: BTreeMap<u64, u64>,
}

impl Admission {
    pub(crate) fn new(config: &ProxyConfig) -> Self {
        Self {
            limits: Limits {
                connections: config.connections,
                per_address: config.connections_per_address,
                per_loopback_address: config.connections_per_loopback_address,
                anonymous: config.anonymous_connections,
            },
            table: Mutex::default(),
            open: watch::Sender::new(0),
        }
    }

    /// Lets a connection in, at the cost of an idle one if need be.
    pub(crate) fn admit(self: &Arc<Self>, peer: IpAddr) -> Result<ConnectionPermit, Refused> {
        let address = ClientAddress::of(peer);
        let limit = self.limits.of(address);
        let mut table = self.table.lock();
        if table.open_from(&address) >= limit && !table.evict_from(&address) {
            return Err(Refused::Address);
        }
        if table.connections.len() >= self.limits.connections && !table.evict_oldest() {
            return Err(Refused::Server);
        }
        let evicted = CancellationToken::new();
        let id = table.insert(address, evicted.clone());
        drop(table);
        self.open.send_modify(|open| *open += 1);
        Ok(ConnectionPermit {
            admission: Arc::clone(self),
            id,
            evicted,
            authenticated: AtomicBool::new(false),
        })
    }

    /// Resolves when no connection is left.
    pub(crate) async fn drained(&self) {
        let mut open = self.open.subscribe();
        open.wait_for(|open| *open == 0)
            .await
            .expect("we hold the sender");
    }
}

impl Table {
    fn open_from(&self, address: &ClientAddress) -> usize {
        self.addresses
            .get(address)
            .map_or(0, |address| address.open)
    }

    fn insert(&mut self, address: ClientAddress, evicted: CancellationToken) -> u64 {
        let id = self.number();
        let entry = Entry {
            address,
            authenticated: false,
            distrusted: false,
            requests: Counts::default(),
            idle: None,
            evicted,
        };
        self.connections.insert(id, entry);
        self.addresses.entry(address).or_default().open += 1;
        self.order(id);
        id
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn evict_from(&mut self, address: &ClientAddress) -> bool {
        let oldest = self
            .addresses
            .get(address)
            .and_then(|address| address.idle.first_key_value())
            .map(|(_, id)| *id);
        self.evict(oldest)
    }

    fn evict_oldest(&mut self) -> bool {
        let oldest = self.idle.first_key_value().map(|(_, id)| *id);
        self.evict(oldest)
    }

    fn evict(&mut self, id: Option<u64>) -> bool {
        let evicted = id.and_then(|id| self.remove(id));
        evicted.is_some_and(|entry| {
            entry.evicted.cancel();
            true
        })
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        // Leaves the state that is counted.
        self.authenticate(id);
        let entry = self.connections.remove(&id)?;
        if let Some(address) = self.addresses.get_mut(&entry.address) {
            address.open -= 1;
            if address.open == 0 {
                self.addresses.remove(&entry.address);
            }
        }
        Some(entry)
    }

    fn authenticate(&mut self, id: u64) {
        if let Some(entry) = self.connections.get_mut(&id) {
            entry.authenticated = true;
        }
        for class in RequestClass::ALL {
            self.count(id, class, |_| 0);
        }
        self.order(id);
    }

    fn distrust(&mut self, id: u64) {
        if let Some(entry) = self.connections.get_mut(&id) {
            entry.distrusted = true;
        }
    }

    /// Counts the requests of a connection anew.
    fn count(&mut self, id: u64, class: RequestClass, change: impl FnOnce(usize) -> usize) {
        let Some(entry) = self.connections.get_mut(&id) else {
            return;
        };
        let before = entry.requests.of(class);
        let after = change(before);
        entry.requests.replace(class, before, after);
        self.requests.replace(class, before, after);
        if let Some(address) = self.addresses.get_mut(&entry.address) {
            address.requests.replace(class, before, after);
        }
    }

    /// Puts a connection among those that can go, or takes it from there.
    fn order(&mut self, id: u64) {
        let turn = self.number();
        let Some(entry) = self.connections.get_mut(&id) else {
            return;
        };
        let address = self
            .addresses
            .get_mut(&entry.address)
            .expect("an address is there as long as its connections are");
        match (entry.can_go(), entry.idle) {
            (true, None) => {
                entry.idle = Some(turn);
                self.idle.insert(turn, id);
                address.idle.insert(turn, id);
            }
            (false, Some(since)) => {
                entry.idle = None;
                self.idle.remove(&since);
                address.idle.remove(&since);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Counts a request of a connection, if there is room for it.
    fn enter(
        &mut self,
        id: u64,
        class: RequestClass,
        limits: &Limits,
    ) -> Result<(), TooManyRequests> {
        // One that has gone is being closed, and its answer goes nowhere.
        let entry = match self.connections.get(&id) {
            Some(entry) if !entry.authenticated => entry,
            Some(_) | None => return Ok(()),
        };
        let allowance = limits.allowance(class, entry.address);
        let of_connection = entry.requests.of(class);
        let of_address = self
            .addresses
            .get(&entry.address)
            .map_or(0, |address| address.requests.of(class));
        if !allowance.admits(of_connection, of_address, self.requests.of(class)) {
            return Err(TooManyRequests);
        }
        self.count(id, class, |requests| requests + 1);
        self.order(id);
        Ok(())
    }

    /// Counts a request no more.
    fn leave(&mut self, id: u64, class: RequestClass) {
        // Zero if the connection was evicted, or authenticated meanwhile.
        self.count(id, class, |requests| requests.saturating_sub(1));
        self.order(id);
    }
}

/// One connection's place. Dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    admission: Arc<Admission>,
    id: u64,
    evicted: CancellationToken,
    authenticated: AtomicBool,
}

impl ConnectionPermit {
    /// Fires when the place was given to somebody else.
    pub(crate) fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }

    /// Returns true if the connection has shown a key or a token that was right.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Relaxed)
    }

    /// The connection has shown a key or a token that was right.
    pub(crate) fn authenticate(&self) {
        if !self.authenticated.swap(true, Ordering::Relaxed) {
            self.admission.table.lock().authenticate(self.id);
        }
    }

    /// A request has arrived, of which nothing is known but whether it shows anything. Says as
    /// what it counts.
    pub(crate) fn arrive(&self, claims: bool) -> Result<RequestClass, TooManyRequests> {
        let class = if claims {
            RequestClass::Unverified
        } else {
            RequestClass::Anonymous
        };
        self.enter(class)
    }

    /// A request that counts as `before` has shown nothing that is right: it is served as
    /// anybody's, or told that there is no room for it.
    pub(crate) fn unknown(&self, before: RequestClass) -> Result<RequestClass, TooManyRequests> {
        match before {
            RequestClass::Unverified => self.change(before, RequestClass::Anonymous),
            RequestClass::Anonymous | RequestClass::Refused => Ok(before),
        }
    }

    /// The key was wrong, if a request that counts as `before` has shown one. To tell it so is
    /// all that is left to do.
    pub(crate) fn wrong(&self, before: RequestClass) -> Result<RequestClass, TooManyRequests> {
        match before {
            RequestClass::Unverified => {
                self.admission.table.lock().distrust(self.id);
                self.change(before, RequestClass::Refused)
            }
            RequestClass::Anonymous | RequestClass::Refused => Ok(before),
        }
    }

    /// A request has been answered.
    pub(crate) fn end(&self, class: RequestClass) {
        if !self.is_authenticated() {
            self.admission.table.lock().leave(self.id, class);
        }
    }

    fn change(
        &self,
        before: RequestClass,
        after: RequestClass,
    ) -> Result<RequestClass, TooManyRequests> {
        let after = self.enter(after)?;
        self.end(before);
        Ok(after)
    }

    fn enter(&self, class: RequestClass) -> Result<RequestClass, TooManyRequests> {
        if self.is_authenticated() {
            return Ok(class);
        }
        let limits = &self.admission.limits;
        let mut table = self.admission.table.lock();
        match (class, table.enter(self.id, class, limits)) {
            (_, Ok(())) => Ok(class),
            (RequestClass::Anonymous, Err(TooManyRequests)) => {
                table.enter(self.id, RequestClass::Refused, limits)?;
                Ok(RequestClass::Refused)
            }
            (RequestClass::Unverified | RequestClass::Refused, Err(refused)) => Err(refused),
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.admission.table.lock().remove(self.id);
        self.admission.open.send_modify(|open| *open -= 1);
    }
}

#[cfg(test)]
mod tests;
