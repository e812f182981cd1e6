//! Frames between the two processes of a sandbox's egress proxy: whatever the one says that reads the
//! sandbox, the other makes one request of it, for the host that was judged and with the rule's values.

pub(super) fn check(data: &[u8]) {
    skep_egress::fuzzing::read_frames(data);
}
