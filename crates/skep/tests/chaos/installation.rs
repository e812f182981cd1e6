//! A server with a data directory of its own, started and killed as often as a test likes.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::Duration;

use skep_client::{Client, ServerCommand, ServerProcess};
use skep_native::{Native, NativeConfig};
use tempfile::TempDir;

/// Time limit for a stop in good order.
const STOP: Duration = Duration::from_secs(120);

/// Template cache of servers, so that `base` is built once for tests and for use.
#[expect(
    clippy::disallowed_methods,
    reason = "a test program is its own `main`"
)]
pub(crate) static CACHE: LazyLock<OsString> = LazyLock::new(|| {
    let cache = std::env::var_os("SKEP_CACHE_DIR").unwrap_or_else(|| "/var/cache/skep".into());
    let built = Command::new(env!("CARGO_BIN_EXE_skep"))
        .args(["template", "build", "base", "--cache-dir"])
        .arg(&cache)
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
    cache
});

/// Template cache with interpreters: the one of the conformance suite, so that they are built once.
#[expect(
    clippy::disallowed_methods,
    reason = "a test program is its own `main`"
)]
pub(crate) static INTERPRETERS: LazyLock<OsString> = LazyLock::new(|| {
    let beside = || concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cache/skep").into();
    let cache = std::env::var_os("SKEP_CACHE_DIR").unwrap_or_else(beside);
    let built = Command::new(env!("CARGO_BIN_EXE_skep"))
        .args(["template", "build", INTERPRETER, "--cache-dir"])
        .arg(&cache)
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
    cache
});

/// The smallest template with an interpreter.
pub(crate) const INTERPRETER: &str = "code-interpreter-slim";

/// An installation. Nothing of it is left on the host when it is dropped.
#[derive(Debug)]
pub(crate) struct Installation {
    folder: TempDir,
    executable: PathBuf,
    address: SocketAddr,
    server: Option<ServerProcess>,
    /// Log filter of the server, as tracing directives.
    directives: &'static str,
    /// Template cache of the server.
    cache: OsString,
    /// True if its data is on a disk of its own.
    has_own_disk: bool,
}

impl Installation {
    /// An installation whose server runs.
    pub(crate) fn start() -> Self {
        Self::start_with_log("warn")
    }

    /// An installation whose server runs and logs what `directives` say.
    pub(crate) fn start_with_log(directives: &'static str) -> Self {
        Self::start_on(directives, CACHE.clone())
    }

    /// An installation whose server runs with this configuration.
    pub(crate) fn start_configured(text: &str) -> Self {
        let mut installation = Self::prepare("warn", CACHE.clone());
        installation.configure(text);
        installation.restart();
        installation
    }

    /// An installation whose server runs and has an interpreter.
    pub(crate) fn start_with_interpreter() -> Self {
        Self::start_on("warn", INTERPRETERS.clone())
    }

    /// An installation whose data is on a disk of so many MiB, and whose sandboxes may write a
    /// quarter of that.
    pub(crate) fn start_on_disk_of(mebibytes: u64) -> Self {
        let mut installation = Self::prepare("warn", CACHE.clone());
        let image = installation.folder.path().join("disk.img");
        let file = fs::File::create(&image).unwrap();
        file.set_len(mebibytes << 20).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        fs::create_dir(installation.data_dir()).unwrap();
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(&image)
            .arg(installation.data_dir()));
        installation.has_own_disk = true;
        let most = mebibytes / 4;
        installation.configure(&format!("[limits]\ndisk_mib = {most}\n"));
        installation.restart();
        installation
    }

    fn start_on(directives: &'static str, cache: OsString) -> Self {
        let mut installation = Self::prepare(directives, cache);
        installation.restart();
        installation
    }

    fn prepare(directives: &'static str, cache: OsString) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A copy, so that every process of this installation can be told by its executable,
        // and the executable can be replaced.
        let executable = copy(folder.path(), "skep");
        Self {
            folder,
            executable,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            server: None,
            directives,
            cache,
            has_own_disk: false,
        }
    }

    /// Starts the server again, on the same data and the same port. Returns when it is ready.
    pub(crate) fn restart(&mut self) {
        assert!(self.server.is_none(), "one server at a time");
        let log = fs::File::options()
            .create(true)
            .append(true)
            .read(true)
            .open(self.log_file())
            .unwrap();
        let server = self.command().start(log).unwrap();
        self.address = server.address().unwrap();
        self.server = Some(server);
    }

    /// Tries to start a second server beside the first.
    pub(crate) fn start_second(&self) -> Output {
        self.command().command().output().unwrap()
    }

    fn command(&self) -> ServerCommand {
        ServerCommand::new(&self.executable, self.data_dir())
            .listen(self.address)
            .cache_dir(&self.cache)
            .config(self.config_file())
            .env("SKEP_LOG", self.directives)
            // What is asked for is made ready soon enough; nothing else is to cost time.
            .env("SKEP_POOL_WARM", "")
    }

    /// A client command of this installation.
    pub(crate) fn client_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .arg("--data-dir")
            .arg(self.data_dir())
            .args(arguments)
            .env("SKEP_SERVER", format!("http://{}", self.address))
            .env_remove("E2B_API_KEY");
        command
    }

    /// Puts the same program at another path and removes the old one, as an upgrade does.
    pub(crate) fn replace_executable(&mut self) {
        let replacement = copy(self.folder.path(), "skep-next");
        fs::remove_file(std::mem::replace(&mut self.executable, replacement)).unwrap();
    }

    /// Puts a program with other content in the place of the executable, as an upgrade does.
    pub(crate) fn upgrade(&mut self) {
        let next = copy(self.folder.path(), "skep-upgrade");
        // What follows the last section is no part of the program, but of the file.
        let appended = Command::new("sh")
            .args(["-c", "echo 'another build' >> \"$0\""])
            .arg(&next)
            .status();
        assert!(appended.unwrap().success());
        fs::rename(next, &self.executable).unwrap();
    }

    /// Configures what the next server reads.
    pub(crate) fn configure(&self, text: &str) {
        fs::write(self.config_file(), text).unwrap();
    }

    /// Kills the server as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.server.take().expect("a server runs").kill().unwrap();
    }

    /// Asks the server to stop, and waits until it has ended well.
    pub(crate) fn stop(&mut self) {
        let server = self.server.take().expect("a server runs");
        server.stop(STOP).unwrap();
    }

    /// Waits for the end of a server that somebody else has asked to stop, and says whether it
    /// ended well.
    pub(crate) fn stop_was_clean(&mut self) -> bool {
        let server = self.server.take().expect("a server runs");
        server.wait(STOP).is_ok()
    }

    pub(crate) fn client(&self) -> Client {
        self.running().client().unwrap()
    }

    /// URL of the server, and the key of its operator.
    pub(crate) fn address_and_key(&self) -> (String, String) {
        let server = self.running();
        (server.url().to_owned(), server.api_key().to_owned())
    }

    fn running(&self) -> &ServerProcess {
        self.server.as_ref().expect("a server runs")
    }

    /// A client with another key.
    pub(crate) fn client_with(&self, key: &str) -> Client {
        Client::new(&format!("http://{}", self.address), key).unwrap()
    }

    /// The id of the server's process.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        self.server.as_ref().map(ServerProcess::pid)
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Path prefix of the executables of this installation's processes.
    pub(crate) fn executables(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Log of all servers of this installation.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn config_file(&self) -> PathBuf {
        let path = self.folder.path().join("skep.toml");
        if !path.exists() {
            fs::write(&path, "").unwrap();
        }
        path
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        drop(self.server.take());
        let config = NativeConfig::new(self.data_dir(), &self.executable);
        // A thread of its own, because the test itself may run on a runtime.
        let dismantled = std::thread::spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async { Native::start(config).await.unwrap().dismantle().await })
        })
        .join()
        .expect("it does not panic");
        if self.has_own_disk {
            run(Command::new("umount").arg("-l").arg(self.data_dir()));
        }
        // A test that fails already says why.
        assert!(
            dismantled.is_ok() || std::thread::panicking(),
            "{dismantled:?}"
        );
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

fn copy(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    // By another process: while this one has a file open for writing, every child that another
    // test forks has it open too for a moment, and what is open for writing cannot be executed.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_skep"))
        .arg(&path)
        .status()
        .unwrap();
    assert!(copied.success());
    path
}
