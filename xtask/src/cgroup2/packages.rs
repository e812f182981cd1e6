//! QEMU and kernels, out of Debian's packages: unpacked, not installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::tools::{as_root, remove, run, tell};

/// The release that QEMU is taken from. That of Debian 12 loses flags of the processor after
/// `cmpxchg16b`, and kernels since 6.x end in panic on it.
const EMULATOR_SUITE: &str = "trixie";

/// An emulator beside its own libraries and loader, which need not be this host's.
#[derive(Debug)]
pub(super) struct Emulator(PathBuf);

impl Emulator {
    /// The command that runs it, without its options.
    pub(super) fn command(&self) -> std::process::Command {
        let Self(directory) = self;
        let libraries = directory.join("usr/lib/x86_64-linux-gnu");
        let path = format!("{0}:{0}/pulseaudio", libraries.display());
        let mut command =
            std::process::Command::new(directory.join("usr/lib64/ld-linux-x86-64.so.2"));
        command
            .args(["--library-path", &path])
            .arg(directory.join("usr/bin/qemu-system-x86_64"));
        for data in ["usr/share/qemu", "usr/share/seabios"] {
            command.arg("-L").arg(directory.join(data));
        }
        command
    }
}

/// A kernel with its modules.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    pub(super) release: String,
    /// Directory of its modules.
    pub(super) modules: PathBuf,
}

/// The emulator, fetched if it is not in the cache.
pub(super) fn emulator(cache: &Path) -> anyhow::Result<Emulator> {
    let directory = cache.join("qemu");
    unpack(EMULATOR_SUITE, &directory, "qemu-system-x86")?;
    Ok(Emulator(directory))
}

/// The kernel of a release, fetched if it is not in the cache.
pub(super) fn kernel(cache: &Path, suite: &str) -> anyhow::Result<Kernel> {
    let directory = cache.join(format!("kernel-{suite}"));
    unpack(suite, &directory, "linux-image-cloud-amd64")?;
    let images = fs::read_dir(directory.join("boot"))?;
    let names = images.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let release = names
        .filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned))
        .max()
        .with_context(|| format!("no kernel in `{}`", directory.display()))?;
    // The older release has no link from `lib` to `usr/lib`.
    let modules = ["usr/lib/modules", "lib/modules"]
        .map(|path| directory.join(path).join(&release))
        .into_iter()
        .find(|path| path.is_dir());
    Ok(Kernel {
        image: directory.join("boot").join(format!("vmlinuz-{release}")),
        modules: modules.with_context(|| format!("no modules of {release}"))?,
        release,
    })
}

/// Unpacks a package of a release, with all that it needs.
fn unpack(suite: &str, directory: &Path, package: &str) -> anyhow::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    tell(&format!("fetching {package} of {suite}"));
    let unfinished = directory.with_extension("fetching");
    remove(&unfinished)?;
    run(as_root("mmdebstrap")
        .args(["--quiet", "--mode=root", "--variant=extract"])
        .arg("--aptopt=APT::Install-Recommends \"false\"")
        .arg(format!("--include={package}"))
        .args([suite.as_ref(), unfinished.as_os_str()])
        .args(mirror()))?;
    run(as_root("mv").arg(&unfinished).arg(directory))?;
    Ok(())
}

/// The mirror that this host uses, if it says so; else that of the tool.
pub(super) fn mirror() -> Option<String> {
    let listed = fs::read_dir("/etc/apt/sources.list.d").ok()?;
    let files = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .chain([PathBuf::from("/etc/apt/sources.list")]);
    files
        .filter_map(|path| fs::read_to_string(path).ok())
        .find_map(|text| mirror_in(&text))
}

/// The first address of a whole Debian archive in a file of apt's sources, of either form.
fn mirror_in(text: &str) -> Option<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let words = lines.flat_map(str::split_whitespace);
    words
        .map(|word| word.trim_end_matches('/'))
        .find(|word| word.starts_with("http") && word.ends_with("/debian"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_found_in_both_forms() {
        let stanza = "Types: deb\n# http://old.invalid/debian\nURIs: http://mirror.invalid/debian/\nSuites: bookworm\n";
        let line = "deb [signed-by=/x] https://mirror.invalid/debian bookworm main\n";
        assert_eq!(
            mirror_in(stanza).as_deref(),
            Some("http://mirror.invalid/debian")
        );
        assert_eq!(
            mirror_in(line).as_deref(),
            Some("https://mirror.invalid/debian")
        );
        assert_eq!(
            mirror_in("deb http://mirror.invalid/debian-security x main"),
            None
        );
    }
}
