//! Randomness for ids, keys and tokens.

/// Bytes that nobody can guess.
///
/// # Panics
///
/// If the kernel has no randomness, which it has from the moment it runs programs.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel's random source is always there");
    bytes
}
