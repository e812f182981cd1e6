//! The bytes of a layer: decompressed, counted and hashed.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use sha2::{Digest as _, Sha256};

use super::{TOO_LARGE, UnpackLimits};
use crate::digest::Digest;

/// Bytes that a layer may unpack to whatever its compressed size is.
const FREE_BYTES: u64 = 64 << 20;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Frames of zstd that carry no content: sixteen numbers, of which this is the first.
const SKIPPABLE: u32 = 0x184d_2a50;
/// Members of an archive are at most as large as its limit; headers and padding come on top.
const HEADERS: u64 = 2048;

/// The archive of a layer, whatever it is compressed with.
pub(super) struct LayerStream<R: BufRead> {
    source: Source<R>,
    hash: Sha256,
    produced: u64,
    limits: UnpackLimits,
}

enum Source<R: BufRead> {
    Plain(Counted<R>),
    Gzip(Box<MultiGzDecoder<Counted<R>>>),
    Zstd(Box<Frames<Counted<R>>>),
}

/// Counts what is read.
pub(super) struct Counted<R> {
    inner: R,
    count: u64,
}

impl<R: BufRead> LayerStream<R> {
    /// The archive in `input`. What it is compressed with is told by its first bytes: media types
    /// have been wrong.
    pub(super) fn new(mut input: R, limits: UnpackLimits) -> io::Result<Self> {
        let start = input.fill_buf()?.to_vec();
        let counted = Counted {
            inner: input,
            count: 0,
        };
        let source = if start.starts_with(&GZIP) {
            Source::Gzip(Box::new(MultiGzDecoder::new(counted)))
        } else if start.starts_with(&ZSTD) || is_skippable(&start) {
            Source::Zstd(Box::new(Frames::new(counted)))
        } else {
            Source::Plain(counted)
        };
        Ok(Self {
            source,
            hash: Sha256::new(),
            produced: 0,
            limits,
        })
    }

    /// Reads what is left, which is padding, and gives the digest of all.
    pub(super) fn finish(mut self) -> io::Result<Digest> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(Digest::finished(self.hash))
    }

    fn consumed(&self) -> u64 {
        match &self.source {
            Source::Plain(source) => source.count,
            Source::Gzip(decoder) => decoder.get_ref().count,
            Source::Zstd(frames) => frames.source().map_or(0, |source| source.count),
        }
    }
}

impl<R: BufRead> Read for LayerStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match &mut self.source {
            Source::Plain(source) => source.read(buffer),
            Source::Gzip(decoder) => decoder.read(buffer),
            Source::Zstd(frames) => frames.read(buffer),
        }?;
        self.hash.update(&buffer[..length]);
        self.produced += length as u64;
        let headers = self.limits.members.saturating_mul(HEADERS);
        if self.produced > self.limits.bytes.saturating_add(headers) {
            return Err(io::Error::other(TOO_LARGE));
        }
        let most = self.consumed().saturating_mul(self.limits.ratio);
        if self.produced > most.saturating_add(FREE_BYTES) {
            return Err(io::Error::other("it unpacks to far more than it is"));
        }
        Ok(length)
    }
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.count += length as u64;
        Ok(length)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.inner.consume(amount);
        self.count += amount as u64;
    }
}

/// Frames of zstd, one after another. The decoder reads one and stops.
struct Frames<R: BufRead> {
    state: Option<Frame<R>>,
}

enum Frame<R: BufRead> {
    Between(R),
    Within(Box<StreamingDecoder<R, FrameDecoder>>),
}

impl<R: BufRead> Frames<R> {
    fn new(source: R) -> Self {
        Self {
            state: Some(Frame::Between(source)),
        }
    }

    fn source(&self) -> Option<&R> {
        match self.state.as_ref()? {
            Frame::Between(source) => Some(source),
            Frame::Within(decoder) => Some(decoder.get_ref()),
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            // A frame that could not be read took the source with it: the decoder panics if it is asked again.
            let state = self.state.take().ok_or(io::ErrorKind::InvalidData)?;
            match state {
                Frame::Within(mut decoder) => match decoder.read(buffer)? {
                    0 => self.state = Some(Frame::Between(decoder.into_inner())),
                    length => {
                        self.state = Some(Frame::Within(decoder));
                        return Ok(length);
                    }
                },
                Frame::Between(mut source) => {
                    let next = skip_frames(&mut source);
                    if !matches!(next, Ok(true)) {
                        self.state = Some(Frame::Between(source));
                        return next.map(|_| 0);
                    }
                    self.state = Some(Frame::Between(source));
                    self.begin()?;
                }
            }
        }
    }
}

impl<R: BufRead> Frames<R> {
    /// Begins the frame that the source stands before.
    fn begin(&mut self) -> io::Result<()> {
        let Some(Frame::Between(source)) = self.state.take() else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        // A decoder that does not like the frame keeps the source, and nothing comes after that.
        let decoder = StreamingDecoder::new(source)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        self.state = Some(Frame::Within(Box::new(decoder)));
        Ok(())
    }
}

/// Passes over frames without content. False at the end.
fn skip_frames(source: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let start = source.fill_buf()?;
        if start.is_empty() {
            return Ok(false);
        }
        if !is_skippable(start) {
            return Ok(true);
        }
        let mut head = [0; 8];
        source.read_exact(&mut head)?;
        let [_, _, _, _, a, b, c, d] = head;
        let length = u64::from(u32::from_le_bytes([a, b, c, d]));
        let skipped = io::copy(&mut source.by_ref().take(length), &mut io::sink())?;
        if skipped < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn is_skippable(start: &[u8]) -> bool {
    start
        .first_chunk::<4>()
        .is_some_and(|magic| u32::from_le_bytes(*magic) & 0xffff_fff0 == SKIPPABLE)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn limits(bytes: u64) -> UnpackLimits {
        UnpackLimits {
            bytes,
            members: 1,
            ratio: 10,
        }
    }

    fn read(input: &[u8], limits: UnpackLimits) -> Result<(Vec<u8>, String), String> {
        let mut stream = LayerStream::new(input, limits).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        stream
            .read_to_end(&mut found)
            .map_err(|error| error.to_string())?;
        let digest = stream.finish().map_err(|error| error.to_string())?;
        Ok((found, digest.to_string()))
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// A frame of zstd with one block that is stored as it is.
    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let size = u8::try_from(bytes.len()).unwrap();
        let block = (u32::from(size) << 3) | 1;
        let mut frame = ZSTD.to_vec();
        frame.extend([0x20, size]);
        frame.extend(&block.to_le_bytes()[..3]);
        frame.extend(bytes);
        frame
    }

    #[test]
    fn every_compression_gives_the_same_bytes_and_digest() {
        let plain = (b"hello".to_vec(), Digest::of(b"hello").to_string());
        let skipped = [
            &[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..],
            &zstd(b"he"),
            &zstd(b"llo"),
        ];
        for input in [
            b"hello".to_vec(),
            gzip(b"hello"),
            [gzip(b"he"), gzip(b"llo")].concat(),
            zstd(b"hello"),
            skipped.concat(),
        ] {
            assert_eq!(read(&input, limits(10)), Ok(plain.clone()), "{input:x?}");
        }
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let most = usize::try_from(FREE_BYTES).unwrap() + (1 << 20);
        let bomb = gzip(&vec![0; most]);
        let refused = read(&bomb, limits(1 << 40));
        assert_eq!(refused, Err("it unpacks to far more than it is".to_owned()));
        let refused = read(&[7; 4000], limits(1000));
        assert_eq!(refused, Err(TOO_LARGE.to_owned()));
    }

    #[test]
    fn nobody_asks_a_decoder_that_has_failed() {
        // Found by fuzzing: after this the decoder looks into a table that it has not filled.
        let found =
            b"\x28\xb5\x2f\xfd\x00\x03\x00\x00\x00\x00\x00\x00\x5d\x00\x00\x08\xf1\xf1\x36\xe0\
              \x9f\x6f\x8a\x1e\x00\x00\x5d\x00\x00\x00\xf1\x9f\x38\xe0\xf1\x6f\x63\x63\x63\x63\
              \x63\x63\x63\x63\x63\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x63\
              \x63\x63\x63\x63\x63\x63\x63\x63\x63\x63\x63\x63\x63\x63\x63\x63\x66\xa6\x66\x0c\
              \x0a\x06\xe3\xf1\x00\x6f";
        let mut stream = LayerStream::new(&found[..], limits(1 << 20)).unwrap();
        for _ in 0..2 {
            stream.read(&mut [0; 64]).unwrap_err();
        }
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        for whole in [gzip(b"hello"), zstd(b"hello")] {
            let cut = &whole[..whole.len() - 2];
            assert!(read(cut, limits(10)).is_err(), "{cut:x?}");
        }
    }
}
