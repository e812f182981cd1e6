//! The mounts of a sandbox.

use std::path::Path;

use super::{Difference, require};

/// One line of a process's `mountinfo`.
struct Mount<'a> {
    /// Path in its file system.
    root: &'a str,
    point: &'a str,
    options: &'a str,
    kind: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        Some(Self {
            root: fields.next()?,
            point: fields.next()?,
            options: fields.next()?,
            kind: after.split(' ').next()?,
        })
    }

    fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|found| found == option)
    }
}

/// Requires that everything is covered that a launch covers, that what it mounts read-only is, and
/// that there is no mount that it does not make. `places` are those outside of `/proc`.
pub(super) fn inspect(
    first: i32,
    mountinfo: &str,
    places: &[&str],
    volumes: &[skep_types::Mount],
) -> Result<(), Difference> {
    let differs = |found: &str| Difference::new(first, "mounts", found);
    let mounts = mountinfo
        .lines()
        .map(|line| Mount::parse(line).ok_or(line))
        .collect::<Result<Vec<_>, _>>()
        .map_err(differs)?;
    // The last one at a place is the one that is seen there.
    let seen = |point: &str| mounts.iter().rev().find(|mount| mount.point == point);
    for covered in skep_launch::covered_proc() {
        // Kernels are built without one or the other.
        if !Path::new(&covered).exists() {
            continue;
        }
        // A part of `/proc` that was mounted there would cover nothing.
        let covers = seen(&covered).is_some_and(|mount| mount.kind != "proc");
        require(covers, first, "mounts", &covered)?;
    }
    for mount in &mounts {
        let in_proc = mount.point.strip_prefix("/proc/");
        let is_made = match in_proc {
            None => ["/", "/proc"].contains(&mount.point) || places.contains(&mount.point),
            Some(_) if mount.kind == "proc" => {
                skep_launch::read_only_proc().any(|path| path == mount.point)
                    && mount.root == mount.point.trim_start_matches("/proc")
                    && mount.has("ro")
            }
            Some(_) => {
                places.contains(&mount.point)
                    || skep_launch::covered_proc().any(|path| path == mount.point)
            }
        };
        require(is_made, first, "mounts", mount.point)?;
        let is_system = mount.point == "/proc" || mount.point.starts_with("/sys");
        let is_locked = !is_system
            || ["nosuid", "nodev", "noexec"]
                .iter()
                .all(|name| mount.has(name));
        require(is_locked, first, "mounts", mount.point)?;
    }
    for mount in &mounts {
        // Of a sandbox only volumes are that, and none is over anything else: what CRIU walks to mount one
        // is changed by the sandboxes that share the volume above it.
        let is_a_place = || (volumes.iter()).any(|volume| volume.target.as_str() == mount.point);
        let is_safe =
            mount.kind != "ext4" || (mount.has("nosuid") && mount.has("nodev") && is_a_place());
        require(is_safe, first, "mounts", mount.point)?;
    }
    for volume in volumes.iter().filter(|volume| volume.read_only) {
        let point = volume.target.as_str();
        let is_kept = seen(point).is_none_or(|mount| mount.has("ro"));
        require(is_kept, first, "mounts", point)?;
    }
    for path in skep_launch::read_only_proc() {
        let is_there = !Path::new(&path).exists() || seen(&path).is_some();
        require(is_there, first, "mounts", &path)?;
    }
    Ok(())
}
