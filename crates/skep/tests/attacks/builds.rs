//! Steps of builds, which run commands that callers send, as root.
//!
//! The attacks of the suite are made once more in a step: what a step runs in is made in another
//! way than the sandbox of a caller. Each has its control where it belongs. What only builds have
//! (uploads, results of steps, downloads, versions) has one here: the team that owns it finds it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use skep_client::{BuildStatus, BuildStep, Client, NewTemplate, StartBuild};

use crate::attack::Attack;
use crate::control::Control;
use crate::product::Product;
use crate::sentinels::Sentinels;
use crate::target::{Verdict, read_verdict};

/// Groups of attacks that need nothing of a sandbox but its walls.
const GROUPS: [&str; 9] = [
    "devices",
    "host",
    "mounts",
    "namespaces",
    "neighbours",
    "private",
    "privileges",
    "proc-and-sys",
    "processes",
];

/// No build here takes longer.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Makes all attacks of a directory, some at a time, and prints each name with its verdict.
const RUNNER: &str = r#"
import concurrent.futures, json, os, subprocess
os.environ.update(json.load(open("/attacks/surroundings.json")))
def run(name):
    command = ["python3", "-I", f"/attacks/{name}"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=40)
    print(name, done.stdout.strip() or done.stderr.strip()[-200:].replace("\n", " "), flush=True)
names = [name for name in os.listdir("/attacks") if name.endswith(".py")]
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    list(pool.map(run, names))
"#;

/// Leaves a word among the downloads, and looks for one.
const PLANT: &str =
    "mkdir -p /.skep-downloads/root/pip && echo planted by ours > /.skep-downloads/root/pip/word";
const LOOK: &str = "cat /.skep-downloads/root/pip/word || echo nothing there";

pub(crate) async fn check(
    product: &Product,
    sentinels: &Sentinels,
    attacks: &[Attack],
) -> Result<String, String> {
    let made = from_a_step(product, sentinels, attacks).await?;
    let theirs = product.add_team("builds");
    of_another_team(&product.client, &theirs).await?;
    Ok(format!(
        "{made} attacks; uploads, results, downloads and versions of another team"
    ))
}

/// Every attack, made by root in a step.
async fn from_a_step(
    product: &Product,
    sentinels: &Sentinels,
    attacks: &[Attack],
) -> Result<usize, String> {
    let neighbour = product.create(sentinels).await;
    let address = neighbour.shell("hostname -I").await.trim().to_owned();
    let mut surroundings = sentinels.surroundings();
    surroundings.insert("ATTACK_NEIGHBOUR".to_owned(), address);
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("attacks");
    std::fs::create_dir(&programs).unwrap();
    let text = serde_json::to_string(&surroundings).unwrap();
    std::fs::write(programs.join("surroundings.json"), text).unwrap();
    let chosen: Vec<_> = attacks
        .iter()
        .filter(|attack| is_for_a_step(attack))
        .collect();
    for attack in &chosen {
        let name = format!("{}.py", attack.full_name());
        std::fs::write(programs.join(name), &attack.source).unwrap();
    }
    let files = "a".repeat(64);
    let order = [
        copy("attacks", "/attacks", &files),
        run(&format!("python3 -c '{RUNNER}'")),
    ];
    let built = build(
        &product.client,
        "attacked",
        &order,
        Some((&files, folder.path())),
    )
    .await;
    product.kill(&neighbour).await;
    let verdicts = verdicts(&built.log);
    let open: Vec<_> = chosen
        .iter()
        .map(|attack| attack.full_name())
        .filter_map(|name| match verdicts.get(&format!("{name}.py")) {
            Some(Verdict::Held(_)) => None,
            Some(verdict) => Some(format!("{name}: {verdict}")),
            None => Some(format!("{name}: said nothing")),
        })
        .collect();
    if open.is_empty() {
        Ok(chosen.len())
    } else {
        Err(format!("{}\n{:?}", open.join("\n"), built.failure))
    }
}

fn is_for_a_step(attack: &Attack) -> bool {
    let needs_only_walls = matches!(attack.control, Control::Without(_));
    needs_only_walls && attack.user == "root" && GROUPS.contains(&attack.group.as_str())
}

fn verdicts(log: &[String]) -> BTreeMap<String, Verdict> {
    let said = log
        .iter()
        .filter_map(|line| line.split_once("[stdout]: ")?.1.split_once(' '));
    said.map(|(name, verdict)| (name.to_owned(), read_verdict(verdict)))
        .collect()
}

/// Uploads, results, downloads and versions of one team, asked for by another.
async fn of_another_team(ours: &Client, theirs: &Client) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "a secret of ours").unwrap();
    let files = "b".repeat(64);
    let steps = [copy("secret", "/secret", &files), run("cat /secret")];
    build(ours, "first", &steps, Some((&files, folder.path()))).await;
    let again = build(ours, "first", &steps, None).await;
    let stolen = build(theirs, "first", &steps, None).await;
    let is_cached = |built: &Built| {
        built
            .log
            .iter()
            .any(|line| line.starts_with("CACHED [builder 2"))
    };
    if again.failure.is_some() || !is_cached(&again) {
        return Err(format!(
            "the control: our own results are not found: {again:?}"
        ));
    }
    if stolen.failure.is_none() || stolen.said("a secret of ours") {
        return Err(format!("another team has files of ours: {stolen:?}"));
    }

    build(ours, "planted", &[run(PLANT)], None).await;
    let found = build(ours, "found", &[run(LOOK)], None).await;
    let stolen = build(theirs, "found", &[run(LOOK)], None).await;
    if !found.said("planted by ours") {
        return Err(format!(
            "the control: our own downloads are not found: {found:?}"
        ));
    }
    if !stolen.said("nothing there") {
        return Err(format!("another team has downloads of ours: {stolen:?}"));
    }

    let on_ours =
        async |client: &Client| build_on(client, "above", "first", &[run("cat /secret")]).await;
    let (own, stolen) = (on_ours(ours).await, on_ours(theirs).await);
    if own.failure.is_some() {
        return Err(format!(
            "the control: our own version is not found: {own:?}"
        ));
    }
    if stolen.failure.is_none() || stolen.said("a secret of ours") {
        return Err(format!(
            "another team builds on a version of ours: {stolen:?}"
        ));
    }
    Ok(())
}

/// A build that has ended.
#[derive(Debug)]
struct Built {
    log: Vec<String>,
    failure: Option<String>,
}

impl Built {
    fn said(&self, text: &str) -> bool {
        let mut output = self.log.iter().filter(|line| line.contains("[stdout]: "));
        output.any(|line| line.contains(text))
    }
}

async fn build(
    client: &Client,
    name: &str,
    steps: &[BuildStep],
    files: Option<(&str, &Path)>,
) -> Built {
    build_with(client, name, "base", steps, files).await
}

async fn build_on(client: &Client, name: &str, base: &str, steps: &[BuildStep]) -> Built {
    build_with(client, name, base, steps, None).await
}

async fn build_with(
    client: &Client,
    name: &str,
    base: &str,
    steps: &[BuildStep],
    files: Option<(&str, &Path)>,
) -> Built {
    let new = NewTemplate {
        name: Some(name.to_owned()),
        ..NewTemplate::default()
    };
    let build = client.templates().build(&new).await.unwrap();
    if let Some((hash, folder)) = files {
        let packed = pack(folder);
        let link = build.upload_link(hash).await.unwrap();
        let length = packed.metadata().unwrap().len();
        build.upload(&link, packed, length, |_| ()).await.unwrap();
    }
    let order = StartBuild {
        from_template: Some(base.to_owned()),
        steps: Some(steps.to_vec()),
        ..StartBuild::default()
    };
    build.start(&order).await.unwrap();
    let mut log = build.log();
    let mut lines = Vec::new();
    let following = async {
        while let Some(entries) = log.next().await.unwrap() {
            lines.extend(entries.into_iter().map(|entry| entry.message));
        }
    };
    let followed = tokio::time::timeout(TIMEOUT, following).await;
    followed.expect("a build has an end");
    let failure = (log.status() == BuildStatus::Error).then(|| format!("{:?}", log.reason()));
    Built {
        log: lines,
        failure,
    }
}

fn pack(folder: &Path) -> std::fs::File {
    let packed = tempfile::tempfile().unwrap();
    let tar = std::process::Command::new("tar")
        .arg("-C")
        .arg(folder)
        .args(["-cz", "."])
        .stdout(packed.try_clone().unwrap())
        .status()
        .unwrap();
    assert!(tar.success());
    let mut packed = packed;
    std::io::Seek::rewind(&mut packed).unwrap();
    packed
}

fn run(command: &str) -> BuildStep {
    step("RUN", &[command, "root"], None)
}

fn copy(source: &str, destination: &str, files: &str) -> BuildStep {
    step("COPY", &[source, destination, "root", ""], Some(files))
}

fn step(kind: &str, arguments: &[&str], files: Option<&str>) -> BuildStep {
    BuildStep {
        kind: kind.to_owned(),
        args: Some(arguments.iter().map(|&text| text.to_owned()).collect()),
        files_hash: files.map(str::to_owned),
        ..BuildStep::default()
    }
}
