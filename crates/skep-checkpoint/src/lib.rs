//! Images of whole process trees with their memory, made and restored by CRIU.
//!
//! CRIU writes and reads the processes. What it does not carry is here: which files and mounts of
//! a tree are not the tree's own ([`Survey`]), the files in its memory file systems
//! ([`pack`], [`unpack`]), other ids and cgroups for a copy ([`rewrite`]), and the seal by which an
//! image that was edited is refused ([`seal`]), and the encryption by which nobody reads one without
//! the key ([`ImageKey`]).
//!
//! Nothing here starts a process or enters a namespace: the launcher does.

mod archive;
mod command;
mod criu;
mod cure;
mod encryption;
mod fetch;
mod message;
mod proc;
mod rewrite;
mod seal;
mod survey;
mod watches;

pub use archive::{ArchiveError, pack, unpack};
pub use command::{
    ANSWER, CGROUPS, HOOK, STAGE, dump_arguments, error_in, reason_of, restore_arguments,
};
pub use criu::{Criu, CriuError, MINIMUM_VERSION};
pub use cure::is_in_the_hands_of_criu;
pub use encryption::{ImageKey, encrypt_directory};
pub use fetch::{FetchError, SUITE, fetch};
pub use proc::{of_tree, tree_of};
pub use rewrite::{NewPlace, RewriteError, rewrite};
pub use seal::{SealCheck, SealError, Sealed, Sealing, seal};
pub use skep_seal::KeyError;
pub use survey::{
    ExternalFile, ExternalMount, MESSAGE_QUEUE, Origin, PipeOwner, Surroundings, Survey,
    SurveyError, WATCHES, foreign_files, own_pipes,
};
