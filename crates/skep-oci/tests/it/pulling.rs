//! Images of a real registry.

use std::fs;
use std::process::Command;

use skep_types::{Redacted, RegistryCredentials};

use crate::Test;
use crate::archive::{Layer, digest, gzip, zstd};
use crate::registry::{PASSWORD, Registry, Shop, USER, configuration, manifest, read};

pub(crate) const TESTS: &[Test] = &[
    ("an_image_is_pulled_by_tag_and_by_digest", by_tag_and_digest),
    ("what_comes_of_a_large_layer_is_told", news),
    ("what_is_not_there_is_named", not_there),
    ("what_was_pulled_needs_no_registry_later", offline),
    ("a_closed_registry_wants_the_right_credentials", credentials),
    (
        "the_operators_file_is_for_callers_without_credentials",
        auth_file,
    ),
    ("of_an_index_the_image_for_this_host_is_pulled", index),
    ("layers_are_shared_between_images", sharing),
    ("a_layer_compressed_by_zstd_is_pulled", zstd_layer),
    ("an_image_over_the_limit_is_refused", too_large),
    ("a_registry_of_this_host_must_be_allowed", private),
    ("the_operator_says_how_a_mirror_is_asked", schemes),
    ("an_image_of_umoci_and_skopeo_is_pulled", umoci),
];

fn basic(password: &str) -> RegistryCredentials {
    RegistryCredentials::Basic {
        username: USER.to_owned(),
        password: Redacted::new(password.to_owned()),
    }
}

fn hello() -> Vec<u8> {
    Layer::new()
        .directory("etc/")
        .file("etc/hello", "hi")
        .finish()
}

fn by_tag_and_digest() {
    let registry = Registry::open();
    let pushed = registry.push("library/tiny", "v1", &[hello()]);
    let shop = Shop::new(&registry.host);
    let image = shop.pull("tiny:v1", None).unwrap();
    assert_eq!(image.digest, pushed);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        image.environment,
        [pair("PATH", "/usr/bin:/bin"), pair("LANG", "C.UTF-8")]
    );
    assert_eq!(read(&shop.paths(&image)[0].join("etc/hello")), "hi");
    let again = shop.pull(&format!("tiny@{pushed}"), None).unwrap();
    assert_eq!(again, image);
    let lines = shop.lines.lock().join("\n");
    assert!(
        lines.contains("is there already") && lines.contains(&pushed),
        "{lines}"
    );
    assert_eq!(shop.leftovers(), 0);
}

fn news() {
    let registry = Registry::open();
    let large = Layer::new().file("large", &"x".repeat(20 << 20)).finish();
    // As its own blob, so that its size is known.
    let layers = [large];
    registry.push_blobs("a/large", "v1", &layers, &layers);
    let shop = Shop::new(&registry.host);
    shop.pull("a/large:v1", None).unwrap();
    let lines = shop.lines.lock().join("\n");
    for part in [": 8 of 21 MiB", ": 16 of 21 MiB", ": 21 MiB in "] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
}

fn offline() {
    let registry = Registry::open();
    registry.push("library/tiny", "v1", &[hello()]);
    let shop = Shop::new(&registry.host);
    let known = format!("{}/library/tiny:v1", registry.host);
    let pulled = shop.pull(&known, None).unwrap();
    let unknown = known.replace(":v1", ":v2");
    drop(registry);
    assert_eq!(shop.pull(&known, None).unwrap(), pulled);
    let lines = shop.lines.lock().join("\n");
    assert!(
        lines.contains("is taken as it was when it last did"),
        "{lines}"
    );
    for (reference, credentials) in [(unknown, None), (known, Some(basic(PASSWORD)))] {
        let refused = shop.refusal(&reference, credentials.as_ref());
        assert!(refused.contains("cannot be reached"), "{refused}");
    }
}

fn not_there() {
    let registry = Registry::open();
    registry.push("a/b", "v1", &[hello()]);
    let shop = Shop::new(&registry.host);
    assert_eq!(
        shop.refusal("a/b:v2", None),
        "image `a/b:v2`: not found: there is no such image or tag"
    );
    let missing = shop.refusal("a/c", None);
    assert!(
        [
            "image `a/c`: repository not found",
            "image `a/c`: not found: there is no such image or tag"
        ]
        .contains(&missing.as_str()),
        "{missing}"
    );
    assert_eq!(
        shop.refusal("a/b:${V}", None),
        "image `a/b:${V}`: the reference cannot be read: nothing has expanded the variable `${V}`"
    );
}

fn credentials() {
    let registry = Registry::closed();
    registry.push("a/secret", "latest", &[hello()]);
    let shop = Shop::new(&registry.host);
    let reference = format!("{}/a/secret", registry.host);
    shop.pull(&reference, Some(&basic(PASSWORD))).unwrap();
    let wrong = shop.refusal(&reference, Some(&basic("wrong")));
    assert_eq!(
        wrong,
        format!(
            "image `{reference}`: access denied: authentication failed (the registry does not accept the credentials)"
        )
    );
    let none = shop.refusal(&reference, None);
    assert_eq!(
        none,
        format!(
            "image `{reference}`: access denied: authentication failed (the registry asks for credentials)"
        )
    );
    let key = RegistryCredentials::Gcp {
        service_account: Redacted::new("{}".to_owned()),
    };
    assert!(
        shop.refusal(&reference, Some(&key))
            .contains("access denied")
    );
    let lines = shop.lines.lock().join("\n");
    assert!(!lines.contains(PASSWORD), "{lines}");
}

fn auth_file() {
    let registry = Registry::closed();
    registry.push("a/secret", "latest", &[hello()]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("auth.json");
    // `bee:hunter2`
    let text = r#"{"auths": {"HOST": {"auth": "YmVlOmh1bnRlcjI="}}}"#;
    fs::write(&path, text.replace("HOST", &registry.host)).unwrap();
    let shop = Shop::with(&registry.host, |registries| {
        registries.auth_files = vec![directory.path().join("missing.json"), path];
    });
    shop.pull("a/secret", None).unwrap();
}

fn index() {
    let registry = Registry::open();
    let ours = registry.push("a/many", "ours", &[hello()]);
    let other = Layer::new().file("other", "").finish();
    let blob = gzip(&other);
    registry.put_blob("a/many", &blob);
    let foreign = configuration("riscv64", &[other]);
    registry.put_blob("a/many", foreign.as_bytes());
    let foreign = manifest(&foreign, &[blob]);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    registry.put_manifest("a/many", "foreign", kind, &foreign);
    let architecture = if cfg!(target_arch = "x86_64") {
        "amd64"
    } else {
        "arm64"
    };
    let entry = |digest: &str, architecture: &str| {
        format!(
            r#"{{"mediaType":"{kind}","digest":"{digest}","size":1,"platform":{{"os":"linux","architecture":"{architecture}"}}}}"#
        )
    };
    let foreign_digest = digest(foreign.as_bytes());
    let put = |tag: &str, entries: &[String]| {
        let kind = "application/vnd.oci.image.index.v1+json";
        let text = format!(
            r#"{{"schemaVersion":2,"mediaType":"{kind}","manifests":[{}]}}"#,
            entries.join(",")
        );
        registry.put_manifest("a/many", tag, kind, &text);
    };
    put(
        "latest",
        &[
            entry(&foreign_digest, "riscv64"),
            entry(&ours, architecture),
        ],
    );
    put("others", &[entry(&foreign_digest, "riscv64")]);
    let shop = Shop::new(&registry.host);
    assert_eq!(shop.pull("a/many", None).unwrap().digest, ours);
    let text = format!("it is not there for linux/{architecture}, which this host needs");
    for tag in ["others", "foreign"] {
        let refusal = shop.refusal(&format!("a/many:{tag}"), None);
        assert_eq!(refusal, format!("image `a/many:{tag}`: {text}"));
    }
}

fn sharing() {
    let registry = Registry::open();
    let top = Layer::new().file("etc/top", "1").finish();
    registry.push("a/one", "latest", &[hello()]);
    registry.push("a/two", "latest", &[hello(), top]);
    let shop = Shop::new(&registry.host);
    let one = shop.pull("a/one", None).unwrap();
    let two = shop.pull("a/two", None).unwrap();
    assert_eq!(one.layers[0], two.layers[0]);
    assert_eq!(two.layers.len(), 2);
}

fn zstd_layer() {
    let registry = Registry::open();
    let layer = Layer::new().file("large", &"x".repeat(200_000)).finish();
    registry.push_blobs(
        "a/z",
        "latest",
        std::slice::from_ref(&layer),
        &[zstd(&layer)],
    );
    let shop = Shop::new(&registry.host);
    let image = shop.pull("a/z", None).unwrap();
    assert_eq!(read(&shop.paths(&image)[0].join("large")).len(), 200_000);
}

fn too_large() {
    let registry = Registry::open();
    registry.push(
        "a/large",
        "latest",
        &[Layer::new().file("x", &"x".repeat(3 << 20)).finish()],
    );
    let shop = Shop::with(&registry.host, |registries| {
        registries.limits.bytes = 1 << 20
    });
    assert_eq!(
        shop.refusal("a/large", None),
        "image `a/large`: its size is over the limit of 1 MiB"
    );
    assert_eq!(shop.leftovers(), 0);
}

fn private() {
    let registry = Registry::open();
    registry.push("a/b", "latest", &[hello()]);
    let shop = Shop::with(&registry.host, |registries| registries.mirrors.clear());
    for host in [
        registry.host.as_str(),
        "localhost:5000",
        "10.0.0.1",
        "169.254.169.254",
    ] {
        let reference = format!("{host}/a/b");
        assert_eq!(
            shop.refusal(&reference, None),
            format!(
                "image `{reference}`: registry `{host}` is at a private address; the operator can allow it under [registries]"
            )
        );
    }
}

fn schemes() {
    let registry = Registry::open();
    registry.push("library/tiny", "v1", &[hello()]);
    let asked = |scheme: &str| {
        let mirror = format!("{scheme}://{}", registry.host);
        let shop = Shop::with(&registry.host, |registries| {
            registries.mirrors = [("docker.io".to_owned(), mirror)].into();
        });
        let pulled = shop.pull("tiny:v1", None);
        pulled.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(asked("http"), Ok(()));
    // It speaks no TLS.
    let refused = asked("https").unwrap_err();
    let expected = format!(
        "image `tiny:v1`: registry `{}` cannot be reached",
        registry.host
    );
    assert!(refused.starts_with(&expected), "{refused}");
}

fn umoci() {
    let registry = Registry::open();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("one.tar"), hello()).unwrap();
    fs::write(
        at("two.tar"),
        Layer::new().file("etc/.wh.hello", "").finish(),
    )
    .unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {output:?}"
        );
    };
    let (layout, image) = (at("layout"), format!("{}:v1", at("layout")));
    run("umoci", &["init", "--layout", &layout]);
    run("umoci", &["new", "--image", &image]);
    run(
        "umoci",
        &["raw", "add-layer", "--image", &image, &at("one.tar")],
    );
    run(
        "umoci",
        &["raw", "add-layer", "--image", &image, &at("two.tar")],
    );
    run(
        "umoci",
        &["config", "--image", &image, "--config.env", "FROM=umoci"],
    );
    let target = format!("docker://{}/a/umoci:v1", registry.host);
    run(
        "skopeo",
        &[
            "--insecure-policy",
            "copy",
            "--dest-tls-verify=false",
            &format!("oci:{image}"),
            &target,
        ],
    );
    let shop = Shop::new(&registry.host);
    let pulled = shop.pull("a/umoci:v1", None).unwrap();
    assert_eq!(pulled.layers.len(), 2);
    assert!(
        pulled
            .environment
            .contains(&("FROM".to_owned(), "umoci".to_owned()))
    );
    let paths = shop.paths(&pulled);
    assert_eq!(read(&paths[0].join("etc/hello")), "hi");
    paths[1].join("etc/hello").symlink_metadata().unwrap();
}
