//! Names that nobody can guess.

/// `length` random letters and digits.
pub(crate) fn random(length: usize) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).expect("the kernel has randomness once it runs programs");
    bytes
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(byte & 31)]))
        .collect()
}
