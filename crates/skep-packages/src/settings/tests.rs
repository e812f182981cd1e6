use super::*;

const RELEASE: (&str, &str) = ("etc/os-release", "ID=debian\nVERSION_CODENAME=bookworm\n");

/// The settings of a host that has these files, variables and this output of `apt-config dump`.
fn settings(files: &[(&str, &str)], env: &[(&str, &str)], apt_dump: &str) -> PackageSettings {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let env = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    PackageSettings::read(&Host {
        root: root.path(),
        env: &env,
        apt_dump,
    })
    .unwrap()
}

fn certificate(body: &str) -> String {
    format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
}

fn file(settings: &PackageSettings, name: &str) -> String {
    let files = settings.files(Path::new("/x"));
    let found = files.into_iter().find(|(other, _)| *other == name);
    found.map(|(_, content)| content).unwrap_or_default()
}

#[test]
fn certificates_are_collected_from_wherever_a_client_was_told_of_them() {
    let (system, pip, npm) = (certificate("AAA"), certificate("BBB"), certificate("CCC"));
    let commented = format!("# a comment\n{system}");
    let settings = settings(
        &[
            ("etc/ssl/certs/ca-certificates.crt", &commented),
            ("etc/pip.conf", "[global]\ncert = /opt/pip.crt\n"),
            ("opt/pip.crt", &format!("{system}{pip}")),
            ("opt/npm.crt", &npm),
        ],
        &[
            ("npm_config_cafile", "/opt/npm.crt"),
            ("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"),
        ],
        "",
    );
    assert_eq!(
        settings.ca_bundle(),
        Some(format!("{system}{pip}{npm}").as_str())
    );
    assert_eq!(file(&settings, "pip.conf"), "[global]\ncert = /x/ca.crt\n");
    assert_eq!(file(&settings, "npmrc"), "cafile=/x/ca.crt\n");
}

#[test]
fn pip_is_pointed_to_the_same_index_and_to_no_directory_of_the_host() {
    let settings = settings(
        &[
            (
                "etc/pip.conf",
                "[global]\nindex-url = http://old/\nno-cache-dir = true\n[list]\nproxy = http://no/\n",
            ),
            (
                "home/me/.config/pip/pip.conf",
                "[install]\nindex_url: http://mirror/simple\nextra-index-url =\n    http://a/\n    http://b/\n",
            ),
        ],
        &[
            ("HOME", "/home/me"),
            ("PIP_FIND_LINKS", "/opt/wheels"),
            ("PIP_DEFAULT_TIMEOUT", "180"),
        ],
        "",
    );
    assert_eq!(
        file(&settings, "pip.conf"),
        "[global]\nextra-index-url = http://a/\n    http://b/\nindex-url = http://mirror/simple\ntimeout = 180\n"
    );
    assert_eq!(
        file(&settings, "uv.toml"),
        "extra-index-url = [\"http://a/\", \"http://b/\"]\nindex-url = \"http://mirror/simple\"\n"
    );
}

#[test]
fn uv_keeps_an_index_of_its_own() {
    let settings = settings(
        &[(
            "etc/uv/uv.toml",
            "cache-dir = \"/x\"\n[[index]]\nurl = \"http://uv/\"\ndefault = true\n",
        )],
        &[("PIP_INDEX_URL", "http://pip/")],
        "",
    );
    assert_eq!(
        file(&settings, "uv.toml"),
        "[[index]]\ndefault = true\nurl = \"http://uv/\"\n"
    );
}

#[test]
fn npm_keeps_its_registries_but_no_credentials() {
    let settings = settings(
        &[
            ("usr/etc/npmrc", "registry=http://old/\n"),
            (
                "home/me/.npmrc",
                "registry = \"http://mirror/\"\n@team:registry=http://team/\n//mirror/:_authToken=secret\nproxy=${PROXY}\nfund=false\n",
            ),
        ],
        &[("HOME", "/home/me"), ("NPM_CONFIG_STRICT_SSL", "false")],
        "",
    );
    assert_eq!(
        file(&settings, "npmrc"),
        "@team:registry=http://team/\nregistry=http://mirror/\nstrict-ssl=false\n"
    );
}

#[test]
fn apt_keeps_proxies_and_nothing_about_the_host_itself() {
    let settings = settings(
        &[],
        &[],
        "Dir \"/\";\nAcquire::http::Proxy \"http://p/\";\nAcquire::http::Proxy::intranet \"DIRECT\";\nAcquire::http::ProxyOther \"x\";\nDPkg::Post-Invoke:: \"rm\";\n",
    );
    assert_eq!(
        file(&settings, "apt.conf"),
        "Acquire::http::Proxy \"http://p/\";\nAcquire::http::Proxy::intranet \"DIRECT\";\n"
    );
}

#[test]
fn the_mirror_of_a_debian_host_is_used_for_another_release() {
    let stanza = "# mirror\nTypes: deb deb-src\nURIs: http://mirror/debian\n# old\nSuites: bookworm bookworm-updates\n\nEnabled: no\nTypes: deb\nURIs: http://off/\nSuites: bookworm-security\n\nTypes: deb\nURIs: http://mirror/security\nSuites: bookworm-security\n";
    let settings = settings(
        &[
            RELEASE,
            (
                "etc/apt/sources.list",
                "deb [arch=amd64] cdrom:x bookworm main\n",
            ),
            ("etc/apt/sources.list.d/debian.sources", stanza),
            ("usr/share/keyrings/debian-archive-keyring.gpg", "keys"),
        ],
        &[],
        "",
    );
    let keys = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
    assert_eq!(
        settings.apt().sources_for("trixie").unwrap(),
        format!(
            "deb {keys} http://mirror/debian trixie main\n\
             deb {keys} http://mirror/debian trixie-updates main\n\
             deb {keys} http://mirror/security trixie-security main\n"
        )
    );
    let mirror = settings.apt().mirror().unwrap();
    assert_eq!(
        mirror.redirect(
            "# ours\ndeb [a=b] http://x/ trixie main\ndeb http://y/ trixie-security main\n"
        ),
        "# ours\ndeb [a=b] http://mirror/debian trixie main\ndeb http://mirror/security trixie-security main\n"
    );
}

#[test]
fn the_mirror_of_another_distribution_is_not_used() {
    let settings = settings(
        &[
            ("etc/os-release", "ID=ubuntu\nVERSION_CODENAME=noble\n"),
            (
                "etc/apt/sources.list",
                "deb http://mirror/ubuntu noble main\n",
            ),
        ],
        &[],
        "",
    );
    assert_eq!(settings.apt().sources_for("trixie"), None);
    assert!(!file(&settings, "apt.conf").contains("SourceList"));
}

#[test]
fn a_step_finds_everything_below_one_mounted_directory() {
    let settings = settings(
        &[
            RELEASE,
            (
                "etc/apt/sources.list",
                "deb http://mirror/debian bookworm main\n",
            ),
            ("etc/ssl/certs/ca-certificates.crt", &certificate("AAA")),
        ],
        &[("https_proxy", "http://p/"), ("SECRET", "x")],
        "",
    );
    let dir = tempfile::tempdir().unwrap();
    let sources = "deb http://x/ trixie main\n";
    let env = settings.for_build(dir.path(), Some(sources)).unwrap();
    assert!(env.contains(&("https_proxy".to_owned(), "http://p/".to_owned())));
    assert!(env.iter().all(|(name, _)| name != "SECRET"));
    for (name, value) in env.iter().filter(|(name, _)| name != "https_proxy") {
        let inside = Path::new(value).strip_prefix(BUILD_DIR).unwrap();
        assert!(dir.path().join(inside).exists(), "{name}={value}");
    }
    assert_eq!(
        fs::read_to_string(dir.path().join("sources.list")).unwrap(),
        "deb http://mirror/debian trixie main\n"
    );
}

#[test]
fn settings_do_not_print_their_values() {
    let settings = settings(&[], &[("PIP_INDEX_URL", "http://me:secret@mirror/")], "");
    assert!(!format!("{settings:?}").contains("secret"));
}

#[test]
fn settings_that_cannot_be_understood_are_named() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("etc/uv/uv.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "index-url = ").unwrap();
    let host = Host {
        root: root.path(),
        env: &BTreeMap::new(),
        apt_dump: "",
    };
    let damaged = PackageSettings::read(&host);
    assert!(
        matches!(&damaged, Err(PackageSettingsError::Damaged { path: named, .. }) if *named == path),
        "{damaged:?}"
    );
}

#[test]
fn the_registries_of_the_host_come_with_its_logins_and_no_sandbox_sees_those() {
    let files = [
        RELEASE,
        (
            "etc/pip.conf",
            "[global]\nindex-url = https://me:word@index.test/simple/\nextra-index-url = https://other.test/\n",
        ),
        (
            "home/me/.npmrc",
            "registry=https://npm.test/\n//npm.test/:_authToken=token\n",
        ),
        (
            "etc/apt/sources.list",
            "deb http://mirror.test/debian bookworm main\n",
        ),
        (
            "etc/apt/auth.conf.d/a.conf",
            "machine mirror.test login me password word\n",
        ),
    ];
    let env = [
        ("HOME", "/home/me"),
        ("http_proxy", "http://proxy.test"),
        ("no_proxy", "x.test"),
    ];
    let settings = settings(&files, &env, "");
    let registries = settings.registries();
    let shown = |registry: &crate::Registry| {
        let login = registry
            .authorization
            .as_ref()
            .map(|login| login.reveal().clone());
        (registry.url.clone(), login)
    };
    let basic = || Some("Basic bWU6d29yZA==".to_owned());
    assert_eq!(
        shown(&registries.pypi),
        ("https://index.test/simple/".to_owned(), basic())
    );
    assert_eq!(
        shown(&registries.npm),
        (
            "https://npm.test/".to_owned(),
            Some("Bearer token".to_owned())
        )
    );
    assert_eq!(
        shown(&registries.debian),
        ("http://mirror.test/debian".to_owned(), basic())
    );
    let place = MirrorPlace::new("198.18.0.1:8081".parse().unwrap());
    let mirrored = settings.through(&place);
    let sources = |path: &str| {
        let is_it = path == "/etc/apt/sources.list";
        is_it.then(|| "deb http://any.test/debian bookworm main\ndeb http://any.test/s bookworm-security main\n".to_owned())
    };
    let files = mirrored.files_for_sandbox(sources);
    let all: String = files.iter().map(|(_, text)| text.as_str()).collect();
    for wrong in [
        "word",
        "token",
        "index.test",
        "other.test",
        "npm.test",
        "mirror.test",
        "any.test",
    ] {
        assert!(!all.contains(wrong), "{wrong}: {all}");
    }
    for expected in [
        "index-url = http://198.18.0.1:8081/pypi/simple/\n",
        "trusted-host = 198.18.0.1:8081\n",
        "index-url = \"http://198.18.0.1:8081/pypi/simple/\"\n",
        "registry=http://198.18.0.1:8081/npm/\n",
        "deb http://198.18.0.1:8081/debian bookworm main\n",
        "deb http://198.18.0.1:8081/debian-security bookworm-security main\n",
        "Acquire::http::Proxy::198.18.0.1 \"DIRECT\";\n",
    ] {
        assert!(all.contains(expected), "{expected}: {all}");
    }
    let exception = ("no_proxy".to_owned(), "x.test,198.18.0.1".to_owned());
    assert!(mirrored.env_for_sandbox().contains(&exception));
    assert!(!format!("{registries:?}").contains("d29yZA"));
}
