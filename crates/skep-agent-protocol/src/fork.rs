//! Protocol by which an agent asks its server for a kernel that is forked into the sandbox.
//!
//! Over a socket of packets that the agent is passed at its start. A question is one byte and
//! descriptors: a sealed file in memory with a [`ForkRequest`], standard input, output and
//! error, then `cgroup.procs` files in the order in which the kernel joins them. The answer
//! is a [`ForkAnswer`]; with [`ForkAnswer::Forked`] comes a socket on which the kernel waits
//! for [`GO`]. It ends if the socket is closed without.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Message that lets a forked kernel begin.
pub const GO: &[u8] = b"g";

/// The largest request.
pub const MAX_REQUEST: u64 = 1 << 20;

/// The largest answer.
pub const MAX_ANSWER: usize = 4 << 10;

/// Number of descriptors before the `cgroup.procs` files.
pub const FIRST_CGROUP: usize = 4;

/// Identity and environment of the kernel to fork.
#[derive(Clone, Serialize, Deserialize)]
pub struct ForkRequest {
    /// User id, as seen inside the sandbox, like all ids here.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary group ids.
    pub groups: Vec<u32>,
    /// All of its environment.
    pub environment: BTreeMap<String, String>,
    /// Initial working directory.
    pub directory: String,
}

impl std::fmt::Debug for ForkRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ForkRequest")
            .field("uid", &self.uid)
            .field("gid", &self.gid)
            .finish_non_exhaustive()
    }
}

/// Result of a request to fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForkAnswer {
    /// It waits for [`GO`].
    Forked {
        /// Its number in the sandbox.
        pid: i32,
    },
    /// There is none; start one.
    Refused,
}
