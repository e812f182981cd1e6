//! Safe wrappers over system calls; the only crate with `unsafe`.
//!
//! Most of what Skep asks of the kernel goes through `rustix`, which is safe already. Here is
//! what it does not have, or what is safe only under a condition that can be checked.
#![allow(unsafe_code, reason = "the system call crate")]

mod clone;
mod connections;
mod data_disk;
mod effective_user;
mod execute;
mod file_owner;
mod filter;
mod first_process;
mod inherited;
mod kernel_text;
mod keyring;
mod loop_device;
mod memory_file;
mod mount;
mod namespace;
mod netfilter;
mod open_file;
mod open_resolved;
mod overlay_disk;
pub mod packet;
pub mod packet_filter;
mod page_out;
mod page_out_process;
mod pidfd;
mod port;
mod remove_tree;
pub mod route;
mod signals;
mod sparse_file;
pub mod spawn_as;

pub use clone::{
    Child, Cloned, clone_process, clone_sibling, exit_now, leave_namespaces, leave_shared_view,
};
pub use connections::{RememberedConnection, forget_connections};
pub use data_disk::{FrozenFilesystem, mount_data_disk, thaw_filesystem};
pub use effective_user::as_effective_user;
pub use execute::{Executable, Execution, close_on_execute_from, execute};
pub use file_owner::as_file_owner;
pub use filter::{Instruction, install_filter};
pub use first_process::{MARKER, close_first_process, open_first_process, protect_first_process};
pub use inherited::{take_inherited, take_standard_input};
pub use kernel_text::kernel_text;
pub use keyring::leave_session_keyring;
pub use loop_device::{LoopDevice, attach_loop_device, attached_loop_device};
pub use memory_file::{bounded_file, sealed_file};
pub use mount::{add_mount_attributes, map_ids};
pub use namespace::owner_of_namespace;
pub use open_file::{is_same_open_file, share_descriptors};
pub use open_resolved::{open_resolved, retry_openat2};
pub use overlay_disk::{
    UPPER, WORK, mount_lower_disk, mount_overlay_disk, mount_used_overlay_disk, sync_loop_disk,
};
pub use page_out::page_out;
pub use page_out_process::{MOST_RANGES, page_out_process};
pub use pidfd::{Termination, termination};
pub use port::forget_sharing;
pub use remove_tree::{empty_directory, empty_directory_while};
pub use signals::reset_signals;
pub use sparse_file::{copy_data, copy_sparse, share_blocks};
