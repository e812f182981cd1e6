//! The web console: its sources are checked, tested and built, and what is built must be what is
//! committed. Node is needed for this alone: whoever builds or runs Skep takes the committed pages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, ensure};

/// Largest sum of what the first page loads, compressed.
const FIRST_PAGE: usize = 60 * 1024;
/// Largest sum of everything, compressed.
const EVERYTHING: usize = 400 * 1024;

/// Options of `cargo xtask console`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write what is built to `console/dist`, to be committed.
    #[arg(long)]
    write: bool,
    /// Use the pages in Chromium, with a server of this build.
    #[arg(long)]
    browser: bool,
}

#[expect(clippy::print_stdout, reason = "the report is this command's output")]
pub(crate) fn run(root: &Path, options: &Options) -> anyhow::Result<ExitCode> {
    let console = root.join("console");
    let node = Node::find(root, console.clone())?;
    let lock = console.join("package-lock.json");
    let locked = std::fs::read(&lock).context("cannot read console/package-lock.json")?;
    // Not `npm ci`: a lock that npm writes here lacks the bindings of other platforms, which that
    // refuses.
    let quiet = ["--ignore-scripts", "--no-audit", "--no-fund"];
    node.npm(&[&["install"], &quiet[..]].concat())?;
    ensure!(
        std::fs::read(&lock)? == locked,
        "console/package-lock.json has changed: package.json asks for something else"
    );
    node.npm(&["run", "--silent", "check"])?;
    node.npm(&["run", "--silent", "test"])?;

    let committed = console.join("dist");
    let built = console.join("node_modules/.built");
    let target = if options.write { &committed } else { &built };
    let build = ["run", "--silent", "build", "--"];
    let path = target.to_str().context("a path that is not text")?;
    node.npm(&[&build[..], &[path]].concat())?;
    if !options.write {
        compare(&files(&built)?, &files(&committed)?)?;
    }
    let sizes = Sizes::of(&committed)?;
    println!(
        "first page {} of {FIRST_PAGE} bytes, all {} of {EVERYTHING}, compressed",
        sizes.first_page, sizes.everything
    );
    ensure!(
        sizes.first_page <= FIRST_PAGE,
        "the first page is too large"
    );
    ensure!(sizes.everything <= EVERYTHING, "the console is too large");
    if options.browser {
        let executable =
            output(Command::new(root.join("scripts/build")).args(["--profile", "dev"]))?;
        let mut tests = node.command("node");
        tests.arg("tests/run.mjs").env("SKEP", executable);
        finish(tests)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Compressed sizes of what a browser loads.
struct Sizes {
    first_page: usize,
    everything: usize,
}

impl Sizes {
    fn of(dist: &Path) -> anyhow::Result<Self> {
        let files = files(dist)?;
        let page = files.get("index.html").context("there is no index.html")?;
        let page = String::from_utf8_lossy(page).into_owned();
        let mut sizes = Self {
            first_page: 0,
            everything: 0,
        };
        for (path, bytes) in &files {
            let size = compressed(bytes)?;
            sizes.everything += size;
            if path == "index.html" || page.contains(path.as_str()) {
                sizes.first_page += size;
            }
        }
        Ok(sizes)
    }
}

fn compressed(bytes: &[u8]) -> anyhow::Result<usize> {
    use std::io::Write as _;
    let mut gzip = Command::new("gzip")
        .args(["-9", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run gzip")?;
    let mut input = gzip.stdin.take().context("gzip has an input")?;
    let bytes = bytes.to_vec();
    let writing = std::thread::spawn(move || input.write_all(&bytes));
    let output = gzip.wait_with_output()?;
    let written = writing.join().ok().context("writing to gzip panicked")?;
    written?;
    ensure!(output.status.success(), "gzip has failed");
    Ok(output.stdout.len())
}

fn compare(
    built: &BTreeMap<String, Vec<u8>>,
    committed: &BTreeMap<String, Vec<u8>>,
) -> anyhow::Result<()> {
    let differing = built
        .keys()
        .chain(committed.keys())
        .find(|path| built.get(*path) != committed.get(*path));
    if let Some(path) = differing {
        anyhow::bail!(
            "console/dist/{path} is not what its sources give; `cargo xtask console --write` builds it anew"
        );
    }
    Ok(())
}

/// All files below a directory by their paths.
fn files(directory: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(next) = open.pop() {
        let entries = std::fs::read_dir(&next);
        for entry in entries.with_context(|| format!("cannot list `{}`", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(directory)?.to_string_lossy().into_owned();
            found.insert(name, std::fs::read(&path)?);
        }
    }
    Ok(found)
}

/// A Node that is new enough, where the sources of the console are.
struct Node {
    search_path: String,
    directory: PathBuf,
}

impl Node {
    fn find(root: &Path, directory: PathBuf) -> anyhow::Result<Self> {
        let search_path = output(&mut Command::new(root.join("scripts/node-for-tests")))?;
        Ok(Self {
            search_path,
            directory,
        })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("/usr/bin/env");
        command.arg(program);
        command
            .env("PATH", &self.search_path)
            .current_dir(&self.directory);
        command
    }

    fn npm(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let mut command = self.command("npm");
        command.args(arguments);
        finish(command)
    }
}

/// Output of a command that succeeds.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} has failed");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn finish(mut command: Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} has failed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_page_that_is_not_the_committed_one_is_named() {
        let of = |text: &str| BTreeMap::from([("a.js".to_owned(), text.as_bytes().to_vec())]);
        compare(&of("x"), &of("x")).unwrap();
        for (built, committed) in [(of("x"), of("y")), (of("x"), BTreeMap::new())] {
            let error = compare(&built, &committed).unwrap_err().to_string();
            assert!(error.contains("console/dist/a.js"), "{error}");
        }
    }

    #[test]
    fn the_first_page_is_what_its_document_names() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        write("index.html", "<script src=\"/console/a.js\">");
        write("a.js", "1");
        write("b.js", "2");
        let sizes = Sizes::of(directory.path()).unwrap();
        assert!(sizes.first_page < sizes.everything);
    }
}
