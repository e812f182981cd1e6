//! The way out of a sandbox: through its egress proxy, with and without a look inside, beside a
//! direct link and Debian's `squid`.
//!
//! The world outside is a network namespace of the bench ([`world`]). Clients run in the network
//! namespaces of real sandboxes, outside their other limits ([`load`]), so what is measured is the
//! way of the packets and no agent. They speak TLS to the same host by all routes.

mod load;
mod origin;
mod squid;
mod tls;
mod world;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use skep_wire::rest::{NetworkRule, NetworkTransform, NetworkUpdate};

use self::load::Load;
use self::squid::Squid;
use self::world::World;
use crate::bench::{Bench, per_second};
use crate::error::{BenchError, local};
use crate::measurement::{Series, Unit};
use crate::processes::Memory;
use crate::rival::Rival;
use crate::sandbox::Sandbox;

/// The first argument that makes a process a part of the world outside, or a client of it.
pub const EGRESS_ROLE: &str = "bench-egress";
/// The second: the host, or a client.
const ORIGIN: &str = "origin";
const LOAD: &str = "load";

/// Name of the host outside.
const HOST: &str = "origin.test";
const TLS: u16 = 443;
const DNS: u16 = 53;

/// Second word of the command line of an egress proxy, and the file of the authority that looks
/// inside.
const PROXY: &str = "egress-proxy";
const AUTHORITY: &str = "egress-ca/ca.pem";

/// Connections of one sample, and how many of them are opened at a time.
const OPENED: u32 = 200;
const AT_ONCE: u32 = 8;
/// Requests of one sample on a connection that is kept, and samples of a new one, in a round.
const KEPT: u32 = 50;
const NEW: u32 = 10;
/// Connections that are held for a sample of memory: fewer than a sandbox may have.
const HELD: u32 = 200;
/// Samples of memory, each of a proxy that has not had a connection before.
const WEIGHED: u32 = 3;

/// All that is measured of one route.
struct Measured {
    /// Name of the client.
    client: &'static str,
    connections: Series,
    throughput: Series,
    new_request: Series,
    kept_request: Series,
    idle_memory: Series,
}

/// Names the series of a route.
macro_rules! measured {
    ($id:literal, $by:literal) => {
        Measured {
            client: concat!("client ", $id),
            connections: Series::new(
                concat!("egress.", $id, "_connections"),
                concat!("new TLS connections, ", $by),
                Unit::ConnectionsPerSecond,
            ),
            throughput: Series::new(
                concat!("egress.", $id, "_throughput"),
                concat!("a download, ", $by),
                Unit::BytesPerSecond,
            ),
            new_request: Series::seconds(
                concat!("egress.", $id, "_new_request"),
                concat!("a request on a new connection, ", $by),
            ),
            kept_request: Series::seconds(
                concat!("egress.", $id, "_kept_request"),
                concat!("a request on a kept connection, ", $by),
            ),
            idle_memory: Series::bytes(
                concat!("egress.", $id, "_idle_memory"),
                concat!("memory of an idle connection, ", $by),
            ),
        }
    };
}

const DIRECT: Measured = measured!("direct", "no policy");
const OPAQUE: Measured = measured!("opaque", "TLS passed on");
const TRANSFORMED: Measured = measured!("transformed", "a header put in");
const SQUID: Measured = measured!("squid", "squid");

/// A client, and what its samples are.
type Route = (Rival, Measured);

/// Is the host outside, or a client, as the arguments say.
pub fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = runtime.and_then(|runtime| match arguments[..] {
        [ORIGIN, address, certificate, key] => {
            let address = address.parse().map_err(io::Error::other)?;
            let ready = || say(r#"{"ready":true}"#);
            let (certificate, key) = (Path::new(certificate), Path::new(key));
            runtime.block_on(origin::serve(address, certificate, key, ready))
        }
        [LOAD, how, at, authority] => {
            let at = at.parse().map_err(io::Error::other)?;
            let mut load = Load::new(at, how == "proxy", Path::new(authority))?;
            say(r#"{"ready":true}"#)?;
            io::stdin().lock().lines().try_for_each(|line| {
                let took = runtime.block_on(load.act(&line?))?.as_secs_f64();
                say(&format!(r#"{{"seconds":{took}}}"#))
            })
        }
        _ => Err(io::Error::other("unknown arguments")),
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nobody else to tell; if nobody reads, the exit code still says it.
            writeln!(io::stderr(), "{error}").map_or(ExitCode::from(2), |()| ExitCode::from(2))
        }
    }
}

fn say(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

pub(crate) async fn measure(bench: &mut Bench<'_>, mebibytes: u32) -> Result<(), BenchError> {
    bench.own_server()?;
    let world = World::start(&bench.floor, &bench.scratch).await?;
    let trusted = world.identity.authority.clone();
    bench
        .own_server()?
        .reconfigure(|server| {
            // Sandboxes' requests go on to a host that only this authority vouches for.
            server.config(&world.config).env("SSL_CERT_FILE", &trusted)
        })
        .await?;
    let has_squid = Squid::is_installed().await;
    if !has_squid {
        let note = "`squid` is not installed (`apt-get install squid`): not compared";
        bench.notes.push(note.to_owned());
    }
    weigh(bench, &world, has_squid).await?;
    let squid = if has_squid {
        Some(Squid::start(&world, &bench.scratch).await?)
    } else {
        None
    };
    let (mut sandboxes, mut routes) = (Vec::new(), Vec::new());
    for measured in [DIRECT, OPAQUE, TRANSFORMED] {
        let (sandbox, client) = ruled_client(bench, &world, &measured).await?;
        if measured.client == DIRECT.client && squid.is_some() {
            let process = first_process(bench, &sandbox)?;
            let proxy = Some(Squid::ADDRESS);
            let client = world.load(SQUID.client, process, proxy, &trusted).await?;
            routes.push((client, SQUID));
        }
        sandboxes.push(sandbox);
        routes.push((client, measured));
    }
    let bytes = u64::from(mebibytes) << 20;
    for round in bench.all_rounds() {
        bench.begin_round(round);
        for route in &mut routes {
            sample(bench, route, bytes).await?;
        }
    }
    for (client, _) in routes {
        client.finish().await?;
    }
    for sandbox in &sandboxes {
        bench.kill(sandbox).await?;
    }
    match squid {
        Some(squid) => squid.stop().await,
        None => Ok(()),
    }
}

/// One round of one route.
async fn sample(
    bench: &mut Bench<'_>,
    (client, measured): &mut Route,
    bytes: u64,
) -> Result<(), BenchError> {
    let took = client.ask(&format!("open {OPENED} {AT_ONCE}")).await?;
    let recorder = &mut bench.recorder;
    recorder.add(measured.connections, f64::from(OPENED) / took);
    let took = client.ask(&format!("fetch {bytes}")).await?;
    let speed = per_second(bytes as f64, std::time::Duration::from_secs_f64(took));
    recorder.add(measured.throughput, speed);
    for _ in 0..NEW {
        recorder.add(measured.new_request, client.ask("new").await?);
    }
    let took = client.ask(&format!("kept {KEPT}")).await?;
    recorder.add(measured.kept_request, took / f64::from(KEPT));
    Ok(())
}

/// Measures memory of idle connections: of what is in the proxies' processes.
async fn weigh(bench: &mut Bench<'_>, world: &World, has_squid: bool) -> Result<(), BenchError> {
    for _ in 0..WEIGHED {
        for measured in [OPAQUE, TRANSFORMED] {
            let (sandbox, mut client) = ruled_client(bench, world, &measured).await?;
            // The proxy is there, and has done once what it does.
            client.ask("new").await?;
            let server = bench.own_server()?.pid();
            let look = || proxies_of(server).map_err(local("look into", "/proc"));
            hold(bench, &mut client, &measured, look).await?;
            client.finish().await?;
            bench.kill(&sandbox).await?;
        }
        if has_squid {
            let squid = Squid::start(world, &bench.scratch).await?;
            let (sandbox, direct) = ruled_client(bench, world, &DIRECT).await?;
            direct.finish().await?;
            let process = first_process(bench, &sandbox)?;
            let (proxy, trusted) = (Some(Squid::ADDRESS), &world.identity.authority);
            let mut client = world.load(SQUID.client, process, proxy, trusted).await?;
            client.ask("new").await?;
            hold(bench, &mut client, &SQUID, || Ok(squid.processes())).await?;
            client.finish().await?;
            bench.kill(&sandbox).await?;
            squid.stop().await?;
        }
    }
    Ok(())
}

/// Holds connections, and records by how much these processes have grown for each.
async fn hold(
    bench: &mut Bench<'_>,
    client: &mut Rival,
    measured: &Measured,
    processes: impl Fn() -> Result<Vec<u32>, BenchError>,
) -> Result<(), BenchError> {
    let private = || -> Result<f64, BenchError> {
        let memory = Memory::of(&processes()?).map_err(local("look into", "/proc"))?;
        Ok(memory.private as f64)
    };
    let before = private()?;
    client.ask(&format!("hold {HELD}")).await?;
    let grown = private()? - before;
    bench
        .recorder
        .add(measured.idle_memory, grown / f64::from(HELD));
    Ok(())
}

/// A sandbox with the rules of a route, and a client in its network.
async fn ruled_client(
    bench: &mut Bench<'_>,
    world: &World,
    measured: &Measured,
) -> Result<(Sandbox, Rival), BenchError> {
    let template = bench.plain_template;
    let sandbox = bench.create_from(template).await?;
    let mut trusted = world.identity.authority.clone();
    if measured.client != DIRECT.client {
        let looks_inside = measured.client == TRANSFORMED.client;
        sandbox.set_network(&rules(looks_inside)).await?;
        if looks_inside {
            trusted = bench.scratch.join("data").join(AUTHORITY);
        }
    }
    let process = first_process(bench, &sandbox)?;
    let client = world.load(measured.client, process, None, &trusted).await?;
    Ok((sandbox, client))
}

/// Rules that let the host through and nothing else.
fn rules(looks_inside: bool) -> NetworkUpdate {
    let headers = BTreeMap::from([("X-Bench".to_owned(), "a header of a rule".to_owned())]);
    let rule = NetworkRule {
        transform: Some(NetworkTransform {
            headers: Some(headers),
        }),
        ..NetworkRule::default()
    };
    let rules = BTreeMap::from([(HOST.to_owned(), Some(vec![rule]))]);
    NetworkUpdate {
        allow_out: Some(vec![HOST.to_owned()]),
        deny_out: Some(vec!["0.0.0.0/0".to_owned()]),
        rules: looks_inside.then_some(rules),
        ..NetworkUpdate::default()
    }
}

/// A process in the network of a sandbox.
fn first_process(bench: &mut Bench<'_>, sandbox: &Sandbox) -> Result<u32, BenchError> {
    let id = &sandbox.id;
    let own = bench.own_server()?;
    let processes = own
        .group(id)?
        .processes_of(id)
        .map_err(local("look into the cgroup of", PathBuf::from(id)))?;
    processes
        .first()
        .copied()
        .ok_or_else(|| BenchError::Unexpected {
            what: "the processes of a sandbox",
            found: "there are none".to_owned(),
        })
}

/// The egress proxies that a server has started.
fn proxies_of(server: u32) -> io::Result<Vec<u32>> {
    let parent = format!("PPid:\t{server}");
    let is_ours = |directory: &Path| {
        let words = fs::read(directory.join("cmdline")).unwrap_or_default();
        let second = words.split(|&byte| byte == 0).nth(1);
        let status = fs::read_to_string(directory.join("status")).unwrap_or_default();
        second == Some(PROXY.as_bytes()) && status.lines().any(|line| line == parent)
    };
    let processes = fs::read_dir("/proc")?.filter_map(Result::ok);
    let numbers = processes.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        is_ours(&entry.path()).then_some(number)
    });
    Ok(numbers.collect())
}
