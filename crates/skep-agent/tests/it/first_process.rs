//! The agent as the first process of a pid namespace.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use skep_agent::{Listen, Options};
use skep_testkit::wait_until;

use crate::agent::{TestAgent, descriptor_with};

/// Not a test: the program of the sandbox's first process. Its input is the listening socket.
#[test]
#[ignore = "started by the other tests of this module, in a namespace of its own"]
fn be_the_first_process() {
    assert_eq!(std::process::id(), 1, "this is started by other tests");
    let listener = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut options = Options::new(descriptor_with(br#"{"defaultUser":"root"}"#));
    options.listen = Listen::On(TcpListener::from(listener));
    let here = std::env::current_dir().unwrap();
    options.identity_directory = here.join("run").to_str().unwrap().to_owned();
    skep_agent::run(options).unwrap();
}

/// A sandbox of the simplest kind: a pid namespace with its own `/proc`.
struct Sandbox {
    agent: TestAgent,
    outer: Child,
}

impl Sandbox {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        // This process is killed, so what it writes goes where its starter cleans up.
        let agent = TestAgent::at_address(address);
        let outer = Command::new("unshare")
            .current_dir(agent.directory())
            .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "first_process::be_the_first_process",
                "--ignored",
                "--nocapture",
            ])
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { agent, outer }
    }

    async fn run(&self, script: &str) -> (Value, String) {
        use base64::Engine;
        let request =
            json!({"process": {"cmd": "bash", "args": ["-c", script], "cwd": "/"}, "stdin": false});
        let (events, _) = self
            .agent
            .stream("process.Process/Start", request)
            .await
            .rest()
            .await;
        let output = events
            .iter()
            .filter_map(|event| event["event"]["data"]["stdout"].as_str())
            .map(|data| {
                base64::engine::general_purpose::STANDARD
                    .decode(data)
                    .unwrap()
            });
        let output = String::from_utf8(output.flatten().collect()).unwrap();
        (events.last().unwrap()["event"]["end"].clone(), output)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.outer.kill().unwrap();
        self.outer.wait().unwrap();
    }
}

#[tokio::test]
async fn orphans_are_reaped_and_no_exit_status_is_taken_for_theirs() {
    let sandbox = Sandbox::start();
    // Each leaves an orphan that ends about when the process itself does.
    let script = |code: u32| format!("(sleep 0.0{} & ) ; exit {code}", code % 10);
    let scripts: Vec<String> = (1..=40).map(script).collect();
    let runs = scripts.iter().map(|script| sandbox.run(script));
    for (code, (end, _)) in (1..=40).zip(futures_util::future::join_all(runs).await) {
        assert_eq!(end["exitCode"], code);
    }
    wait_until(Duration::from_secs(10), || async {
        let (_, left) = sandbox
            .run("grep -l '^State:.*Z' /proc/[0-9]*/status; true")
            .await;
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("zombies: {left}"))
        }
    })
    .await;
}

#[tokio::test]
async fn the_sandbox_can_neither_end_nor_read_its_first_process() {
    let sandbox = Sandbox::start();
    let (end, _) = sandbox
        .run("for signal in TERM INT HUP QUIT PIPE USR1 CHLD KILL; do kill -$signal 1; done")
        .await;
    assert_eq!(end["exited"], true);
    // Root with all capabilities of the host may look anyway; in a sandbox nobody has these.
    let gone = "-sys_ptrace,-perfmon,-sys_admin";
    let script = format!(
        "for file in environ maps mem fd/1; do \
         setpriv --bounding-set={gone} --inh-caps={gone} cat /proc/1/$file > /dev/null 2>&1 && echo $file; done"
    );
    let (_, read) = sandbox.run(&script).await;
    assert_eq!(read, "");
    assert_eq!(sandbox.agent.get("/health").await.status, 204);
    let answer = sandbox.agent.get("/files?path=/proc/1/environ").await;
    assert_eq!(answer.status, 403, "not through the agent itself either");
}

/// Root in a sandbox owns its `/dev`. Opened by its name, `/dev/null` was whatever had been put
/// there: a pipe that blocks the agent, or a way into its descriptors for the next command.
#[tokio::test]
async fn standard_input_is_no_descriptor_of_the_agent_whatever_is_called_dev_null() {
    let sandbox = Sandbox::start();
    let look = "stat -L -c %t:%T:%F /proc/self/fd/0";
    for replacement in ["ln -s /proc/self/cwd /dev/null", "mkfifo /dev/null"] {
        let script = format!("mount -t tmpfs tmpfs /dev && {replacement}");
        let (end, _) = sandbox.run(&script).await;
        assert_eq!(end["exited"], true, "{end}");
        let (_, input) = sandbox.run(look).await;
        assert_eq!(input, "1:3:character special file\n", "{replacement}");
    }
}
