//! A kernel that runs no process, for tests of everything above kernels.
