//! Counts what is read of an archive, and bounds the headers of its members.
//!
//! The library reads members that describe the next one (long names, extended headers) into memory
//! before anybody sees what comes, and as many bytes as they say.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Most bytes of headers of one member: names, owners and attributes.
pub(super) const MOST_HEADER_BYTES: u64 = 1 << 20;

/// A reader that can be held to a number of bytes.
pub(super) struct Meter<'a> {
    inner: Box<dyn Read + 'a>,
    gauge: Gauge,
}

/// The view of a [`Meter`] that whoever gave it away keeps.
#[derive(Debug, Clone, Default)]
pub(super) struct Gauge(Rc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    read: Cell<u64>,
    /// Bytes that may still be read; `None` outside of headers.
    left: Cell<Option<u64>>,
    is_spent: Cell<bool>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(inner: Box<dyn Read + 'a>) -> (Self, Gauge) {
        let gauge = Gauge::default();
        (
            Self {
                inner,
                gauge: gauge.clone(),
            },
            gauge,
        )
    }
}

impl Gauge {
    /// Bytes that were read.
    pub(super) fn read(&self) -> u64 {
        self.0.read.get()
    }

    pub(super) fn begin_headers(&self) {
        self.0.left.set(Some(MOST_HEADER_BYTES));
    }

    pub(super) fn end_headers(&self) {
        self.0.left.set(None);
    }

    /// Returns true if more was wanted than headers may take.
    pub(super) fn is_spent(&self) -> bool {
        self.0.is_spent.get()
    }
}

impl Read for Meter<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let counts = &self.gauge.0;
        let most = match counts.left.get() {
            Some(0) if !buffer.is_empty() => {
                counts.is_spent.set(true);
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Some(left) => buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX)),
            None => buffer.len(),
        };
        let length = self.inner.read(&mut buffer[..most])?;
        let bytes = length as u64;
        counts.read.set(counts.read.get().saturating_add(bytes));
        counts.left.set(counts.left.get().map(|left| left - bytes));
        Ok(length)
    }
}
