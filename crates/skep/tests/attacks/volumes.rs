//! Volumes that sandboxes share: what one plants there for another, for the server and for the
//! host. Each attempt has a control beside it that succeeds.
//!
//! Races of renames against the server are in the tests of `skep-volume`.

use skep_client::{NewVolume, VolumeMount, VolumeOptions};

use crate::product::{Product, TIMEOUT};
use crate::restored;
use crate::sentinels::Sentinels;
use crate::target::Target;

const SIZE: u32 = 16;

pub(crate) async fn check(
    product: &Product,
    sentinels: &Sentinels,
    can_restore: bool,
) -> Result<String, String> {
    let volumes = product.client.volumes();
    let options = VolumeOptions {
        size_mb: Some(SIZE),
        ..VolumeOptions::default()
    };
    let new = |name: &str| NewVolume {
        name: name.to_owned(),
        skep: Some(options.clone()),
    };
    let shared = volumes.create(&new("shared")).await.unwrap();
    let other = volumes.create(&new("other")).await.unwrap();
    let attacker = product.create_on(sentinels, vec![mount("shared", "/mnt")]);
    let both = vec![mount("shared", "/mnt"), mount("shared:ro", "/kept")];
    let victim = product.create_on(sentinels, both);
    let (attacker, victim) = (attacker.await, victim.await);

    planted(&attacker, &victim).await?;
    read_only(&victim).await?;
    for_the_server(product, &attacker, &shared, &other).await?;
    full(product, &attacker, &other).await?;
    of_neighbours(product, sentinels).await?;
    taken_away(product, sentinels, &attacker).await?;
    led_astray(product, sentinels, &attacker).await?;
    if can_restore {
        led_out_of_the_root(product, sentinels).await?;
    }

    let refused = volumes.delete(&shared.volume.volume_id).await.unwrap_err();
    let by = refused.to_string() + &skep_telemetry::Chain(&refused).to_string();
    if !by.contains(&attacker.id) {
        return Err(format!("a volume in use was to be deleted: {by}"));
    }
    for target in [&attacker, &victim] {
        product.kill(target).await;
    }
    for volume in [&shared, &other] {
        volumes.delete(&volume.volume.volume_id).await.unwrap();
    }
    Ok("set-user-id, devices, remounts, links, pipes, space, names, tokens and places".to_owned())
}

/// Programs with root's rights and devices, for another sandbox.
async fn planted(attacker: &Target, victim: &Target) -> Result<(), String> {
    attacker
        .shell("cp /usr/bin/id /mnt/id && chown root:root /mnt/id && chmod 4755 /mnt/id")
        .await;
    let as_user = async |program: &str| {
        let ran = victim.run("user", program, &["-u".to_owned()]).await;
        ran.unwrap().stdout.trim().to_owned()
    };
    victim.shell("cp /usr/bin/id /id && chmod 4755 /id").await;
    let (there, control) = (as_user("/mnt/id").await, as_user("/id").await);
    if (there.as_str(), control.as_str()) != ("1000", "0") {
        return Err(format!(
            "set-user-id on a volume: {there}, on the root: {control}"
        ));
    }
    let owner = victim.shell("stat -c %u:%g /mnt/id").await;
    let device =
        "mknod /mnt/zero c 1 5 2>/dev/null && head -c1 /mnt/zero >/dev/null && echo opened; true";
    let opened = attacker.shell(device).await;
    if owner.trim() != "0:0" || opened.contains("opened") {
        return Err(format!("owner {owner}, device {opened}"));
    }
    Ok(())
}

/// A mount for reading alone, against root inside.
async fn read_only(victim: &Target) -> Result<(), String> {
    let attempts = [
        "touch /kept/x",
        "mount -o remount,rw /kept && touch /kept/x",
        "mount --bind /kept /tmp && touch /tmp/x",
        "umount /kept && touch /kept/x && rm /kept/x && touch /mnt/kept-was-hidden",
        "rm /kept/id",
        "chmod 777 /kept/id",
    ];
    for attempt in attempts {
        let arguments = ["-c".to_owned(), attempt.to_owned()];
        let ran = victim.run("root", "sh", &arguments).await.unwrap();
        if ran.code == 0 {
            return Err(format!("`{attempt}` succeeded on a read-only volume"));
        }
    }
    // The control: the same volume, mounted writable.
    victim.shell("touch /mnt/x && rm /mnt/x").await;
    Ok(())
}

/// Links and pipes that the server meets, and tokens of others.
async fn for_the_server(
    product: &Product,
    attacker: &Target,
    shared: &skep_client::VolumeAndToken,
    other: &skep_client::VolumeAndToken,
) -> Result<(), String> {
    let files = product.client.volumes().files(shared);
    let plant = "cd /mnt && ln -s /etc/passwd out && ln -s / root && ln -s ../staging up && \
                 ln -s /proc/self/root magic && mkfifo pipe && echo in > file && ln -s file within";
    attacker.shell(plant).await;
    // The controls: inside, the links lead on, and so does the one that stays, for the server.
    let inside = attacker.shell("cat /mnt/out | head -c4").await;
    let within = files
        .download("/within")
        .await
        .unwrap()
        .next()
        .await
        .unwrap();
    if inside != "root" || within.as_deref() != Some(b"in\n") {
        return Err(format!("the controls failed: {inside} {within:?}"));
    }
    for path in [
        "/out",
        "/root/etc/passwd",
        "/magic/etc/passwd",
        "/up",
        "/pipe",
        "/../x",
    ] {
        if files.download(path).await.is_ok() {
            return Err(format!("the server read `{path}`"));
        }
    }
    for path in ["/root/tmp/planted", "/up/planted", "/magic/tmp/planted"] {
        if files.write(path, "x").await.is_ok() || std::fs::exists("/tmp/planted").unwrap() {
            return Err(format!("the server wrote `{path}`"));
        }
    }
    let mut crossed = other.clone();
    crossed.token = shared.token.clone();
    let crossed = product.client.volumes().files(&crossed);
    match crossed.list("/", 1).await {
        Err(error) if error.status() == Some(401) => Ok(()),
        answer => Err(format!("a token of another volume opened it: {answer:?}")),
    }
}

/// More than the volume holds, in every way that there is.
async fn full(
    product: &Product,
    attacker: &Target,
    other: &skep_client::VolumeAndToken,
) -> Result<(), String> {
    let fill = "cd /mnt && df --output=size -BM . | tail -1; \
                dd if=/dev/zero of=big bs=1M count=256 2>&1 | grep -o 'No space left'; \
                fallocate -l 256M more 2>&1 | grep -o 'No space left'; \
                truncate -s 1T sparse && dd if=/dev/zero of=sparse bs=1M count=256 seek=9000 conv=notrunc 2>&1 | grep -o 'No space left'; \
                for n in $(seq 300); do ln big big.$n; done; du -sm --apparent-size big | cut -f1; rm -f big* more sparse";
    let said = attacker.shell(fill).await;
    if said.matches("No space left").count() != 3 {
        return Err(format!("a volume of {SIZE} MiB took more: {said}"));
    }
    // The control: another volume of the same host has room.
    let files = product.client.volumes().files(other);
    files.write("/a", vec![0; 1 << 20]).await.unwrap();
    Ok(())
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        path: path.to_owned(),
        read_only: false,
    }
}

/// A volume that others could take away, by removing what it is mounted on.
async fn taken_away(
    product: &Product,
    sentinels: &Sentinels,
    attacker: &Target,
) -> Result<(), String> {
    attacker.shell("mkdir /mnt/data").await;
    for outer in ["shared", "shared:ro"] {
        let mounts = vec![mount(outer, "/a"), mount("other", "/a/data")];
        match product.try_create_on(sentinels, mounts).await {
            Err(error) if error.status() == Some(400) => {}
            answer => return Err(format!("a volume in '{outer}': {answer:?}")),
        }
    }
    // The control: beside it, and in what nobody writes to, it is had; see also below.
    attacker.shell("rmdir /mnt/data").await;
    let mounts = vec![mount("shared", "/a"), mount("other", "/b")];
    let target = product.create_on(sentinels, mounts).await;
    product.kill(&target).await;
    Ok(())
}

/// Links of one volume where another is to be mounted, so that it would be mounted over what a
/// launch makes, or writes.
async fn led_astray(
    product: &Product,
    sentinels: &Sentinels,
    attacker: &Target,
) -> Result<(), String> {
    let places = ["/etc", "/dev", "/sys", "../etc", "/proc/self/root/dev"];
    attacker.shell("mkdir /mnt/data").await;
    for (number, led_to) in places.iter().enumerate() {
        let plant = format!("ln -s {led_to} /mnt/to-{number}");
        attacker.shell(&plant).await;
    }
    // Volumes are in no others but snapshots.
    let planted = NewVolume {
        name: "planted".to_owned(),
        skep: Some(VolumeOptions {
            source: Some("shared".to_owned()),
            read_only: true,
            ..VolumeOptions::default()
        }),
    };
    let planted = product.client.volumes().create(&planted).await.unwrap();
    attacker.shell("rm -r /mnt/data /mnt/to-*").await;
    let nested = |inner: &str| vec![mount("planted", "/a"), mount("other", inner)];
    for (number, led_to) in places.iter().enumerate() {
        let place = format!("/a/to-{number}");
        match product.try_create_on(sentinels, nested(&place)).await {
            Err(error) if error.status() == Some(400) => {
                let said = skep_telemetry::Chain(&error).to_string();
                if !said.contains(&format!("'other' cannot be mounted at '{place}'")) {
                    return Err(format!("a volume led to {led_to} was refused with: {said}"));
                }
            }
            Err(error) => return Err(format!("a volume led to {led_to}: {error:?}")),
            Ok(target) => {
                let mounts = target.shell("cat /proc/self/mounts").await;
                return Err(format!("a volume led to {led_to} is in {mounts}"));
            }
        }
    }
    // The control: without a link it is there, and nothing else has changed.
    let target = product.create_on(sentinels, nested("/a/data")).await;
    let said = target
        .shell("touch /a/data/x; grep -c ' /a/data ext4 ' /proc/self/mounts; cat /proc/cmdline")
        .await;
    product.kill(&target).await;
    if said.trim() != "1" {
        return Err(format!("the control: {said}"));
    }
    let id = &planted.volume.volume_id;
    product.client.volumes().delete(id).await.unwrap();
    Ok(())
}

/// A link that a sandbox leaves in its own root where a volume is, and that would have a directory
/// of the host mounted when it comes back from the disk.
async fn led_out_of_the_root(product: &Product, sentinels: &Sentinels) -> Result<(), String> {
    let with_volume = || product.create_on(sentinels, vec![mount("other", "/a/above/etc")]);
    let target = with_volume().await;
    target
        .shell("mv /a/above /a/aside && ln -s / /a/above")
        .await;
    restored::sleep(product, &target).await;
    match target.sandbox().resume(Some(TIMEOUT)).await {
        // Callers are told that it is as it was, and the log why.
        Err(error) => {
            let logged = product.log_about(&target.id);
            if !logged.contains("showing the volumes `/a/above/etc`") {
                return Err(format!("it did not come back for: {error:?}\n{logged}"));
            }
        }
        Ok(_) => {
            let seen = target
                .shell("ls -a /a/above/etc; cat /proc/self/mounts")
                .await;
            return Err(format!("a sandbox came back with: {seen}"));
        }
    }
    product.kill(&target).await;
    // The control: without the link it comes back as it was.
    let target = with_volume().await;
    target.shell("touch /a/above/etc/own").await;
    restored::sleep(product, &target).await;
    target
        .sandbox()
        .resume(Some(TIMEOUT))
        .await
        .map_err(|error| format!("the control did not come back: {error:?}"))?;
    let seen = target
        .shell("ls -d /a/above/etc/own /a/above/etc/passwd 2>/dev/null; true")
        .await;
    product.kill(&target).await;
    if seen.trim() != "/a/above/etc/own" {
        return Err(format!("the control came back with: {seen}"));
    }
    Ok(())
}

/// Volumes of another team, by name and by id.
async fn of_neighbours(product: &Product, sentinels: &Sentinels) -> Result<(), String> {
    let neighbour = product.add_team("volumes");
    let theirs = neighbour.volumes();
    let private = theirs
        .create(&NewVolume {
            name: "private".to_owned(),
            skep: None,
        })
        .await
        .unwrap();
    let id = &private.volume.volume_id;
    let found = product.client.volumes().get(id).await;
    let deleted = product.client.volumes().delete(id).await;
    let mounts = vec![mount("private", "/mnt")];
    let mounted = product.try_create_on(sentinels, mounts).await;
    // The control: its own team finds it.
    theirs.get(id).await.unwrap();
    theirs.delete(id).await.unwrap();
    match (found.is_err(), deleted.is_err(), mounted.is_err()) {
        (true, true, true) => Ok(()),
        held => Err(format!("a volume of another team: {held:?}")),
    }
}
