//! The process that unpacks a layer.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use rustix::fs::{CWD, Mode, OFlags};
use skep_launch::{ConfinedLimits, confine};

use super::layer::Layer;
use super::members::read_members;
use super::stream::LayerStream;
use super::{Report, UnpackLimits, Unpacked};

/// Address space: the largest window of a compressed layer, and the names of its directories.
const MEMORY: u64 = 1 << 30;
const PROCESSOR_SECONDS: u64 = 20 * 60;
const OPEN_FILES: u64 = 64;

/// Unpacks the layer on the standard input into the working directory, within the limits that the
/// argument says, and prints what has become of it.
///
/// The process is confined to that directory before it reads a byte, which takes root and a
/// process without other threads.
pub fn unpack_layer(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let limits = arguments
        .next()
        .and_then(|text| serde_json::from_str(text.to_str()?).ok());
    let report = match limits {
        Some(limits) => match unpack(limits) {
            Ok(unpacked) => Report::Done(unpacked),
            Err(error) => Report::Failed(error),
        },
        None => Report::Failed("the process was not told its limits".to_owned()),
    };
    let line = serde_json::to_vec(&report).unwrap_or_default();
    let mut output = io::stdout().lock();
    if output
        .write_all(&line)
        .and_then(|()| output.flush())
        .is_err()
    {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn unpack(limits: UnpackLimits) -> Result<Unpacked, String> {
    confine(ConfinedLimits {
        memory: MEMORY,
        file: limits.bytes,
        processor_seconds: PROCESSOR_SECONDS,
        open_files: OPEN_FILES,
    })
    .map_err(|error| {
        let source = std::error::Error::source(&error)
            .map(ToString::to_string)
            .unwrap_or_default();
        format!("the process cannot be confined: {error}: {source}")
    })?;
    let text = |error: io::Error| error.to_string();
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(text)?;
    let root = rustix::fs::openat(
        CWD,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|error| text(error.into()))?;
    let mut stream = LayerStream::new(BufReader::with_capacity(1 << 18, File::from(input)), limits)
        .map_err(text)?;
    let mut layer = Layer::new(root, limits);
    read_members(&mut stream, &mut layer).map_err(text)?;
    let (devices, implied) = layer.finish().map_err(text)?;
    Ok(Unpacked {
        diff_id: stream.finish().map_err(text)?.to_string(),
        devices,
        implied,
    })
}
