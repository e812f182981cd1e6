//! `skep serve`: the server from start to stop.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::os::fd::AsFd as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use skep_admin::announce::Ready;
use skep_admin::doctor::Doctor;
use skep_admin::front_door::{FrontDoor, Protocol};
use skep_admin::{BackgroundBuild, RunningBuild, install_error, local_key, mirror};
use skep_agents::{BuildSandboxes, HttpAgents};
use skep_api::{Access, Tickets};
use skep_build::{Downloads, Engine, EngineOptions, HostSettings, Limits as BuildLimits, Uploads};
use skep_cli::CliError;
use skep_control::{Control, Living, Parts, Reports, Retention, TeamLimits};
use skep_http::Destinations;
use skep_image::Catalog;
use skep_mirror::Mirror;
use skep_native::Native;
use skep_node::{Node, NodeOptions, PausePolicy};
use skep_oci::{Puller, Registries, UNPACK_LAYER, Unpacker};
use skep_otlp::Exporter;
use skep_packages::PackageSettings;
use skep_proxy::{DemandTokens, Listener, Proxy, ProxyConfig};
use skep_store::Store;
use skep_telemetry::Chain;
use skep_telemetry::trace::TraceOptions;
use skep_types::{NodeId, Reserve, Resources, TemplateReference};
use skep_volume::LocalVolumes;
use skep_webhooks::{Backoff, Dispatcher, DispatcherOptions, SystemClock};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::config::{self, Config, Records};
use crate::console;
use crate::identity;
use crate::inspection;
use crate::isolation;
use crate::mcp;
use crate::metrics::Metrics;
use crate::vault;
use crate::wiring::{
    CatalogLayers, CatalogTemplates, HostVolumes, LocalNodes, NodeRoutes, RegistryImages,
    ReportJournal,
};

/// Choices for one run, beside the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choices {
    pub(crate) access: Access,
    pub(crate) protocol: Protocol,
    pub(crate) ends: Ends,
}

/// Event that ends a server, beside a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// A signal of the operator or the service manager.
    BySignal,
    /// A signal, or the end of its standard input: whoever holds the other end has gone, however
    /// that came.
    WithStandardInput,
}

impl Ends {
    /// Standard input, if its end matters. It must be a pipe then.
    fn input(self) -> Result<Option<pipe::Receiver>, CliError> {
        if self == Self::BySignal {
            return Ok(None);
        }
        let stdin = std::io::stdin().as_fd().try_clone_to_owned();
        let pipe = stdin.and_then(pipe::Receiver::from_owned_fd);
        pipe.map(Some).map_err(CliError::failure)
    }
}

/// Waits until nobody can write any more.
async fn has_ended(input: Option<pipe::Receiver>) {
    let Some(mut input) = input else {
        return std::future::pending().await;
    };
    let mut ignored = [0; 64];
    while matches!(input.read(&mut ignored).await, Ok(1..)) {}
}

/// Serves until a signal asks for the end. Calls `announce` when clients can connect.
///
/// # Errors
///
/// Reason that kept the server from starting, with a hint.
pub(crate) async fn serve(
    config: Config,
    choices: Choices,
    announce: impl AsyncFnOnce(&Ready),
    build: Option<BackgroundBuild>,
) -> Result<(), CliError> {
    let warm = references(&config.pool.warm)?;
    let traces = export_traces(&config.traces)?;
    let mut parts = Server::assemble(&config, choices).await?;
    let shutdown = CancellationToken::new();
    // Before anybody hears that the server is ready: whoever hears it may send a signal at once,
    // and the default action would end the process without the stop below.
    let mut terminate = signal(SignalKind::terminate()).map_err(CliError::failure)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::failure)?;
    let input = choices.ends.input()?;
    // The socket listens already, so the kernel queues whoever connects until the front door
    // accepts.
    announce(&parts.ready).await;
    let warming = parts.control.warm(&warm).await;
    warming.map_err(CliError::failure)?;

    let stop = shutdown.clone();
    let listeners = std::mem::take(&mut parts.listeners);
    parts
        .control
        .keep_house(retention(config.records, config.builds));
    let serving = skep_telemetry::spawn("front", parts.front.serve(listeners, stop));
    let mut building = build.map(BackgroundBuild::start).transpose()?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = has_ended(input) => {}
        // Never comes to an end of its own.
        () = warm_what_is_built(&mut building, &parts.control, &warm) => {}
    }
    tracing::info!("stopping");
    shutdown.cancel();
    parts.volumes.stop();
    if let Some(building) = building {
        building.stop().await;
    }
    // From the edge inwards, so that nobody hands work to a part that has stopped: requests, then
    // creations that go on without their callers, then drivers, then the backend that they use. The
    // store is last because all of them write to it.
    if serving.await.is_err() {
        tracing::error!("proxy did not shut down cleanly");
    }
    parts.webhooks.finish().await;
    parts.control.finish().await;
    // Builds are taken up again by the next server, and their sandboxes end with this one.
    parts.builds.shut_down().await;
    parts.node.shut_down(config.when_stopped).await;
    if let Some(mirror) = parts.mirror {
        mirror.finish().await;
    }
    parts.isolation.stop().await;
    if let Some(traces) = traces {
        traces.finish().await;
    }
    parts.store.flush().await.map_err(CliError::failure)
}

/// Sends spans to the collector from now on, if one is configured.
fn export_traces(traces: &config::Traces) -> Result<Option<Exporter>, CliError> {
    let Some(endpoint) = &traces.endpoint else {
        return Ok(None);
    };
    let options = TraceOptions {
        service: traces.service_name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sample: traces.sample,
    };
    let started = Exporter::start(endpoint, &traces.headers.0, &options);
    started.map(Some).map_err(|error| {
        CliError::failure(error).hint("docs/reference/configuration.md has the keys of `[traces]`")
    })
}

/// Makes sandboxes ready of what is built meanwhile, since the names that they are asked for by
/// mean that from then on.
async fn warm_what_is_built(
    building: &mut Option<RunningBuild>,
    control: &Control,
    warm: &[TemplateReference],
) {
    if let Some(build) = building {
        let is_built = build.ended().await;
        *building = None;
        if is_built && let Err(error) = control.warm(warm).await {
            tracing::warn!(error = %Chain(&error), "cannot warm the new template");
        }
    }
    std::future::pending().await
}

/// The templates that are to be made ready.
fn references(names: &[String]) -> Result<Vec<TemplateReference>, CliError> {
    let parse = |name: &String| {
        name.parse().map_err(|_| {
            CliError::input(
                format!("`{name}` in `pool.warm` is not the name of a template"),
                "`skep template list` says which there are",
            )
        })
    };
    names.iter().map(parse).collect()
}

/// The parts of a running server.
struct Server {
    store: Store,
    isolation: Arc<Native>,
    node: Node,
    control: Control,
    builds: Engine,
    webhooks: Dispatcher,
    mirror: Option<Mirror>,
    volumes: Arc<LocalVolumes>,
    front: Proxy,
    listeners: Vec<Listener>,
    ready: Ready,
}

impl Server {
    async fn assemble(config: &Config, choices: Choices) -> Result<Self, CliError> {
        skep_install::prepare(&config.data_dir).map_err(install_error)?;
        let volumes = local_volumes(config)?;
        let host_volumes = Arc::new(HostVolumes(Arc::clone(&volumes)));
        // First, because it makes sure that no other server uses the same data.
        let (isolation, inspection) = isolation::open(config, choices.ends, host_volumes).await?;
        let isolation = Arc::new(isolation);
        let (authority, certificate) = inspection::authority(config)?;
        let host = crate::host_settings()?;
        let mirror = mirror::start(config, &isolation, &host).await?;
        let packages = mirror::settings(config, &isolation, host.clone()).map(Arc::new);
        let store = Store::open(&config.data_dir.join("skep.db")).map_err(CliError::failure)?;
        let reports = Reports::new(store.clone(), NodeId::local());
        let catalog = Catalog::open(&config.cache_dir).map_err(CliError::failure)?;
        // What callers build is this server's alone, and no cache: it cannot be made again by anybody
        // else.
        let built = catalog.open_above(&config.data_dir.join("builds"));
        let built = Arc::new(built.map_err(CliError::failure)?);
        let catalog = Arc::new(catalog);
        let node = open_node(config, &isolation, &built, &reports, certificate);
        // Before control is opened, which takes its registry and its quotas from what the node has:
        // a sandbox that is adopted later would count for nobody.
        let living = reports.living().await.map_err(CliError::failure)?;
        adopt(&node, &store, &living).await?;
        node.watch_host();
        let (builds, uploads) =
            open_builds(config, &isolation, &node, &built, packages.as_deref())?;
        let templates = CatalogTemplates::new(
            (catalog, built),
            &config.cache_dir,
            packages,
            config.limits.clone(),
            config.pool.clone(),
        );
        let control = open_control(
            config,
            &store,
            &node,
            templates,
            living,
            (builds.clone(), uploads),
            Arc::clone(&volumes),
        )
        .await?;
        vault::leave_no_dump();
        vault::open(&control).await?;
        let api_key = local_key::register(&config.data_dir, &control).await?;

        // Not earlier: from here on connections are queued, and no request may miss a sandbox that
        // is only not adopted yet.
        let listener = TcpListener::bind(config.listen).await.map_err(|error| {
            CliError::failure(error).hint(format!(
                "cannot listen on {}; is another server running? `--listen` takes another address",
                config.listen
            ))
        })?;
        let address = listener.local_addr().map_err(CliError::failure)?;
        let door = FrontDoor::open(config, choices.protocol, &host)?;
        let public_domain = door.public_domain(address.port());
        let metrics = Arc::new(Metrics {
            node: node.clone(),
            store: store.clone(),
            launches: isolation.launches(),
            zygotes: isolation.zygotes(),
            leftovers: isolation.leftovers(),
            volumes: Arc::clone(&volumes),
            mirror: mirror.as_ref().map(Mirror::metrics),
            proxy: OnceLock::new(),
        });
        identity::issue(config, &control, &door.url(address))?;
        let complete = inspection::complete(authority, &control, &door, address, &host)?;
        inspection.get_or_init(|| complete);
        let (own, own_listener) = mcp::own_way(&door, address).await?;
        let is_secure = door.url(address).starts_with("https:");
        let tickets = Tickets::default();
        let destinations = Destinations::trusting(config.webhooks.allowed_hosts.clone());
        let api = skep_api::router(skep_api::Options {
            control: control.clone(),
            access: choices.access,
            domain: public_domain.clone(),
            is_secure,
            requests_per_team: config.server.requests_per_team.get(),
            beside: mcp::router(&config.mcp, own, is_secure)?
                .merge(console::sockets(own, &config.jupyter)?),
            pages: skep_console::pages(),
            tickets: tickets.clone(),
            webhook_destinations: destinations.clone(),
            metrics: Arc::<Metrics>::clone(&metrics),
            host_checks: Arc::new(Doctor::new(config)),
        });
        let webhooks = start_webhooks(&control, destinations)?;
        let routes = Arc::new(NodeRoutes {
            node: node.clone(),
            control: control.clone(),
        });
        let front = Proxy::new(front_config(config, &door, address.ip()), api, routes);
        // The API shows the proxy's metrics, and the proxy is made with the API inside.
        metrics.proxy.get_or_init(|| front.metrics());
        let url = door.url(address);
        let team = control.default_team().await.map_err(CliError::failure)?;
        let ready = Ready {
            console: console::first_link(&url, choices.access, &tickets, &team.id),
            url,
            domain: public_domain,
            api_key,
            trust: door.trust().cloned(),
            names: door.serve_names(address).await?,
        };
        let listener = door.listener(listener)?;
        Ok(Self {
            store,
            isolation,
            node,
            control,
            builds,
            webhooks,
            mirror,
            volumes,
            front,
            listeners: [Some(listener), own_listener]
                .into_iter()
                .flatten()
                .collect(),
            ready,
        })
    }
}

fn open_node(
    config: &Config,
    isolation: &Arc<Native>,
    built: &Arc<Catalog>,
    reports: &Reports,
    authority: Arc<str>,
) -> Node {
    Node::new(NodeOptions {
        isolation: Arc::<Native>::clone(isolation),
        layers: Arc::new(CatalogLayers(Arc::clone(built))),
        journal: Arc::new(ReportJournal(reports.clone())),
        agents: Arc::new(HttpAgents),
        authority: Some(authority),
        spares: config.pool.ready as usize,
        admission: config.admission.policy(),
        pauses: PausePolicy {
            checkpoint_after: Duration::from_secs(config.pause.checkpoint_after.into()),
            compress_after: Some(config.pause.compress_after)
                .filter(|seconds| *seconds > 0)
                .map(|seconds| Duration::from_secs(seconds.into())),
        },
    })
}

fn start_webhooks(control: &Control, destinations: Destinations) -> Result<Dispatcher, CliError> {
    Dispatcher::start(DispatcherOptions {
        control: control.clone(),
        destinations,
        backoff: Backoff::default(),
        clock: Arc::new(SystemClock),
        render: skep_api::event_body,
    })
    .map_err(CliError::failure)
}

fn front_config(config: &Config, door: &FrontDoor, listens_on: IpAddr) -> ProxyConfig {
    ProxyConfig {
        contexts_without_token: config.security.contexts_without_token,
        demand_tokens: demand_tokens(&config.security, listens_on),
        ..proxy_config(&config.server, door.domain())
    }
}

/// Takes over the sandboxes of the last server, and lets go of images that nobody needs.
async fn adopt(node: &Node, store: &Store, living: &Living) -> Result<(), CliError> {
    let adoption = node.adopt(living.to_adopt()).await;
    if !adoption.adopted.is_empty() || !adoption.lost.is_empty() {
        let (adopted, lost) = (adoption.adopted.len(), adoption.lost.len());
        tracing::info!(adopted, lost, "took over the sandboxes of the last server");
    }
    let kept = store
        .checkpoints()
        .images(NodeId::local())
        .await
        .map_err(CliError::failure)?;
    node.retain_checkpoints(adoption.images.into_iter().chain(kept).collect())
        .await;
    Ok(())
}

/// Builds of callers' templates, and what they upload for them.
fn open_builds(
    config: &Config,
    isolation: &Arc<Native>,
    node: &Node,
    built: &Arc<Catalog>,
    packages: Option<&PackageSettings>,
) -> Result<(Engine, Uploads), CliError> {
    let reserve = disk_reserve(config);
    let uploads = Uploads::new(config.data_dir.join("uploads")).with_reserve(reserve);
    if let Err(error) = uploads.clear_incoming() {
        tracing::warn!(%error, "unfinished uploads of the last server are not removed");
    }
    let engine = Engine::new(EngineOptions {
        catalog: Arc::clone(built),
        sandboxes: Arc::new(BuildSandboxes {
            isolation: Arc::<Native>::clone(isolation),
            node: node.clone(),
            catalog: Arc::clone(built),
            downloads: downloads(config),
        }),
        archives: Arc::new(uploads.clone()),
        images: Arc::new(RegistryImages(puller(config, built)?)),
        host_settings: settings_for_images(packages),
        scratch: config.data_dir.clone(),
        reserve,
        limits: build_limits(config.builds),
    });
    Ok((engine, uploads))
}

/// Downloads of package clients, if the operator wants them to be kept.
fn downloads(config: &Config) -> Option<Arc<Downloads>> {
    let gibibytes = u64::from(config.builds.download_gib);
    let directory = config.data_dir.join("builds/downloads");
    (gibibytes > 0).then(|| Arc::new(Downloads::new(directory, gibibytes << 30)))
}

fn build_limits(builds: config::Builds) -> BuildLimits {
    let bytes = u64::from(builds.template_gib.get()) << 30;
    BuildLimits {
        time: Duration::from_mins(builds.minutes.get().into()),
        layer_bytes: bytes,
        template_bytes: bytes,
        concurrent: usize::try_from(builds.concurrent.get()).unwrap_or(usize::MAX),
        ..BuildLimits::default()
    }
}

fn retention(records: Records, builds: config::Builds) -> Retention {
    let days = |days: u32| (days > 0).then_some(days);
    Retention {
        days: records.days,
        count: records.count,
        log_mib: records.log_mib,
        snapshot_days: days(records.snapshot_days),
        build_days: days(builds.keep_days),
        version_days: days(builds.version_days),
    }
}

/// The proxy's configuration, for names below `domain`.
fn proxy_config(server: &config::Server, domain: &str) -> ProxyConfig {
    let count = |number: NonZeroU32| usize::try_from(number.get()).unwrap_or(usize::MAX);
    let seconds = |number: NonZeroU32| Duration::from_secs(number.get().into());
    ProxyConfig {
        connections: count(server.connections),
        connections_per_address: count(server.connections_per_address),
        connections_per_loopback_address: count(server.connections_per_loopback_address),
        anonymous_connections: count(server.anonymous_connections),
        requests_per_sandbox: count(server.requests_per_sandbox),
        anonymous_requests_per_sandbox: count(server.anonymous_requests_per_sandbox),
        head_timeout: seconds(server.head_seconds),
        idle_timeout: seconds(server.idle_seconds),
        anonymous_idle_timeout: seconds(server.anonymous_idle_seconds),
        anonymous_stall_timeout: seconds(server.anonymous_stall_seconds),
        ..ProxyConfig::new(domain)
    }
}

/// Requests of which tokens are demanded though a sandbox's owner wanted none, by default all that
/// can come from other hosts.
fn demand_tokens(security: &config::Security, listening: IpAddr) -> DemandTokens {
    match security.require_tokens {
        Some(true) => DemandTokens::Always,
        Some(false) => DemandTokens::AsOrdered,
        None if listening.is_loopback() => DemandTokens::WhenForwarded,
        None => DemandTokens::Always,
    }
}

/// Package settings for images of registries, if sandboxes have some.
fn settings_for_images(packages: Option<&PackageSettings>) -> HostSettings {
    let Some(packages) = packages else {
        return HostSettings::default();
    };
    // Nothing of an image is looked at, since its paths may lead anywhere.
    let files = packages.files_for_sandbox(|_| None).into_iter();
    HostSettings {
        files: files
            .map(|(path, content)| (path.to_owned(), content))
            .collect(),
        environment: packages.env_for_sandbox(),
    }
}

/// Client that fetches images, with the registries that the operator has named. Of the operator's
/// credentials only those are lent that are in a file for it: every team can pull with them.
fn puller(config: &Config, catalog: &Catalog) -> Result<Puller, CliError> {
    let executable = std::env::current_exe().map_err(CliError::failure)?;
    let registries = Registries {
        mirrors: config.registries.clone(),
        auth_files: config.registries_auth_file.iter().cloned().collect(),
        last_versions: Some(config.data_dir.join("image-versions")),
        reserve: disk_reserve(config),
        ..Registries::default()
    };
    let unpacker = Unpacker::new(executable, [UNPACK_LAYER]);
    Puller::new(catalog.clone(), unpacker, registries).map_err(CliError::failure)
}

/// The part of the disk that everything leaves free; `None` without admission.
fn disk_reserve(config: &Config) -> Option<Reserve> {
    let policy = config.admission.policy();
    policy.enabled.then_some(policy.disk_reserve)
}

/// The volumes of this host, which leave the same of its disk free as sandboxes do.
fn local_volumes(config: &Config) -> Result<Arc<LocalVolumes>, CliError> {
    let volumes = LocalVolumes::new(config.data_dir.join("volumes"), disk_reserve(config));
    Ok(Arc::new(volumes.map_err(CliError::failure)?))
}

async fn open_control(
    config: &Config,
    store: &Store,
    node: &Node,
    templates: CatalogTemplates,
    living: Living,
    (builds, uploads): (Engine, Uploads),
    volumes: Arc<LocalVolumes>,
) -> Result<Control, CliError> {
    if let Err(error) = skep_install::register(&config.cache_dir, &config.data_dir) {
        tracing::warn!(%error, "cannot note who uses the template cache; it will never be removed");
    }
    Control::open(Parts {
        store: store.clone(),
        nodes: Arc::new(LocalNodes(node.clone())),
        templates: Arc::new(templates),
        builds: Arc::new(builds),
        uploads: Arc::new(uploads),
        volumes,
        vault: vault::key_source(config)?,
        limits: TeamLimits {
            sandboxes: config.limits.sandboxes,
            paused: config.limits.paused,
            lifetime: Duration::from_hours(u64::from(config.limits.lifetime_hours)),
            snapshots: config.limits.snapshots,
            snapshot_bytes: u64::from(config.limits.snapshot_gib) << 30,
            volumes: config.limits.volumes,
            volume_mib: config.limits.volume_mib,
            builds: config.limits.builds,
            largest: Resources {
                cpus: config.limits.cpus,
                memory_mib: config.limits.memory_mib,
                disk_mib: config.limits.disk_mib,
                pids: config.limits.pids,
            },
        },
        living,
    })
    .await
    .map_err(CliError::failure)
}
