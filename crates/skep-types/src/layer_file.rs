//! Files in layers.

/// A file in a layer, or the mark that one below is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerFile {
    /// True if the layer takes the file away.
    pub is_removed: bool,
    /// True for a directory.
    pub is_directory: bool,
    /// Bytes of its content; a directory or a link has none.
    pub bytes: u64,
    /// Its permissions, without its type.
    pub mode: u32,
    /// Time of its last change, in seconds.
    pub modified: i64,
}
