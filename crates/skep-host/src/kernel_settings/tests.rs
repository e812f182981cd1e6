use tempfile::TempDir;

use super::*;

/// A host whose kernel is a directory. Unlike a kernel it does not set all interfaces when the
/// one switch is written, so tests do that.
struct Host {
    directory: TempDir,
}

impl Host {
    fn new(forwarding: &[(&str, u64)]) -> Self {
        let host = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        host.set(FORWARDING.path, 0);
        host.set(NEIGHBOURS[0].path, 128);
        for (name, value) in forwarding {
            host.set(&forwarding_of(name), *value);
        }
        host
    }

    fn set(&self, path: &str, value: u64) {
        let path = self.directory.path().join("sys").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
    }

    fn settings(&self) -> KernelSettings {
        self.settings_of("boot", "net:1:1")
    }

    fn settings_of(&self, boot: &str, network: &str) -> KernelSettings {
        KernelSettings {
            root: self.directory.path().join("sys"),
            record: self.directory.path().join("run/settings"),
            boot: boot.to_owned(),
            network: network.to_owned(),
        }
    }

    fn get(&self, path: &str) -> Option<u64> {
        self.settings().read(path).unwrap()
    }

    /// Does with the settings what a server does at its start.
    fn start(&self) -> Bystanders {
        let settings = self.settings();
        let bystanders = settings.bystanders().unwrap();
        if self.get(FORWARDING.path) == Some(0) {
            settings.switch_forwarding_on().unwrap();
            for name in settings.interfaces().unwrap() {
                self.set(&forwarding_of(&name), 1);
            }
        }
        settings.raise(NEIGHBOURS[0]).unwrap();
        bystanders
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const USUAL: [(&str, u64); 5] = [
    ("all", 0),
    ("default", 0),
    ("lo", 0),
    ("eth0", 0),
    ("eth1", 1),
];

#[test]
fn what_was_is_put_back_when_the_last_installation_goes() {
    let host = Host::new(&USUAL);
    host.start();
    host.start();
    assert_eq!(host.get(FORWARDING.path), Some(1));
    assert_eq!(host.get(NEIGHBOURS[0].path), Some(8_192));
    let settings = host.settings();
    assert!(settings.restore(|| Ok(true)).unwrap().is_empty());
    assert_eq!(host.get(FORWARDING.path), Some(1), "another needs it");

    let changed = settings.changed(false).unwrap();
    assert_eq!(settings.restore(|| Ok(false)).unwrap(), changed);
    let all: Vec<_> = changed.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(all, [FORWARDING.path, NEIGHBOURS[0].path]);
    assert!(changed.iter().all(|one| one.kept.is_none()));
    assert_eq!(host.get(FORWARDING.path), Some(0));
    assert_eq!(host.get(NEIGHBOURS[0].path), Some(128));
    assert_eq!(host.get(&forwarding_of("eth1")), Some(1));
    assert!(
        settings.restore(|| Ok(false)).unwrap().is_empty(),
        "only once"
    );
}

#[test]
fn a_setting_that_somebody_changed_since_stays() {
    let host = Host::new(&USUAL);
    host.start();
    host.set(NEIGHBOURS[0].path, 9_000);
    let kept = host.settings().restore(|| Ok(false)).unwrap();
    assert_eq!(kept[1].kept, Some(KeptSetting::Changed));
    assert_eq!(host.get(NEIGHBOURS[0].path), Some(9_000));
}

#[test]
fn forwarding_stays_for_whoever_came_later_and_forwards() {
    let host = Host::new(&USUAL);
    host.start();
    host.set(&forwarding_of("skep0-1"), 1);
    host.set(&forwarding_of("docker0"), 1);
    let kept = host.settings().restore(|| Ok(false)).unwrap();
    let later = vec!["docker0".to_owned()];
    assert_eq!(kept[0].kept, Some(KeptSetting::ReliedOn(later)));
    assert_eq!(host.get(FORWARDING.path), Some(1));
}

#[test]
fn bystanders_are_the_interfaces_that_did_not_forward_before_us() {
    let host = Host::new(&USUAL);
    let bystanders = host.start();
    assert_eq!(bystanders.closed, names(&["eth0"]));
    assert_eq!(bystanders.all, names(&["eth0", "eth1"]));
    host.set(&forwarding_of("docker0"), 1);
    assert_eq!(host.start(), bystanders, "also after a restart");
    // Where packets were forwarded before us nobody is kept from it.
    let router = Host::new(&USUAL);
    router.set(FORWARDING.path, 1);
    assert_eq!(router.start(), Bystanders::default());
    assert_eq!(router.settings().changed(false).unwrap().len(), 1);
}

#[test]
fn a_record_of_another_run_of_the_host_or_network_is_none() {
    let host = Host::new(&USUAL);
    host.start();
    let later = host.settings_of("another boot", "net:1:1");
    assert!(later.changed(false).unwrap().is_empty());
    let beside = host.settings_of("boot", "net:1:2");
    let changed = beside.changed(false).unwrap();
    assert_eq!(changed.len(), 1, "only what is the host's: {changed:?}");
}

#[test]
fn what_is_switched_off_is_on_again_after_the_last_installation() {
    let host = Host::new(&[]);
    host.set(TASK_DUMPS, 1);
    host.settings().switch_off(TASK_DUMPS).unwrap();
    assert_eq!(host.get(TASK_DUMPS), Some(0));
    host.settings().switch_off(TASK_DUMPS).unwrap();
    host.settings().restore(|| Ok(false)).unwrap();
    assert_eq!(host.get(TASK_DUMPS), Some(1));

    // What its owner has off stays off, and no note is taken.
    host.set(TASK_DUMPS, 0);
    host.settings().switch_off(TASK_DUMPS).unwrap();
    assert_eq!(host.settings().restore(|| Ok(false)).unwrap(), []);
    assert_eq!(host.get(TASK_DUMPS), Some(0));
}
