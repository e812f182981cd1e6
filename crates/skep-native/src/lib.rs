//! Isolation by namespaces, cgroups, overlay and seccomp.

mod cgroup;
mod dns;
