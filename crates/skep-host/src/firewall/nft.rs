//! Rules as `nft` reads them: a table, its chains, and the expressions of a rule, in JSON.

use std::io::Write as _;
use std::process::{Command, Stdio};

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use super::FirewallError;

/// A table that is written anew in one transaction.
pub(super) struct Table {
    name: String,
    commands: Vec<Value>,
}

impl Table {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            commands: Vec::new(),
        }
    }

    /// Adds a set of ranges.
    pub(super) fn ranges(&mut self, name: &str, ranges: &[Ipv4Net]) {
        let mut set = json!({
            "family": "inet", "table": self.name, "name": name,
            "type": "ipv4_addr", "flags": ["interval"], "auto-merge": true,
        });
        if !ranges.is_empty() {
            set["elem"] = ranges.iter().map(range).collect();
        }
        self.commands.push(json!({"add": {"set": set}}));
    }

    /// Adds a map from interfaces to chains.
    pub(super) fn chains_by_interface(&mut self, name: &str) {
        self.commands.push(json!({"add": {"map": {
            "family": "inet", "table": self.name, "name": name, "type": "ifname", "map": "verdict",
        }}}));
    }

    /// Adds a chain that packets enter by themselves. Its policy is to accept: the table is about
    /// our interfaces and judges none of the host's other traffic.
    pub(super) fn base(&mut self, name: &str, kind: &str, hook: &str, priority: i32) {
        self.commands.push(json!({"add": {"chain": {
            "family": "inet", "table": self.name, "name": name,
            "type": kind, "hook": hook, "prio": priority, "policy": "accept",
        }}}));
    }

    /// Adds a chain that rules lead to.
    pub(super) fn chain(&mut self, name: &str) {
        let chain = json!({"family": "inet", "table": self.name, "name": name});
        self.commands.push(json!({"add": {"chain": chain}}));
    }

    /// Adds a rule to a chain, after those that are there.
    pub(super) fn rule(&mut self, chain: &str, expressions: impl Into<Vec<Value>>) {
        let expressions: Vec<Value> = expressions.into();
        self.commands.push(json!({"add": {"rule": {
            "family": "inet", "table": self.name, "chain": chain, "expr": expressions,
        }}}));
    }

    /// The transaction that puts this table in the place of one of the same name.
    pub(super) fn replace(self) -> Value {
        let mut commands =
            vec![json!({"add": {"table": {"family": "inet", "name": self.name.clone()}}})];
        commands.extend(self.commands);
        transaction(&self.name, commands)
    }

    /// The transaction that removes the table of this name.
    pub(super) fn removal(name: &str) -> Value {
        transaction(name, Vec::new())
    }
}

/// One transaction that removes the table, if it is there, and does `commands`.
fn transaction(table: &str, commands: Vec<Value>) -> Value {
    let table = json!({"table": {"family": "inet", "name": table}});
    // To delete a table that is not there is an error, to add one that is there is none. All of it
    // is one transaction, so there is no moment without rules.
    let mut all = vec![json!({"add": table}), json!({"delete": table})];
    all.extend(commands);
    json!({"nftables": all})
}

pub(super) fn accept() -> Value {
    json!({"accept": null})
}

pub(super) fn discard() -> Value {
    json!({"drop": null})
}

/// An answer: whoever asks for what is not allowed hears so at once instead of waiting for nothing.
pub(super) fn refuse() -> Value {
    json!({"reject": {"type": "icmpx", "expr": "admin-prohibited"}})
}

/// The end of a connection of TCP, for the one who has sent the packet.
pub(super) fn reset() -> Value {
    json!({"reject": {"type": "tcp reset"}})
}

/// A jump that does not come back: the rules behind it in a base chain are for other packets.
pub(super) fn goto(chain: &str) -> Value {
    json!({"goto": {"target": chain}})
}

/// Condition that a packet belongs to a connection that was accepted, or is about one.
pub(super) fn known() -> Value {
    state(json!(["established", "related"]))
}

pub(super) fn state(states: Value) -> Value {
    json!({"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": states}})
}

pub(super) fn meta(key: &str) -> Value {
    json!({"meta": {"key": key}})
}

pub(super) fn payload(protocol: &str, field: &str) -> Value {
    json!({"payload": {"protocol": protocol, "field": field}})
}

pub(super) fn equal(left: Value, right: Value) -> Value {
    json!({"match": {"op": "==", "left": left, "right": right}})
}

pub(super) fn differ(left: Value, right: Value) -> Value {
    json!({"match": {"op": "!=", "left": left, "right": right}})
}

pub(super) fn range(range: &Ipv4Net) -> Value {
    json!({"prefix": {"addr": range.network().to_string(), "len": range.prefix_len()}})
}

/// Asks `nft` for a listing, and returns the objects in it. Blocks.
pub(super) fn ask_nft(question: &[&str]) -> Result<Vec<Value>, FirewallError> {
    let output = Command::new("nft")
        .arg("-j")
        .args(question)
        .stdin(Stdio::null())
        .output()
        .map_err(FirewallError::NoTool)?;
    if !output.status.success() {
        return Err(refused(&output.stderr));
    }
    let mut listing: Value =
        serde_json::from_slice(&output.stdout).map_err(FirewallError::Listing)?;
    let Value::Array(objects) = listing["nftables"].take() else {
        return Ok(Vec::new());
    };
    Ok(objects)
}

/// Gives a transaction to `nft`. Blocks.
pub(super) fn run_nft(rules: &Value) -> Result<(), FirewallError> {
    let mut nft = Command::new("nft")
        .args(["-j", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(FirewallError::NoTool)?;
    let mut input = nft.stdin.take().expect("standard input is a pipe");
    let written = input.write_all(rules.to_string().as_bytes());
    drop(input);
    let output = nft.wait_with_output().map_err(FirewallError::NoTool)?;
    if output.status.success() {
        // If it failed, what it says is worth more than that it did not read to the end.
        return written.map_err(FirewallError::NoTool);
    }
    Err(refused(&output.stderr))
}

fn refused(said: &[u8]) -> FirewallError {
    let said = String::from_utf8_lossy(said);
    FirewallError::Refused(said.trim().chars().take(512).collect())
}
