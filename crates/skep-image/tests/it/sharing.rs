use std::fs;
use std::os::unix::fs::PermissionsExt;

use skep_image::fake::FakeRunner;
use skep_packages::PackageSettings;

use crate::workshop::{SMALL, Workshop, recipes};

crate::tests! {
    sandboxes_get_the_host_settings_as_one_layer_on_top,
    a_step_sees_the_host_settings_and_its_layer_does_not,
}

fn proxy() -> PackageSettings {
    let env = [("http_proxy", "http://proxy.invalid:3128")];
    PackageSettings::detect(env.map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap()
}

fn sandboxes_get_the_host_settings_as_one_layer_on_top() {
    let mut workshop = Workshop::new();
    workshop.runner = FakeRunner::new(|launch| {
        let directory = launch.upper.join("etc/xdg");
        fs::create_dir_all(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o711)).unwrap();
        Ok(())
    });
    let image = workshop
        .build(&recipes([("small", SMALL)]), "small")
        .0
        .unwrap();
    let shared = workshop
        .catalog
        .with_package_settings(&image, &proxy())
        .unwrap();
    assert_eq!(shared.layers[..3], image.layers);
    assert_eq!(shared.layers.len(), 4);
    let layer = workshop.catalog.layer_path(shared.layers[3]);
    let pip = fs::read_to_string(layer.join("etc/xdg/pip/pip.conf")).unwrap();
    assert!(pip.starts_with("[global]\n"), "{pip}");
    let directory = fs::metadata(layer.join("etc/xdg")).unwrap();
    assert_eq!(directory.permissions().mode() & 0o777, 0o711);
    let variable = (
        "http_proxy".to_owned(),
        "http://proxy.invalid:3128".to_owned(),
    );
    assert!(shared.env.contains(&variable), "{:?}", shared.env);

    let layers = workshop.names("layers").len();
    assert_eq!(
        workshop
            .catalog
            .with_package_settings(&image, &proxy())
            .unwrap(),
        shared
    );
    assert_eq!(workshop.names("layers").len(), layers);
}

fn a_step_sees_the_host_settings_and_its_layer_does_not() {
    let mut workshop = Workshop::new();
    workshop.host = proxy();
    workshop.runner = FakeRunner::new(|launch| {
        let seen = launch.env.iter().find(|(name, _)| name == "http_proxy");
        assert_eq!(seen.unwrap().1, "http://proxy.invalid:3128");
        let mount = launch
            .mounts
            .iter()
            .find(|mount| mount.target == "/run/skep")
            .unwrap();
        assert!(!mount.writable);
        assert!(mount.source.join("pip.conf").exists());
        assert!(!mount.source.starts_with(&launch.upper));
        Ok(())
    });
    let image = workshop
        .build(&recipes([("small", SMALL)]), "small")
        .0
        .unwrap();
    for layer in &workshop.catalog.layer_paths(&image)[1..] {
        assert_eq!(fs::read_dir(layer).unwrap().count(), 0);
    }
    assert!(image.env.iter().all(|(name, _)| name != "http_proxy"));
    let plain = Workshop::new();
    let same = plain
        .build(&recipes([("small", SMALL)]), "small")
        .0
        .unwrap();
    assert_eq!(same.id, image.id);
}
