//! Layers in the form in which the overlay file system takes them.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use skep_types::Reserve;
use tar::EntryType;

use crate::Test;
use crate::archive::Layer;
use crate::registry::{Registry, Shop, read};

pub(crate) const TESTS: &[Test] = &[
    ("an_overlay_of_the_layers_shows_what_the_image_is", overlay),
    ("owners_modes_times_and_attributes_are_kept", attributes),
    ("hard_links_are_one_file", hard_links),
    ("nothing_is_written_outside_of_a_layer", escapes),
    ("links_lead_to_places_in_the_layer", links),
    ("devices_are_left_out", devices),
    ("a_later_member_replaces_an_earlier_one", replacing),
    ("a_directory_that_is_left_out_is_as_it_is_below", implied),
    ("what_cannot_be_unpacked_says_why", refusals),
    ("an_image_leaves_the_reserve_of_the_disk_free", reserve),
];

/// An image of these layers, in a store.
struct Unpacked {
    shop: Shop,
    layers: Vec<PathBuf>,
}

fn unpack(layers: &[Vec<u8>]) -> Result<Unpacked, String> {
    let registry = Registry::open();
    registry.push("a/b", "latest", layers);
    let shop = Shop::new(&registry.host);
    let image = shop.pull("a/b", None).map_err(|error| error.to_string());
    match image {
        Ok(image) => Ok(Unpacked {
            layers: shop.paths(&image),
            shop,
        }),
        Err(error) => {
            assert_eq!(shop.leftovers(), 0);
            Err(error)
        }
    }
}

fn is_removed(path: &Path) -> bool {
    let found = path.symlink_metadata();
    found.is_ok_and(|found| found.file_type().is_char_device() && found.rdev() == 0)
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let length = rustix::fs::lgetxattr(path, name, &mut value).ok()?;
    value.truncate(length);
    Some(value)
}

fn overlay() {
    let below = Layer::new()
        .directory("gone/")
        .file("gone/file", "1")
        .directory("hidden/")
        .file("hidden/old", "1")
        .directory("remade/")
        .file("remade/old", "1")
        .directory("made-first/")
        .file("made-first/old", "1")
        .file("kept", "1");
    let above = Layer::new()
        .file(".wh.gone", "")
        .directory("hidden/")
        .file("hidden/new", "2")
        .file("hidden/.wh..wh..opq", "")
        .file(".wh.remade", "")
        .directory("remade/")
        .file("remade/new", "2")
        .directory("made-first/")
        .file("made-first/new", "2")
        .file(".wh.made-first", "")
        .file(".wh..wh.plnk", "");
    let unpacked = unpack(&[below.finish(), above.finish()]).unwrap();
    assert!(is_removed(&unpacked.layers[1].join("gone")));
    let hidden = unpacked.layers[1].join("hidden");
    for mark in ["trusted.overlay.opaque", "user.overlay.opaque"] {
        assert_eq!(
            attribute(&hidden, mark).as_deref(),
            Some(&b"y"[..]),
            "{mark}"
        );
    }
    let root = tempfile::tempdir().unwrap();
    let script =
        "mount -t overlay overlay -o \"lowerdir=$1:$2$4\" \"$3\" && cd \"$3\" && find . | sort";
    for options in ["", ",userxattr"] {
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh"])
            .args([
                &unpacked.layers[1],
                &unpacked.layers[0],
                &root.path().to_owned(),
            ])
            .arg(options)
            .output()
            .unwrap();
        let listing = String::from_utf8(output.stdout).unwrap();
        let shown: Vec<&str> = listing.lines().collect();
        assert_eq!(
            shown,
            [
                ".",
                "./hidden",
                "./hidden/new",
                "./kept",
                "./made-first",
                "./made-first/new",
                "./remade",
                "./remade/new"
            ],
            "{options} {:?}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

fn attributes() {
    // Version 2 of the kernel's form: CAP_NET_BIND_SERVICE, permitted and effective.
    let mut capability = vec![1, 0, 0, 2, 0, 4, 0, 0];
    capability.resize(20, 0);
    let layer = Layer::new()
        .owned(
            "run",
            EntryType::Regular,
            (0o4755, 12, 34),
            &[
                ("security.capability", &capability),
                ("user.note", b"n"),
                ("user.overlay.opaque", b"y"),
                ("trusted.overlay.redirect", b"/etc"),
            ],
        )
        .owned(
            "spool",
            EntryType::Directory,
            (0o1777, 70_000, 5),
            &[("user.overlay.opaque", b"y")],
        );
    let unpacked = unpack(&[layer.finish()]).unwrap();
    let file = unpacked.layers[0].join("run");
    let found = file.metadata().unwrap();
    assert_eq!(
        (found.mode() & 0o7777, found.uid(), found.gid()),
        (0o4755, 12, 34)
    );
    assert_eq!(found.mtime(), 1_600_000_000);
    assert_eq!(attribute(&file, "security.capability"), Some(capability));
    assert_eq!(attribute(&file, "user.note").as_deref(), Some(&b"n"[..]));
    assert_eq!(attribute(&file, "user.overlay.opaque"), None);
    assert_eq!(attribute(&file, "trusted.overlay.redirect"), None);
    let directory = unpacked.layers[0].join("spool");
    let found = directory.metadata().unwrap();
    assert_eq!(
        (found.mode() & 0o7777, found.uid(), found.gid()),
        (0o1777, 70_000, 5)
    );
    assert_eq!(found.mtime(), 1_600_000_000);
    assert_eq!(attribute(&directory, "user.overlay.opaque"), None);
}

fn hard_links() {
    let layer = Layer::new()
        .directory("a/")
        .file("a/one", "1")
        .link("two", "a/one")
        .link("b/three", "/two");
    let unpacked = unpack(&[layer.finish()]).unwrap();
    let root = &unpacked.layers[0];
    let inode = |name: &str| root.join(name).metadata().unwrap().ino();
    assert_eq!(inode("two"), inode("a/one"));
    assert_eq!(inode("b/three"), inode("a/one"));
}

fn escapes() {
    for layer in [
        Layer::new().file("../outside", "1"),
        Layer::new().file("a/../../outside", "1"),
        Layer::new().link("a", "../../../../../../etc/passwd"),
        Layer::new().file(".wh...", "1"),
    ] {
        let refused = unpack(&[layer.finish()]).map(|_| ());
        assert!(
            refused
                .as_ref()
                .is_err_and(|text| text.contains("cannot be unpacked")),
            "{refused:?}"
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let outside = directory.path().to_str().unwrap();
    let layer = Layer::new()
        .symlink("absolute", outside)
        .file("absolute/file", "1")
        .symlink("upwards", "../../../../../../../../../../../tmp")
        .file("upwards/skep-escape", "1")
        .symlink("self", "/proc/self/root")
        .file("self/skep-escape", "1")
        .file("/rooted", "1")
        .finish();
    let unpacked = unpack(&[layer]).unwrap();
    let root = &unpacked.layers[0];
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
    assert!(!Path::new("/tmp/skep-escape").exists() && !Path::new("/skep-escape").exists());
    assert_eq!(
        read(&root.join(outside.trim_start_matches('/')).join("file")),
        "1"
    );
    assert_eq!(read(&root.join("tmp/skep-escape")), "1");
    assert_eq!(read(&root.join("proc/self/root/skep-escape")), "1");
    assert_eq!(read(&root.join("rooted")), "1");
}

fn links() {
    let layer = Layer::new()
        .symlink("lib", "usr/lib")
        .file("lib/a", "1")
        .directory("deep/")
        .symlink("deep/up", "../other/./place/")
        .file("deep/up/b", "2")
        .symlink("dangling", "/nowhere")
        .finish();
    let unpacked = unpack(&[layer]).unwrap();
    let root = &unpacked.layers[0];
    assert_eq!(read(&root.join("usr/lib/a")), "1");
    assert_eq!(read(&root.join("other/place/b")), "2");
    assert_eq!(
        fs::read_link(root.join("lib")).unwrap(),
        Path::new("usr/lib")
    );
    assert_eq!(
        fs::read_link(root.join("dangling")).unwrap(),
        Path::new("/nowhere")
    );
    let circle = Layer::new()
        .symlink("a", "b")
        .symlink("b", "a")
        .file("a/x", "1")
        .finish();
    assert!(unpack(&[circle]).is_err());
}

fn devices() {
    let layer = Layer::new()
        .raw("null", EntryType::Char, "", b"")
        .raw("disk", EntryType::Block, "", b"")
        .raw("pipe", EntryType::Fifo, "", b"")
        .finish();
    let unpacked = unpack(&[layer]).unwrap();
    let root = &unpacked.layers[0];
    assert!(!root.join("null").exists() && !root.join("disk").exists());
    assert!(root.join("pipe").metadata().unwrap().file_type().is_fifo());
    let lines = unpacked.shop.lines.lock().join("\n");
    assert!(lines.contains("2 devices are left out"), "{lines}");
}

fn replacing() {
    let layer = Layer::new()
        .file("file", "1")
        .directory("file/")
        .file("file/x", "2")
        .directory("directory/")
        .file("directory/y/z", "1")
        .file("directory", "2")
        .symlink("link", "/etc/passwd")
        .file("link", "3")
        .finish();
    let unpacked = unpack(&[layer]).unwrap();
    let root = &unpacked.layers[0];
    assert_eq!(read(&root.join("file/x")), "2");
    assert_eq!(read(&root.join("directory")), "2");
    assert_eq!(read(&root.join("link")), "3");
    assert!(!root.join("link").is_symlink());
}

fn implied() {
    let below = Layer::new()
        .owned("tmp/", EntryType::Directory, (0o1777, 0, 0), &[])
        .owned("home/", EntryType::Directory, (0o750, 7, 8), &[])
        .owned("home/bee/", EntryType::Directory, (0o700, 9, 9), &[]);
    let above = Layer::new().file("tmp/a", "1").file("home/bee/new/b", "2");
    let unpacked = unpack(&[below.finish(), above.finish()]).unwrap();
    let found = |name: &str| {
        let found = unpacked.layers[1].join(name).metadata().unwrap();
        (found.mode() & 0o7777, found.uid(), found.gid())
    };
    assert_eq!(found("tmp"), (0o1777, 0, 0));
    assert_eq!(found("home"), (0o750, 7, 8));
    assert_eq!(found("home/bee"), (0o700, 9, 9));
    assert_eq!(found("home/bee/new"), (0o755, 0, 0));
}

fn refusals() {
    for (layer, text) in [
        (
            Layer::new().link("a", "b").finish(),
            "`/a` is a link to `/b`, which is not in the layer",
        ),
        (
            Layer::new().file("a", "1").file("a/b", "2").finish(),
            "something is in `/a`, a file",
        ),
        (b"not an archive".to_vec(), "cannot be unpacked"),
        (
            Layer::new()
                .raw("a", EntryType::new(b'Z'), "", b"")
                .finish(),
            "`/a` is of unknown kind 90",
        ),
    ] {
        let refused = unpack(&[layer]).map(|_| ());
        assert!(
            refused.as_ref().is_err_and(|found| found.contains(text)),
            "{text}: {refused:?}"
        );
    }
}

/// A file system in memory, of a certain size, at a directory.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, mebibytes: u32) -> Self {
        let size = std::ffi::CString::new(format!("size={mebibytes}m")).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount(c"skep-test", at, c"tmpfs", flags, size.as_c_str()).unwrap();
        Self(at.to_owned())
    }

    fn free(&self) -> u64 {
        let found = rustix::fs::statvfs(&self.0).unwrap();
        found.f_bavail * found.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

fn reserve() {
    const MIB: u64 = 1 << 20;
    const FREE: u64 = 60 * MIB;
    // A blob of some KiB, which has room, of 80 MiB, which have not.
    let bytes = "x".repeat(80 << 20);
    let (large, small) = (Layer::new().file("a", &bytes), Layer::new().file("a", "1"));
    let registry = Registry::open();
    registry.push("a/large", "latest", &[large.finish()]);
    registry.push("a/small", "latest", &[small.finish()]);
    let on_disk = |reserve: Reserve| {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store");
        fs::create_dir(&store).unwrap();
        let disk = SmallDisk::mount(&store, 120);
        let shop = Shop::at(&registry.host, directory, |registries| {
            registries.reserve = Some(reserve);
            registries.limits.ratio = 10_000;
        });
        (disk, shop)
    };
    let text = "the server's disk has no room for it; try again later";

    let (disk, shop) = on_disk(Reserve::Bytes(FREE));
    let before = disk.free();
    let refused = shop.pull("a/large", None).unwrap_err().to_string();
    assert!(refused.ends_with(text), "{refused}");
    assert_eq!(shop.leftovers(), 0);
    assert!(before - disk.free() < MIB, "nothing of it is left");
    shop.pull("a/small", None).unwrap();
    drop((disk, shop));
    // The control: as large, and less is to be left.
    let (disk, shop) = on_disk(Reserve::Bytes(MIB));
    shop.pull("a/large", None).unwrap();
    drop((disk, shop));
    // Nor is anything fetched for which there is no room.
    let (disk, shop) = on_disk(Reserve::Percent(100.0));
    let refused = shop.pull("a/small", None).unwrap_err().to_string();
    assert!(refused.ends_with(text), "{refused}");
    let lines = shop.lines.lock().clone();
    assert!(
        lines.iter().all(|line| !line.starts_with("layer ")),
        "{lines:?}"
    );
    drop((disk, shop));
}
