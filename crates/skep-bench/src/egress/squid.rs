//! Debian's proxy, with a configuration of the bench, in the world outside.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::world::{THERE, World};
use crate::error::{BenchError, local};

/// Time limit of its start, and polling interval meanwhile.
const STARTED: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
const PORT: u16 = 3128;

/// A `squid` that runs. It is killed when this is dropped.
pub(super) struct Squid {
    process: Child,
}

impl Squid {
    pub(super) const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(THERE), PORT);

    /// True if it is installed.
    pub(super) async fn is_installed() -> bool {
        let mut command = Command::new("squid");
        command
            .arg("-v")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().await.is_ok_and(|status| status.success())
    }

    /// Starts it and waits until it listens.
    pub(super) async fn start(world: &World, scratch: &Path) -> Result<Self, BenchError> {
        let config = scratch.join("squid.conf");
        // It passes everything on, keeps nothing and writes nothing, as ours does but for the rules.
        let text = format!(
            "http_port {}\nhttp_access allow all\ncache deny all\ncache_mem 0 MB\n\
             dns_nameservers {THERE}\nvisible_hostname squid.test\n\
             access_log none\ncache_log /dev/null\ncache_store_log none\n\
             pid_filename none\nnetdb_filename none\ncoredump_dir none\npinger_enable off\n\
             max_filedescriptors 4096\nshutdown_lifetime 0 seconds\n",
            Self::ADDRESS
        );
        fs::write(&config, text).map_err(local("write", &config))?;
        let mut command = world.program("squid");
        command.args(["-N", "-f"]).arg(&config);
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(local("start", "squid"))?;
        let mut squid = Self { process };
        squid.wait_until_it_listens().await?;
        Ok(squid)
    }

    async fn wait_until_it_listens(&mut self) -> Result<(), BenchError> {
        let deadline = Instant::now() + STARTED;
        while TcpStream::connect(Self::ADDRESS).await.is_err() {
            let ended = self
                .process
                .try_wait()
                .map_err(local("wait for", "squid"))?;
            if ended.is_some() || Instant::now() > deadline {
                return Err(BenchError::Rival {
                    rival: "squid",
                    reason: ended.map_or("it does not listen".to_owned(), |status| {
                        format!("it ended with {status}")
                    }),
                });
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Ends it and waits for that, so that its port is free.
    pub(super) async fn stop(mut self) -> Result<(), BenchError> {
        self.process.kill().await.map_err(local("end", "squid"))
    }

    /// Its process, which is the one that was started: every step before it executes the next.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.process.id().into_iter().collect()
    }
}
