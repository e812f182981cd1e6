//! Isolation by namespaces, cgroups, overlay and seccomp.
