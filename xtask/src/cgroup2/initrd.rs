//! The initial filesystem: busybox, and the modules that the root's disk needs.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::packages::Kernel;
use super::tools::{as_root, run};

/// Its first process.
pub(super) const SCRIPT: &str = include_str!("guest/early-init");

/// Modules without which the root's disk is not seen or not read. Kernels have some of them built in.
const WANTED: [&str; 6] = [
    "crc32c_generic",
    "libcrc32c",
    "crc32c-intel",
    "virtio_pci",
    "virtio_blk",
    "ext4",
];

/// Makes the initial filesystem of a root that holds its kernel's modules.
pub(super) fn make(tree: &Path, kernel: &Kernel, initrd: &Path) -> anyhow::Result<()> {
    let work = initrd.with_extension("tree");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    for directory in ["bin", "modules", "dev", "proc", "sys", "root"] {
        fs::create_dir_all(work.join(directory))?;
    }
    let busybox = work.join("bin/busybox");
    fs::copy(tree.join("usr/bin/busybox"), &busybox)
        .or_else(|_| fs::copy(tree.join("bin/busybox"), &busybox))
        .context("cannot copy busybox")?;
    std::os::unix::fs::symlink("busybox", work.join("bin/sh"))?;
    let modules = tree.join("usr/lib/modules").join(&kernel.release);
    let order = order(&fs::read_to_string(modules.join("modules.dep"))?);
    let mut names = Vec::new();
    for path in &order {
        names.push(copy_module(
            tree,
            &kernel.release,
            path,
            &work.join("modules"),
        )?);
    }
    fs::write(work.join("modules/order"), names.join("\n"))?;
    let init = work.join("init");
    fs::write(&init, SCRIPT)?;
    std::os::unix::fs::chown(&init, None, None)?;
    run(std::process::Command::new("chmod").arg("755").arg(&init))?;
    let script = "cd \"$1\" && find . | bin/busybox cpio -o -H newc 2>/dev/null | gzip -1 > \"$2\"";
    run(std::process::Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&work)
        .arg(initrd))?;
    fs::remove_dir_all(&work)?;
    Ok(())
}

/// The files of the wanted modules and of those they need, in the order to load them.
fn order(dependencies: &str) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    for wanted in WANTED {
        let lines = dependencies.lines().filter_map(|line| line.split_once(':'));
        let line = lines.into_iter().find(|(path, _)| name_of(path) == wanted);
        let Some((path, needed)) = line else {
            continue;
        };
        // Each file is listed before those that it needs.
        let all = needed.split_whitespace().rev().chain([path]);
        for path in all {
            if !order.iter().any(|there| there == path) {
                order.push(path.to_owned());
            }
        }
    }
    order
}

/// `kernel/fs/ext4/ext4.ko.xz` is the module `ext4`.
fn name_of(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split_once(".ko").map_or(file, |(name, _)| name)
}

/// Copies a module, unpacked, and returns the name of its file.
fn copy_module(tree: &Path, release: &str, path: &str, to: &Path) -> anyhow::Result<String> {
    let name = format!("{}.ko", name_of(path));
    let inside = format!("/usr/lib/modules/{release}/{path}");
    let reader: &[&str] = if path.ends_with(".xz") {
        &["xz", "-dc"]
    } else {
        &["cat"]
    };
    let content = run(as_root("chroot").arg(tree).args(reader).arg(inside))?;
    fs::write(to.join(&name), content.stdout)?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_those_that_they_need_and_once() {
        let dependencies = "kernel/lib/crc16.ko.xz:\n\
             kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/lib/crc16.ko.xz\n\
             kernel/fs/jbd2/jbd2.ko.xz:\n\
             kernel/drivers/block/virtio_blk.ko.xz: kernel/lib/crc16.ko.xz\n";
        assert_eq!(
            order(dependencies),
            [
                "kernel/lib/crc16.ko.xz",
                "kernel/drivers/block/virtio_blk.ko.xz",
                "kernel/fs/jbd2/jbd2.ko.xz",
                "kernel/fs/ext4/ext4.ko.xz",
            ]
        );
    }
}
