//! An input that stands for several texts: they are separated by lines.

/// The first `N` lines of the input, the last of which takes all that is left. A missing one is
/// empty, and what is no text is replaced.
pub(crate) fn texts<const N: usize>(data: &[u8]) -> [String; N] {
    let mut pieces = data.splitn(N, |byte| *byte == b'\n');
    std::array::from_fn(|_| String::from_utf8_lossy(pieces.next().unwrap_or_default()).into_owned())
}
