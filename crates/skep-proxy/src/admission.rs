//! Which connections are let in, and which of them go when there is no more room.
//!
//! Whoever connects has not said who they are yet, so room is made rather than refused: a new
//! connection takes the place of the one that was idle the longest without ever having shown a
//! key or a token. Only connections that serve somebody, or have shown that they belong to
//! somebody, keep their place, and of those that serve somebody unknown there is a bounded
//! number. So a caller with a key finds a place as long as there is one at all.

mod address;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::FrontConfig;
use address::ClientAddress;

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
struct Limits {
    connections: usize,
    per_address: usize,
    per_loopback_address: usize,
    anonymous_busy: usize,
}

impl Limits {
    fn of(&self, address: ClientAddress) -> usize {
        if address.is_loopback() {
            self.per_loopback_address
        } else {
            self.per_address
        }
    }
}

/// The connections of a front door.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: Limits,
    table: Mutex<Table>,
    open: watch::Sender<usize>,
}

/// Why a connection is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Its address has as many connections as it may, and none of them can go.
    Address,
    /// The server has as many connections as it may, and none of them can go.
    Server,
}

/// What becomes of a request on a connection that was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is served.
    Served,
    /// It has shown nothing, and too many connections serve requests like it.
    AnonymousFull,
}

/// Too many requests are under way on connections of HTTP/2 that have not shown anything that
/// was right: from one address, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyRequests;

/// How many such requests there may be for each connection that there may be. A client that
/// begins with many at once, before the first has told who it is, must not be taken for a flood.
const REQUESTS_PER_CONNECTION: usize = 4;

/// What a request has shown about its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Nothing, or nothing that is right.
    Nothing,
    /// A key, which the API has not looked at yet.
    Key,
    /// A token of the sandbox that it is for.
    Token,
}

#[derive(Debug, Default)]
struct Table {
    connections: HashMap<u64, Entry>,
    addresses: HashMap<ClientAddress, Address>,
    /// Connections that can go, by when they became idle.
    idle: BTreeMap<u64, u64>,
    /// Anonymous connections that serve a request which has shown nothing.
    anonymous_busy: usize,
    /// Requests of HTTP/2 on connections that have not shown anything that was right.
    requests: usize,
    /// The next number for a connection, or for one that becomes idle.
    next: u64,
}

#[derive(Debug)]
struct Entry {
    address: ClientAddress,
    state: State,
    /// How many requests of HTTP/2 are under way, until it is known whose they are.
    requests: usize,
    evicted: CancellationToken,
}

#[derive(Debug, Default)]
struct Address {
    open: usize,
    requests: usize,
    idle: BTreeMap<u64, u64>,
}

/// What a connection is to the table.
///
/// ```text
/// Idle ◄──► Claiming ──► Anonymous
///  │ ▲          │            │ │
///  │ └──────────┼────────────┘ │
///  └────────────┴──────────────┴──► Authenticated
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It serves nothing, has shown nothing, and goes when room is needed.
    Idle { turn: u64 },
    /// It serves requests that all have shown a key, which may prove wrong.
    Claiming,
    /// It serves a request that has shown nothing.
    Anonymous,
    /// It has shown a key or a token that was right.
    Authenticated,
}

impl Admission {
    pub(crate) fn new(config: &FrontConfig) -> Self {
        Self {
            limits: Limits {
                connections: config.connections,
                per_address: config.connections_per_address,
                per_loopback_address: config.connections_per_loopback_address,
                anonymous_busy: config.anonymous_connections,
            },
            table: Mutex::default(),
            open: watch::Sender::new(0),
        }
    }

    /// Lets a connection in, at the cost of an idle one if need be.
    pub(crate) fn admit(self: &Arc<Self>, peer: IpAddr) -> Result<Place, Refused> {
        let address = ClientAddress::of(peer);
        let limit = self.limits.of(address);
        let mut table = self.lock();
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
        Ok(Place {
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

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
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
            state: State::Claiming,
            requests: 0,
            evicted,
        };
        self.connections.insert(id, entry);
        self.addresses.entry(address).or_default().open += 1;
        self.become_idle(id);
        id
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn evict_from(&mut self, address: &ClientAddress) -> bool {
        let idle = self.addresses.get(address).map(|address| &address.idle);
        let oldest = idle.and_then(BTreeMap::first_key_value).map(|(_, id)| *id);
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
        self.change(id, State::Authenticated);
        self.count(id, |_| 0);
    }

    /// Counts the requests of a connection anew.
    fn count(&mut self, id: u64, change: impl FnOnce(usize) -> usize) {
        let Some(entry) = self.connections.get_mut(&id) else {
            return;
        };
        let (before, after) = (entry.requests, change(entry.requests));
        entry.requests = after;
        self.requests = self.requests - before + after;
        if let Some(address) = self.addresses.get_mut(&entry.address) {
            address.requests = address.requests - before + after;
        }
    }

    fn become_idle(&mut self, id: u64) {
        let turn = self.number();
        self.change(id, State::Idle { turn });
    }

    /// Moves a connection to another state, and says in which it was. `None` if it had to go.
    fn change(&mut self, id: u64, state: State) -> Option<State> {
        let entry = self.connections.get_mut(&id)?;
        let before = std::mem::replace(&mut entry.state, state);
        let address = self.addresses.get_mut(&entry.address);
        let address = address.expect("an address is there as long as its connections are");
        match before {
            State::Idle { turn } => {
                self.idle.remove(&turn);
                address.idle.remove(&turn);
            }
            State::Anonymous => self.anonymous_busy -= 1,
            State::Claiming | State::Authenticated => {}
        }
        match state {
            State::Idle { turn } => {
                self.idle.insert(turn, id);
                address.idle.insert(turn, id);
            }
            State::Anonymous => self.anonymous_busy += 1,
            State::Claiming | State::Authenticated => {}
        }
        Some(before)
    }
}

/// One connection's place. Dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct Place {
    admission: Arc<Admission>,
    id: u64,
    evicted: CancellationToken,
    authenticated: AtomicBool,
}

impl Place {
    /// Fires when the place was given to somebody else.
    pub(crate) fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }

    /// Whether the connection has shown a key or a token that was right.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Relaxed)
    }

    /// The connection has shown a key or a token that was right.
    pub(crate) fn authenticate(&self) {
        if !self.authenticated.swap(true, Ordering::Relaxed) {
            self.admission.lock().authenticate(self.id);
        }
    }

    /// A request of HTTP/2 has arrived, and nobody has looked at it.
    pub(crate) fn arrive(&self) -> Result<(), TooManyRequests> {
        if self.is_authenticated() {
            return Ok(());
        }
        let limits = &self.admission.limits;
        let mut table = self.admission.lock();
        let Some(address) = table.connections.get(&self.id).map(|entry| entry.address) else {
            // It is being closed, and its answer goes nowhere.
            return Ok(());
        };
        let from_address = table.addresses.get(&address).map_or(0, |of| of.requests);
        if from_address >= limits.of(address).saturating_mul(REQUESTS_PER_CONNECTION)
            || table.requests >= limits.connections.saturating_mul(REQUESTS_PER_CONNECTION)
        {
            return Err(TooManyRequests);
        }
        table.count(self.id, |requests| requests + 1);
        Ok(())
    }

    /// The connection begins to serve a request.
    pub(crate) fn begin(&self, shown: Shown) -> Turn {
        if self.is_authenticated() {
            return Turn::Served;
        }
        if shown == Shown::Token {
            self.authenticate();
            return Turn::Served;
        }
        let mut table = self.admission.lock();
        let Some(state) = table.connections.get(&self.id).map(|entry| entry.state) else {
            return Turn::Served;
        };
        match (state, shown) {
            (State::Authenticated | State::Anonymous, _) | (State::Claiming, Shown::Key) => {}
            (State::Idle { .. }, Shown::Key) => {
                table.change(self.id, State::Claiming);
            }
            (State::Idle { .. } | State::Claiming, Shown::Nothing | Shown::Token) => {
                if table.anonymous_busy >= self.admission.limits.anonymous_busy {
                    return Turn::AnonymousFull;
                }
                table.change(self.id, State::Anonymous);
            }
        }
        Turn::Served
    }

    /// A request that had arrived has been answered.
    pub(crate) fn end(&self) {
        if !self.is_authenticated() {
            let mut table = self.admission.lock();
            // Zero if it was evicted, or authenticated just now.
            table.count(self.id, |requests| requests.saturating_sub(1));
        }
    }

    /// The connection answers nothing any more.
    pub(crate) fn rest(&self) {
        if !self.is_authenticated() {
            self.admission.lock().become_idle(self.id);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.lock().remove(self.id);
        self.admission.open.send_modify(|open| *open -= 1);
    }
}

#[cfg(test)]
mod tests;
