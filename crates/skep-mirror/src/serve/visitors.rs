//! Connections of sandboxes, and what one may have of the mirror at a time.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Connections of one sandbox. `uv` opens 50.
const CONNECTIONS: usize = 64;
/// Requests of one sandbox that are answered at a time; others wait.
const TURNS: usize = 16;
/// Connections of all. With more, only sandboxes that have fewer than [`FEW`] may have another.
const ALL_CONNECTIONS: usize = 4096;
const FEW: usize = 2;

/// The sandboxes that are connected.
#[derive(Debug, Default)]
pub(super) struct Visitors(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    sandboxes: HashMap<Ipv4Addr, Visitor>,
    connections: usize,
}

#[derive(Debug)]
struct Visitor {
    connections: usize,
    turns: Arc<Semaphore>,
}

/// One connection of a sandbox.
#[derive(Debug)]
pub(super) struct Visit {
    visitors: Arc<Visitors>,
    address: Ipv4Addr,
    turns: Arc<Semaphore>,
}

impl Visitors {
    /// Lets one more connection in, if there is room for it.
    pub(super) fn enter(self: &Arc<Self>, address: Ipv4Addr) -> Option<Visit> {
        let mut open = self.0.lock();
        let has = open
            .sandboxes
            .get(&address)
            .map_or(0, |visitor| visitor.connections);
        let most = if open.connections < ALL_CONNECTIONS {
            CONNECTIONS
        } else {
            FEW
        };
        if has >= most {
            return None;
        }
        open.connections += 1;
        let visitor = open.sandboxes.entry(address).or_insert_with(|| Visitor {
            connections: 0,
            turns: Arc::new(Semaphore::new(TURNS)),
        });
        visitor.connections += 1;
        Some(Visit {
            visitors: Arc::clone(self),
            address,
            turns: Arc::clone(&visitor.turns),
        })
    }
}

impl Visit {
    /// The turns of the sandbox's requests.
    pub(super) fn turns(&self) -> Arc<Semaphore> {
        Arc::clone(&self.turns)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut open = self.visitors.0.lock();
        open.connections -= 1;
        if let Some(visitor) = open.sandboxes.get_mut(&self.address) {
            visitor.connections -= 1;
            if visitor.connections == 0 {
                open.sandboxes.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sandbox_takes_no_connection_of_another() {
        let visitors = Arc::<Visitors>::default();
        let address = |last| Ipv4Addr::new(198, 18, 0, last);
        let first: Vec<_> = (0..200)
            .filter_map(|_| visitors.enter(address(1)))
            .collect();
        assert_eq!(first.len(), CONNECTIONS);
        assert!(visitors.enter(address(2)).is_some());
        let crowd: Vec<_> = (10..=255)
            .flat_map(|last| (0..100).map(move |_| last))
            .filter_map(|last| visitors.enter(address(last)))
            .collect();
        assert!(crowd.len() >= ALL_CONNECTIONS - CONNECTIONS);
        assert!(visitors.enter(address(3)).is_some());
        drop((first, crowd));
        assert!(visitors.0.lock().sandboxes.is_empty());
    }
}
