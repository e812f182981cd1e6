//! Images that nobody reads without the operator's key.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use skep_checkpoint::ImageKey;
use skep_isolation::{
    AfterCheckpoint, Isolation, LaunchError, LaunchRequest, Launched, RestoreRequest, RestoreTarget,
};
use skep_telemetry::Chain;
use skep_types::{Checkpoint, ImageKind, SandboxId};

use crate::bench::{Bench, ask};
use crate::checkpoint::{checkpoints, dump, same};

crate::tests![
    an_encrypted_image_is_restored_and_shows_nothing,
    an_encrypted_image_is_refused_without_its_key_or_when_it_was_edited,
];

/// A word that the agent remembers. It is in no program, which images hold as well.
fn secret() -> String {
    format!("{0}-{0}", SandboxId::random())
}

fn key(byte: &str) -> ImageKey {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    fs::write(&path, byte.repeat(32)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    ImageKey::read(&path).unwrap()
}

async fn bench(key: Option<ImageKey>) -> Bench {
    Bench::with(|config| {
        config.checkpoints = Some(checkpoints());
        config.image_key = key;
    })
    .await
}

/// Files of an image, without its disk.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let files = entries.flat_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    });
    // What CRIU and its hook have talked through is there as well, and is no file.
    let holds_something = |path: &PathBuf| path.is_file() && !path.ends_with("disk.img");
    files.filter(holds_something).collect()
}

fn image(bench: &Bench, checkpoint: &Checkpoint) -> PathBuf {
    let images = bench.config.host.data_dir.join("images");
    images.join(&checkpoint.record)
}

/// Files of an image in which the secret can be read.
fn telling(bench: &Bench, checkpoint: &Checkpoint, secret: &str) -> Vec<PathBuf> {
    let mut files = files(&image(bench, checkpoint));
    files.retain(|path| {
        let bytes = fs::read(path).unwrap();
        let mut parts = bytes.windows(secret.len());
        parts.any(|part| part == secret.as_bytes())
    });
    files
}

/// The image of a sandbox that knows the secret, which is gone.
async fn written(bench: &Bench, secret: &str) -> (LaunchRequest, Checkpoint) {
    let request = bench.request();
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    let told = ask(&sandbox, &format!("remember {secret}")).await;
    assert_eq!(told, "done");
    let checkpoint = dump(&sandbox, AfterCheckpoint::Stand).await;
    sandbox.destroy().await.unwrap();
    (request, checkpoint)
}

async fn restore(
    bench: &Bench,
    checkpoint: &Checkpoint,
    target: RestoreTarget,
) -> Result<Launched, LaunchError> {
    let restoring = bench.native().restore(RestoreRequest {
        checkpoint: checkpoint.clone(),
        kind: ImageKind::Memory,
        target,
    });
    let restored = restoring.await?;
    restored.thaw().await.unwrap();
    Ok(restored)
}

async fn an_encrypted_image_is_restored_and_shows_nothing() {
    let secret = secret();
    let plain = bench(None).await;
    let (_, checkpoint) = written(&plain, &secret).await;
    assert!(
        !telling(&plain, &checkpoint, &secret).is_empty(),
        "the control"
    );
    plain.native().forget_checkpoint(checkpoint).await.unwrap();
    plain.finish().await;

    let bench = bench(Some(key("17"))).await;
    let (request, checkpoint) = written(&bench, &secret).await;
    assert_eq!(telling(&bench, &checkpoint, &secret), Vec::<PathBuf>::new());
    let before = files(&image(&bench, &checkpoint));
    let copy = bench
        .native()
        .copy_checkpoint(checkpoint.clone())
        .await
        .unwrap();
    let copies = [(); 2].map(|()| {
        let target = RestoreTarget::Copy(Box::new(bench.request()));
        restore(&bench, &copy, target)
    });
    for restored in futures_util::future::join_all(copies).await {
        let restored = restored.unwrap();
        assert_eq!(ask(&restored, "remembered").await, secret);
        restored.destroy().await.unwrap();
    }
    let compressed = bench.native().compress_checkpoint(checkpoint.clone());
    compressed.await.unwrap();
    let resumed = restore(&bench, &checkpoint, same(&request)).await.unwrap();
    assert_eq!(ask(&resumed, "remembered").await, secret);
    resumed.destroy().await.unwrap();
    drop(resumed);
    // What was readable for the restore is gone.
    for checkpoint in [&checkpoint, &copy] {
        assert_eq!(telling(&bench, checkpoint, &secret), Vec::<PathBuf>::new());
    }
    assert_eq!(files(&image(&bench, &checkpoint)), before);
    for checkpoint in [checkpoint, copy] {
        bench.native().forget_checkpoint(checkpoint).await.unwrap();
    }
    bench.finish().await;
}

async fn an_encrypted_image_is_refused_without_its_key_or_when_it_was_edited() {
    let secret = secret();
    let mut bench = bench(Some(key("17"))).await;
    let (request, checkpoint) = written(&bench, &secret).await;
    let refusal = async |bench: &Bench| {
        let refused = restore(bench, &checkpoint, same(&request)).await;
        bench.wait_until_empty().await;
        Chain(&refused.unwrap_err()).to_string()
    };
    for (key, words) in [
        (None, "is encrypted"),
        (Some(key("18")), "not encrypted with this key"),
    ] {
        bench.config.image_key = key;
        bench.restart().await;
        let text = refusal(&bench).await;
        assert!(text.contains(words), "{text}");
    }
    bench.config.image_key = Some(key("17"));
    bench.restart().await;
    let mut edited = files(&image(&bench, &checkpoint));
    edited.retain(|path| {
        path.parent()
            .is_some_and(|above| above.ends_with("encrypted"))
    });
    let file = edited
        .iter()
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    let before = fs::read(file).unwrap();
    let mut bytes = before.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).unwrap();
    let text = refusal(&bench).await;
    assert!(text.contains("not as it was written"), "{text}");
    // The control: as it was, it is restored.
    fs::write(file, before).unwrap();
    let resumed = restore(&bench, &checkpoint, same(&request)).await.unwrap();
    assert_eq!(ask(&resumed, "remembered").await, secret);
    resumed.destroy().await.unwrap();
    drop(resumed);
    bench.native().forget_checkpoint(checkpoint).await.unwrap();
    bench.finish().await;
}
