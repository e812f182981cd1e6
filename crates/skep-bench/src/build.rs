//! Builds of a template, cold, cached and with one change, beside `buildah` doing the same on the
//! same root.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use skep_client::{BuildStatus, BuildStep, NewTemplate, StartBuild};
use tokio::process::Command;

use crate::bench::Bench;
use crate::error::{BenchError, local};
use crate::files::fetch;
use crate::measurement::Series;
use crate::sandbox::LONGEST;

pub(crate) const COLD: Series = Series::seconds("build.cold", "build, nothing cached");
pub(crate) const CACHED: Series = Series::seconds("build.cached", "build, everything cached");
pub(crate) const CHANGED: Series = Series::seconds("build.changed", "build, last COPY changed");
pub(crate) const RIVAL_COLD: Series =
    Series::seconds("build.buildah_cold", "buildah, nothing cached");
pub(crate) const RIVAL_CACHED: Series =
    Series::seconds("build.buildah_cached", "buildah, everything cached");
pub(crate) const RIVAL_CHANGED: Series =
    Series::seconds("build.buildah_changed", "buildah, last COPY changed");

/// Files of the directory that is copied, and bytes of each.
const FILES: usize = 200;
const FILE_BYTES: usize = 4 << 10;

/// Time between two looks at a build. The SDKs look every 200 ms, which would be most of it.
const LOOK: Duration = Duration::from_millis(2);

const BASE: &str = "skep-bench-base";

/// Dockerfile that both build: a directory, files, work on them, a variable, and one more file.
const RUN_FIRST: &str = "mkdir -p /srv/app";
const RUN_WORK: &str = "cat /srv/app/*.txt | sha256sum > /srv/sum";

/// The root of a sandbox, as an archive in it.
const ROOT: &str = "/home/user/root.tar";
const PACK_ROOT: &str =
    "sudo tar -C / --one-file-system --exclude=./home/user/root.tar -cf /home/user/root.tar .";

/// The files that are copied, on this side.
struct Sources {
    directory: PathBuf,
}

pub(crate) async fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let sources = Sources::make(&bench.scratch)?;
    let rival = if Buildah::is_installed().await {
        Some(Buildah::prepare(bench).await?)
    } else {
        let note = "`buildah` is not installed (`apt-get install buildah`): not compared";
        bench.notes.push(note.to_owned());
        None
    };
    for round in bench.all_rounds() {
        bench.begin_round(round);
        // No cache knows a step that comes after this.
        let round = unique()?;
        for (series, last) in [(COLD, "1"), (CACHED, "1"), (CHANGED, "2")] {
            sources.write_last(last)?;
            let built = build(bench, &sources, &round);
            let seconds = built.await?;
            bench.recorder.add(series, seconds);
        }
        let Some(rival) = &rival else {
            continue;
        };
        for (series, last) in [(RIVAL_COLD, "1"), (RIVAL_CACHED, "1"), (RIVAL_CHANGED, "2")] {
            sources.write_last(last)?;
            let start = Instant::now();
            rival.build(&sources, &round).await?;
            bench.since(series, start);
        }
    }
    Ok(())
}

/// Builds the template, uploads included. Returns the seconds from the request to the word that it
/// is ready.
async fn build(bench: &Bench<'_>, sources: &Sources, round: &str) -> Result<f64, BenchError> {
    let (app, last) = (sources.pack("app").await?, sources.pack("last").await?);
    let start = Instant::now();
    let new = NewTemplate {
        name: Some("skep-bench".to_owned()),
        ..NewTemplate::default()
    };
    let build = bench.client.templates().build(&new).await?;
    for archive in [&app, &last] {
        let link = build.upload_link(&archive.hash).await?;
        if !link.present {
            let file = fs::File::open(&archive.path).map_err(local("open", &archive.path))?;
            let length = file
                .metadata()
                .map_err(local("look at", &archive.path))?
                .len();
            build.upload(&link, file, length, |_| ()).await?;
        }
    }
    let step = |kind: &str, args: &[&str], hash: Option<&str>| BuildStep {
        kind: kind.to_owned(),
        args: Some(args.iter().map(|&text| text.to_owned()).collect()),
        files_hash: hash.map(str::to_owned),
        ..BuildStep::default()
    };
    let order = StartBuild {
        from_template: Some(bench.plain_template.to_owned()),
        steps: Some(vec![
            step("ENV", &["ROUND", round], None),
            step("RUN", &[RUN_FIRST, "root"], None),
            step("COPY", &["app", "/srv/app", "root", ""], Some(&app.hash)),
            step("RUN", &[RUN_WORK, "root"], None),
            step("COPY", &["last", "/srv/last", "root", ""], Some(&last.hash)),
        ]),
        ..StartBuild::default()
    };
    build.start(&order).await?;
    loop {
        let mut log = build.log();
        log.next().await?;
        match log.status() {
            BuildStatus::Ready => return Ok(start.elapsed().as_secs_f64()),
            BuildStatus::Error => {
                return Err(BenchError::Unexpected {
                    what: "a build",
                    found: format!("{:?}", log.reason()),
                });
            }
            BuildStatus::Waiting | BuildStatus::Building if start.elapsed() > LONGEST => {
                return Err(BenchError::Late {
                    what: "a build",
                    limit: LONGEST,
                });
            }
            BuildStatus::Waiting | BuildStatus::Building => tokio::time::sleep(LOOK).await,
        }
    }
}

/// An archive to upload.
struct Archive {
    path: PathBuf,
    /// Name under which the server keeps it.
    hash: String,
}

impl Sources {
    fn make(scratch: &Path) -> Result<Self, BenchError> {
        let directory = scratch.join("context");
        let app = directory.join("app");
        fs::create_dir_all(&app).map_err(local("make", &app))?;
        for number in 0..FILES {
            let line = format!("{number:063}\n");
            let path = app.join(format!("{number}.txt"));
            let text = line.repeat(FILE_BYTES / line.len());
            fs::write(&path, text).map_err(local("write", &path))?;
        }
        Ok(Self { directory })
    }

    fn write_last(&self, text: &str) -> Result<(), BenchError> {
        let path = self.directory.join("last");
        fs::write(&path, text).map_err(local("write", path))
    }

    /// Packs a part of the sources, as a client does before it asks for anything.
    async fn pack(&self, name: &str) -> Result<Archive, BenchError> {
        let path = self.directory.with_file_name(format!("{name}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&self.directory);
        tar.args(["--sort=name", "--mtime=@0", "-czf"]);
        checked("tar", tar.arg(&path).arg(name)).await?;
        let mut sum = Command::new("sha256sum");
        let summed = checked("sha256sum", sum.arg(&path)).await?;
        let text = String::from_utf8_lossy(&summed.stdout);
        let hash = text.split(' ').next().unwrap_or_default().to_owned();
        Ok(Archive { path, hash })
    }
}

/// Debian's builder of images, with a store of its own.
struct Buildah {
    store: PathBuf,
}

impl Buildah {
    /// True if it is installed.
    async fn is_installed() -> bool {
        let mut command = Command::new("buildah");
        command.arg("--version").stdout(Stdio::null());
        command.status().await.is_ok_and(|status| status.success())
    }

    /// Gives it the root of the template that we build on, as an image of one layer.
    async fn prepare(bench: &mut Bench<'_>) -> Result<Self, BenchError> {
        let buildah = Self {
            store: bench.scratch.join("buildah"),
        };
        let root = bench.scratch.join("root.tar");
        let template = bench.plain_template;
        let sandbox = bench.create_from(template).await?;
        sandbox.command(PACK_ROOT).await?;
        let failed = || local("write", &root);
        let mut file = fs::File::create(&root).map_err(failed())?;
        let files = sandbox.files();
        fetch(&files, ROOT, |bytes| {
            file.write_all(bytes).map_err(failed())
        })
        .await?;
        bench.kill(&sandbox).await?;
        let from = buildah.run(&["from", "scratch"]).await?;
        let container = String::from_utf8_lossy(&from.stdout).trim().to_owned();
        let root_text = root.to_string_lossy();
        let add = ["add", "-q", &container, &root_text, "/"];
        buildah.run(&add).await?;
        buildah.run(&["commit", "-q", &container, BASE]).await?;
        buildah.run(&["rm", &container]).await?;
        fs::remove_file(&root).map_err(local("remove", &root))?;
        Ok(buildah)
    }

    async fn build(&self, sources: &Sources, round: &str) -> Result<(), BenchError> {
        let file = sources.directory.join("Dockerfile");
        let text = format!(
            "FROM localhost/{BASE}\nENV ROUND={round}\nRUN {RUN_FIRST}\nCOPY app /srv/app\nRUN {RUN_WORK}\nCOPY last /srv/last\n"
        );
        fs::write(&file, text).map_err(local("write", &file))?;
        let context = sources.directory.to_string_lossy();
        let build = [
            "bud",
            "-q",
            "--layers",
            "--isolation",
            "chroot",
            "-t",
            "skep-bench",
            &context,
        ];
        self.run(&build).await.map(drop)
    }

    async fn run(&self, arguments: &[&str]) -> Result<Output, BenchError> {
        let mut command = Command::new("buildah");
        command
            .arg("--root")
            .arg(self.store.join("images"))
            .arg("--runroot")
            .arg(self.store.join("run"))
            .args(["--storage-driver", "overlay"])
            .args(arguments);
        checked("buildah", &mut command).await
    }
}

/// Runs a program of this host to its end.
async fn checked(name: &'static str, command: &mut Command) -> Result<Output, BenchError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(local("run", name))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(BenchError::Rival {
        rival: name,
        reason: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// A word that no earlier round had.
fn unique() -> Result<String, BenchError> {
    let file = "/proc/sys/kernel/random/uuid";
    let text = fs::read_to_string(file).map_err(local("read", file))?;
    Ok(text.trim().to_owned())
}
