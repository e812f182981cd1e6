//! Names of layers.

use std::fmt;
use std::str::FromStr;

/// Number of bytes in a key.
const BYTES: usize = 32;

/// Key of a read-only layer: the hash of everything that went into it.
///
/// Every host that has the layer has it under this key; where its files are is the host's own
/// business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayerKey([u8; BYTES]);

/// The text is not the key of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key of a layer has 64 hexadecimal digits")]
pub struct LayerKeyError;

impl From<[u8; BYTES]> for LayerKey {
    fn from(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for LayerKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl FromStr for LayerKey {
    type Err = LayerKeyError;

    fn from_str(text: &str) -> Result<Self, LayerKeyError> {
        let mut bytes = [0; BYTES];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| LayerKeyError)?;
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written_and_a_path_is_none() {
        let key = LayerKey::from([0xab; BYTES]);
        assert_eq!(key.to_string().parse(), Ok(key));
        for wrong in ["", "ab", "../../etc", &"g".repeat(64)] {
            assert_eq!(wrong.parse::<LayerKey>(), Err(LayerKeyError), "{wrong}");
        }
    }
}
