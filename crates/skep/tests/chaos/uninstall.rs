//! `skep uninstall`: an installation is taken off the host, and nothing else is.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use skep_client::NewSandbox;

use crate::installation::{CACHE, Installation};
use crate::machine::Traces;

async fn create(installation: &Installation) -> String {
    let body = NewSandbox {
        template_id: "base".to_owned(),
        timeout: Some(600),
        ..NewSandbox::default()
    };
    let client = installation.client();
    let sandbox = client.sandboxes().create(&body).await.unwrap();
    sandbox.id().to_owned()
}

/// Makes what looks like a template cache of this installation alone. The real one is shared with
/// all tests, and none of them may remove it.
fn cache_of(installation: &Installation) -> PathBuf {
    let cache = installation.executables().join("cache");
    if !cache.exists() {
        fs::create_dir(&cache).unwrap();
        for part in ["layers", "images", "builds.lock"] {
            fs::write(cache.join(part), "").unwrap();
        }
        let user = format!("{}\n", installation.data_dir().display());
        fs::write(cache.join("installations"), user).unwrap();
    }
    cache
}

/// Runs the command as a script would; nobody sits at a terminal.
fn uninstall(installation: &Installation, arguments: &[&str]) -> Output {
    installation
        .client_command(&["uninstall", "--cache-dir"])
        .arg(cache_of(installation))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Objects of an instance number that are left on the host.
fn left_of(number: &str, data_dir: &Path) -> Vec<String> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut left: Vec<String> = hierarchies
        .chain([root.to_owned()])
        .map(|folder| folder.join(format!("skep-{number}")))
        .filter(|group| group.exists())
        .map(|group| group.display().to_string())
        .collect();
    for interface in fs::read_dir("/sys/class/net").unwrap() {
        let name = interface.unwrap().file_name().into_string().unwrap();
        if name == format!("skepgw{number}") || name.starts_with(&format!("skep{number}-")) {
            left.push(name);
        }
    }
    let table = Command::new("nft")
        .args(["list", "table", "inet", &format!("skep{number}")])
        .output()
        .unwrap();
    if table.status.success() {
        left.push(format!("table skep{number}"));
    }
    for device in fs::read_dir("/sys/block").unwrap() {
        let file = device.unwrap().path().join("loop/backing_file");
        let backing = fs::read_to_string(file).unwrap_or_default();
        if Path::new(backing.trim()).starts_with(data_dir) {
            left.push(backing);
        }
    }
    for path in [data_dir, Path::new(&format!("/run/skep/instance-{number}"))] {
        if path.exists() {
            left.push(path.display().to_string());
        }
    }
    left
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_goes_and_the_one_beside_it_lives_on() {
    let mut leaving = Installation::start();
    let staying = Installation::start();
    let ids = BTreeSet::from([create(&leaving).await, create(&leaving).await]);
    let kept = create(&staying).await;
    let number = fs::read_to_string(leaving.data_dir().join("instance")).unwrap();

    let refused = uninstall(&leaving, &["--yes"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains("a server uses") && said.contains("--stop"),
        "{said}"
    );
    let pid = leaving.server_pid().unwrap();
    assert!(said.contains(&format!("kill {pid}")), "{said}");

    leaving.kill();
    let shown = uninstall(&leaving, &["--dry-run", "--json"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let plan: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let items = plan["items"].as_array().unwrap();
    let of = |kind: &str| items.iter().filter(|item| item["kind"] == kind).count();
    assert!(plan["sandboxes"].as_u64().unwrap() >= 2, "{plan}");
    assert!(plan["processes"].as_u64().unwrap() >= 2, "{plan}");
    for kind in [
        "sandbox",
        "cgroup",
        "interface",
        "nftables table",
        "instance number",
        "loop device",
        "data",
    ] {
        assert!(of(kind) > 0, "no {kind} in {plan}");
    }
    let templates = items
        .iter()
        .find(|item| item["kind"] == "templates")
        .unwrap();
    assert_eq!(templates["action"], "keep", "another uses them");
    let asked = uninstall(&leaving, &[]);
    assert_eq!(asked.status.code(), Some(1));
    assert!(text(&asked.stderr).contains("nobody is there to ask"));
    assert!(
        Traces::find(&leaving).agents.is_superset(&ids),
        "nothing was changed"
    );

    let done = uninstall(&leaving, &["--yes"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(
        left_of(number.trim(), &leaving.data_dir()),
        Vec::<String>::new()
    );
    let again = uninstall(&leaving, &["--yes"]);
    assert!(again.status.success(), "{}", text(&again.stderr));

    let mut alive = staying.client_command(&["sandbox", "exec", &kept, "echo", "alive"]);
    assert_eq!(text(&alive.output().unwrap().stdout), "alive\n");
    assert!(cache_of(&leaving).join("images").exists(), "as it said");
    let listed = fs::read_to_string(Path::new(&*CACHE).join("installations")).unwrap();
    let is_listed = |it: &Installation| listed.contains(&*it.data_dir().to_string_lossy());
    assert!(is_listed(&staying), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_stopped_if_that_is_asked_for_and_its_data_kept() {
    let mut installation = Installation::start();
    create(&installation).await;
    let number = fs::read_to_string(installation.data_dir().join("instance")).unwrap();
    let key = fs::read(installation.data_dir().join("local-key")).unwrap();
    let done = uninstall(&installation, &["--stop", "--yes", "--keep-data"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(installation.stop_was_clean());
    let data = installation.data_dir();
    let left = left_of(number.trim(), &data);
    assert_eq!(left, [data.display().to_string()]);
    assert_eq!(fs::read(data.join("local-key")).unwrap(), key);
    // And it can be used again.
    installation.restart();
    create(&installation).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_open_to_others_is_closed_when_a_server_starts() {
    let mut installation = Installation::start();
    create(&installation).await;
    installation.kill();
    let data = installation.data_dir();
    let disk = || {
        let sandboxes = fs::read_dir(data.join("sandboxes")).unwrap();
        let mut disks = sandboxes.map(|entry| entry.unwrap().path().join("disk.img"));
        disks.find(|path| path.exists()).unwrap()
    };
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&data), mode(&disk())),
        (0o700, 0o600),
        "from the start"
    );
    for (path, open) in [(data.clone(), 0o755), (disk(), 0o644)] {
        fs::set_permissions(path, fs::Permissions::from_mode(open)).unwrap();
    }
    installation.restart();
    assert_eq!((mode(&data), mode(&disk())), (0o700, 0o600));
    let log = installation.log();
    assert_eq!(
        log.matches("other users could look into").count(),
        1,
        "{log}"
    );
}
