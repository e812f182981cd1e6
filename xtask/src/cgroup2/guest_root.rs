//! The root filesystem of a machine: a small Debian with what Skep needs of a host.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::initrd;
use super::packages::{Kernel, mirror};
use super::tools::{as_root, make_image, remove, remove_others, run, tell};

/// Packages that a host needs to serve, that its first process needs, and that put the initial filesystem
/// together.
const PACKAGES: &str = "systemd-sysv,udev,dbus,kmod,ca-certificates,nftables,iptables,e2fsprogs,iproute2,procps,python3-minimal,busybox-static,xz-utils";

/// Files that the packages bring and nobody reads here.
const UNREAD: [&str; 3] = ["man", "doc", "locale"];

/// Units that a machine which lives for minutes does not need.
const UNNEEDED: [&str; 20] = [
    "getty@.service",
    "serial-getty@.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "dpkg-db-backup.timer",
    "systemd-tmpfiles-clean.timer",
    "ldconfig.service",
    "systemd-hwdb-update.service",
    "systemd-journal-catalog-update.service",
    "systemd-update-done.service",
    "systemd-firstboot.service",
    "systemd-sysusers.service",
    "systemd-machine-id-commit.service",
    "systemd-binfmt.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-pcrphase.service",
    "systemd-timesyncd.service",
];

const SIZE: &str = "8G";

/// Files that are put into the root: path, content and permission bits.
const FILES: [(&str, &str, u32); 4] = [
    (
        "opt/guest/start-checks",
        include_str!("guest/start-checks"),
        0o755,
    ),
    (
        "opt/guest/plain-init",
        include_str!("guest/plain-init"),
        0o755,
    ),
    (
        "etc/systemd/system/checks.service",
        include_str!("guest/checks.service"),
        0o644,
    ),
    ("etc/hostname", "guest\n", 0o644),
];

/// A kernel and a root that it starts.
#[derive(Debug)]
pub(super) struct System {
    pub(super) kernel: PathBuf,
    pub(super) initrd: PathBuf,
    pub(super) root: PathBuf,
}

/// The system of a release, made if it is not in the cache.
pub(super) fn make(cache: &Path, suite: &str, kernel: &Kernel) -> anyhow::Result<System> {
    // What is in the root is in its name, so that another list or script makes another root.
    let mut sources = vec![PACKAGES, suite, &kernel.release, initrd::SCRIPT];
    sources.extend(UNNEEDED);
    sources.extend(FILES.map(|(_, content, _)| content));
    let key = fingerprint(&sources);
    let system = System {
        kernel: kernel.image.clone(),
        initrd: cache.join(format!("initrd-{suite}-{key:016x}")),
        root: cache.join(format!("root-{suite}-{key:016x}.img")),
    };
    if system.root.exists() && system.initrd.exists() {
        return Ok(system);
    }
    tell(&format!("making the root of {suite}"));
    let tree = cache.join(format!("tree-{suite}"));
    remove(&tree)?;
    bootstrap(suite, &tree)?;
    fill(&tree, kernel)?;
    initrd::make(&tree, kernel, &system.initrd)?;
    remove_others(cache, &format!("initrd-{suite}-"), &system.initrd)?;
    remove_others(cache, &format!("root-{suite}-"), &system.root)?;
    make_image(&tree, &system.root, SIZE)?;
    remove(&tree)?;
    Ok(system)
}

/// A number that changes with the texts. It names files of a cache and protects nothing.
pub(super) fn fingerprint(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    // FNV-1a.
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn bootstrap(suite: &str, tree: &Path) -> anyhow::Result<()> {
    let mut command = as_root("mmdebstrap");
    command
        .args(["--quiet", "--mode=root", "--variant=minbase"])
        .arg("--aptopt=APT::Install-Recommends \"false\"")
        .arg(format!("--include={PACKAGES}"));
    for directory in UNREAD {
        command.arg(format!("--dpkgopt=path-exclude=/usr/share/{directory}/*"));
    }
    run(command
        .args([suite.as_ref(), tree.as_os_str()])
        .args(mirror()))?;
    Ok(())
}

fn fill(tree: &Path, kernel: &Kernel) -> anyhow::Result<()> {
    for directory in ["usr/lib/modules", "var/cache/skep", "opt/guest"] {
        run(as_root("mkdir").arg("-p").arg(tree.join(directory)))?;
    }
    run(as_root("cp")
        .arg("-a")
        .arg(&kernel.modules)
        .arg(tree.join("usr/lib/modules/")))?;
    run(as_root("chroot")
        .arg(tree)
        .args(["depmod", &kernel.release]))?;
    for (path, content, mode) in FILES {
        write(&tree.join(path), content, mode)?;
    }
    run(as_root("chroot")
        .arg(tree)
        .args(["systemctl", "enable", "--quiet", "checks.service"]))?;
    run(as_root("chroot")
        .arg(tree)
        .args(["systemctl", "mask", "--quiet"])
        .args(UNNEEDED))?;
    // No names are resolved there.
    run(as_root("rm").arg("-f").arg(tree.join("etc/resolv.conf")))?;
    write(
        &tree.join("etc/resolv.conf"),
        "nameserver 127.0.0.1\n",
        0o644,
    )
}

/// Writes a file into a tree of root's.
fn write(path: &Path, content: &str, mode: u32) -> anyhow::Result<()> {
    let written = std::env::temp_dir().join(format!("skep-cgroup2-{}", std::process::id()));
    fs::write(&written, content)?;
    fs::set_permissions(&written, fs::Permissions::from_mode(mode))?;
    let mode = format!("{mode:o}");
    run(as_root("install")
        .args(["-o", "root", "-g", "root", "-m", &mode])
        .arg(&written)
        .arg(path))?;
    fs::remove_file(&written)?;
    Ok(())
}
