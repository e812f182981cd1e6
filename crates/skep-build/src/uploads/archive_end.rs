//! The end of an archive: a tar that broke off has none.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek as _};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const BLOCK: usize = 512;

/// Most bytes that are unpacked to look for an end. What is larger is found out by whoever unpacks
/// it, with limits of its own.
const MOST_UNPACKED: u64 = 64 << 30;

/// Failure to find the end of an archive.
#[derive(Debug)]
pub(super) enum EndError {
    /// It has none.
    Broken(&'static str),
    /// It cannot be read.
    Unreadable(io::Error),
}

/// Checks that the file is a tar, perhaps in gzip, that does not end in the middle.
pub(super) fn check(path: &Path) -> Result<(), EndError> {
    let mut file = File::open(path).map_err(EndError::Unreadable)?;
    let mut start = Vec::with_capacity(GZIP.len());
    let reading = Read::by_ref(&mut file).take(2).read_to_end(&mut start);
    reading.map_err(EndError::Unreadable)?;
    file.rewind().map_err(EndError::Unreadable)?;
    let file = BufReader::with_capacity(1 << 16, file);
    let (mut unpacked, broken): (Box<dyn Read>, _) = if start == GZIP {
        let decoder = MultiGzDecoder::new(file);
        (
            Box::new(decoder),
            "its gzip stream is damaged or ends early",
        )
    } else {
        (Box::new(file), "it cannot be read")
    };
    has_end(&mut unpacked).map_err(|error| {
        let is_of_content = [
            ErrorKind::UnexpectedEof,
            ErrorKind::InvalidData,
            ErrorKind::InvalidInput,
        ];
        if is_of_content.contains(&error.kind()) {
            EndError::Broken(broken)
        } else {
            EndError::Unreadable(error)
        }
    })?
}

/// A tar ends with blocks of zeros, and consists of whole blocks.
fn has_end(unpacked: &mut dyn Read) -> io::Result<Result<(), EndError>> {
    let mut block = [0; BLOCK];
    let mut last_is_empty = false;
    let mut count: u64 = 0;
    loop {
        let length = read_block(unpacked, &mut block)?;
        if length == 0 {
            break;
        }
        if length < BLOCK {
            return Ok(Err(EndError::Broken("it ends in the middle of a block")));
        }
        last_is_empty = block.iter().all(|byte| *byte == 0);
        count += 1;
        if count * BLOCK as u64 > MOST_UNPACKED {
            return Ok(Ok(()));
        }
    }
    Ok(if count == 0 {
        Err(EndError::Broken("it is empty"))
    } else if last_is_empty {
        Ok(())
    } else {
        Err(EndError::Broken("the end of the tar is missing"))
    })
}

fn read_block(unpacked: &mut dyn Read, block: &mut [u8; BLOCK]) -> io::Result<usize> {
    let mut length = 0;
    while length < BLOCK {
        match unpacked.read(&mut block[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
