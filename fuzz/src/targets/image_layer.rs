//! Layers of images: whatever an archive says, compressed or not, no member of it names a place
//! outside of the layer, and none carries a mark of the overlay file system.

pub(super) fn check(data: &[u8]) {
    skep_oci::fuzzing::read_layer(data);
}
