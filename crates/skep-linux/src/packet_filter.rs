//! Changes of a table of the packet filter, without any other program.
//!
//! A change is one transaction: packets meet the table as it was, or as it is then. The messages
//! are those of `nf_tables.h`; numbers in them have the network's order of bytes.

use std::io;
use std::net::Ipv4Addr;

use crate::netfilter::{ACKNOWLEDGE, REQUEST, answers, attribute, message, nested, open, send};

const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// Messages of the subsystem, and those around a transaction.
const SUBSYSTEM: u16 = 10;
const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
const DELETE_CHAIN: u16 = (SUBSYSTEM << 8) | 5;
const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;
const NEW_SET: u16 = (SUBSYSTEM << 8) | 9;
const DELETE_SET: u16 = (SUBSYSTEM << 8) | 11;
const NEW_ELEMENTS: u16 = (SUBSYSTEM << 8) | 12;
const DELETE_ELEMENTS: u16 = (SUBSYSTEM << 8) | 14;
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;

/// Tables for packets of both families, which `nft` calls `inet`.
const FAMILY: [u8; 4] = [1, 0, 0, 0];

/// Flag of a set of ranges, and of an element at which a range has ended.
const INTERVALS: u32 = 4;
const INTERVAL_END: u32 = 1;
/// Notation in which `nft` shows the keys of a set.
const IPV4_ADDRESS: u32 = 7;
/// Ranges in one message: an attribute has no more than 64 KiB.
const RANGES_IN_MESSAGE: usize = 1000;

/// Registers of an expression: the verdict's, and the first for data.
const VERDICT: u32 = 0;
const DATA: u32 = 1;
const ACCEPT: i32 = 1;
const RETURN: i32 = -5;
const JUMP: i32 = -3;

/// Longest name of an interface, with the zero at its end.
const INTERFACE_BYTES: usize = 16;

/// A part of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expression<'a> {
    /// Goes on if the destination of the packet is in this set of addresses.
    DestinationIn(&'a str),
    /// Goes on if it is this address.
    Destination(Ipv4Addr),
    /// Goes on if the packet is of this protocol, by its number.
    Protocol(u8),
    /// Goes on if it is for this port, of a protocol that has some.
    DestinationPort(u16),
    /// Accepts the packet.
    Accept,
    /// Goes back to the chain that led here, as if no rule fitted.
    Return,
    /// Leads the connection to this address and port of the host. For chains of address
    /// translation.
    Redirect(Ipv4Addr, u16),
}

/// A value in a map of the packet filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapValue<'a> {
    /// Packets jump to this chain.
    Jump(&'a str),
}

/// A transaction on one table, which must be there.
#[derive(Debug)]
pub struct FilterChange<'a> {
    table: &'a str,
    messages: Vec<(u16, u16, Vec<u8>)>,
}

impl<'a> FilterChange<'a> {
    /// A transaction that changes nothing yet.
    pub fn new(table: &'a str) -> Self {
        Self {
            table,
            messages: Vec::new(),
        }
    }

    /// Adds a set of these ranges, from the first address to the last. They are sorted, and there
    /// is a gap after each.
    pub fn add_ranges(&mut self, name: &str, ranges: impl Iterator<Item = (Ipv4Addr, Ipv4Addr)>) {
        let set = [
            self.of_table(1),
            text(2, name),
            number(3, INTERVALS),
            number(4, IPV4_ADDRESS),
            number(5, 4),
            // Sets of one transaction are told apart by such a number.
            number(10, u32::try_from(self.messages.len()).unwrap_or(u32::MAX)),
        ];
        self.add(NEW_SET, CREATE, set.concat());
        let elements: Vec<_> = ranges.map(range_elements).collect();
        for elements in elements.chunks(RANGES_IN_MESSAGE) {
            let elements = nested(3, &elements.concat());
            let list = [self.of_table(1), text(2, name), elements].concat();
            self.add(NEW_ELEMENTS, CREATE, list);
        }
    }

    /// Deletes a set that no rule looks at any more.
    pub fn delete_set(&mut self, name: &str) {
        let set = [self.of_table(1), text(2, name)].concat();
        self.add(DELETE_SET, 0, set);
    }

    /// Adds a chain that rules lead to.
    pub fn add_chain(&mut self, name: &str) {
        let chain = [self.of_table(1), text(3, name)].concat();
        self.add(NEW_CHAIN, CREATE, chain);
    }

    /// Deletes a chain to which nothing leads any more, with its rules.
    pub fn delete_chain(&mut self, name: &str) {
        let chain = [self.of_table(1), text(3, name)].concat();
        self.add(DELETE_CHAIN, 0, chain);
    }

    /// Adds a rule to a chain, after those that are there.
    pub fn add_rule(&mut self, chain: &str, expressions: &[Expression<'_>]) {
        let expressions: Vec<_> = expressions.iter().flat_map(encode).collect();
        let expressions = nested(4, &expressions.concat());
        let rule = [self.of_table(1), text(2, chain), expressions].concat();
        self.add(NEW_RULE, CREATE | APPEND, rule);
    }

    /// Adds the entry of an interface to a map.
    pub fn map_interface(&mut self, map: &str, interface: &str, value: MapValue<'_>) {
        let value = match value {
            MapValue::Jump(chain) => {
                let verdict = [number(1, JUMP.cast_unsigned()), text(2, chain)].concat();
                nested(2, &nested(2, &verdict))
            }
        };
        self.change_interface(NEW_ELEMENTS, CREATE, map, interface, &value);
    }

    /// Deletes the entry of an interface from a map.
    pub fn unmap_interface(&mut self, map: &str, interface: &str) {
        self.change_interface(DELETE_ELEMENTS, 0, map, interface, &[]);
    }

    fn change_interface(
        &mut self,
        kind: u16,
        flags: u16,
        map: &str,
        interface: &str,
        value: &[u8],
    ) {
        let mut key = [0; INTERFACE_BYTES];
        for (to, from) in key[..INTERFACE_BYTES - 1].iter_mut().zip(interface.bytes()) {
            *to = from;
        }
        let element = [nested(1, &data(&key)), value.to_vec()].concat();
        let elements = nested(3, &nested(1, &element));
        let list = [self.of_table(1), text(2, map), elements].concat();
        self.add(kind, flags, list);
    }

    /// Makes the change, all of it or nothing. Blocks for as long as the kernel takes.
    ///
    /// # Errors
    ///
    /// The kernel's error about the first part that it refuses; `ENOENT` if the table, or what is
    /// to be deleted, is not there.
    pub fn commit(self) -> io::Result<()> {
        let last = self.messages.len();
        if last == 0 {
            return Ok(());
        }
        let [high, low] = SUBSYSTEM.to_be_bytes();
        let around = |kind, number| message((kind, REQUEST), number, [0, 0, high, low], &[]);
        let mut batch = around(BEGIN, 0)?;
        for (index, (kind, flags, attributes)) in self.messages.into_iter().enumerate() {
            let number = index + 1;
            // The kernel speaks of every part that fails, and then of those that ask for it.
            let acknowledge = if number == last { ACKNOWLEDGE } else { 0 };
            let flags = REQUEST | acknowledge | flags;
            let number = u32::try_from(number).map_err(io::Error::other)?;
            batch.extend(message((kind, flags), number, FAMILY, &attributes)?);
        }
        batch.extend(around(END, u32::MAX)?);
        let socket = open()?;
        send(&socket, &batch)?;
        answers(&socket, |_| ())
    }

    fn of_table(&self, kind: u16) -> Vec<u8> {
        text(kind, self.table)
    }

    fn add(&mut self, kind: u16, flags: u16, attributes: Vec<u8>) {
        self.messages.push((kind, flags, attributes));
    }
}

/// A range as a set has it: an element where it begins and one behind its end, unless there is
/// no address behind it.
fn range_elements((first, last): (Ipv4Addr, Ipv4Addr)) -> Vec<u8> {
    let key = |address: Ipv4Addr| nested(1, &data(&address.octets()));
    let begin = nested(1, &key(first));
    let behind = u32::from(last).checked_add(1).map(Ipv4Addr::from);
    let end = behind.map(|behind| {
        let element = [key(behind), number(3, INTERVAL_END)].concat();
        nested(1, &element)
    });
    [begin, end.unwrap_or_default()].concat()
}

fn encode(expression: &Expression<'_>) -> Vec<Vec<u8>> {
    match expression {
        Expression::DestinationIn(set) => {
            let look_up = [text(1, set), number(2, DATA)].concat();
            let mut expressions = destination();
            expressions.push(named("lookup", &look_up));
            expressions
        }
        Expression::Destination(address) => {
            let mut expressions = destination();
            expressions.push(is_equal(&address.octets()));
            expressions
        }
        Expression::Protocol(protocol) => {
            const PROTOCOL: u32 = 16;
            vec![meta(PROTOCOL), is_equal(&[*protocol])]
        }
        Expression::DestinationPort(port) => {
            const TRANSPORT: u32 = 2;
            vec![load(TRANSPORT, 2, 2), is_equal(&port.to_be_bytes())]
        }
        Expression::Accept => vec![verdict(ACCEPT)],
        Expression::Return => vec![verdict(RETURN)],
        Expression::Redirect(address, port) => redirect(*address, *port),
    }
}

/// Decides about the packet.
fn verdict(code: i32) -> Vec<u8> {
    let verdict = nested(2, &number(1, code.cast_unsigned()));
    let verdict = [number(1, VERDICT), nested(2, &verdict)].concat();
    named("immediate", &verdict)
}

/// Changes the destination of a connection.
fn redirect(address: Ipv4Addr, port: u16) -> Vec<Vec<u8>> {
    const DESTINATION: u32 = 1;
    const IPV4: u32 = 2;
    const SECOND: u32 = 2;
    let load = |register, value: &[u8]| {
        let immediate = [number(1, register), nested(2, &data(value))].concat();
        named("immediate", &immediate)
    };
    let translate = [
        number(1, DESTINATION),
        number(2, IPV4),
        number(3, DATA),
        number(5, SECOND),
    ];
    vec![
        load(DATA, &address.octets()),
        load(SECOND, &port.to_be_bytes()),
        named("nat", &translate.concat()),
    ]
}

/// Goes on with packets of IPv4, and loads their destination.
fn destination() -> Vec<Vec<u8>> {
    const VERSION: u32 = 15;
    const IPV4: u8 = 2;
    const NETWORK: u32 = 1;
    vec![meta(VERSION), is_equal(&[IPV4]), load(NETWORK, 16, 4)]
}

/// Loads something that the kernel knows of a packet.
fn meta(what: u32) -> Vec<u8> {
    named("meta", &[number(1, DATA), number(2, what)].concat())
}

fn load(base: u32, offset: u32, length: u32) -> Vec<u8> {
    let load = [
        number(1, DATA),
        number(2, base),
        number(3, offset),
        number(4, length),
    ];
    named("payload", &load.concat())
}

fn is_equal(value: &[u8]) -> Vec<u8> {
    const EQUAL: u32 = 0;
    let compare = [number(1, DATA), number(2, EQUAL), nested(3, &data(value))];
    named("cmp", &compare.concat())
}

fn named(name: &str, attributes: &[u8]) -> Vec<u8> {
    nested(1, &[text(1, name), nested(2, attributes)].concat())
}

fn data(value: &[u8]) -> Vec<u8> {
    attribute(1, value)
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

fn text(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, &[text.as_bytes(), &[0]].concat())
}
