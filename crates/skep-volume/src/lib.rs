//! Volumes: files that outlive sandboxes.
//!
//! A [`Backend`] keeps volumes; [`LocalVolumes`] keeps each in a file of this host that holds a
//! filesystem of the volume's size, so that the size is a limit and `df` tells the truth. Sandboxes
//! get a volume as a mount; the server handles files of it through [`Content`].
//!
//! Everything here blocks, and takes as much memory for a large file as for a small one.

mod backend;
mod content;
mod error;
mod fake;
mod local;
mod path;

pub use backend::{Backend, VolumeUsage};
pub use content::{
    Attributes, Content, Download, Entry, EntryKind, MOST_ENTRIES, Ownership, Upload, WriteMode,
};
pub use error::{ContentError, VolumeError};
pub use fake::FakeVolumes;
pub use local::LocalVolumes;
pub use path::{PathError, VolumePath};
