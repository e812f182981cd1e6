//! The first message of TLS: the name of the host that a client asks for.
//!
//! What is passed on untouched is read again by the host at the other end, perhaps in another way.
//! So whatever could be read in two ways is refused: two names, two lists of names, bytes that are
//! left over.

use skep_types::HostName;

/// No client says more before it is answered, with keys of every kind that there is.
pub(crate) const LONGEST: usize = 16 * 1024;

/// Content type of handshake messages, and the type of the first of them.
pub(crate) const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const RECORD_HEAD: usize = 5;
/// A record has no more than this.
const LONGEST_RECORD: usize = 1 << 14;

/// Extensions: the name of the host, and an encrypted message with another name.
const SERVER_NAME: u16 = 0;
const ENCRYPTED_HELLO: u16 = 0xfe0d;
const HOST_NAME: u8 = 0;

/// Meaning of the first bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// More has to be read.
    Unfinished,
    /// They are not the beginning of TLS, or could be read in two ways.
    Invalid,
    /// No host is named.
    Nameless,
    /// The name is encrypted, and what stands in its place means nothing.
    Encrypted,
    /// This host is named.
    Named(HostName),
}

/// Reads what a client has said so far.
pub(crate) fn read(bytes: &[u8]) -> Hello {
    match message(bytes) {
        Ok(Some(message)) => body(&message).unwrap_or(Hello::Invalid),
        Ok(None) => Hello::Unfinished,
        Err(Invalid) => Hello::Invalid,
    }
}

struct Invalid;

/// The message, put together of the records that it came in; `None` if some are missing.
fn message(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, Invalid> {
    let mut message = Vec::new();
    loop {
        if let Some(length) = length_of(&message)?
            && message.len() >= length
        {
            // Nothing but the message may be in its records: it is all that a client may say.
            return if message.len() == length {
                Ok(Some(message.split_off(4)))
            } else {
                Err(Invalid)
            };
        }
        // What is there is looked at before the rest comes, so that others hear so at once.
        if bytes.first().is_some_and(|kind| *kind != HANDSHAKE)
            || bytes.get(1).is_some_and(|version| *version != 3)
        {
            return Err(Invalid);
        }
        let Some((head, rest)) = bytes.split_at_checked(RECORD_HEAD) else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        if length == 0 || length > LONGEST_RECORD {
            return Err(Invalid);
        }
        let Some((record, rest)) = rest.split_at_checked(length) else {
            return Ok(None);
        };
        message.extend_from_slice(record);
        bytes = rest;
    }
}

/// Length of the message with its head, once that is there.
fn length_of(message: &[u8]) -> Result<Option<usize>, Invalid> {
    match message {
        [kind, ..] if *kind != CLIENT_HELLO => Err(Invalid),
        [_, high, middle, low, ..] => {
            let length = u32::from_be_bytes([0, *high, *middle, *low]);
            let length = usize::try_from(length).map_err(|_| Invalid)?;
            if length > LONGEST {
                return Err(Invalid);
            }
            Ok(Some(length + 4))
        }
        _ => Ok(None),
    }
}

/// Reads a whole message; `None` if it is not well-formed.
fn body(message: &[u8]) -> Option<Hello> {
    const VERSION_AND_RANDOM: usize = 34;
    let mut rest = Reader(message);
    rest.take(VERSION_AND_RANDOM)?;
    rest.list8()?;
    rest.list16()?;
    rest.list8()?;
    if rest.0.is_empty() {
        return Some(Hello::Nameless);
    }
    let mut extensions = Reader(rest.list16()?);
    if !rest.0.is_empty() {
        return None;
    }
    let (mut name, mut is_encrypted) = (None, false);
    while !extensions.0.is_empty() {
        let kind = extensions.number16()?;
        let contents = extensions.list16()?;
        match kind {
            SERVER_NAME if name.is_some() => return None,
            SERVER_NAME => name = Some(host_name(contents)?),
            ENCRYPTED_HELLO => is_encrypted = true,
            _ => {}
        }
    }
    Some(match name {
        _ if is_encrypted => Hello::Encrypted,
        Some(name) => Hello::Named(name),
        None => Hello::Nameless,
    })
}

/// The only name of a list.
fn host_name(contents: &[u8]) -> Option<HostName> {
    let mut contents = Reader(contents);
    let mut names = Reader(contents.list16()?);
    let kind = names.take(1)?;
    let name = names.list16()?;
    if !contents.0.is_empty() || !names.0.is_empty() || kind != [HOST_NAME] {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Bytes behind a length of one byte.
    fn list8(&mut self) -> Option<&'a [u8]> {
        let length = *self.take(1)?.first()?;
        self.take(length.into())
    }

    /// Bytes behind a length of two bytes.
    fn list16(&mut self) -> Option<&'a [u8]> {
        let length = self.number16()?;
        self.take(length.into())
    }
}

// Named in full, because the fuzz target includes this file from elsewhere.
#[cfg(test)]
#[path = "client_hello/tests.rs"]
mod tests;
