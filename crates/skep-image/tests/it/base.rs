//! The real `base` template.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use skep_image::{
    Builder, Cancel, Catalog, LaunchRunner, Mmdebstrap, StepError, StepLaunch, StepRunner,
    Surroundings, builtin,
};
use skep_launch::{Bind, Launcher};
use skep_packages::PackageSettings;
use skep_types::TemplateImage;

use crate::workshop::Told;

crate::tests! {
    a_second_build_takes_every_layer_from_the_store,
    the_user_is_who_the_sdks_expect_and_may_do_everything,
    the_hostname_resolves_and_the_locale_is_there,
    pip_installs_for_the_user_without_flags,
    npm_installs_for_the_user_without_flags,
    uv_installs_into_a_project_and_apt_for_root,
    nothing_of_the_host_is_in_a_layer,
    a_debian_of_its_own_sources,
}

/// Template cache of servers, so that `base` is built once for tests and for use.
#[expect(
    clippy::disallowed_methods,
    reason = "a test program is its own `main`"
)]
fn cache_dir() -> PathBuf {
    std::env::var_os("SKEP_CACHE_DIR").map_or_else(|| "/var/cache/skep".into(), PathBuf::from)
}

pub(crate) fn launcher() -> LaunchRunner {
    LaunchRunner::new(Launcher::new(std::env::current_exe().unwrap(), ["launch"]))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test program is its own `main`"
)]
pub(crate) fn host() -> PackageSettings {
    PackageSettings::detect(std::env::vars()).unwrap()
}

fn build() -> (TemplateImage, Told) {
    let catalog = Catalog::open(&cache_dir()).unwrap();
    let mut told = Told::default();
    let builder = Builder {
        catalog: &catalog,
        bootstrap: &Mmdebstrap,
        runner: &launcher(),
        host: &host(),
        cancel: &Cancel::default(),
    };
    let image = builder.build(&builtin(), "base", &mut told);
    (
        image.unwrap_or_else(|error| panic!("{error:?}\n{}", told.0.join("\n"))),
        told,
    )
}

/// The template, built by the first test that asks.
pub(crate) static BASE: LazyLock<TemplateImage> = LazyLock::new(|| build().0);

/// The directories of its layers.
pub(crate) fn base_layers() -> Vec<PathBuf> {
    let catalog = Catalog::open(&cache_dir()).unwrap();
    catalog.layer_paths(&BASE)
}

/// Output of a script in a login shell of `user`, in a copy of the template that also has the
/// host's package settings, as sandboxes can have them.
fn shell(user: &str, script: &str) -> String {
    let catalog = Catalog::open(&cache_dir()).unwrap();
    let image = catalog.with_package_settings(&BASE, &host()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = |name: &str| {
        let path = place.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let command = [
        "/usr/sbin/runuser",
        "-s",
        "/bin/bash",
        user,
        "--",
        "-e",
        "-l",
        "-c",
        script,
    ];
    let launch = StepLaunch {
        layers: catalog.layer_paths(&image),
        upper: directory("upper"),
        work: directory("work"),
        staging: directory("staging"),
        mounts: vec![Bind {
            source: "/etc/resolv.conf".into(),
            target: "/etc/resolv.conf".to_owned(),
            writable: false,
        }],
        command: command.map(str::to_owned).to_vec(),
        env: image.env.clone(),
        workdir: "/home/user".to_owned(),
    };
    let mut output = String::new();
    let surroundings = Surroundings {
        cancel: &Cancel::default(),
        output: &mut |line| {
            output.push_str(line);
            output.push('\n');
        },
    };
    let result: Result<(), StepError> = launcher().run(&launch, surroundings);
    assert!(result.is_ok(), "{result:?}\n{output}");
    output
}

fn a_second_build_takes_every_layer_from_the_store() {
    let first = BASE.clone();
    let (second, told) = build();
    assert_eq!(second, first);
    assert!(
        told.0.iter().all(|event| !event.starts_with("started")),
        "{told:?}"
    );
}

fn the_user_is_who_the_sdks_expect_and_may_do_everything() {
    let output = shell(
        "user",
        "id; pwd; echo $HOME; sudo -n id -u; touch /code/a /usr/local/bin/b; \
         stat -c '%a %U' .bashrc .profile; stat -c '%A %U' /usr/bin/sudo",
    );
    assert_eq!(
        output,
        "uid=1000(user) gid=1000(user) groups=1000(user)\n/home/user\n/home/user\n0\n\
         644 user\n644 user\n-rwsr-xr-x root\n"
    );
}

fn the_hostname_resolves_and_the_locale_is_there() {
    let output = shell(
        "user",
        "getent ahostsv4 \"$(cat /etc/hostname)\" | awk 'NR == 1 { print $1, $3 }'; \
         getent hosts localhost > /dev/null; locale 2>&1 | head -1; \
         python3 -c 'print(\"grüße\")'",
    );
    assert_eq!(output, "127.0.0.1 localhost\nLANG=C.UTF-8\ngrüße\n");
}

fn pip_installs_for_the_user_without_flags() {
    let output = shell(
        "user",
        "pip install --quiet cowsay; cowsay -t hello | grep hello; \
         python -c 'import cowsay' && sudo python3 -c 'import cowsay; print(\"for root too\")'; \
         sudo pip install --quiet six; python3 -c 'import six; print(\"from root\")'",
    );
    assert_eq!(output, "| hello |\nfor root too\nfrom root\n");
}

fn npm_installs_for_the_user_without_flags() {
    let output = shell(
        "user",
        "npm install --global --silent semver > /dev/null; semver 1.2.3; \
         mkdir project; cd project; npm install --silent is-odd > /dev/null; \
         node -e 'console.log(require(\"is-odd\")(3))'; \
         sudo npm install --global --silent is-odd > /dev/null; ls /usr/local/lib/node_modules",
    );
    assert_eq!(output, "1.2.3\ntrue\nis-odd\nnpm\nsemver\n");
}

fn uv_installs_into_a_project_and_apt_for_root() {
    let output = shell(
        "user",
        "uv venv --quiet && uv pip install --quiet six && .venv/bin/python -c 'import six'; \
         sudo apt-get -qq update && sudo apt-get -qq install tree > /dev/null; \
         printf 'int main() { return 0; }' > a.c && gcc a.c && ./a.out && \
         git --version | cut -d ' ' -f 1,2; curl --version | cut -c 1-4 | head -1",
    );
    assert_eq!(output, "git version\ncurl\n");
}

fn a_debian_of_its_own_sources() {
    let output = shell(
        "root",
        "cat /etc/debian_version; ls -A /var/lib/apt/lists /tmp",
    );
    assert!(output.starts_with("13."), "{output}");
    let sources = fs::read_to_string(base_layers()[0].join("etc/apt/sources.list")).unwrap();
    assert!(sources.contains(" trixie-security main"), "{sources}");
    assert!(!sources.contains("signed-by=/tmp"), "{sources}");
    let lists = base_layers()
        .into_iter()
        .map(|layer| layer.join("var/lib/apt/lists"));
    for directory in lists.filter(|directory| directory.exists()) {
        let names: BTreeSet<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        let expected = ["auxfiles", "lock", "partial"].map(Into::into);
        assert!(
            names.iter().all(|name| expected.contains(name)),
            "{names:?}"
        );
    }
}

/// Texts that would show that something of the host was baked in: the certificates that its
/// operator added, and the places where a build keeps things.
fn marks_of_the_host() -> Vec<Vec<u8>> {
    let mut marks = vec![
        b"/run/skep".to_vec(),
        b"skep-build".to_vec(),
        cache_dir().to_str().unwrap().as_bytes().to_vec(),
    ];
    let added = Path::new("/usr/local/share/ca-certificates");
    for entry in fs::read_dir(added).into_iter().flatten() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let certificates = text.split("-----BEGIN CERTIFICATE-----\n").skip(1);
        let third_lines = certificates.filter_map(|certificate| certificate.lines().nth(2));
        marks.extend(third_lines.map(|line| line.as_bytes().to_vec()));
    }
    marks
}

fn nothing_of_the_host_is_in_a_layer() {
    let marks = marks_of_the_host();
    let mut searched = 0;
    let mut directories = base_layers();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() && entry.metadata().unwrap().len() < 1 << 20 {
                searched += 1;
                let content = fs::read(entry.path()).unwrap();
                let found = marks.iter().find(|mark| contains(&content, mark));
                let text = found.map(|mark| String::from_utf8_lossy(mark));
                assert_eq!(text, None, "{}", entry.path().display());
            }
        }
    }
    assert!(searched > 1000, "{searched}");
    for (name, content) in [("hostname", "e2b.local\n"), ("resolv.conf", "")] {
        let layers = base_layers().into_iter().rev();
        let top = layers
            .map(|layer| layer.join("etc").join(name))
            .find(|path| path.exists());
        assert_eq!(fs::read_to_string(top.unwrap()).unwrap(), content);
    }
}

fn contains(content: &[u8], mark: &[u8]) -> bool {
    let first = mark[0];
    let mut rest = content;
    while let Some(at) = rest.iter().position(|byte| *byte == first) {
        if rest[at..].starts_with(mark) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}
